//! One file an API. Each says which versions it speaks, how it behaves, and what it does not imitate.

pub(crate) mod api_versions;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_groups;
pub(crate) mod fetch;
mod find_coordinator;
mod heartbeat;
mod init_producer_id;
pub(crate) mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod sync_group;

use crate::ConnectionId;
use crate::fault::{Errors, Place};
use crate::store::{Partition, Store};
use ottla_wire::api::ApiKey;
use ottla_wire::code::Code;
use ottla_wire::message::{
    ApiVersionsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest,
    DeleteRecordsRequest, DeleteTopicsRequest, DescribeGroupsRequest, FetchRequest, FindCoordinatorRequest,
    HeartbeatRequest, InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest,
    ListOffsetsRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest,
    OffsetForLeaderEpochRequest, ProduceRequest, Request, SyncGroupRequest,
};
use std::time::Instant;

/// The APIs that are spoken, by number, with their versions.
pub(crate) const SPOKEN: [(ApiKey, (i16, i16)); 21] = [
    all_versions::<ProduceRequest>(),
    all_versions::<FetchRequest>(),
    all_versions::<ListOffsetsRequest>(),
    all_versions::<MetadataRequest>(),
    all_versions::<OffsetCommitRequest>(),
    all_versions::<OffsetFetchRequest>(),
    all_versions::<FindCoordinatorRequest>(),
    all_versions::<JoinGroupRequest>(),
    all_versions::<HeartbeatRequest>(),
    all_versions::<LeaveGroupRequest>(),
    all_versions::<SyncGroupRequest>(),
    all_versions::<DescribeGroupsRequest>(),
    all_versions::<ListGroupsRequest>(),
    all_versions::<ApiVersionsRequest>(),
    all_versions::<CreateTopicsRequest>(),
    all_versions::<DeleteTopicsRequest>(),
    all_versions::<DeleteRecordsRequest>(),
    all_versions::<InitProducerIdRequest>(),
    all_versions::<OffsetForLeaderEpochRequest>(),
    all_versions::<CreatePartitionsRequest>(),
    all_versions::<DeleteGroupsRequest>(),
];

/// The versions of `api` that the cluster speaks.
pub(crate) fn versions(store: &Store, api: ApiKey) -> Option<(i16, i16)> {
    let (_, possible) = SPOKEN.iter().find(|(spoken, _)| *spoken == api)?;
    store.versions(api, *possible)
}

/// A request that is spoken.
pub(crate) trait Asks: Request {
    /// Whether a reply of this version can say that the request failed as a whole.
    fn has_top_level_error(_version: i16) -> bool {
        false
    }

    /// Whether the request is about a topic or partition of this place.
    fn asks_for(&self, _store: &Store, _place: &Place) -> bool {
        false
    }

    /// Whether the request is about this group.
    fn asks_for_group(&self, _group: &str) -> bool {
        false
    }
}

/// A request that is answered by a group's coordinator when it is time, see [`Answer`](crate::groups::Answer).
pub(crate) trait Wait: Asks {
    /// Does what was asked. An answer comes later, or waits already.
    fn begin(self, store: &mut Store, call: &Call);
}

/// A request that is answered at once. (Fetch is not, see [`fetch::Fetch`].)
pub(crate) trait Serve: Asks {
    /// Does what was asked.
    fn serve(self, store: &mut Store, call: &Call) -> Served<Self::Response>;
}

/// What stands around a request.
#[derive(Debug)]
pub(crate) struct Call {
    /// The node asked.
    pub(crate) node: i32,
    /// The connection it came by.
    pub(crate) connection: ConnectionId,
    /// What the client calls itself.
    pub(crate) client_id: Option<String>,
    /// The version of the request.
    pub(crate) version: i16,
    /// When it is.
    pub(crate) now: Instant,
    /// The broker's time, in ms.
    pub(crate) wall_ms: i64,
    /// What it is to fail with.
    pub(crate) errors: Errors,
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Served<T> {
    Reply(T),
    /// The client wants no reply.
    Nothing,
    /// The connection closes.
    Hangup,
}

const fn all_versions<R: Request>() -> (ApiKey, (i16, i16)) {
    (R::KEY, (*R::VERSIONS.start(), *R::VERSIONS.end()))
}

/// The code to put into a reply.
fn code<T>(result: &Result<T, Code>) -> i16 {
    result.as_ref().err().copied().unwrap_or(Code::NONE).0
}

/// Who leads a partition, as replies with a NOT_LEADER error hint at it: node (-1 for none) and epoch.
fn leader_hint(partition: Option<&Partition>) -> (i32, i32) {
    partition.map_or((-1, -1), |partition| (partition.leader.unwrap_or(-1), partition.epoch))
}
