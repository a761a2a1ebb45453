//! What the user asked for. Every value here is final: defaults are filled in and the whole is checked once.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use regex_lite::Regex;

use crate::{
    address::Address,
    group::assign::{Assignor, Range, RoundRobin},
};

/// Where to begin in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Start {
    /// The oldest record the log still holds.
    #[default]
    Earliest,
    /// The end of the log as it is when the partition is first asked; what is written later is read.
    Latest,
    /// This offset.
    Offset(i64),
    /// The last so many offsets of the partition (fewer records where some were compacted away).
    Last(u64),
    /// The first record written at this time or later; the end of the log if there is none.
    At(SystemTime),
    /// As [`Start::At`], so long before the moment the reader is opened or the seek is made.
    Ago(Duration),
}

impl Start {
    /// Replaces [`Start::Ago`] by the time it means.
    #[must_use]
    pub fn resolve(self, wall: SystemTime) -> Self {
        match self {
            Self::Ago(ago) => Self::At(wall.checked_sub(ago).unwrap_or(UNIX_EPOCH)),
            other => other,
        }
    }
}

/// Where to stop in a partition; the offset itself is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Until {
    /// The end of the log as it is when the partition is first asked.
    End,
    /// This offset, which is not read.
    Offset(i64),
    /// The first record written at this time or later, which is not read; the end as it is now if there is none.
    At(SystemTime),
}

/// Milliseconds since 1970, as the broker counts; earlier times count as 1970, because the broker keeps the
/// negative numbers for questions of its own.
pub(crate) fn unix_ms(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// What to do about a topic or partition that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingTopic {
    /// Tell it as an event, look again with back-off, and read it from its beginning once it is there.
    #[default]
    Wait,
    /// The reader fails.
    Fail,
}

/// What to do when the log no longer, or not yet, holds the offset we stand at (Java's `auto.offset.reset`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnOutOfRange {
    /// Go on at the oldest record.
    Earliest,
    /// Go on at the end.
    Latest,
    /// Go on at whichever end is nearer: the oldest record if ours was deleted, the end if we are beyond it.
    #[default]
    Nearest,
    /// The partition fails, with an error that names both ends; a seek revives it.
    Error,
}

/// A topic to read, whole or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partitions to read; `None` means all, also those added later.
    pub partitions: Option<Vec<i32>>,
}

/// Everything the machine has to know about its task.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to find the cluster at first, and again when all known brokers are gone (`bootstrap.servers`).
    pub bootstrap: Vec<Address>,
    /// Named in every request (`client.id`).
    pub client_id: String,
    /// What to read.
    pub subscriptions: Vec<Subscription>,
    /// Topics to read beside them, whenever there are any whose names match.
    pub pattern: Option<Regex>,
    /// Where to begin.
    pub start: Start,
    /// Where to stop, if anywhere.
    pub until: Option<Until>,
    /// How long a broker may hold a fetch that has nothing to return (`fetch.max.wait.ms`).
    pub max_wait: Duration,
    /// How many bytes make a broker answer before `max_wait` (`fetch.min.bytes`).
    pub min_bytes: i32,
    /// The ceiling for one reply; what is asked adapts below it (`fetch.max.bytes`).
    pub max_bytes: i32,
    /// The ceiling for one partition in one reply (`max.partition.fetch.bytes`); `None`: as much as the reply has.
    pub max_partition_bytes: Option<i32>,
    /// The ceiling for what the reader holds, in bytes.
    pub budget: usize,
    /// How long we wait for any reply while no byte arrives, on top of what the broker may hold it
    /// (`request.timeout.ms`).
    pub request_timeout: Duration,
    /// How old the picture of the cluster may become (`metadata.max.age.ms`).
    pub metadata_max_age: Duration,
    /// The first pause after a failure (`retry.backoff.ms`).
    pub backoff_min: Duration,
    /// The longest pause after a failure (`retry.backoff.max.ms`).
    pub backoff_max: Duration,
    /// After so many failed rounds over all brokers in a row the outage is told once as an error.
    pub max_attempts: Option<u32>,
    /// What to do about a missing topic.
    pub missing_topic: MissingTopic,
    /// What to do when an offset is out of range.
    pub on_out_of_range: OnOutOfRange,
    /// The group that offsets are stored in, if any.
    pub group: Option<GroupConfig>,
    /// Seeds what is random: the order of the bootstrap list and the jitter of pauses.
    pub seed: u64,
}

/// The group that offsets are stored in, and our part in it.
#[derive(Debug, Clone)]
pub struct GroupConfig {
    /// The group's name (`group.id`).
    pub id: Arc<str>,
    /// Whether we join it, and read what its leader assigns us; else we read what the subscriptions name.
    pub member: bool,
    /// Makes us a static member (`group.instance.id`, KIP-345).
    pub instance: Option<String>,
    /// How partitions may be assigned, the most wanted first (`partition.assignment.strategy`).
    pub assignors: Vec<Arc<dyn Assignor>>,
    /// The coordinator takes a member for dead that it has not heard of for so long (`session.timeout.ms`).
    pub session_timeout: Duration,
    /// How long the coordinator waits in a rebalance for members to come back (`rebalance.timeout.ms`; in Java it is
    /// `max.poll.interval.ms`).
    pub rebalance_timeout: Duration,
    /// How often the coordinator hears of us (`heartbeat.interval.ms`).
    pub heartbeat_interval: Duration,
    /// A reader that does not ask for so long gives its partitions up until it does (`max.poll.interval.ms`).
    pub max_poll_interval: Option<Duration>,
    /// Where we are (`client.rack`).
    pub rack: Option<String>,
    /// How often what was acknowledged is committed (`auto.commit.interval.ms`).
    pub commit_interval: Duration,
    /// How long the broker keeps committed offsets; `None`: as long as it is configured to (`offsets.retention.minutes`).
    pub retention: Option<Duration>,
    /// Look up only offsets that nothing can change any more (KIP-447): none that a transaction is about to commit, and from
    /// a coordinator that has just taken over none older than what the one before it has answered.
    pub require_stable: bool,
    /// Commit where reading begins, where nothing was committed yet.
    pub commit_start: bool,
    /// Whether somebody says when an assignment may be read from and when a revoke is complete.
    pub hooks: bool,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            id: Arc::from(""),
            member: true,
            instance: None,
            assignors: vec![Arc::new(Range), Arc::new(RoundRobin)],
            session_timeout: Duration::from_secs(45),
            rebalance_timeout: Duration::from_secs(60),
            heartbeat_interval: Duration::from_secs(3),
            max_poll_interval: None,
            rack: None,
            commit_interval: Duration::from_secs(1),
            retention: None,
            require_stable: true,
            commit_start: true,
            hooks: false,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bootstrap: Vec::new(),
            client_id: "ottla".to_owned(),
            subscriptions: Vec::new(),
            pattern: None,
            start: Start::default(),
            until: None,
            max_wait: Duration::from_secs(10),
            min_bytes: 1,
            max_bytes: 50 << 20,
            max_partition_bytes: None,
            budget: 64 << 20,
            request_timeout: Duration::from_secs(30),
            metadata_max_age: Duration::from_secs(60),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            max_attempts: None,
            missing_topic: MissingTopic::default(),
            on_out_of_range: OnOutOfRange::default(),
            group: None,
            seed: 0,
        }
    }
}
