//! The errors a broker can answer with.
//!
//! What to do about one depends on where it stands and is not said here, apart from what Kafka's own clients hold in
//! general: whether the same request may succeed later.

use std::borrow::Cow;
use std::fmt;

/// The number with which a broker says what went wrong, or that nothing did.
///
/// Any number can come from the wire; those that Kafka 4.4 does not have are named `UNKNOWN(n)`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub i16);

impl Code {
    /// Whether something went wrong.
    pub const fn is_error(self) -> bool {
        self.0 != Self::NONE.0
    }

    /// The name that Kafka gives it.
    pub fn name(self) -> Cow<'static, str> {
        match self.entry() {
            Some(entry) => Cow::Borrowed(entry.name),
            None => Cow::Owned(format!("UNKNOWN({})", self.0)),
        }
    }

    /// What it means, in half a sentence.
    pub fn sentence(self) -> &'static str {
        self.entry().map_or("an error that Kafka 4.4 does not have", |entry| entry.sentence)
    }

    /// Whether Kafka's own clients try again after it.
    pub fn is_retriable(self) -> bool {
        self.entry().is_some_and(|entry| entry.retriable)
    }

    /// The table has no gaps and begins at -1.
    fn entry(self) -> Option<&'static Entry> {
        TABLE.get(usize::try_from(i32::from(self.0) + 1).ok()?)
    }
}

/// As `Code(FENCED_INSTANCE_ID)`: nobody knows the numbers by heart.
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({})", self.name())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.name(), self.0, self.sentence())
    }
}

impl From<i16> for Code {
    fn from(number: i16) -> Self {
        Self(number)
    }
}

struct Entry {
    name: &'static str,
    retriable: bool,
    sentence: &'static str,
}

