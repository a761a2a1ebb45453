//! A topic that we read, and what the cluster says of it.

use std::{collections::BTreeMap, sync::Arc};

use ottla_wire::Uuid;

use crate::fault::Fault;

/// Whether the cluster knows the topic.
///
/// ```text
///   Unknown --found--> There --missing--> Missing --found--> There
///      \---missing--> Missing
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Not answered yet.
    Unknown,
    /// It is not there, and that was told.
    Missing,
    /// It is there.
    There,
}

/// A topic of the reader's subscription.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    /// Zero where the broker does not speak topic ids (before 2.8).
    pub(crate) id: Uuid,
    pub(crate) presence: Presence,
    /// Whether it is to be read (still).
    pub(crate) subscribed: bool,
    /// Which partitions the user named; `None` means all.
    pub(crate) wanted: Option<Vec<i32>>,
    /// How many partitions the cluster has.
    pub(crate) count: i32,
    /// The cursor of each partition, by number; the numbers are the cluster's word, so they take no place of their own.
    pub(crate) cursors: BTreeMap<i32, usize>,
    /// Partitions that the user named, that are not there, and that was told.
    pub(crate) told_missing: Vec<i32>,
    /// What metadata says is wrong with it.
    pub(crate) fault: Option<Fault>,
    /// What a leader refuses for good, until one answers; metadata does not know of it.
    pub(crate) refused: Option<Fault>,
}

impl Topic {
    pub(crate) fn new(name: Arc<str>, wanted: Option<Vec<i32>>) -> Self {
        Self {
            name,
            id: Uuid::ZERO,
            presence: Presence::Unknown,
            subscribed: true,
            wanted,
            count: 0,
            cursors: BTreeMap::new(),
            told_missing: Vec::new(),
            fault: None,
            refused: None,
        }
    }

    /// Why the reader fails, if it does.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref().or(self.refused.as_ref()).filter(|_| self.subscribed)
    }

    pub(crate) fn wants(&self, partition: i32) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&partition))
    }

    pub(crate) fn cursor(&self, partition: i32) -> Option<usize> {
        self.cursors.get(&partition).copied()
    }

    /// Whether everything that is to be read is known.
    pub(crate) fn is_complete(&self) -> bool {
        self.presence == Presence::There
            && self.wanted.as_ref().is_none_or(|w| w.iter().all(|&p| self.cursor(p).is_some()))
    }
}
