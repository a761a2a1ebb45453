//! Questions to brokers and their answers: what the machine hands out and takes back.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use ottla_wire::{
    DecodeError, EncodeError, Uuid,
    api::ApiVersions,
    frame,
    message::{
        FetchRequest, FetchResponse, FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest,
        HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
        ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse, OffsetCommitRequest,
        OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse, Request as Speaks, SyncGroupRequest, SyncGroupResponse,
        fetch_request::{FetchPartition, FetchTopic},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
    },
};

use crate::{
    cluster::{Lane, Peer},
    fetch::reply::FetchReply,
};

/// Something to ask a broker.
#[derive(Debug)]
pub struct Request {
    /// Names the answer.
    pub id: u64,
    /// Whom to ask.
    pub peer: Peer,
    /// By which connection.
    pub lane: Lane,
    /// What to ask.
    pub body: Body,
}

/// What to ask.
#[derive(Debug)]
pub enum Body {
    /// Where the brokers, topics and leaders are.
    Metadata(MetadataRequest),
    /// Offsets by time, and the ends of the log.
    ListOffsets(ListOffsetsRequest),
    /// Where a leader epoch ended (KIP-320).
    LeaderEpochs(OffsetForLeaderEpochRequest),
    /// Records.
    Fetch(FetchAsk),
    /// Who coordinates this group.
    FindCoordinator(Arc<str>),
    /// To be taken into a group; the coordinator may wait so long for the other members.
    Join(JoinGroupRequest, Duration),
    /// What we are assigned; the coordinator may wait so long for the leader.
    Sync(SyncGroupRequest, Duration),
    /// That we are here; an answer that takes longer is taken for lost.
    Heartbeat(HeartbeatRequest, Duration),
    /// Committed offsets.
    Recall(RecallAsk),
    /// Offsets to commit.
    Commit(CommitAsk),
    /// That we go.
    Leave(LeaveGroupRequest),
}

/// A question for committed offsets, before it is known how the broker wants it asked.
#[derive(Debug)]
pub struct RecallAsk {
    pub(crate) group: Arc<str>,
    pub(crate) require_stable: bool,
    pub(crate) topics: Vec<(String, Vec<i32>)>,
}

/// Offsets to commit.
#[derive(Debug)]
pub struct CommitAsk {
    pub(crate) request: OffsetCommitRequest,
    /// How long they are to be kept; said only by versions that old brokers speak, too.
    pub(crate) retention: Option<Duration>,
}

/// A fetch, before it is known whether the broker names topics by id.
#[derive(Debug)]
pub struct FetchAsk {
    pub(crate) max_wait: Duration,
    pub(crate) min_bytes: i32,
    pub(crate) max_bytes: i32,
    pub(crate) topics: Vec<FetchAskTopic>,
}

/// A topic of a fetch.
#[derive(Debug)]
pub(crate) struct FetchAskTopic {
    pub(crate) name: Arc<str>,
    pub(crate) id: Uuid,
    pub(crate) partitions: Vec<FetchPartition>,
}

/// What is needed to read the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    kind: Kind,
    version: i16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Metadata,
    ListOffsets,
    LeaderEpochs,
    Fetch,
    FindCoordinator,
    Join,
    Sync,
    Heartbeat,
    Recall,
    Commit,
    Leave,
}

/// An answer.
#[derive(Debug)]
pub enum Reply {
    /// To [`Body::Metadata`].
    Metadata(MetadataResponse),
    /// To [`Body::ListOffsets`].
    ListOffsets(ListOffsetsResponse),
    /// To [`Body::LeaderEpochs`].
    LeaderEpochs(OffsetForLeaderEpochResponse),
    /// To [`Body::Fetch`].
    Fetch(FetchReply),
    /// To [`Body::FindCoordinator`].
    Coordinator(FindCoordinatorResponse),
    /// To [`Body::Join`].
    Join(JoinGroupResponse, KnowsInstances),
    /// To [`Body::Sync`].
    Sync(SyncGroupResponse),
    /// To [`Body::Heartbeat`].
    Heartbeat(HeartbeatResponse),
    /// To [`Body::Recall`].
    Recall(OffsetFetchResponse),
    /// To [`Body::Commit`].
    Commit(OffsetCommitResponse),
    /// To [`Body::Leave`].
    Leave(LeaveGroupResponse),
}

