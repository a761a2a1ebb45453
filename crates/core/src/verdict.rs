//! What a reader does about a broker's error code, by the place where the code appears.
//!
//! A table, so that it can be read against Kafka's own documentation and tested row by row.

use ottla_wire::code::Code;

/// Where an error code can appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Metadata, about a topic.
    Topic,
    /// Metadata, about a partition.
    Partition,
    /// ListOffsets, about a partition.
    Offsets,
    /// OffsetForLeaderEpoch, about a partition.
    Epochs,
    /// Fetch, about the whole request.
    Request,
    /// Fetch, about a partition.
    Fetch,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Ask again after a pause.
    Retry,
    /// The picture of the cluster is old: refresh it, then ask again.
    Refresh,
    /// The topic is not there (any more, or yet).
    Missing,
    /// The offset is not in the log: follow the policy.
    Reset,
    /// This partition fails; the others go on.
    Fail,
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

/// A code that the table does not name at this place: believe its retriable flag, and never spin on the rest.
fn unlisted(place: Place, code: Code) -> Verdict {
    match (code.is_retriable(), place) {
        (true, _) => Verdict::Refresh,
        (false, Place::Topic) => Verdict::Fatal,
        (false, Place::Partition | Place::Request) => Verdict::Retry,
        (false, Place::Offsets | Place::Epochs | Place::Fetch) => Verdict::Fail,
    }
}

const ANYWHERE: &[Place] =
    &[Place::Topic, Place::Partition, Place::Offsets, Place::Epochs, Place::Request, Place::Fetch];
const LOG: &[Place] = &[Place::Offsets, Place::Epochs, Place::Request, Place::Fetch];

/// The first row that fits decides.
const TABLE: &[(&[Place], &[Code], Verdict)] = &[
    (&[Place::Topic], &[Code::UNKNOWN_TOPIC_OR_PARTITION, Code::UNKNOWN_TOPIC_ID], Verdict::Missing),
    // The topic was just created: its leaders are still being chosen.
    (&[Place::Topic], &[Code::LEADER_NOT_AVAILABLE], Verdict::Retry),
    (
        ANYWHERE,
        &[
            Code::TOPIC_AUTHORIZATION_FAILED,
            Code::CLUSTER_AUTHORIZATION_FAILED,
            Code::INVALID_TOPIC_EXCEPTION,
            Code::SASL_AUTHENTICATION_FAILED,
        ],
        Verdict::Fatal,
    ),
    (
        LOG,
        &[
            Code::NOT_LEADER_OR_FOLLOWER,
            Code::UNKNOWN_TOPIC_OR_PARTITION,
            Code::UNKNOWN_TOPIC_ID,
            Code::INCONSISTENT_TOPIC_ID,
            Code::FENCED_LEADER_EPOCH,
            Code::KAFKA_STORAGE_ERROR,
            Code::REPLICA_NOT_AVAILABLE,
            Code::LEADER_NOT_AVAILABLE,
        ],
        Verdict::Refresh,
    ),
    // The broker lags behind the metadata we have, or behind itself: it catches up.
    (
        LOG,
        &[
            Code::UNKNOWN_LEADER_EPOCH,
            Code::OFFSET_NOT_AVAILABLE,
            Code::UNKNOWN_SERVER_ERROR,
            Code::FETCH_SESSION_ID_NOT_FOUND,
            Code::INVALID_FETCH_SESSION_EPOCH,
            Code::FETCH_SESSION_TOPIC_ID_ERROR,
            Code::REQUEST_TIMED_OUT,
            Code::THROTTLING_QUOTA_EXCEEDED,
        ],
        Verdict::Retry,
    ),
    (&[Place::Fetch], &[Code::OFFSET_OUT_OF_RANGE], Verdict::Reset),
    // The broker's own copy is damaged: asking again does not mend it.
    (&[Place::Fetch], &[Code::CORRUPT_MESSAGE], Verdict::Fail),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_judged_by_their_place() {
        use Place as P;
        use Verdict as V;
        for (place, code, wanted) in [
            (P::Topic, Code::UNKNOWN_TOPIC_OR_PARTITION, V::Missing),
            (P::Fetch, Code::UNKNOWN_TOPIC_OR_PARTITION, V::Refresh),
            (P::Topic, Code::LEADER_NOT_AVAILABLE, V::Retry),
            (P::Topic, Code::TOPIC_AUTHORIZATION_FAILED, V::Fatal),
            (P::Fetch, Code::TOPIC_AUTHORIZATION_FAILED, V::Fatal),
            (P::Topic, Code::INVALID_TOPIC_EXCEPTION, V::Fatal),
            (P::Fetch, Code::NOT_LEADER_OR_FOLLOWER, V::Refresh),
            (P::Offsets, Code::FENCED_LEADER_EPOCH, V::Refresh),
            (P::Fetch, Code::UNKNOWN_LEADER_EPOCH, V::Retry),
            (P::Fetch, Code::OFFSET_OUT_OF_RANGE, V::Reset),
            (P::Fetch, Code::CORRUPT_MESSAGE, V::Fail),
            (P::Fetch, Code::UNKNOWN_SERVER_ERROR, V::Retry),
            (P::Offsets, Code::UNSUPPORTED_FOR_MESSAGE_FORMAT, V::Fail),
            (P::Fetch, Code(12345), V::Fail),
            (P::Request, Code(12345), V::Retry),
            (P::Fetch, Code::NETWORK_EXCEPTION, V::Refresh),
        ] {
            assert_eq!(verdict(place, code), wanted, "{code} at {place:?}");
        }
    }
}
