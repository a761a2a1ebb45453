//! What happened, for those who want to know: nothing here needs an answer.

use std::{sync::Arc, time::Duration};

use ottla_wire::code::Code;

use crate::{
    cluster::Peer,
    config::Address,
    fault::{Fault, TopicPartition},
};

/// Something that happened inside a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A connection to a broker stands and its versions are known.
    Connected {
        /// Which broker.
        peer: Peer,
        /// Where.
        address: Address,
    },
    /// A connection failed or broke; it is tried again after the pause.
    Retrying {
        /// Which broker.
        peer: Peer,
        /// Where.
        address: Address,
        /// What happened.
        reason: String,
        /// How long until the next attempt.
        pause: Duration,
    },
    /// Every known broker has failed once more since the last answer from any.
    Unreachable {
        /// How many such rounds in a row.
        rounds: u32,
        /// The last failure.
        last: String,
    },
    /// A broker answered again after [`Event::Unreachable`].
    Reachable,
    /// The topic is not there; it is waited for.
    TopicMissing {
        /// The topic's name.
        topic: Arc<str>,
    },
    /// The topic that was missing is there.
    TopicFound {
        /// The topic's name.
        topic: Arc<str>,
        /// How many partitions it has.
        partitions: i32,
    },
    /// The topic has no such partition; it is waited for.
    PartitionMissing {
        /// Which partition.
        at: TopicPartition,
        /// How many the topic has.
        count: i32,
    },
    /// The topic has more partitions than before; those that are wanted are read from their beginning.
    PartitionsAdded {
        /// The topic's name.
        topic: Arc<str>,
        /// How many partitions it has now.
        count: i32,
    },
    /// The topic was deleted and created anew; it is read from its beginning.
    TopicRecreated {
        /// The topic's name.
        topic: Arc<str>,
    },
    /// The partition has no leader; it is waited for, the others go on.
    LeaderMissing {
        /// Which partition.
        at: TopicPartition,
    },
    /// The partition is led by another broker now, or has a leader again after [`Event::LeaderMissing`].
    LeaderChanged {
        /// Which partition.
        at: TopicPartition,
        /// The new leader's id.
        leader: i32,
    },
    /// Our offset was not in the log any more, or not yet; the policy moved us.
    OffsetReset {
        /// Which partition.
        at: TopicPartition,
        /// Where it stood.
        from: i64,
        /// Where it goes on.
        to: i64,
    },
    /// The log was cut behind us (an unclean leader election); we went back to where the logs part (KIP-320).
    Truncated {
        /// Which partition.
        at: TopicPartition,
        /// Where it stood.
        from: i64,
        /// Where it goes on.
        to: i64,
    },
    /// A broker answered with an error that is retried.
    Refused {
        /// Which partition.
        at: TopicPartition,
        /// The broker's error code.
        code: Code,
    },
    /// A broker answered something that makes no sense; what was wrong is retried.
    Misbehaved {
        /// Which broker.
        peer: Peer,
        /// What was wrong.
        what: String,
    },
    /// The caller holds on to more messages than the budget; one reply a broker is fetched regardless.
    HeldByCaller {
        /// How many bytes.
        bytes: usize,
    },
    /// The group's coordinator is known.
    CoordinatorFound {
        /// The group.
        group: Arc<str>,
        /// Which broker.
        peer: Peer,
        /// Where.
        address: Address,
    },
    /// The group's coordinator refused something that is tried again.
    GroupRefused {
        /// The group.
        group: Arc<str>,
        /// What was refused: "joining", "committing", ...
        doing: String,
        /// The coordinator's error code.
        code: Code,
    },
    /// We are in the group, and these partitions are ours.
    Assigned {
        /// The group.
        group: Arc<str>,
        /// What the coordinator calls us.
        member: String,
        /// The generation of the assignment.
        generation: i32,
        /// What is ours, which may be nothing.
        partitions: Vec<TopicPartition>,
    },
    /// What is ours is given up: nothing more of it is handed out, and what was acknowledged is committed.
    Revoking {
        /// The group.
        group: Arc<str>,
        /// What was ours.
        partitions: Vec<TopicPartition>,
        /// Why.
        reason: String,
    },
    /// What was ours was given to others without us; what was acknowledged and not committed will be read again.
    PartitionsLost {
        /// The group.
        group: Arc<str>,
        /// What was ours.
        partitions: Vec<TopicPartition>,
        /// Why.
        reason: String,
    },
    /// Offsets could not be committed.
    CommitFailed {
        /// The group.
        group: Arc<str>,
        /// Which, and why.
        what: String,
    },
    /// Something about the group's assignment makes no sense; the rest of it is used.
    AssignmentOdd {
        /// The group.
        group: Arc<str>,
        /// What was wrong.
        what: String,
    },
    /// The reader did not ask for `max_poll_interval`: its partitions are given up until it does.
    ReaderSilent {
        /// The group.
        group: Arc<str>,
        /// For how long it did not.
        interval: Duration,
    },
    /// A fault that will be, or was, returned by the reader.
    Fault(Fault),
}