impl Reply {
    /// How long the broker wants to hear nothing more on the connection of this answer.
    pub(crate) fn throttle_ms(&mut self) -> &mut i32 {
        match self {
            Self::Metadata(reply) => &mut reply.throttle_time_ms,
            Self::ListOffsets(reply) => &mut reply.throttle_time_ms,
            Self::LeaderEpochs(reply) => &mut reply.throttle_time_ms,
            Self::Fetch(reply) => &mut reply.throttle_ms,
            Self::Coordinator(reply) => &mut reply.throttle_time_ms,
            Self::Join(reply, _) => &mut reply.throttle_time_ms,
            Self::Sync(reply) => &mut reply.throttle_time_ms,
            Self::Heartbeat(reply) => &mut reply.throttle_time_ms,
            Self::Recall(reply) => &mut reply.throttle_time_ms,
            Self::Commit(reply) => &mut reply.throttle_time_ms,
            Self::Leave(reply) => &mut reply.throttle_time_ms,
        }
    }
}

/// Whether the coordinator was told of our instance id (KIP-345); one of before Kafka 2.3 takes every member for a dynamic
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnowsInstances(pub(crate) bool);

/// Why a request could not be written.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The broker and we share no version of this API.
    #[error(
        "the broker speaks {api} in versions {theirs}, we in {ours}; this needs a broker of Kafka 0.11 or later"
    )]
    Versions {
        /// The API's name.
        api: &'static str,
        /// What the broker speaks.
        theirs: String,
        /// What we speak.
        ours: String,
    },
    /// The broker does not speak this API at all.
    #[error("the broker does not speak {api}{}", controller(.api))]
    Absent {
        /// The API's name.
        api: &'static str,
    },
    /// The request does not fit the version.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Every broker speaks these; a controller of KRaft does not.
fn controller(api: &str) -> &'static str {
    if matches!(api, "Metadata" | "FindCoordinator") {
        ": is this the port of a KRaft controller, not of a broker?"
    } else {
        ""
    }
}

/// The first Fetch version that names topics by id only.
const FETCH_BY_ID: i16 = 13;

/// The last versions of OffsetCommit and OffsetFetch that name topics by name.
const OFFSETS_BY_NAME: i16 = 9;

/// Any broker can say who coordinates a group: one that takes longer is passed over.
const FIND_PATIENCE: Duration = Duration::from_secs(3);

/// The last OffsetCommit version that says how long offsets are kept.
const RETENTION: i16 = 4;

/// The first versions of JoinGroup and OffsetCommit that carry an instance id.
const JOIN_INSTANCE: i16 = 5;
const COMMIT_INSTANCE: i16 = 7;

impl Body {
    /// The request as a frame, in the highest version that both ends speak.
    ///
    /// # Errors
    ///
    /// [`AskError::Versions`] if there is none.
    pub fn encode(
        &self,
        versions: &ApiVersions,
        correlation: i32,
        client_id: &str,
    ) -> Result<(Vec<u8>, Asked), AskError> {
        let pen = Pen { versions, correlation, client_id };
        match self {
            Self::Metadata(body) => pen.write(body, Kind::Metadata, i16::MAX),
            Self::ListOffsets(body) => pen.write(body, Kind::ListOffsets, i16::MAX),
            Self::LeaderEpochs(body) => pen.write(body, Kind::LeaderEpochs, i16::MAX),
            Self::Fetch(ask) => {
                // A zero id names nothing: without all ids we must speak names.
                let by_name = ask.topics.iter().any(|t| t.id.is_zero());
                let cap = if by_name { FETCH_BY_ID - 1 } else { i16::MAX };
                pen.write(&ask.request(), Kind::Fetch, cap)
            }
            Self::FindCoordinator(group) => {
                pen.write_as(|version| find(group, version), Kind::FindCoordinator, i16::MAX)
            }
            Self::Join(body, _) => pen.write_as(|version| join(body, version), Kind::Join, i16::MAX),
            Self::Sync(body, _) => pen.write_as(|version| sync(body, version), Kind::Sync, i16::MAX),
            Self::Heartbeat(body, _) => {
                pen.write_as(|version| heartbeat(body, version), Kind::Heartbeat, i16::MAX)
            }
            Self::Recall(ask) => pen.write_as(|version| ask.request(version), Kind::Recall, OFFSETS_BY_NAME),
            Self::Commit(ask) => {
                let cap = if ask.retention.is_some() { RETENTION } else { OFFSETS_BY_NAME };
                pen.write_as(|version| ask.request(version), Kind::Commit, cap)
            }
            Self::Leave(body) => pen.write_as(|version| leave(body, version), Kind::Leave, i16::MAX),
        }
    }

