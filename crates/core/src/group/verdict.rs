//! What a member does about a coordinator's error code, by the question that it answers.
//!
//! A table, as the one for reading: to be read against Kafka's own documentation and tested row by row.

use ottla_wire::code::Code;

use super::Question::{self, Commit, Find, Heartbeat, Join, Leave, Recall, Sync};

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Ask again after a pause.
    Retry,
    /// Another node is the coordinator now: find it, and ask it.
    Elsewhere,
    /// The group is rebalancing: give up what is owned and join again.
    Rebalance,
    /// The group has gone on without us: what is owned is lost. Join again by the same member id.
    Stale,
    /// The group does not know us: what is owned is lost. Join as somebody new.
    Unknown,
    /// The coordinator has given us a member id: join with that (KIP-394).
    Named,
    /// Another process joined with our instance id: it is its now, for good.
    Fenced,
    /// This partition is refused; the others are not.
    Refuse,
    /// The reader fails until the answer changes.
    Fatal,
}

/// What to do about `code` in the answer to `question`, about all of it or a partition.
pub(crate) fn verdict(question: Question, code: Code) -> Verdict {
    TABLE
        .iter()
        .find(|(questions, codes, _)| questions.contains(&question) && codes.contains(&code))
        .map_or_else(|| unlisted(question, code), |(_, _, verdict)| *verdict)
}

/// A code that the table does not name for this question.
fn unlisted(question: Question, code: Code) -> Verdict {
    match question {
        _ if code.is_retriable() => Verdict::Retry,
        Commit | Recall | Leave => Verdict::Refuse,
        Find | Join => Verdict::Fatal,
        // Whatever it is, a member that goes on does not mend it.
        Sync | Heartbeat => Verdict::Stale,
    }
}

const ANYWHERE: &[Question] = &[Find, Join, Sync, Heartbeat, Recall, Commit, Leave];
const MEMBER: &[Question] = &[Join, Sync, Heartbeat, Recall, Commit, Leave];

/// The first row that fits decides.
const TABLE: &[(&[Question], &[Code], Verdict)] = &[
    // At Find the node that was asked has no other one to name yet: the offsets topic is being made, or has no leader.
    (&[Find], &[Code::COORDINATOR_NOT_AVAILABLE], Verdict::Retry),
    (MEMBER, &[Code::NOT_COORDINATOR, Code::COORDINATOR_NOT_AVAILABLE], Verdict::Elsewhere),
    (ANYWHERE, &[Code::COORDINATOR_LOAD_IN_PROGRESS], Verdict::Retry),
    (&[Join], &[Code::MEMBER_ID_REQUIRED], Verdict::Named),
    (MEMBER, &[Code::UNKNOWN_MEMBER_ID], Verdict::Unknown),
    (
        MEMBER,
        &[Code::ILLEGAL_GENERATION, Code::STALE_MEMBER_EPOCH, Code::FENCED_MEMBER_EPOCH],
        Verdict::Stale,
    ),
    (MEMBER, &[Code::FENCED_INSTANCE_ID], Verdict::Fenced),
    // In the middle of a rebalance that we were to take part in: it has gone on without us if it comes for a commit.
    (&[Heartbeat], &[Code::REBALANCE_IN_PROGRESS], Verdict::Rebalance),
    (&[Join, Sync, Commit], &[Code::REBALANCE_IN_PROGRESS], Verdict::Stale),
    (
        ANYWHERE,
        &[
            Code::GROUP_AUTHORIZATION_FAILED,
            Code::INVALID_GROUP_ID,
            Code::SASL_AUTHENTICATION_FAILED,
            Code::CLUSTER_AUTHORIZATION_FAILED,
        ],
        Verdict::Fatal,
    ),
    (
        &[Join],
        &[
            Code::INCONSISTENT_GROUP_PROTOCOL,
            Code::INVALID_SESSION_TIMEOUT,
            Code::GROUP_MAX_SIZE_REACHED,
            Code::UNSUPPORTED_VERSION,
        ],
        Verdict::Fatal,
    ),
    // The broker has not seen the topic yet, or a transaction is about to commit.
    (
        &[Recall, Commit],
        &[
            Code::UNKNOWN_TOPIC_OR_PARTITION,
            Code::UNSTABLE_OFFSET_COMMIT,
            Code::REQUEST_TIMED_OUT,
            Code::UNKNOWN_SERVER_ERROR,
        ],
        Verdict::Retry,
    ),
    (&[Join, Sync, Heartbeat, Find], &[Code::UNKNOWN_SERVER_ERROR], Verdict::Retry),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_judged_by_their_question() {
        use Verdict as V;
        for (question, code, wanted) in [
            (Find, Code::COORDINATOR_NOT_AVAILABLE, V::Retry),
            (Find, Code::GROUP_AUTHORIZATION_FAILED, V::Fatal),
            (Heartbeat, Code::NOT_COORDINATOR, V::Elsewhere),
            (Commit, Code::COORDINATOR_NOT_AVAILABLE, V::Elsewhere),
            (Commit, Code::COORDINATOR_LOAD_IN_PROGRESS, V::Retry),
            (Join, Code::MEMBER_ID_REQUIRED, V::Named),
            (Join, Code::UNKNOWN_MEMBER_ID, V::Unknown),
            (Heartbeat, Code::ILLEGAL_GENERATION, V::Stale),
            (Heartbeat, Code::REBALANCE_IN_PROGRESS, V::Rebalance),
            (Sync, Code::REBALANCE_IN_PROGRESS, V::Stale),
            (Commit, Code::REBALANCE_IN_PROGRESS, V::Stale),
            (Commit, Code::FENCED_INSTANCE_ID, V::Fenced),
            (Join, Code::INCONSISTENT_GROUP_PROTOCOL, V::Fatal),
            (Join, Code::INVALID_SESSION_TIMEOUT, V::Fatal),
            (Commit, Code::OFFSET_METADATA_TOO_LARGE, V::Refuse),
            (Commit, Code::TOPIC_AUTHORIZATION_FAILED, V::Refuse),
            (Commit, Code(12345), V::Refuse),
            (Heartbeat, Code(12345), V::Stale),
            (Recall, Code::UNSTABLE_OFFSET_COMMIT, V::Retry),
        ] {
            assert_eq!(verdict(question, code), wanted, "{code} to {question:?}");
        }
    }
}
