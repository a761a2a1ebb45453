//! What happened, for those who want to know: nothing here needs an answer.

use std::{fmt, sync::Arc, time::Duration};

use ottla_wire::code::Code;

use crate::{address::Address, cluster::Peer, fault::Fault, partition::TopicPartition};

/// Something that happened inside a reader.
///
/// Its `Display` is a sentence for a person, without a full stop, that says what is done about it.
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
    /// A connection failed or broke; it is tried again after the pause. Told for every attempt, which is every few seconds
    /// in a long outage; a log for people may want one of each address, until [`Event::Connected`] names it again.
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
    /// A broker holds us back, because a quota of its says so: it is asked for nothing for so long (KIP-219,
    /// `throttle_time_ms`). Told when that begins, and once in half a minute while it goes on.
    Throttled {
        /// Which broker.
        peer: Peer,
        /// Where.
        address: Address,
        /// How long it is left alone this time.
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
    /// No topic's name matches the pattern; one is waited for.
    NothingMatches {
        /// The regular expression.
        pattern: String,
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
    /// A hook that was told of an assignment has kept it for longer than `rebalance_timeout`; told once.
    HookBusy {
        /// The group.
        group: Arc<str>,
        /// What is not read until it is done.
        partitions: Vec<TopicPartition>,
        /// For how long it has.
        time: Duration,
    },
    /// A fault that will be, or was, returned by the reader.
    Fault(Fault),
}

/// A table of sentences: one match, so that no event is without one.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { peer, address } => write!(f, "connected to {}", place(*peer, address)),
            Self::Retrying { peer, address, reason, .. } => {
                write!(f, "{}: {reason}; trying again", place(*peer, address))
            }
            Self::Throttled { address, pause, .. } => {
                write!(f, "{address}: the broker holds us back, by a quota; asking again in {pause:?}")
            }
            Self::Unreachable { rounds: 1, last } => {
                write!(f, "no broker can be reached; trying again until one can; last {last}")
            }
            Self::Unreachable { rounds, last } => {
                write!(f, "no broker can be reached, {rounds} times in a row now; trying on; last {last}")
            }
            Self::Reachable => f.write_str("a broker can be reached again"),
            Self::NothingMatches { pattern } => {
                write!(f, "no topic's whole name matches {pattern:?}; waiting for one")
            }
            Self::TopicMissing { topic } => write!(f, "topic {topic} does not exist; waiting for it"),
            Self::TopicFound { topic, partitions } => {
                write!(f, "topic {topic} is there, with {}", many(*partitions))
            }
            Self::PartitionMissing { at: TopicPartition { topic, partition }, count } => {
                let has = format!("it has {count} (0 to {})", count - 1);
                write!(f, "topic {topic} has no partition {partition}; {has}; waiting for it")
            }
            Self::PartitionsAdded { topic, count } => {
                let has = many(*count);
                write!(f, "topic {topic} has {has} now; the new ones are read from their beginning")
            }
            Self::TopicRecreated { topic } => {
                write!(f, "topic {topic} was deleted and created anew; reading it from its beginning")
            }
            Self::LeaderMissing { at } => write!(f, "{at} has no leader; waiting for one"),
            Self::LeaderChanged { at, leader } => write!(f, "{at} is led by broker {leader} now"),
            Self::OffsetReset { at, from, to } => {
                write!(f, "{at}: offset {from} is not in the log; going on at {to}")
            }
            Self::Truncated { at, from, to } => {
                let why = "an unclean leader election";
                write!(f, "{at}: the log was cut behind offset {from} ({why}); going on at {to}")
            }
            Self::Refused { at, code } => write!(f, "{at}: the broker answered {code}; trying again"),
            Self::Misbehaved { peer, what } => write!(f, "{}: {what}; trying again", who(*peer)),
            Self::HeldByCaller { bytes } => {
                write!(f, "the caller holds {bytes} bytes of messages, more than the budget; {SLOWED}")
            }
            Self::CoordinatorFound { group, peer, address } => {
                write!(f, "group {group}: coordinated by {} at {address}", who(*peer))
            }
            Self::GroupRefused { group, doing, code } => {
                write!(f, "group {group}: {doing} was refused with {code}; trying again")
            }
            Self::Assigned { group, partitions, .. } => match partitions.as_slice() {
                [] => write!(f, "group {group}: nothing is assigned to this member"),
                some => write!(f, "group {group}: reading {}", list(some)),
            },
            Self::Revoking { group, partitions, reason } => match partitions.as_slice() {
                [] => write!(f, "group {group}: nothing to give up: {reason}"),
                some => write!(f, "group {group}: giving up {}: {reason}", list(some)),
            },
            Self::PartitionsLost { group, partitions, reason } => match partitions.as_slice() {
                [] => write!(f, "group {group}: not in it any more: {reason}"),
                some => write!(f, "group {group}: lost {}: {reason}; {AGAIN}", list(some)),
            },
            Self::CommitFailed { what, .. } => f.write_str(what), // it names the group
            Self::AssignmentOdd { group, what } => write!(f, "group {group}: {what}"),
            Self::ReaderSilent { group, interval } => {
                write!(f, "group {group}: no message was asked for in {interval:?}; {UNTIL_ASKED}")
            }
            Self::HookBusy { group, partitions, time } => {
                write!(f, "group {group}: a hook has kept {} for {time:?}; {UNTIL_DONE}", list(partitions))
            }
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

const SLOWED: &str = "fetching one reply a broker at a time";
const AGAIN: &str = "what was not committed will be read again";
const UNTIL_DONE: &str = "nothing of it is read until the hook is done";
const UNTIL_ASKED: &str = "its partitions are given up until one is";

fn who(peer: Peer) -> String {
    match peer {
        Peer::Seed(_) => "a bootstrap broker".to_owned(),
        Peer::Node(id) => format!("broker {id}"),
    }
}

/// A bootstrap address is all that is known of who is there.
fn place(peer: Peer, address: &Address) -> String {
    match peer {
        Peer::Seed(_) => address.to_string(),
        Peer::Node(_) => format!("{} at {address}", who(peer)),
    }
}

fn many(partitions: i32) -> String {
    format!("{partitions} partition{}", if partitions == 1 { "" } else { "s" })
}

fn list(partitions: &[TopicPartition]) -> String {
    TopicPartition::ranges(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_told_in_runs() {
        let at = TopicPartition::new;
        assert_eq!(list(&[]), "");
        assert_eq!(list(&[at("a", 1), at("b", 3), at("a", 7), at("a", 0), at("a", 2)]), "a 0-2,7; b 3");
        assert_eq!(list(&[at("b", 2), at("a", 0), at("b", 1)]), "a 0; b 1-2");
    }

    #[test]
    fn an_event_is_a_sentence() {
        let group: Arc<str> = "g".into();
        let (peer, address) = (Peer::Node(1), Address { host: "kafka".to_owned(), port: 9092 });
        let (reason, pause) = ("the broker closed the connection".to_owned(), Duration::from_millis(100));
        let assigned = |partitions| Event::Assigned {
            group: group.clone(),
            member: "m".to_owned(),
            generation: 1,
            partitions,
        };
        let ours = || vec![TopicPartition::new("t", 1), TopicPartition::new("t", 0)];
        let why = || "a heartbeat was not answered".to_owned();
        for (event, wanted) in [
            (Event::Connected { peer, address: address.clone() }, "connected to broker 1 at kafka:9092"),
            (
                Event::Retrying { peer, address, reason, pause },
                "broker 1 at kafka:9092: the broker closed the connection; trying again",
            ),
            (Event::TopicFound { topic: "t".into(), partitions: 1 }, "topic t is there, with 1 partition"),
            (
                Event::PartitionMissing { at: TopicPartition::new("t", 9), count: 6 },
                "topic t has no partition 9; it has 6 (0 to 5); waiting for it",
            ),
            (
                Event::Misbehaved { peer: Peer::Seed(0), what: "x".into() },
                "a bootstrap broker: x; trying again",
            ),
            (assigned(Vec::new()), "group g: nothing is assigned to this member"),
            (assigned(ours()), "group g: reading t 0-1"),
            (
                Event::PartitionsLost { group: group.clone(), partitions: ours(), reason: why() },
                "group g: lost t 0-1: a heartbeat was not answered; what was not committed will be read again",
            ),
        ] {
            assert_eq!(event.to_string(), wanted);
        }
    }
}
