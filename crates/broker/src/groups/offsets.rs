//! What a group has committed, and what was asked to be.

use ottla_wire::code::Code;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

/// A committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
}

/// The offsets of one group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offsets {
    committed: BTreeMap<String, BTreeMap<i32, Committed>>,
    /// Partitions with an offset that a transaction has not committed yet, see `Cluster::set_unstable`.
    unstable: BTreeSet<(String, i32)>,
}

impl Offsets {
    pub(crate) fn get(&self, topic: &str, partition: i32) -> Option<&Committed> {
        self.committed.get(topic)?.get(&partition)
    }

    pub(crate) fn put(&mut self, topic: &str, partition: i32, committed: Committed) {
        self.committed.entry(topic.into()).or_default().insert(partition, committed);
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = (&str, &BTreeMap<i32, Committed>)> {
        self.committed.iter().map(|(topic, partitions)| (topic.as_str(), partitions))
    }

    pub(crate) fn forget_topic(&mut self, topic: &str) {
        self.committed.remove(topic);
        self.unstable.retain(|(unstable, _)| unstable != topic);
    }

    pub(crate) fn is_unstable(&self, topic: &str, partition: i32) -> bool {
        self.unstable.contains(&(topic.into(), partition))
    }

    pub(crate) fn set_unstable(&mut self, topic: &str, partition: i32, unstable: bool) {
        let at = (topic.into(), partition);
        if unstable {
            self.unstable.insert(at);
        } else {
            self.unstable.remove(&at);
        }
    }
}

/// An offset that a client asked to commit, whatever came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitView {
    /// When.
    pub at: Instant,
    /// The member's id; empty for a client that is no member.
    pub member: String,
    /// The generation it says it is in; -1 for a client that is no member.
    pub generation: i32,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The next offset to read.
    pub offset: i64,
    /// The leader epoch of the last record read, -1 if that was not said.
    pub leader_epoch: i32,
    /// What else was to be kept.
    pub metadata: String,
    /// The code it was answered with: [`NONE`](Code::NONE) if it was committed.
    pub refused: Code,
}

/// The last commits of all groups.
#[derive(Debug, Default)]
pub(super) struct CommitLog {
    capacity: usize,
    last: VecDeque<(String, CommitView)>,
}

impl CommitLog {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, last: VecDeque::new() }
    }

    pub(super) fn push(&mut self, group: &str, commit: CommitView) {
        if self.capacity == 0 {
            return;
        }
        if self.last.len() == self.capacity {
            self.last.pop_front();
        }
        self.last.push_back((group.into(), commit));
    }

    pub(super) fn of(&self, group: &str) -> Vec<CommitView> {
        let of_group = self.last.iter().filter(|(name, _)| name == group);
        of_group.map(|(_, commit)| commit.clone()).collect()
    }
}
