//! What stands around a record, and what its key and value are taken for.

use crate::{kind::Kind, pretty::Layout};

/// What all records of a batch have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) leader_epoch: i32,
}

/// What keys and values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kinds {
    pub(crate) key: Kind,
    pub(crate) value: Kind,
    pub(crate) layout: Layout,
}
