//! The cluster as we know it: its brokers and our topics.

pub(crate) mod metadata;
pub(crate) mod node;
pub(crate) mod topic;

pub use node::{Lane, Peer};