    /// How long the broker may hold the request before it must answer.
    pub fn broker_wait(&self) -> Duration {
        match self {
            Self::Fetch(ask) => ask.max_wait,
            Self::Join(_, wait) | Self::Sync(_, wait) => *wait,
            _ => Duration::ZERO,
        }
    }

    /// How long an answer is worth waiting for, if not as long as any other.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match self {
            Self::Heartbeat(_, patience) => Some(*patience),
            Self::FindCoordinator(_) => Some(FIND_PATIENCE),
            _ => None,
        }
    }
}

/// What a request is written for.
#[derive(Clone, Copy)]
struct Pen<'a> {
    versions: &'a ApiVersions,
    correlation: i32,
    client_id: &'a str,
}

impl Pen<'_> {
    fn write<R: Speaks>(self, body: &R, kind: Kind, cap: i16) -> Result<(Vec<u8>, Asked), AskError> {
        let version = self.version::<R>(cap)?;
        self.write_in(body, kind, version)
    }

    /// Writes what is said differently in different versions.
    fn write_as<R: Speaks>(
        self,
        body: impl FnOnce(i16) -> R,
        kind: Kind,
        cap: i16,
    ) -> Result<(Vec<u8>, Asked), AskError> {
        let version = self.version::<R>(cap)?;
        self.write_in(&body(version), kind, version)
    }

    fn version<R: Speaks>(self, cap: i16) -> Result<i16, AskError> {
        self.versions.pick_at_most::<R>(cap).ok_or_else(|| AskError::no_version::<R>(self.versions, cap))
    }

    fn write_in<R: Speaks>(self, body: &R, kind: Kind, version: i16) -> Result<(Vec<u8>, Asked), AskError> {
        let frame = frame::encode_request(body, version, self.correlation, self.client_id)?;
        Ok((frame, Asked { kind, version }))
    }
}

impl AskError {
    /// The broker speaks these versions, and none of ours up to `cap`.
    pub fn no_version<R: Speaks>(versions: &ApiVersions, cap: i16) -> Self {
        let api = R::KEY.name();
        match versions.range(R::KEY) {
            None => Self::Absent { api },
            Some((low, high)) => Self::Versions {
                api,
                theirs: format!("{low} to {high}"),
                ours: format!("{} to {}", R::VERSIONS.start(), (*R::VERSIONS.end()).min(cap)),
            },
        }
    }
}

/// Several keys at once from version 4 on.
fn find(group: &str, version: i16) -> FindCoordinatorRequest {
    match version {
        ..4 => FindCoordinatorRequest { key: group.to_owned(), ..FindCoordinatorRequest::default() },
        _ => FindCoordinatorRequest {
            coordinator_keys: vec![group.to_owned()],
            ..FindCoordinatorRequest::default()
        },
    }
}

/// An instance id from version 5 on; a broker that does not know it has a dynamic member instead.
fn join(body: &JoinGroupRequest, version: i16) -> JoinGroupRequest {
    let mut body = body.clone();
    body.group_instance_id = body.group_instance_id.filter(|_| version >= JOIN_INSTANCE);
    body
}

/// An instance id from version 3 on.
fn sync(body: &SyncGroupRequest, version: i16) -> SyncGroupRequest {
    let mut body = body.clone();
    body.group_instance_id = body.group_instance_id.filter(|_| version >= 3);
    body
}

/// An instance id from version 3 on.
fn heartbeat(body: &HeartbeatRequest, version: i16) -> HeartbeatRequest {
    let mut body = body.clone();
    body.group_instance_id = body.group_instance_id.filter(|_| version >= 3);
    body
}

/// Several members at once from version 3 on.
fn leave(body: &LeaveGroupRequest, version: i16) -> LeaveGroupRequest {
    match (version, body.members.first()) {
        (..3, Some(member)) => LeaveGroupRequest {
            group_id: body.group_id.clone(),
            member_id: member.member_id.clone(),
            ..LeaveGroupRequest::default()
        },
        _ => body.clone(),
    }
}

