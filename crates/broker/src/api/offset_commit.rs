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
        let checked: Vec<_> = self.topics.iter().map(|topic| check(store, call, topic)).collect();
        let is_any_valid = checked.iter().flatten().any(Result::is_ok);
        let allowed = if is_any_valid { may_commit(&self, store, call) } else { Ok(()) };
        let (mut failed, mut done) = (Vec::new(), Vec::new());
        for (topic, checked) in self.topics.iter().zip(checked) {
            let name = name(store, topic).unwrap_or_default();
            let (mut topic_failed, mut topic_done) = (answer_of(topic), answer_of(topic));
            for (partition, checked) in topic.partitions.iter().zip(checked) {
                let committed = checked.and(allowed).and_then(|()| check_metadata(partition));
                note(store, call, &self, &name, partition, committed);
                let answer = if checked.is_ok() { &mut topic_done } else { &mut topic_failed };
                answer.partitions.push(OffsetCommitResponsePartition {
                    partition_index: partition.partition_index,
                    error_code: super::code(&committed),
                });
            }
            failed.push(topic_failed);
            done.push(topic_done);
        }
        Served::Reply(OffsetCommitResponse { topics: together(failed, done), ..Default::default() })
    }
}

/// Which of a topic's partitions are to be asked of the coordinator.
fn check(store: &Store, call: &Call, topic: &OffsetCommitRequestTopic) -> Vec<Result<(), Code>> {
    let found = name(store, topic).filter(|name| call.version < 10 || !name.is_empty());
    let check = |partition: &OffsetCommitRequestPartition| {
        let name = found.as_deref().ok_or(Code::UNKNOWN_TOPIC_ID)?;
        let index = partition.partition_index;
        match call.errors.at(name, index) {
            Some(code) => Err(code),
            None if store.partition(name, index).is_none() => Err(Code::UNKNOWN_TOPIC_OR_PARTITION),
            None => Ok(()),
        }
    };
    topic.partitions.iter().map(check).collect()
}

/// The topic's name; `None` for an id that is not known.
fn name(store: &Store, topic: &OffsetCommitRequestTopic) -> Option<String> {
    if topic.topic_id.is_zero() {
        return Some(topic.name.clone());
    }
    store.topic_by_id(topic.topic_id).map(|topic| topic.name.clone())
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
    topic: &str,
    partition: &OffsetCommitRequestPartition,
    committed: Result<(), Code>,
) {
    let commit = CommitView {
        at: call.now,
        member: request.member_id.clone(),
        generation: request.generation_id_or_member_epoch,
        topic: topic.into(),
        partition: partition.partition_index,
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: partition.committed_metadata.clone().unwrap_or_default(),
        refused: committed.err().unwrap_or(Code::NONE),
    };
    store.groups.commit(&request.group_id, commit);
}

fn answer_of(topic: &OffsetCommitRequestTopic) -> OffsetCommitResponseTopic {
    OffsetCommitResponseTopic { name: topic.name.clone(), topic_id: topic.topic_id, partitions: Vec::new() }
}

/// What failed before the coordinator was asked comes first; then each topic is answered once, even if it was named twice.
fn together(
    failed: Vec<OffsetCommitResponseTopic>,
    done: Vec<OffsetCommitResponseTopic>,
) -> Vec<OffsetCommitResponseTopic> {
    let are_none = failed.iter().all(|topic| topic.partitions.is_empty());
    let mut topics: Vec<OffsetCommitResponseTopic> = Vec::new();
    for topic in failed.into_iter().chain(done).filter(|topic| !topic.partitions.is_empty()) {
        let is_it = |known: &&mut OffsetCommitResponseTopic| {
            !are_none && known.name == topic.name && known.topic_id == topic.topic_id
        };
        match topics.iter_mut().find(is_it) {
            Some(known) => known.partitions.extend(topic.partitions),
            None => topics.push(topic),
        }
    }
    topics
}
