//! OffsetFetch, versions 1 to 10.
//!
//! - Offset -1, leader epoch -1 and no metadata where nothing was committed, also for groups, topics and partitions that
//!   do not exist; by topic id (from version 10 on) UNKNOWN_TOPIC_ID for a topic that does not.
//! - All topics from version 2 on, several groups from version 8 on. An error of a group stands there, or in the whole
//!   reply (2 to 7), or in every partition (1).
//! - UNSTABLE_OFFSET_COMMIT where [`set_unstable`](crate::Cluster::set_unstable) said so, if the request wants only stable
//!   offsets (from version 7 on, KIP-447).
//!
//! Not imitated: transactions; waiting until an offset is stable; members of KIP-848 (the member's epoch is not looked at).

use super::{Asks, Call, Serve, Served};
use crate::fault::Place;
use crate::groups::Offsets;
use crate::store::Store;
use ottla_wire::Uuid;
use ottla_wire::code::Code;
use ottla_wire::message::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use ottla_wire::message::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use ottla_wire::message::{OffsetFetchRequest, OffsetFetchResponse};

impl Asks for OffsetFetchRequest {
    fn has_top_level_error(version: i16) -> bool {
        version >= 2
    }

    fn asks_for(&self, store: &Store, place: &Place) -> bool {
        let by_name = |name: &str, indexes: &[i32]| indexes.iter().any(|index| place.has(name, *index));
        let several = self.groups.iter().any(|group| {
            group.topics.as_ref().is_none_or(|topics| {
                let name = |topic: &OffsetFetchRequestTopics| name(store, topic).unwrap_or_default();
                topics.iter().any(|topic| by_name(&name(topic), &topic.partition_indexes))
            })
        });
        let is_all = self.topics.is_none();
        let mut topics = self.topics.iter().flatten();
        several || is_all || topics.any(|topic| by_name(&topic.name, &topic.partition_indexes))
    }

    fn asks_for_group(&self, group: &str) -> bool {
        self.group_id == group || self.groups.iter().any(|asked| asked.group_id == group)
    }
}

impl Serve for OffsetFetchRequest {
    fn serve(mut self, store: &mut Store, call: &Call) -> Served<OffsetFetchResponse> {
        let asked = Asked { store, call, require_stable: self.require_stable };
        if call.version >= 8 {
            let groups = self.groups.iter().map(|group| asked.answer(group)).collect();
            return Served::Reply(OffsetFetchResponse { groups, ..Default::default() });
        }
        let several = |topic: OffsetFetchRequestTopic| OffsetFetchRequestTopics {
            name: topic.name,
            partition_indexes: topic.partition_indexes,
            ..Default::default()
        };
        let group = OffsetFetchRequestGroup {
            group_id: std::mem::take(&mut self.group_id),
            topics: self.topics.map(|topics| topics.into_iter().map(several).collect()),
            ..Default::default()
        };
        Served::Reply(the_only(asked.answer(&group), &group, call.version))
    }
}

/// What stands around each group asked for.
struct Asked<'a> {
    store: &'a Store,
    call: &'a Call,
    require_stable: bool,
}