impl RecallAsk {
    /// Several groups at once from version 8 on.
    fn request(&self, version: i16) -> OffsetFetchRequest {
        let require_stable = version >= 7 && self.require_stable;
        if version >= 8 {
            let topic = |(name, partitions): &(String, Vec<i32>)| OffsetFetchRequestTopics {
                name: name.clone(),
                partition_indexes: partitions.clone(),
                ..OffsetFetchRequestTopics::default()
            };
            let group = OffsetFetchRequestGroup {
                group_id: self.group.to_string(),
                topics: Some(self.topics.iter().map(topic).collect()),
                ..OffsetFetchRequestGroup::default()
            };
            return OffsetFetchRequest {
                groups: vec![group],
                require_stable,
                ..OffsetFetchRequest::default()
            };
        }
        let topic = |(name, partitions): &(String, Vec<i32>)| OffsetFetchRequestTopic {
            name: name.clone(),
            partition_indexes: partitions.clone(),
            ..OffsetFetchRequestTopic::default()
        };
        OffsetFetchRequest {
            group_id: self.group.to_string(),
            topics: Some(self.topics.iter().map(topic).collect()),
            require_stable,
            ..OffsetFetchRequest::default()
        }
    }
}

impl CommitAsk {
    fn request(&self, version: i16) -> OffsetCommitRequest {
        let mut request = self.request.clone();
        request.group_instance_id = request.group_instance_id.filter(|_| version >= COMMIT_INSTANCE);
        if let Some(retention) = self.retention.filter(|_| version <= RETENTION) {
            request.retention_time_ms = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        }
        request
    }
}

impl FetchAsk {
    fn request(&self) -> FetchRequest {
        FetchRequest {
            max_wait_ms: i32::try_from(self.max_wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes: self.min_bytes,
            max_bytes: self.max_bytes,
            // Sessions (KIP-227) come later; 0 and -1 ask for none.
            session_id: 0,
            session_epoch: -1,
            topics: self.topics.iter().map(FetchAskTopic::request).collect(),
            ..FetchRequest::default()
        }
    }
}

impl FetchAskTopic {
    fn request(&self) -> FetchTopic {
        FetchTopic {
            topic: self.name.to_string(),
            topic_id: self.id,
            partitions: self.partitions.clone(),
            ..FetchTopic::default()
        }
    }
}

impl Asked {
    /// Reads the answer; for a fetch this finds where batches begin and end, without decoding them.
    ///
    /// # Errors
    ///
    /// What the broker sent that the version does not allow.
    pub fn decode(self, frame: Bytes) -> Result<Reply, DecodeError> {
        let mut reply = self.decode_as_it_is(frame)?;
        if !self.throttles() {
            *reply.throttle_ms() = 0;
        }
        Ok(reply)
    }

    fn decode_as_it_is(self, frame: Bytes) -> Result<Reply, DecodeError> {
        Ok(match self.kind {
            Kind::Metadata => Reply::Metadata(self.read::<MetadataRequest>(frame)?),
            Kind::ListOffsets => Reply::ListOffsets(self.read::<ListOffsetsRequest>(frame)?),
            Kind::LeaderEpochs => Reply::LeaderEpochs(self.read::<OffsetForLeaderEpochRequest>(frame)?),
            Kind::Fetch => {
                let bytes = frame.len();
                let response: FetchResponse = self.read::<FetchRequest>(frame)?;
                Reply::Fetch(FetchReply::outline(response, bytes))
            }
            Kind::FindCoordinator => Reply::Coordinator(self.read::<FindCoordinatorRequest>(frame)?),
            Kind::Join => {
                let knows = KnowsInstances(self.version >= JOIN_INSTANCE);
                Reply::Join(self.read::<JoinGroupRequest>(frame)?, knows)
            }
            Kind::Sync => Reply::Sync(self.read::<SyncGroupRequest>(frame)?),
            Kind::Heartbeat => Reply::Heartbeat(self.read::<HeartbeatRequest>(frame)?),
            Kind::Recall => Reply::Recall(self.read::<OffsetFetchRequest>(frame)?),
            Kind::Commit => Reply::Commit(self.read::<OffsetCommitRequest>(frame)?),
            Kind::Leave => Reply::Leave(self.read::<LeaveGroupRequest>(frame)?),
        })
    }

    /// Whether the broker answers at once and wants silence after (KIP-219). One of before waits first, and says then how long
    /// it has.
    fn throttles(self) -> bool {
        let since = match self.kind {
            Kind::Fetch => 8,
            Kind::Metadata => 6,
            Kind::Recall | Kind::Commit => 4,
            Kind::ListOffsets | Kind::Join => 3,
            Kind::LeaderEpochs | Kind::FindCoordinator | Kind::Sync | Kind::Heartbeat | Kind::Leave => 2,
        };
        self.version >= since
    }

    fn read<R: Speaks>(self, frame: Bytes) -> Result<R::Response, DecodeError> {
        Ok(frame::decode_response::<R>(frame, self.version)?.1)
    }
}
