//! Records: written, found, read, removed.

use crate::client::Kafka;
use crate::setup::{TIME, Topic, batch};
use crate::{BROKER, MISSING, MISSING_ID};
use bytes::Bytes;
use ottla_wire::Uuid;
use ottla_wire::code::Code;
use ottla_wire::message::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use ottla_wire::message::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use ottla_wire::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::message::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use ottla_wire::message::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::message::*;
use ottla_wire::record::{Batches, Codec};

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_takes_records() {
    let mut kafka = Kafka::of(BROKER);
    let plain = Topic::new(&mut kafka, "golden-written", 1, &[]);
    let stamped = Topic::new(&mut kafka, "golden-stamped", 1, &[("message.timestamp.type", "LogAppendTime")]);
    let compacted = Topic::new(&mut kafka, "golden-compacted", 1, &[("cleanup.policy", "compact")]);
    let missing = Topic { name: MISSING.into(), id: MISSING_ID };
    for version in kafka.versions::<ProduceRequest>() {
        let request = produce(&[&plain, &stamped], &batch(Codec::None), version);
        let reply = kafka.ask("write", &request, version);
        let partitions: Vec<_> = reply.responses.iter().map(|topic| &topic.partition_responses[0]).collect();
        assert!(partitions.iter().all(|partition| partition.error_code == 0), "{reply:?}");
        assert!(partitions.iter().any(|partition| partition.log_append_time_ms > TIME), "{reply:?}");
        // The first and the last record have no key to be compacted by.
        let request = produce(&[&compacted, &missing], &batch(Codec::None), version);
        let reply = kafka.ask("write-refused", &request, version);
        let codes: Vec<_> =
            reply.responses.iter().map(|topic| Code(topic.partition_responses[0].error_code)).collect();
        assert!(codes.contains(&Code::INVALID_RECORD) || version < 8, "{reply:?}");
        let unknown = if version < 13 { Code::UNKNOWN_TOPIC_OR_PARTITION } else { Code::UNKNOWN_TOPIC_ID };
        assert!(codes.contains(&unknown), "{reply:?}");
    }
    let newest = *kafka.versions::<ProduceRequest>().end();
    let unanswered = ProduceRequest { acks: 0, ..produce(&[&plain], &batch(Codec::Lz4), newest) };
    kafka.tell("write-unanswered", &unanswered, newest);
    // The next answer is that to the next question.
    plain.wait(&mut kafka, 0);
    for topic in [plain, stamped, compacted] {
        topic.remove(&mut kafka);
    }
}

fn produce(topics: &[&Topic], batch: &Bytes, version: i16) -> ProduceRequest {
    let topic_data = topics.iter().map(|topic| TopicProduceData {
        name: name(topic, version < 13),
        topic_id: id(topic, version >= 13),
        partition_data: vec![PartitionProduceData { index: 0, records: Some(batch.clone()) }],
    });
    ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: topic_data.collect(), ..Default::default() }
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_finds_offsets() {
    let mut kafka = Kafka::of(BROKER);
    let topic = Topic::new(&mut kafka, "golden-found", 7, &[]);
    for partition in 0..7 {
        topic.write(&mut kafka, partition, &[batch(Codec::None)]);
    }
    for version in kafka.versions::<ListOffsetsRequest>() {
        let reply = kafka.ask("offsets", &offsets(&topic.name, &wanted(version), version), version);
        let mut partitions = reply.topics[0].partitions.clone();
        partitions.sort_by_key(|partition| partition.partition_index);
        assert!(partitions.iter().all(|partition| partition.error_code == 0), "{reply:?}");
        let found: Vec<_> = partitions.iter().take(4).map(|partition| partition.offset).collect();
        assert_eq!(found, [3, 0, 1, -1]);
        // Nobody is as far as the ninth leader.
        let refused = [(0, -1, 9), (99, -1, -1)];
        let reply = kafka.ask("offsets-refused", &offsets(&topic.name, &refused, version), version);
        let codes: Vec<_> =
            reply.topics[0].partitions.iter().map(|partition| Code(partition.error_code)).collect();
        let epoch = if version < 4 { Code::NONE } else { Code::UNKNOWN_LEADER_EPOCH };
        assert!(codes.contains(&epoch) && codes.contains(&Code::UNKNOWN_TOPIC_OR_PARTITION), "{reply:?}");
    }
    topic.remove(&mut kafka);
}

/// Partition, time, leader epoch: the end, the start, from a time on, after all times; then what later versions know:
/// the greatest timestamp, the start on the local disk, the end in the remote store, what waits to go there.
fn wanted(version: i16) -> Vec<(i32, i64, i32)> {
    let mut wanted = vec![(0, -1, 0), (1, -2, 0), (2, TIME + 1, 0), (3, TIME + 3, -1)];
    for (partition, (first, time)) in (4..).zip([(7, -3), (8, -4), (9, -5), (11, -6)]) {
        if version >= first {
            wanted.push((partition.min(6), time, -1));
        }
    }
    // A partition may be asked once only.
    wanted.dedup_by_key(|(partition, ..)| *partition);
    wanted
}

