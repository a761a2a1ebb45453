//! OffsetCommit, versions 2 to 10.
//!
//! - By topic name, from version 10 on by topic id. UNKNOWN_TOPIC_OR_PARTITION and UNKNOWN_TOPIC_ID come before all else:
//!   what is left is asked of the coordinator, if anything is.
//! - The coordinator's refusal stands at each partition: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
//!   REBALANCE_IN_PROGRESS while the group waits for its leader. While it waits for its members to join, the old
//!   generation may still commit. A group that is not there: GROUP_ID_NOT_FOUND (from version 9 on) or ILLEGAL_GENERATION.
//! - Without a generation (-1) anybody may commit while the group has no members; it is made if it is not there.
//! - Metadata above 4096 letters: OFFSET_METADATA_TOO_LARGE. Leader epochs are kept from version 6 on.
//! - A commit renews the member's session.
//!
//! Not imitated: retention; offsets never expire. They go with their topic, or with the group.

use super::{Asks, Call, Serve, Served};
use crate::fault::Place;
use crate::groups::CommitView;
use crate::store::Store;
use ottla_wire::code::Code;
use ottla_wire::message::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use ottla_wire::message::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use ottla_wire::message::{OffsetCommitRequest, OffsetCommitResponse};

impl Asks for OffsetCommitRequest {
    fn asks_for(&self, store: &Store, place: &Place) -> bool {
        self.topics.iter().any(|topic| {
            let name = name(store, topic).unwrap_or_default();
            topic.partitions.iter().any(|partition| place.has(&name, partition.partition_index))
        })
    }

    fn asks_for_group(&self, group: &str) -> bool {
        self.group_id == group
    }
}

impl Serve for OffsetCommitRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<OffsetCommitResponse> {
        let by_id = call.version >= 10;
        let mut reply = Answered::default();
        let mut valid = Vec::new();
        for topic in &self.topics {
            let name = name(store, topic);
            for partition in &topic.partitions {
                match check(store, call, name.as_deref(), partition, by_id) {
                    Ok(()) => valid.push((topic, partition)),
                    Err(code) => {
                        note(store, call, &self, name.as_deref(), partition, code);
                        reply.push(topic, partition, code);
                    }
                }
            }
        }
        let refused = if valid.is_empty() { None } else { may_commit(&self, store, call).err() };
        for (topic, partition) in valid {
            let name = name(store, topic);
            let code = refused.or_else(|| check_metadata(partition).err()).unwrap_or(Code::NONE);
            note(store, call, &self, name.as_deref(), partition, code);
            reply.push(topic, partition, code);
        }
        Served::Reply(OffsetCommitResponse { topics: reply.topics, ..Default::default() })
    }
}

/// The topic's name; `None` for an id that is not known.
fn name(store: &Store, topic: &OffsetCommitRequestTopic) -> Option<String> {
    if topic.topic_id.is_zero() {
        return Some(topic.name.clone());
    }
    store.topic_by_id(topic.topic_id).map(|topic| topic.name.clone())
}

fn check(
    store: &Store,
    call: &Call,
    name: Option<&str>,
    partition: &OffsetCommitRequestPartition,
    by_id: bool,
) -> Result<(), Code> {
    let name = name.filter(|name| !by_id || !name.is_empty()).ok_or(Code::UNKNOWN_TOPIC_ID)?;
    let index = partition.partition_index;
    match call.errors.at(name, index) {
        Some(code) => Err(code),
        None if store.partition(name, index).is_none() => Err(Code::UNKNOWN_TOPIC_OR_PARTITION),
        None => Ok(()),
    }
}

/// `offset.metadata.max.bytes`, which Kafka counts in UTF-16.
const MOST_METADATA: usize = 4096;

fn check_metadata(partition: &OffsetCommitRequestPartition) -> Result<(), Code> {
    let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
    match metadata.encode_utf16().count() {
        ..=MOST_METADATA => Ok(()),
        _ => Err(Code::OFFSET_METADATA_TOO_LARGE),
    }
}

fn may_commit(request: &OffsetCommitRequest, store: &mut Store, call: &Call) -> Result<(), Code> {
    let missing = if call.version >= 9 { Code::GROUP_ID_NOT_FOUND } else { Code::ILLEGAL_GENERATION };
    let instance = request.group_instance_id.as_deref();
    let member = (request.member_id.as_str(), instance, request.generation_id_or_member_epoch);
    store.groups.may_commit(call.node, &request.group_id, member, missing)
}

/// Commits, or keeps in mind that it was refused.
fn note(
    store: &mut Store,
    call: &Call,
    request: &OffsetCommitRequest,
    topic: Option<&str>,
    partition: &OffsetCommitRequestPartition,
    refused: Code,
) {
    let commit = CommitView {
        at: call.now,
        member: request.member_id.clone(),
        generation: request.generation_id_or_member_epoch,
        topic: topic.unwrap_or_default().into(),
        partition: partition.partition_index,
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: partition.committed_metadata.clone().unwrap_or_default(),
        refused,
    };
    store.groups.commit(&request.group_id, commit);
}

/// What is answered, a topic's partitions together.
#[derive(Debug, Default)]
struct Answered {
    topics: Vec<OffsetCommitResponseTopic>,
}

impl Answered {
    fn push(
        &mut self,
        topic: &OffsetCommitRequestTopic,
        partition: &OffsetCommitRequestPartition,
        code: Code,
    ) {
        let partition_index = partition.partition_index;
        let partition = OffsetCommitResponsePartition { partition_index, error_code: code.0 };
        let is_it = |known: &&mut OffsetCommitResponseTopic| {
            known.name == topic.name && known.topic_id == topic.topic_id
        };
        match self.topics.iter_mut().find(is_it) {
            Some(known) => known.partitions.push(partition),
            None => self.topics.push(OffsetCommitResponseTopic {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partitions: vec![partition],
            }),
        }
    }
}
