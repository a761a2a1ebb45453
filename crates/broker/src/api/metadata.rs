//! Metadata, versions 0 to 13.
//!
//! - Every running node answers for the whole cluster, always up to date. Nodes that are stopped are not named. The
//!   controller is the running node with the lowest id.
//! - A partition without a leader, or whose leader does not run, has LEADER_NOT_AVAILABLE.
//! - A topic that is missing: UNKNOWN_TOPIC_OR_PARTITION, also when it is created by the request
//!   ([`auto_create`](crate::ClusterOptions::auto_create)); by id UNKNOWN_TOPIC_ID; a name that cannot be
//!   INVALID_TOPIC_EXCEPTION. Topics may be asked for by id from version 12 on, before that it closes the connection.
//! - All replicas on running nodes are in sync.
//!
//! Not imitated: internal topics, authorized operations (never given), metadata that is behind on one node (a fault's
//! `rewrite` makes it).

use super::{Asks, Call, Serve, Served};
use crate::fault::Place;
use crate::store::{Partition, Store, Topic, TopicOptions, check_name};
use ottla_wire::Uuid;
use ottla_wire::code::Code;
use ottla_wire::message::metadata_request::MetadataRequestTopic;
use ottla_wire::message::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use ottla_wire::message::{MetadataRequest, MetadataResponse};

impl Asks for MetadataRequest {
    fn has_top_level_error(version: i16) -> bool {
        version >= 13
    }

    fn asks_for(&self, store: &Store, place: &Place) -> bool {
        let Some(topics) = &self.topics else { return true };
        topics.iter().any(|asked| match &asked.name {
            Some(name) => place.has_topic(name),
            None => store.topic_by_id(asked.topic_id).is_some_and(|topic| place.has_topic(&topic.name)),
        })
    }
}

impl Serve for MetadataRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<MetadataResponse> {
        if let Some(code) = call.errors.top() {
            return Served::Reply(MetadataResponse { error_code: code.0, ..Default::default() });
        }
        let topics = match self.asked_for(call.version) {
            None => store.topics().map(|topic| describe(store, call, topic)).collect(),
            Some(asked) if call.version < 12 && !asked.iter().all(is_by_name) => return Served::Hangup,
            Some(asked) => {
                let create = self.allow_auto_topic_creation;
                asked.iter().map(|asked| answer(store, call, asked, create)).collect()
            }
        };
        Served::Reply(MetadataResponse {
            brokers: brokers(store),
            cluster_id: Some(store.cluster_id.clone()),
            controller_id: store.running().next().map_or(-1, |node| node.options.id),
            topics,
            ..Default::default()
        })
    }
}

/// The topics asked for; `None` for all.
trait AskedFor {
    fn asked_for(&self, version: i16) -> Option<&[MetadataRequestTopic]>;
}

impl AskedFor for MetadataRequest {
    fn asked_for(&self, version: i16) -> Option<&[MetadataRequestTopic]> {
        // Version 0 has no null: there none means all.
        self.topics.as_deref().filter(|topics| version > 0 || !topics.is_empty())
    }
}

fn is_by_name(asked: &MetadataRequestTopic) -> bool {
    asked.name.is_some() && asked.topic_id.is_zero()
}

fn answer(
    store: &mut Store,
    call: &Call,
    asked: &MetadataRequestTopic,
    create: bool,
) -> MetadataResponseTopic {
    let found = match &asked.name {
        _ if !asked.topic_id.is_zero() => store.topic_by_id(asked.topic_id),
        Some(name) => store.topic(name),
        None => None,
    };
    if let Some(topic) = found {
        return describe(store, call, topic);
    }
    let code = match &asked.name {
        _ if !asked.topic_id.is_zero() => Code::UNKNOWN_TOPIC_ID,
        Some(name) => missing(store, name, create),
        None => Code::UNKNOWN_TOPIC_ID,
    };
    let name = if asked.topic_id.is_zero() { asked.name.clone() } else { None };
    let code = name.as_deref().and_then(|name| call.errors.at_topic(name)).unwrap_or(code);
    MetadataResponseTopic { error_code: code.0, name, topic_id: asked.topic_id, ..Default::default() }
}

/// What is said of a topic that is not there; it may be made for next time.
fn missing(store: &mut Store, name: &str, create: bool) -> Code {
    if check_name(name).is_err() {
        return Code::INVALID_TOPIC_EXCEPTION;
    }
    let Some(partitions) = store.auto_create.filter(|_| create) else {
        return Code::UNKNOWN_TOPIC_OR_PARTITION;
    };
    let created = store.create_topic(name, TopicOptions::new(partitions));
    created.err().map_or(Code::UNKNOWN_TOPIC_OR_PARTITION, |refused| refused.code)
}

fn describe(store: &Store, call: &Call, topic: &Topic) -> MetadataResponseTopic {
    if let Some(code) = call.errors.at_topic(&topic.name) {
        let name = Some(topic.name.clone());
        return MetadataResponseTopic {
            error_code: code.0,
            name,
            topic_id: Uuid::ZERO,
            ..Default::default()
        };
    }
    let partitions = topic.partitions.iter().zip(0..).map(|(partition, index)| {
        let mut answer = describe_partition(store, partition, index);
        if let Some(code) = call.errors.at(&topic.name, index) {
            answer.error_code = code.0;
        }
        answer
    });
    MetadataResponseTopic {
        name: Some(topic.name.clone()),
        topic_id: topic.id,
        partitions: partitions.collect(),
        ..Default::default()
    }
}

fn describe_partition(store: &Store, partition: &Partition, index: i32) -> MetadataResponsePartition {
    let leader = partition.leader.filter(|&leader| store.is_running(leader));
    let (isr_nodes, offline_replicas) =
        partition.replicas.iter().partition(|&&replica| store.is_running(replica));
    MetadataResponsePartition {
        error_code: leader.map_or(Code::LEADER_NOT_AVAILABLE, |_| Code::NONE).0,
        partition_index: index,
        leader_id: leader.unwrap_or(-1),
        leader_epoch: partition.epoch,
        replica_nodes: partition.replicas.clone(),
        isr_nodes,
        offline_replicas,
    }
}

fn brokers(store: &Store) -> Vec<MetadataResponseBroker> {
    let broker = |node: &crate::store::Node| MetadataResponseBroker {
        node_id: node.options.id,
        host: node.options.host.clone(),
        port: i32::from(node.options.port),
        rack: node.options.rack.clone(),
    };
    store.running().map(broker).collect()
}
