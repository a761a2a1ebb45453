//! One error, with questions.

use ottla_core::{AckError, CommitError, Fault, NotRead, TopicPartition};
use ottla_wire::code::Code;

/// What went wrong, and who must act.
///
/// Whatever helps when tried again is tried again inside and told as an [`Event`](crate::Event); what comes out
/// here needs somebody.
#[derive(Clone, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Inner>);

/// The sentence, and who must act: this is what a `main` that returns it prints.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {self}", self.kind())
    }
}

#[derive(Debug, Clone, thiserror::Error)]
enum Inner {
    #[error("{0}")]
    Config(String),
    #[error("no tokio runtime here: open a reader inside one")]
    Runtime,
    #[error("the reader's task panicked: it needs a tokio runtime with timers and I/O (enable_all)")]
    Panicked,
    #[error("the reader is closed")]
    Closed,
    #[error(transparent)]
    NotRead(NotRead),
    #[error(transparent)]
    Fault(Fault),
    #[error(transparent)]
    Commit(CommitError),
    /// Of the message, or the batch, at this offset.
    #[error("{}{error}", of(error, *offset))]
    CommitAt { error: CommitError, offset: i64 },
    #[error("{0}")]
    Connection(String),
    /// About a group, or about a topic for its sake.
    #[error("{what}")]
    Refused { what: String, code: Option<Code> },
}

/// Who must act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration, or an argument: it names everything that is wrong with it.
    Config,
    /// The caller: a reader was opened outside of a tokio runtime, or in one without timers or I/O.
    Runtime,
    /// Nobody: the reader was closed.
    Closed,
    /// The caller: the partition is not among those that are read.
    NotRead,
    /// The topic or partition does not exist.
    Missing,
    /// The broker refused for good: authorization, an invalid name, a code that is not retried.
    Refused,
    /// The offset is not in the log any more, or not yet, and the policy is to fail.
    OutOfRange,
    /// The broker sent records that cannot be right.
    Corrupt,
    /// Nobody: the partition was given up (a rebalance, or the end of the session) since the message was handed out.
    /// Whoever owns the partition now reads it again.
    Fenced,
    /// The caller: its rebalance hook panicked before it had said where to begin. The partition stands still until a seek.
    Hook,
    /// The caller: too many messages were passed over without being acknowledged.
    LeftBehind,
    /// What was acknowledged could not be committed in time: it will be read again.
    Uncommitted,
    /// No broker could be reached; reading goes on by itself when one can.
    Unreachable,
}

impl Error {
    /// Who must act.
    pub fn kind(&self) -> ErrorKind {
        match &*self.0 {
            Inner::Config(_) => ErrorKind::Config,
            Inner::Runtime | Inner::Panicked => ErrorKind::Runtime,
            Inner::Closed => ErrorKind::Closed,
            Inner::NotRead(_) => ErrorKind::NotRead,
            Inner::Commit(error) | Inner::CommitAt { error, .. } => commit_kind(error),
            Inner::Connection(_) => ErrorKind::Unreachable,
            Inner::Refused { .. } => ErrorKind::Refused,
            Inner::Fault(fault) => fault_kind(fault),
        }
    }

    /// The broker's error code, where there is one.
    pub fn code(&self) -> Option<Code> {
        match &*self.0 {
            Inner::Refused { code, .. } => *code,
            Inner::Commit(CommitError::Refused { partitions, .. })
            | Inner::CommitAt { error: CommitError::Refused { partitions, .. }, .. } => {
                partitions.first().map(|(_, code)| *code)
            }
            _ => self.fault().and_then(Fault::code),
        }
    }

    /// The partition concerned, where there is one; of several, the first. When reading, only that partition stands still,
    /// and a seek revives it.
    pub fn partition(&self) -> Option<&TopicPartition> {
        match &*self.0 {
            Inner::NotRead(NotRead(at)) => Some(at),
            Inner::Fault(fault) => fault.partition(),
            Inner::Commit(error) | Inner::CommitAt { error, .. } => commit_partition(error),
            _ => None,
        }
    }

    /// The offset concerned, where there is one.
    pub fn offset(&self) -> Option<i64> {
        match &*self.0 {
            Inner::CommitAt { offset, .. } | Inner::Commit(CommitError::Negative(_, offset)) => Some(*offset),
            _ => self.fault().and_then(Fault::offset),
        }
    }

    /// Whether calling again can help without anybody changing anything.
    pub fn is_retriable(&self) -> bool {
        self.kind() == ErrorKind::Unreachable
    }

