//! What a member does about a coordinator's error code, by the place where the code appears.
//!
//! A table, as the one for reading: to be read against Kafka's own documentation and tested row by row.

use ottla_wire::code::Code;

/// Where an error code of a coordinator can appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// FindCoordinator.
    Find,
    /// JoinGroup.
    Join,
    /// SyncGroup.
    Sync,
    /// Heartbeat.
    Heartbeat,
    /// OffsetFetch, about the request or a partition.
    Recall,
    /// OffsetCommit, about a partition.
    Commit,
    /// LeaveGroup.
    Leave,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Find => "finding the coordinator",
            Self::Join => "joining",
            Self::Sync => "taking the assignment",
            Self::Heartbeat => "the heartbeat",
            Self::Recall => "looking up committed offsets",
            Self::Commit => "committing",
            Self::Leave => "leaving",
        })
    }
}

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

/// What to do about `code` at `place`.
pub(crate) fn verdict(place: Place, code: Code) -> Verdict {
    TABLE
        .iter()
        .find(|(places, codes, _)| places.contains(&place) && codes.contains(&code))
        .map_or_else(|| unlisted(place, code), |(_, _, verdict)| *verdict)
}

/// A code that the table does not name at this place.
fn unlisted(place: Place, code: Code) -> Verdict {
    match place {
        _ if code.is_retriable() => Verdict::Retry,
        Place::Commit | Place::Recall | Place::Leave => Verdict::Refuse,
        Place::Find | Place::Join => Verdict::Fatal,
        // Whatever it is, a member that goes on does not mend it.
        Place::Sync | Place::Heartbeat => Verdict::Stale,
    }
}

const ANYWHERE: &[Place] =
    &[Place::Find, Place::Join, Place::Sync, Place::Heartbeat, Place::Recall, Place::Commit, Place::Leave];
const MEMBER: &[Place] =
    &[Place::Join, Place::Sync, Place::Heartbeat, Place::Recall, Place::Commit, Place::Leave];

/// The first row that fits decides.
const TABLE: &[(&[Place], &[Code], Verdict)] = &[
    // At Find the node that was asked has no other one to name yet: the offsets topic is being made, or has no leader.
    (&[Place::Find], &[Code::COORDINATOR_NOT_AVAILABLE], Verdict::Retry),
    (MEMBER, &[Code::NOT_COORDINATOR, Code::COORDINATOR_NOT_AVAILABLE], Verdict::Elsewhere),
    (ANYWHERE, &[Code::COORDINATOR_LOAD_IN_PROGRESS], Verdict::Retry),
    (&[Place::Join], &[Code::MEMBER_ID_REQUIRED], Verdict::Named),
    (MEMBER, &[Code::UNKNOWN_MEMBER_ID], Verdict::Unknown),
    (
        MEMBER,
        &[Code::ILLEGAL_GENERATION, Code::STALE_MEMBER_EPOCH, Code::FENCED_MEMBER_EPOCH],
        Verdict::Stale,
    ),
    (MEMBER, &[Code::FENCED_INSTANCE_ID], Verdict::Fenced),
    // In the middle of a rebalance that we were to take part in: it has gone on without us if it comes for a commit.
    (&[Place::Heartbeat], &[Code::REBALANCE_IN_PROGRESS], Verdict::Rebalance),
    (&[Place::Join, Place::Sync, Place::Commit], &[Code::REBALANCE_IN_PROGRESS], Verdict::Stale),
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
        &[Place::Join],
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
        &[Place::Recall, Place::Commit],
        &[
            Code::UNKNOWN_TOPIC_OR_PARTITION,
            Code::UNSTABLE_OFFSET_COMMIT,
            Code::REQUEST_TIMED_OUT,
            Code::UNKNOWN_SERVER_ERROR,
        ],
        Verdict::Retry,
    ),
    (
        &[Place::Join, Place::Sync, Place::Heartbeat, Place::Find],
        &[Code::UNKNOWN_SERVER_ERROR],
        Verdict::Retry,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_judged_by_their_place() {
        use Place as P;
        use Verdict as V;
        for (place, code, wanted) in [
            (P::Find, Code::COORDINATOR_NOT_AVAILABLE, V::Retry),
            (P::Find, Code::GROUP_AUTHORIZATION_FAILED, V::Fatal),
            (P::Heartbeat, Code::NOT_COORDINATOR, V::Elsewhere),
            (P::Commit, Code::COORDINATOR_NOT_AVAILABLE, V::Elsewhere),
            (P::Commit, Code::COORDINATOR_LOAD_IN_PROGRESS, V::Retry),
            (P::Join, Code::MEMBER_ID_REQUIRED, V::Named),
            (P::Join, Code::UNKNOWN_MEMBER_ID, V::Unknown),
            (P::Heartbeat, Code::ILLEGAL_GENERATION, V::Stale),
            (P::Heartbeat, Code::REBALANCE_IN_PROGRESS, V::Rebalance),
            (P::Sync, Code::REBALANCE_IN_PROGRESS, V::Stale),
            (P::Commit, Code::REBALANCE_IN_PROGRESS, V::Stale),
            (P::Commit, Code::FENCED_INSTANCE_ID, V::Fenced),
            (P::Join, Code::INCONSISTENT_GROUP_PROTOCOL, V::Fatal),
            (P::Join, Code::INVALID_SESSION_TIMEOUT, V::Fatal),
            (P::Commit, Code::OFFSET_METADATA_TOO_LARGE, V::Refuse),
            (P::Commit, Code::TOPIC_AUTHORIZATION_FAILED, V::Refuse),
            (P::Commit, Code(12345), V::Refuse),
            (P::Heartbeat, Code(12345), V::Stale),
            (P::Recall, Code::UNSTABLE_OFFSET_COMMIT, V::Retry),
        ] {
            assert_eq!(verdict(place, code), wanted, "{code} at {place:?}");
        }
    }
}