fn offsets(topic: &str, wanted: &[(i32, i64, i32)], version: i16) -> ListOffsetsRequest {
    let partitions = wanted.iter().map(|&(partition_index, timestamp, epoch)| ListOffsetsPartition {
        partition_index,
        current_leader_epoch: if version < 4 { -1 } else { epoch },
        timestamp,
    });
    let topic = ListOffsetsTopic { name: topic.into(), partitions: partitions.collect() };
    ListOffsetsRequest {
        replica_id: -1,
        isolation_level: i8::from(version >= 2),
        topics: vec![topic],
        timeout_ms: if version < 10 { 0 } else { 30_000 },
    }
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_knows_where_leaders_ended() {
    let mut kafka = Kafka::of(BROKER);
    let topic = Topic::new(&mut kafka, "golden-led", 2, &[]);
    topic.write(&mut kafka, 0, &[batch(Codec::None)]);
    for version in kafka.versions::<OffsetForLeaderEpochRequest>() {
        let reply = kafka.ask("epochs", &epochs(&topic.name, &[(0, 0, 0), (1, -1, 7)], version), version);
        let mut found: Vec<_> = reply.topics[0].partitions.clone();
        found.sort_by_key(|partition| partition.partition);
        assert_eq!((found[0].error_code, found[0].leader_epoch, found[0].end_offset), (0, 0, 3));
        assert_eq!((found[1].error_code, found[1].leader_epoch, found[1].end_offset), (0, -1, -1));
        let refused = epochs(&topic.name, &[(0, 9, 0), (99, 0, 0)], version);
        let reply = kafka.ask("epochs-refused", &refused, version);
        let codes: Vec<_> =
            reply.topics[0].partitions.iter().map(|partition| Code(partition.error_code)).collect();
        assert!(codes.contains(&Code::UNKNOWN_LEADER_EPOCH), "{reply:?}");
        assert!(codes.contains(&Code::UNKNOWN_TOPIC_OR_PARTITION), "{reply:?}");
    }
    topic.remove(&mut kafka);
}

/// Partition, its leader's epoch, the epoch asked about.
fn epochs(topic: &str, wanted: &[(i32, i32, i32)], version: i16) -> OffsetForLeaderEpochRequest {
    let partitions = wanted.iter().map(|&(partition, current_leader_epoch, leader_epoch)| {
        OffsetForLeaderPartition { partition, current_leader_epoch, leader_epoch }
    });
    let topic = OffsetForLeaderTopic { topic: topic.into(), partitions: partitions.collect() };
    let replica_id = if version < 3 { OffsetForLeaderEpochRequest::default().replica_id } else { -1 };
    OffsetForLeaderEpochRequest { replica_id, topics: vec![topic] }
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_removes_records() {
    let mut kafka = Kafka::of(BROKER);
    let topic = Topic::new(&mut kafka, "golden-shortened", 2, &[]);
    topic.write(&mut kafka, 0, &[batch(Codec::None), batch(Codec::None)]);
    for (offset, version) in (1..).zip(kafka.versions::<DeleteRecordsRequest>()) {
        let request = shorten(&[(&*topic.name, 0, offset), (&*topic.name, 1, 9), (MISSING, 0, 1)]);
        let reply = kafka.ask("records-removed", &request, version);
        let mut found: Vec<_> = reply
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter())
            .map(|partition| (partition.low_watermark, Code(partition.error_code)))
            .collect();
        found.sort_unstable();
        let refused = [(-1, Code::OFFSET_OUT_OF_RANGE), (-1, Code::UNKNOWN_TOPIC_OR_PARTITION)];
        assert_eq!(found, [refused[0], refused[1], (offset, Code::NONE)]);
    }
    topic.remove(&mut kafka);
}

fn shorten(wanted: &[(&str, i32, i64)]) -> DeleteRecordsRequest {
    let topics = wanted.iter().map(|(name, partition_index, offset)| DeleteRecordsTopic {
        name: (*name).into(),
        partitions: vec![DeleteRecordsPartition { partition_index: *partition_index, offset: *offset }],
    });
    DeleteRecordsRequest { topics: topics.collect(), timeout_ms: 30_000 }
}

/// A partition for each codec.
#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_gives_records() {
    let mut kafka = Kafka::of(BROKER);
    let topic = Topic::new(&mut kafka, "golden-read", 5, &[]);
    // The last is zstd, which came with version 7.
    let codecs = if *kafka.versions::<ProduceRequest>().end() < 7 { 0..4 } else { 0..5 };
    for (partition, codec) in codecs.clone().zip(Codec::ALL) {
        topic.write(&mut kafka, partition, &[batch(codec)]);
    }
    let from: Vec<_> = codecs.map(|partition| (partition, 0)).collect();
    for version in kafka.versions::<FetchRequest>() {
        let request = fetch(&topic, &from, version);
        let reply = kafka.ask("read", &request, version);
        for partition in &reply.responses[0].partitions {
            let codec = Codec::ALL[partition.partition_index as usize];
            assert_eq!(partition.error_code, 0, "{codec}");
            let records = partition.records.clone().unwrap_or_default();
            let headers: Vec<_> = Batches::new(&records).map(|found| found.unwrap().0).collect();
            assert_eq!(headers.len(), 1, "{codec}");
            assert_eq!((headers[0].codec(), headers[0].count), (Ok(codec), 3));
        }
    }
    topic.remove(&mut kafka);
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_refuses_to_give_records() {
    let mut kafka = Kafka::of(BROKER);
    let topic = Topic::new(&mut kafka, "golden-unreadable", 2, &[]);
    topic.write(&mut kafka, 0, &[batch(Codec::None)]);
    let missing = Topic { name: MISSING.into(), id: MISSING_ID };
    for version in kafka.versions::<FetchRequest>() {
        let mut request = fetch(&topic, &[(0, 1_000), (1, 0), (99, 0)], version);
        if version >= 9 {
            request.topics[0].partitions[1].current_leader_epoch = 9;
        }
        request.topics.extend(fetch(&missing, &[(0, 0)], version).topics);
        let reply = kafka.ask("read-refused", &request, version);
        let partitions = reply.responses.iter().flat_map(|topic| &topic.partitions);
        let codes: Vec<_> = partitions.map(|partition| Code(partition.error_code)).collect();
        let unknown = if version < 13 { Code::UNKNOWN_TOPIC_OR_PARTITION } else { Code::UNKNOWN_TOPIC_ID };
        let epoch = if version < 9 { Code::NONE } else { Code::UNKNOWN_LEADER_EPOCH };
        for code in [Code::OFFSET_OUT_OF_RANGE, epoch, Code::UNKNOWN_TOPIC_OR_PARTITION, unknown] {
            assert!(codes.contains(&code), "v{version}: {reply:?}");
        }
    }
    topic.remove(&mut kafka);
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_keeps_fetch_sessions() {
    let mut kafka = Kafka::of(BROKER);
    let topic = Topic::new(&mut kafka, "golden-session", 2, &[]);
    for version in kafka.versions::<FetchRequest>().filter(|version| *version >= 7) {
        let opening = FetchRequest { session_epoch: 0, ..fetch(&topic, &[(0, 0), (1, 0)], version) };
        let opened = kafka.ask("session", &opening, version);
        assert!(opened.error_code == 0 && opened.session_id > 0, "{opened:?}");
        let forgotten = ForgottenTopic {
            topic: name(&topic, version < 13),
            topic_id: id(&topic, version >= 13),
            partitions: vec![1],
        };
        let next = FetchRequest {
            session_id: opened.session_id,
            session_epoch: 1,
            topics: Vec::new(),
            forgotten_topics_data: vec![forgotten],
            ..opening.clone()
        };
        let reply = kafka.ask("session-goes-on", &next, version);
        assert!(reply.error_code == 0 && reply.responses.is_empty(), "{reply:?}");
        let reply = kafka.ask("session-refused", &FetchRequest { session_epoch: 7, ..next }, version);
        assert_eq!(reply.error_code, Code::INVALID_FETCH_SESSION_EPOCH.0);
    }
    topic.remove(&mut kafka);
}

/// Partitions with the offsets to read from, without a session.
pub(crate) fn fetch(topic: &Topic, from: &[(i32, i64)], version: i16) -> FetchRequest {
    let partitions = from.iter().map(|&(partition, fetch_offset)| FetchPartition {
        partition,
        fetch_offset,
        partition_max_bytes: 4_096,
        ..Default::default()
    });
    let topic = FetchTopic {
        topic: name(topic, version < 13),
        topic_id: id(topic, version >= 13),
        partitions: partitions.collect(),
    };
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 16_384,
        session_epoch: -1,
        topics: vec![topic],
        rack_id: if version < 11 { String::new() } else { "here".into() },
        ..Default::default()
    }
}

fn name(topic: &Topic, wanted: bool) -> String {
    if wanted { topic.name.clone() } else { String::new() }
}

fn id(topic: &Topic, wanted: bool) -> Uuid {
    if wanted { topic.id } else { Uuid::ZERO }
}