macro_rules! codes {
    ($($name:ident = $number:literal $(, $retriable:ident)?: $sentence:literal;)*) => {
        impl Code {
            $(
                #[doc = $sentence]
                pub const $name: Self = Self($number);
            )*

            /// All codes that Kafka 4.4 has, from -1 upwards.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }

        static TABLE: &[Entry] = &[$(Entry {
            name: stringify!($name),
            retriable: codes!(@ $($retriable)?),
            sentence: $sentence,
        }),*];
    };
    (@ retriable) => { true };
    (@) => { false };
}

codes! {
    UNKNOWN_SERVER_ERROR = -1: "the broker met an error it did not expect; its log says more";
    NONE = 0: "no error";
    OFFSET_OUT_OF_RANGE = 1: "the offset is outside of what the partition holds";
    CORRUPT_MESSAGE = 2, retriable: "the record batch is corrupt: wrong CRC, wrong size, or no key in a compacted topic";
    UNKNOWN_TOPIC_OR_PARTITION = 3, retriable: "the broker does not host this topic or partition, or it does not exist";
    INVALID_FETCH_SIZE = 4: "the fetch size makes no sense";
    LEADER_NOT_AVAILABLE = 5, retriable: "the partition has no leader at the moment";
    NOT_LEADER_OR_FOLLOWER = 6, retriable: "the broker does not lead the partition, or holds no replica of it";
    REQUEST_TIMED_OUT = 7, retriable: "the broker did not finish in the time that was given";
    BROKER_NOT_AVAILABLE = 8: "the broker is not available";
    REPLICA_NOT_AVAILABLE = 9, retriable: "the replica is not available";
    MESSAGE_TOO_LARGE = 10: "a record is larger than the broker accepts";
    STALE_CONTROLLER_EPOCH = 11: "the controller moved to another broker";
    OFFSET_METADATA_TOO_LARGE = 12: "the metadata committed with an offset is too long";
    NETWORK_EXCEPTION = 13, retriable: "the connection broke before the reply came";
    COORDINATOR_LOAD_IN_PROGRESS = 14, retriable: "the coordinator is still loading the group";
    COORDINATOR_NOT_AVAILABLE = 15, retriable: "the coordinator is not available";
    NOT_COORDINATOR = 16, retriable: "this broker does not coordinate the group";
    INVALID_TOPIC_EXCEPTION = 17: "the topic's name is not valid, or the topic may not be used so";
    RECORD_LIST_TOO_LARGE = 18: "the batch is larger than a segment of the log";
    NOT_ENOUGH_REPLICAS = 19, retriable: "fewer replicas are in sync than the topic demands";
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, retriable: "the records were written, but fewer replicas are in sync than the topic demands";
    INVALID_REQUIRED_ACKS = 21: "the number of acknowledgements asked for is not valid";
    ILLEGAL_GENERATION = 22: "the generation is not the group's current one";
    INCONSISTENT_GROUP_PROTOCOL = 23: "the member has no assignor in common with the group";
    INVALID_GROUP_ID = 24: "the group's id is not valid";
    UNKNOWN_MEMBER_ID = 25: "the coordinator does not know this member";
    INVALID_SESSION_TIMEOUT = 26: "the session timeout is outside of what the broker allows (group.min.session.timeout.ms to group.max.session.timeout.ms)";
    REBALANCE_IN_PROGRESS = 27: "the group is rebalancing and its members have to rejoin";
    INVALID_COMMIT_OFFSET_SIZE = 28: "the data committed with an offset is too large";
    TOPIC_AUTHORIZATION_FAILED = 29: "not authorized for the topic";
    GROUP_AUTHORIZATION_FAILED = 30: "not authorized for the group";
    CLUSTER_AUTHORIZATION_FAILED = 31: "not authorized for the cluster";
    INVALID_TIMESTAMP = 32: "the record's timestamp is outside of what the topic accepts";
    UNSUPPORTED_SASL_MECHANISM = 33: "the broker does not offer this SASL mechanism";
    ILLEGAL_SASL_STATE = 34: "the request does not fit where the SASL exchange stands";
    UNSUPPORTED_VERSION = 35: "the broker does not speak this version of the API";
    TOPIC_ALREADY_EXISTS = 36: "a topic of this name exists already";
    INVALID_PARTITIONS = 37: "a topic has at least one partition, and their number never shrinks";
    INVALID_REPLICATION_FACTOR = 38: "the replication factor is below one or above the number of brokers";
    INVALID_REPLICA_ASSIGNMENT = 39: "the assignment of replicas is not valid";
    INVALID_CONFIG = 40: "the configuration is not valid";
    NOT_CONTROLLER = 41, retriable: "this broker is not the controller";
    INVALID_REQUEST = 42: "the broker finds the request malformed; its log says more";
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43: "the log's old message format does not allow the request";
    POLICY_VIOLATION = 44: "the request violates a policy of the cluster";
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45: "the producer's sequence number is out of order";
    DUPLICATE_SEQUENCE_NUMBER = 46: "the producer's sequence number was seen before";
    INVALID_PRODUCER_EPOCH = 47: "the producer's epoch is old";
    INVALID_TXN_STATE = 48: "the transaction's state does not allow the operation";
    INVALID_PRODUCER_ID_MAPPING = 49: "the producer's id does not belong to its transactional id";
    INVALID_TRANSACTION_TIMEOUT = 50: "the transaction's timeout is above what the broker allows (transaction.max.timeout.ms)";
    CONCURRENT_TRANSACTIONS = 51, retriable: "another operation on the same transaction is still going on";
    TRANSACTION_COORDINATOR_FENCED = 52: "the transaction coordinator is no longer the current one";
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53: "not authorized for the transactional id";
    SECURITY_DISABLED = 54: "the cluster has no authorizer, so it has no ACLs";
    OPERATION_NOT_ATTEMPTED = 55: "the broker did not try this part of the request";
    KAFKA_STORAGE_ERROR = 56, retriable: "the broker's disk failed";
    LOG_DIR_NOT_FOUND = 57: "the broker has no such log directory";
    SASL_AUTHENTICATION_FAILED = 58: "the SASL authentication failed";
    UNKNOWN_PRODUCER_ID = 59: "the broker holds nothing about this producer's id";
    REASSIGNMENT_IN_PROGRESS = 60: "the partition's replicas are being reassigned";
    DELEGATION_TOKEN_AUTH_DISABLED = 61: "delegation tokens are not enabled";
    DELEGATION_TOKEN_NOT_FOUND = 62: "the broker does not know the delegation token";
    DELEGATION_TOKEN_OWNER_MISMATCH = 63: "the delegation token belongs to someone else";
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64: "delegation tokens may not be asked for over this connection";
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65: "not authorized for the delegation token";
    DELEGATION_TOKEN_EXPIRED = 66: "the delegation token has expired";
    INVALID_PRINCIPAL_TYPE = 67: "the kind of principal is not supported";
    NON_EMPTY_GROUP = 68: "the group still has members";
    GROUP_ID_NOT_FOUND = 69: "the group does not exist";
    FETCH_SESSION_ID_NOT_FOUND = 70, retriable: "the broker no longer has the fetch session";
    INVALID_FETCH_SESSION_EPOCH = 71, retriable: "the fetch session's epoch is not the one the broker expects";
    LISTENER_NOT_FOUND = 72, retriable: "the leader has no listener like the one that was asked";
    TOPIC_DELETION_DISABLED = 73: "the cluster does not allow topics to be deleted";
    FENCED_LEADER_EPOCH = 74, retriable: "the leader epoch in the request is older than the broker's";
    UNKNOWN_LEADER_EPOCH = 75, retriable: "the leader epoch in the request is newer than the broker's";
    UNSUPPORTED_COMPRESSION_TYPE = 76: "the client cannot read the codec of the partition";
    STALE_BROKER_EPOCH = 77: "the broker was registered anew";
    OFFSET_NOT_AVAILABLE = 78, retriable: "the new leader does not know its high watermark yet";
    MEMBER_ID_REQUIRED = 79: "the member has to join again with the id it was given";
    PREFERRED_LEADER_NOT_AVAILABLE = 80, retriable: "the preferred leader is not available";
    GROUP_MAX_SIZE_REACHED = 81: "the group has as many members as it may have";
    FENCED_INSTANCE_ID = 82: "another member uses the same group.instance.id";
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, retriable: "no replica can become leader";
    ELECTION_NOT_NEEDED = 84, retriable: "the partition needs no election";
    NO_REASSIGNMENT_IN_PROGRESS = 85: "no reassignment is going on";
    GROUP_SUBSCRIBED_TO_TOPIC = 86: "the group still reads the topic";
    INVALID_RECORD = 87: "the broker's check refused the record";
    UNSTABLE_OFFSET_COMMIT = 88, retriable: "the partition has offsets of a transaction that is not finished";
    THROTTLING_QUOTA_EXCEEDED = 89, retriable: "the quota is used up for now";
    PRODUCER_FENCED = 90: "a newer producer took over the transactional id";
    RESOURCE_NOT_FOUND = 91: "the request names a resource that does not exist";
    DUPLICATE_RESOURCE = 92: "the request names a resource twice";
    UNACCEPTABLE_CREDENTIAL = 93: "the credential is not strong enough";
    INCONSISTENT_VOTER_SET = 94: "the voters of the quorum do not agree who they are";
    INVALID_UPDATE_VERSION = 95: "the version of the update is not valid";
    FEATURE_UPDATE_FAILED = 96: "the cluster's features could not be updated";
    PRINCIPAL_DESERIALIZATION_FAILURE = 97: "the controller could not read who sent a forwarded request";
    SNAPSHOT_NOT_FOUND = 98: "the snapshot does not exist";
    POSITION_OUT_OF_RANGE = 99: "the position is outside of the snapshot";
    UNKNOWN_TOPIC_ID = 100, retriable: "the broker does not host a topic of this id";
    DUPLICATE_BROKER_REGISTRATION = 101: "a broker of this id is registered already";
    BROKER_ID_NOT_REGISTERED = 102: "no broker of this id is registered";
    INCONSISTENT_TOPIC_ID = 103, retriable: "the log belongs to another topic id: the topic was deleted and created anew";
    INCONSISTENT_CLUSTER_ID = 104: "the request is meant for another cluster";
    TRANSACTIONAL_ID_NOT_FOUND = 105: "the transactional id does not exist";
    FETCH_SESSION_TOPIC_ID_ERROR = 106, retriable: "the fetch session mixes topics with and without ids";
    INELIGIBLE_REPLICA = 107: "a replica may not be counted as in sync";
    NEW_LEADER_ELECTED = 108: "the partition was changed, and its leader with it";
    OFFSET_MOVED_TO_TIERED_STORAGE = 109: "the offset was moved to tiered storage";
    FENCED_MEMBER_EPOCH = 110: "the member was fenced: it has to give up its partitions and rejoin";
    UNRELEASED_INSTANCE_ID = 111: "another member still uses the same group.instance.id";
    UNSUPPORTED_ASSIGNOR = 112: "the group does not support the assignor";
    STALE_MEMBER_EPOCH = 113: "the member's epoch is old; its next heartbeat tells the new one";
    MISMATCHED_ENDPOINT_TYPE = 114: "the request was sent to a broker where a controller is meant, or the other way round";
    UNSUPPORTED_ENDPOINT_TYPE = 115: "this kind of endpoint is not supported";
    UNKNOWN_CONTROLLER_ID = 116: "the controller's id is not known";
    UNKNOWN_SUBSCRIPTION_ID = 117: "the telemetry subscription is not known or out of date";
    TELEMETRY_TOO_LARGE = 118: "the telemetry is larger than the broker accepts";
    INVALID_REGISTRATION = 119: "the controller refused the broker's registration";
    TRANSACTION_ABORTABLE = 120: "the transaction failed and has to be aborted";
    INVALID_RECORD_STATE = 121: "the record's state does not allow the acknowledgement";
    SHARE_SESSION_NOT_FOUND = 122, retriable: "the broker no longer has the share session";
    INVALID_SHARE_SESSION_EPOCH = 123, retriable: "the share session's epoch is not the one the broker expects";
    FENCED_STATE_EPOCH = 124: "the state's epoch is not the one the coordinator expects";
    INVALID_VOTER_KEY = 125: "the voter's key is not the receiver's";
    DUPLICATE_VOTER = 126: "the voter is among the voters already";
    VOTER_NOT_FOUND = 127: "the voter is not among the voters";
    INVALID_REGULAR_EXPRESSION = 128: "the regular expression is not valid";
    REBOOTSTRAP_REQUIRED = 129: "the client's metadata is out of date: it has to start from its bootstrap brokers";
    STREAMS_INVALID_TOPOLOGY = 130: "the streams topology is not valid";
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131: "the epoch of the streams topology is not valid";
    STREAMS_TOPOLOGY_FENCED = 132: "the epoch of the streams topology is old";
    SHARE_SESSION_LIMIT_REACHED = 133, retriable: "the broker has as many share sessions as it may have";
    GROUP_DELETION_FAILED = 134: "the group was not deleted; the message beside the code says why";
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135: "the topology's description was not updated; the message beside the code says why";
    CONTROLLER_ID_NOT_REGISTERED = 136: "no controller of this id is registered";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_no_gaps_and_begins_at_minus_one() {
        assert_eq!(TABLE.len(), Code::ALL.len());
        for (index, code) in Code::ALL.iter().enumerate() {
            assert_eq!(i32::from(code.0), index as i32 - 1, "{}", code.name());
        }
    }

    #[test]
    fn a_code_says_what_it_is() {
        assert_eq!(
            Code::UNKNOWN_TOPIC_OR_PARTITION.to_string(),
            "UNKNOWN_TOPIC_OR_PARTITION (3): the broker does not host this topic or partition, or it does not exist"
        );
        assert_eq!(Code(-1).name(), "UNKNOWN_SERVER_ERROR");
        assert_eq!(Code(136).name(), "CONTROLLER_ID_NOT_REGISTERED");
        assert!(Code::NOT_COORDINATOR.is_retriable());
        assert!(!Code::TOPIC_AUTHORIZATION_FAILED.is_retriable());
        assert!(Code::NOT_COORDINATOR.is_error());
        assert!(!Code::NONE.is_error());
    }

    #[test]
    fn any_number_can_come_from_the_wire() {
        for number in [i16::MIN, -2, 137, i16::MAX] {
            let code = Code(number);
            assert_eq!(code.name(), format!("UNKNOWN({number})"));
            assert!(code.is_error() && !code.is_retriable());
            assert_eq!(
                code.to_string(),
                format!("UNKNOWN({number}) ({number}): an error that Kafka 4.4 does not have")
            );
        }
    }
}