    /// Whether the partition was given up ([`ErrorKind::Fenced`]): somebody else owns it, and reads on from the last commit.
    /// No more than a fact, unless what was done must not be done twice.
    pub fn is_fenced(&self) -> bool {
        self.kind() == ErrorKind::Fenced
    }

    /// Whether the reader was closed.
    pub fn is_closed(&self) -> bool {
        self.kind() == ErrorKind::Closed
    }

    fn fault(&self) -> Option<&Fault> {
        match &*self.0 {
            Inner::Fault(fault) => Some(fault),
            _ => None,
        }
    }

    pub(crate) fn config(faults: &[String]) -> Self {
        Self(Box::new(Inner::Config(format!("bad configuration: {}", faults.join("; ")))))
    }

    pub(crate) fn argument(fault: String) -> Self {
        Self(Box::new(Inner::Config(fault)))
    }

    pub(crate) fn runtime() -> Self {
        Self(Box::new(Inner::Runtime))
    }

    pub(crate) fn panicked() -> Self {
        Self(Box::new(Inner::Panicked))
    }

    pub(crate) fn closed() -> Self {
        Self(Box::new(Inner::Closed))
    }

    /// About the message at `offset`.
    #[cold]
    pub(crate) fn commit(error: CommitError, offset: i64) -> Self {
        match error {
            CommitError::Closed => Self::closed(),
            error => Self(Box::new(Inner::CommitAt { error, offset })),
        }
    }

    #[cold]
    pub(crate) fn no_group(topic: &str, partition: i32) -> Self {
        let at = TopicPartition::new(topic, partition);
        Self::argument(format!(
            "{at}: a reader without a group has handed this out; it cannot be acknowledged"
        ))
    }

    /// The partitions of a revoke that is over; the first of them.
    pub(crate) fn given_up(at: Option<TopicPartition>) -> Self {
        at.map_or_else(Self::closed, |at| CommitError::Ack(AckError::Ended(at)).into())
    }

    pub(crate) fn connection(what: impl std::fmt::Display) -> Self {
        Self(Box::new(Inner::Connection(what.to_string())))
    }

    pub(crate) fn refused(what: String, code: impl Into<Option<Code>>) -> Self {
        Self(Box::new(Inner::Refused { what, code: code.into() }))
    }
}

fn fault_kind(fault: &Fault) -> ErrorKind {
    match fault {
        Fault::TopicMissing { .. } | Fault::PartitionMissing { .. } => ErrorKind::Missing,
        Fault::OutOfRange { .. } | Fault::Truncated { .. } | Fault::Recreated { .. } => ErrorKind::OutOfRange,
        Fault::Corrupt { .. } => ErrorKind::Corrupt,
        Fault::Hook { .. } => ErrorKind::Hook,
        Fault::Unreachable { .. } => ErrorKind::Unreachable,
        _ => ErrorKind::Refused,
    }
}

/// These sentences begin with the partition.
fn of(error: &CommitError, offset: i64) -> String {
    match error {
        CommitError::Ack(_) | CommitError::NotOwned(_) | CommitError::Elsewhere(_) => {
            format!("offset {offset} of ")
        }
        _ => String::new(),
    }
}

fn commit_kind(error: &CommitError) -> ErrorKind {
    match error {
        CommitError::Ack(AckError::Ended(_)) => ErrorKind::Fenced,
        CommitError::Ack(AckError::LeftBehind(_)) => ErrorKind::LeftBehind,
        CommitError::NotOwned(_) | CommitError::Elsewhere(_) => ErrorKind::NotRead,
        CommitError::Negative(..) => ErrorKind::Config,
        CommitError::Unfinished { .. } => ErrorKind::Uncommitted,
        CommitError::Closed => ErrorKind::Closed,
        _ => ErrorKind::Refused,
    }
}

fn commit_partition(error: &CommitError) -> Option<&TopicPartition> {
    match error {
        CommitError::Ack(AckError::Ended(at) | AckError::LeftBehind(at))
        | CommitError::NotOwned(at)
        | CommitError::Elsewhere(at)
        | CommitError::Negative(at, _) => Some(at),
        CommitError::Refused { partitions, .. } => partitions.first().map(|(at, _)| at),
        CommitError::Unfinished { partitions, .. } => partitions.first(),
        _ => None,
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        Self(Box::new(Inner::Commit(error)))
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self(Box::new(Inner::Fault(fault)))
    }
}

impl From<NotRead> for Error {
    fn from(not_read: NotRead) -> Self {
        Self(Box::new(Inner::NotRead(not_read)))
    }
}
