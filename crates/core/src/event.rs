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
    /// A fault that will be, or was, returned by the reader.
    Fault(Fault),
}
