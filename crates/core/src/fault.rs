//! What went wrong, in words that say who must act.

use std::sync::Arc;

use ottla_wire::code::Code;

use crate::{address::Address, partition::TopicPartition};

/// A fault that retrying does not mend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The cluster refused something about a topic for good.
    #[error("topic {topic}: the cluster answered {code}{}", advice(*.code))]
    Topic {
        /// The topic's name.
        topic: Arc<str>,
        /// The broker's error code.
        code: Code,
    },
    /// The broker refused something about a partition for good.
    #[error("{at}{}: the broker answered {code}{}", place(*.offset), advice(*.code))]
    Partition {
        /// Which partition.
        at: TopicPartition,
        /// Where it stood.
        offset: i64,
        /// The broker's error code.
        code: Code,
    },
    /// The topic does not exist, and the reader was told not to wait for it.
    #[error("topic {topic} does not exist")]
    TopicMissing {
        /// The topic's name.
        topic: Arc<str>,
    },
    /// The topic has no such partition, and the reader was told not to wait for it.
    #[error("topic {} has no partition {}; it has {count} (0 to {})", at.topic, at.partition, count - 1)]
    PartitionMissing {
        /// Which partition.
        at: TopicPartition,
        /// How many the topic has.
        count: i32,
    },
    /// The log does not hold the offset, and the policy is to fail.
    #[error("{at}: offset {offset} is out of range, the log holds {earliest} to {latest}; seek to go on")]
    OutOfRange {
        /// Which partition.
        at: TopicPartition,
        /// Where it stood.
        offset: i64,
        /// The oldest offset of the log.
        earliest: i64,
        /// The end of the log.
        latest: i64,
    },
    /// The log was cut behind us (an unclean leader election), and the policy is to fail (KIP-320).
    #[error("{at}: the log was truncated to offset {end} while we stood at {offset}; seek to go on")]
    Truncated {
        /// Which partition.
        at: TopicPartition,
        /// Where it stood.
        offset: i64,
        /// Where the logs part.
        end: i64,
    },
    /// The topic was deleted and created anew, and the policy is to fail.
    #[error("{at}: the topic was deleted and created anew while we stood at {offset}; seek to go on")]
    Recreated {
        /// Which partition.
        at: TopicPartition,
        /// Where it stood.
        offset: i64,
    },
    /// The broker sent records that cannot be right.
    #[error("{at}: the batch at offset {offset} is damaged: {reason}; seek beyond it to go on")]
    Corrupt {
        /// Which partition.
        at: TopicPartition,
        /// The first offset of the damaged batch, or where we stood.
        offset: i64,
        /// What was found.
        reason: String,
    },
    /// The hook that was to say where to begin panicked.
    #[error("{at}: the rebalance hook panicked before it was known where to begin; seek to go on, or rejoin")]
    Hook {
        /// Which partition.
        at: TopicPartition,
    },
    /// A broker and we share no version of something that reading needs.
    #[error("{address}: {what}")]
    Unsupported {
        /// Which broker.
        address: Address,
        /// What it does not speak.
        what: String,
    },
    /// The group's coordinator refused us.
    #[error("group {group}: {doing} was refused with {code}{}{}", detail(.said), advice(*.code))]
    Group {
        /// The group.
        group: Arc<str>,
        /// What was refused: "joining", "committing", ...
        doing: String,
        /// The coordinator's error code.
        code: Code,
        /// What else is known of it.
        said: Option<String>,
    },
    /// No broker could be reached for as many rounds as `max_attempts` allows. Reading goes on by itself.
    #[error("no broker could be reached in {} over all known addresses, last {last}", counted(*.rounds))]
    Unreachable {
        /// How many rounds failed.
        rounds: u32,
        /// The last failure, with its address.
        last: String,
    },
}

/// Where it stood, unless that was just being asked.
fn place(offset: i64) -> String {
    if offset < 0 { String::new() } else { format!(" at offset {offset}") }
}

/// What else the coordinator, or we, have to say of it.
fn detail(said: &Option<String>) -> String {
    said.as_ref().filter(|said| !said.is_empty()).map(|said| format!(": {said}")).unwrap_or_default()
}

fn counted(rounds: u32) -> String {
    format!("{rounds} round{}", if rounds == 1 { "" } else { "s" })
}

/// What to do, where the code's own sentence does not say.
fn advice(code: Code) -> &'static str {
    match code {
        Code::UNSUPPORTED_FOR_MESSAGE_FORMAT => "; its records have no times: begin and stop at offsets",
        Code::TOPIC_AUTHORIZATION_FAILED => "; allow this client to Describe and Read the topic",
        Code::GROUP_AUTHORIZATION_FAILED => "; allow this client to Read the group",
        Code::CLUSTER_AUTHORIZATION_FAILED => "; allow this client to Describe the cluster",
        Code::INCONSISTENT_GROUP_PROTOCOL => "; offer an assignor that all of its members have",
        Code::FENCED_INSTANCE_ID => "; give each member an instance_id of its own",
        Code::GROUP_MAX_SIZE_REACHED => "; stop a member, or raise the broker's group.max.size",
        _ => "",
    }
}

impl Fault {
    /// The partition that stands still for it, while the others go on; `None` for a fault of the whole reader, be it
    /// about a partition (a missing one that the reader must not wait for).
    pub fn partition(&self) -> Option<&TopicPartition> {
        match self {
            Self::Partition { at, .. }
            | Self::OutOfRange { at, .. }
            | Self::Truncated { at, .. }
            | Self::Recreated { at, .. }
            | Self::Hook { at }
            | Self::Corrupt { at, .. } => Some(at),
            Self::Topic { .. }
            | Self::TopicMissing { .. }
            | Self::PartitionMissing { .. }
            | Self::Unsupported { .. }
            | Self::Group { .. }
            | Self::Unreachable { .. } => None,
        }
    }

    /// The offset concerned, where there is one.
    pub fn offset(&self) -> Option<i64> {
        match self {
            Self::Partition { offset, .. }
            | Self::OutOfRange { offset, .. }
            | Self::Truncated { offset, .. }
            | Self::Recreated { offset, .. }
            | Self::Corrupt { offset, .. } => Some(*offset).filter(|&offset| offset >= 0),
            _ => None,
        }
    }

    /// The broker's error code, where there is one.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Topic { code, .. } | Self::Partition { code, .. } | Self::Group { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// Why a connection, or the attempt to make one, ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {reason}")]
pub struct Lost {
    /// Where it led.
    pub address: Address,
    /// What happened, as a sentence without its subject.
    pub reason: String,
}