impl Asked<'_> {
    fn answer(&self, asked: &OffsetFetchRequestGroup) -> OffsetFetchResponseGroup {
        let group_id = asked.group_id.clone();
        let checked = match self.call.errors.top_of_group(&group_id) {
            Some(code) => Err(code),
            None => self.store.groups.check(self.call.node, &group_id),
        };
        if let Err(code) = checked {
            return OffsetFetchResponseGroup { group_id, error_code: code.0, ..Default::default() };
        }
        let nothing = Offsets::default();
        let offsets = self.store.groups.get(&group_id).map_or(&nothing, |group| &group.offsets);
        let topics = match &asked.topics {
            Some(topics) => topics.iter().map(|topic| self.named(&group_id, offsets, topic)).collect(),
            None => self.all(&group_id, offsets),
        };
        OffsetFetchResponseGroup { group_id, topics, ..Default::default() }
    }

    fn named(
        &self,
        group: &str,
        offsets: &Offsets,
        topic: &OffsetFetchRequestTopics,
    ) -> OffsetFetchResponseTopics {
        let found = name(self.store, topic).filter(|name| self.call.version < 10 || !name.is_empty());
        let partition = |index: &i32| match &found {
            Some(name) => self.partition(group, offsets, name, *index),
            None => failed(*index, Code::UNKNOWN_TOPIC_ID),
        };
        OffsetFetchResponseTopics {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: topic.partition_indexes.iter().map(partition).collect(),
        }
    }

    fn all(&self, group: &str, offsets: &Offsets) -> Vec<OffsetFetchResponseTopics> {
        let topics = offsets.topics().map(|(name, partitions)| OffsetFetchResponseTopics {
            name: if self.call.version < 10 { name.into() } else { String::new() },
            topic_id: if self.call.version < 10 { Uuid::ZERO } else { self.id(name) },
            partitions: partitions.keys().map(|at| self.partition(group, offsets, name, *at)).collect(),
        });
        topics.filter(|topic| self.call.version < 10 || !topic.topic_id.is_zero()).collect()
    }

    fn id(&self, topic: &str) -> Uuid {
        self.store.topic(topic).map_or(Uuid::ZERO, |topic| topic.id)
    }

    fn partition(
        &self,
        group: &str,
        offsets: &Offsets,
        topic: &str,
        index: i32,
    ) -> OffsetFetchResponsePartitions {
        if let Some(code) = self.call.errors.at_in_group(group, topic, index) {
            return failed(index, code);
        }
        if self.require_stable && offsets.is_unstable(topic, index) {
            return failed(index, Code::UNSTABLE_OFFSET_COMMIT);
        }
        let Some(committed) = offsets.get(topic, index) else { return failed(index, Code::NONE) };
        OffsetFetchResponsePartitions {
            partition_index: index,
            committed_offset: committed.offset,
            committed_leader_epoch: committed.leader_epoch,
            metadata: Some(committed.metadata.clone()),
            error_code: 0,
        }
    }
}

fn name(store: &Store, topic: &OffsetFetchRequestTopics) -> Option<String> {
    if topic.topic_id.is_zero() {
        return Some(topic.name.clone());
    }
    store.topic_by_id(topic.topic_id).map(|topic| topic.name.clone())
}

fn failed(partition_index: i32, code: Code) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        error_code: code.0,
        ..Default::default()
    }
}

/// The reply before there were several groups in one.
fn the_only(
    group: OffsetFetchResponseGroup,
    asked: &OffsetFetchRequestGroup,
    version: i16,
) -> OffsetFetchResponse {
    let code = Code(group.error_code);
    let topics = if version < 2 && code.is_error() { everywhere(asked, code) } else { group.topics };
    let error_code = if version < 2 { 0 } else { code.0 };
    let topics = topics.into_iter().map(|topic| one_of_few(topic, version)).collect();
    OffsetFetchResponse { topics, error_code, ..Default::default() }
}

fn everywhere(asked: &OffsetFetchRequestGroup, code: Code) -> Vec<OffsetFetchResponseTopics> {
    let topic = |topic: &OffsetFetchRequestTopics| OffsetFetchResponseTopics {
        name: topic.name.clone(),
        partitions: topic.partition_indexes.iter().map(|index| failed(*index, code)).collect(),
        ..Default::default()
    };
    asked.topics.iter().flatten().map(topic).collect()
}

fn one_of_few(topic: OffsetFetchResponseTopics, version: i16) -> OffsetFetchResponseTopic {
    let partition = |partition: OffsetFetchResponsePartitions| OffsetFetchResponsePartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: if version >= 5 { partition.committed_leader_epoch } else { -1 },
        metadata: partition.metadata,
        error_code: partition.error_code,
    };
    OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic.partitions.into_iter().map(partition).collect(),
    }
}
