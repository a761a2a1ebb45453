//! Deadlines, each with its reason, so that a reader that stands still can be asked what it waits for.

use std::{collections::BTreeSet, time::Instant};

use crate::cluster::Peer;

/// Why the machine wants to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Why {
    /// The picture of the cluster is old, or was wanted and may be asked again.
    Metadata,
    /// The answer to the metadata request is late: ask another broker too.
    MetadataHedge,
    /// A broker that failed may be tried again.
    Peer(Peer),
    /// A partition that failed may be asked for again.
    Partition(usize),
    /// Something of the group is due: a heartbeat, a commit, the end of a session or of a revoke.
    Group,
    /// A reply is overdue.
    Reply(u64),
}

/// All deadlines, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(Instant, Why)>,
}

impl Timers {
    pub(crate) fn add(&mut self, at: Instant, why: Why) {
        self.set.insert((at, why));
    }

    pub(crate) fn remove(&mut self, at: Instant, why: Why) {
        self.set.remove(&(at, why));
    }

    pub(crate) fn next(&self) -> Option<(Instant, Why)> {
        self.set.first().copied()
    }

    /// Takes the earliest deadline that has passed.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Why> {
        let first = *self.set.first().filter(|(at, _)| *at <= now)?;
        self.set.remove(&first);
        Some(first.1)
    }
}
