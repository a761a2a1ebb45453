//! Topics: made, grown, described, removed.

use crate::client::Kafka;
use crate::setup::Topic;
use crate::{BROKER, MISSING, MISSING_ID};
use ottla_wire::Uuid;
use ottla_wire::code::Code;
use ottla_wire::message::create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic};
use ottla_wire::message::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use ottla_wire::message::delete_topics_request::DeleteTopicState;
use ottla_wire::message::metadata_request::MetadataRequestTopic;
use ottla_wire::message::*;

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_makes_topics() {
    let mut kafka = Kafka::of(BROKER);
    let there = Topic::new(&mut kafka, "golden-there", 1, &[]);
    for version in kafka.versions::<CreateTopicsRequest>() {
        let reply = kafka.ask("topic", &create(vec![assigned()], true), version);
        assert_eq!(reply.topics[0].error_code, 0, "{reply:?}");
        let reply = kafka.ask("topic-refused", &create(refused(&there.name), false), version);
        let codes: Vec<_> = reply.topics.iter().map(|topic| Code(topic.error_code)).collect();
        let mut wanted =
            vec![Code::TOPIC_ALREADY_EXISTS, Code::INVALID_TOPIC_EXCEPTION, Code::INVALID_REPLICATION_FACTOR];
        wanted.retain(|code| !codes.contains(code));
        assert_eq!(wanted, [], "{reply:?}");
    }
    there.remove(&mut kafka);
}

fn create(topics: Vec<CreatableTopic>, validate_only: bool) -> CreateTopicsRequest {
    CreateTopicsRequest { topics, timeout_ms: 30_000, validate_only }
}

fn assigned() -> CreatableTopic {
    let on_one = |partition_index| CreatableReplicaAssignment { partition_index, broker_ids: vec![1] };
    CreatableTopic {
        name: "golden-assigned".into(),
        num_partitions: -1,
        replication_factor: -1,
        assignments: vec![on_one(0), on_one(1)],
        configs: vec![CreatableTopicConfig { name: "cleanup.policy".into(), value: Some("compact".into()) }],
    }
}

fn refused(there: &str) -> Vec<CreatableTopic> {
    let topic = |name: &str, replication_factor| CreatableTopic {
        name: name.into(),
        num_partitions: 1,
        replication_factor,
        ..Default::default()
    };
    vec![topic(there, 1), topic("golden topic", 1), topic("golden-spread", 7)]
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_adds_partitions() {
    let mut kafka = Kafka::of(BROKER);
    let topic = Topic::new(&mut kafka, "golden-grown", 1, &[]);
    for (count, version) in (2..).zip(kafka.versions::<CreatePartitionsRequest>()) {
        let on_one = [CreatePartitionsAssignment { broker_ids: vec![1] }];
        let assignments = (count % 2 == 0).then_some(&on_one[..]);
        let reply = kafka.ask("partitions", &grow(&[("golden-grown", count)], assignments), version);
        assert_eq!(reply.results[0].error_code, 0, "{reply:?}");
        let refused = grow(&[("golden-grown", 1), (MISSING, 2)], None);
        let reply = kafka.ask("partitions-refused", &refused, version);
        let codes: Vec<_> = reply.results.iter().map(|topic| Code(topic.error_code)).collect();
        assert!(codes.contains(&Code::INVALID_PARTITIONS), "{reply:?}");
        assert!(codes.contains(&Code::UNKNOWN_TOPIC_OR_PARTITION), "{reply:?}");
    }
    topic.remove(&mut kafka);
}

fn grow(
    topics: &[(&str, i32)],
    assignments: Option<&[CreatePartitionsAssignment]>,
) -> CreatePartitionsRequest {
    let topics = topics.iter().map(|(name, count)| CreatePartitionsTopic {
        name: (*name).into(),
        count: *count,
        assignments: assignments.map(<[_]>::to_vec),
    });
    CreatePartitionsRequest { topics: topics.collect(), timeout_ms: 30_000, validate_only: false }
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_describes_topics() {
    let mut kafka = Kafka::of(BROKER);
    let topic = Topic::new(&mut kafka, "golden-described", 3, &[]);
    for version in kafka.versions::<MetadataRequest>() {
        assert_eq!(kafka.ask("cluster", &cluster(version), version).brokers[0].node_id, 1);
        // In version 0 none means all; with operations, for once, of topics and cluster.
        let named = [Some(&*topic.name), Some(MISSING)].map(|name| (Uuid::ZERO, name));
        let reply = kafka.ask("topics", &describe(&named, version), version);
        let codes: Vec<_> = reply.topics.iter().map(|topic| Code(topic.error_code)).collect();
        assert!(
            codes.contains(&Code::NONE) && codes.contains(&Code::UNKNOWN_TOPIC_OR_PARTITION),
            "{reply:?}"
        );
        if version >= 12 {
            let by_id = [topic.id, MISSING_ID].map(|id| (id, None));
            let reply = kafka.ask("topics-by-id", &describe(&by_id, version), version);
            let codes: Vec<_> = reply.topics.iter().map(|topic| Code(topic.error_code)).collect();
            assert!(codes.contains(&Code::NONE) && codes.contains(&Code::UNKNOWN_TOPIC_ID), "{reply:?}");
        }
    }
    topic.remove(&mut kafka);
}

fn cluster(version: i16) -> MetadataRequest {
    MetadataRequest { allow_auto_topic_creation: version < 4, topics: Some(Vec::new()), ..Default::default() }
}

fn describe(topics: &[(Uuid, Option<&str>)], version: i16) -> MetadataRequest {
    let topics = topics
        .iter()
        .map(|(topic_id, name)| MetadataRequestTopic { topic_id: *topic_id, name: name.map(str::to_owned) });
    MetadataRequest {
        topics: Some(topics.collect()),
        allow_auto_topic_creation: version < 4,
        include_cluster_authorized_operations: (8..=10).contains(&version),
        include_topic_authorized_operations: version >= 8,
    }
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_removes_topics() {
    let mut kafka = Kafka::of(BROKER);
    for version in kafka.versions::<DeleteTopicsRequest>() {
        let one = Topic::new(&mut kafka, &format!("golden-removed-{version}"), 1, &[]);
        let other = Topic::new(&mut kafka, &format!("golden-removed-{version}-too"), 1, &[]);
        let reply = kafka.ask("topics-removed", &remove(&one, &other, version), version);
        let codes: Vec<_> = reply.responses.iter().map(|topic| Code(topic.error_code)).collect();
        assert_eq!(codes.iter().filter(|code| **code == Code::NONE).count(), 2, "{reply:?}");
        let unknown = if version < 6 { Code::UNKNOWN_TOPIC_OR_PARTITION } else { Code::UNKNOWN_TOPIC_ID };
        assert!(codes.contains(&unknown), "{reply:?}");
    }
}

/// From version 6 on one by its name, the others by their ids.
fn remove(one: &Topic, other: &Topic, version: i16) -> DeleteTopicsRequest {
    let timeout_ms = 30_000;
    if version < 6 {
        let topic_names = [&one.name, &other.name, MISSING].map(str::to_owned).to_vec();
        return DeleteTopicsRequest { topic_names, timeout_ms, ..Default::default() };
    }
    let topics = vec![
        DeleteTopicState { name: Some(one.name.clone()), ..Default::default() },
        DeleteTopicState { topic_id: other.id, ..Default::default() },
        DeleteTopicState { topic_id: MISSING_ID, ..Default::default() },
    ];
    DeleteTopicsRequest { topics, timeout_ms, ..Default::default() }
}
