//! What only a partition tells that has had several leader epochs, as it has when its broker was started anew.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "kafka/client.rs"]
mod client;
#[path = "golden/reread.rs"]
mod reread;
#[path = "kafka/setup.rs"]
mod setup;

use client::Kafka;
use ottla_wire::code::Code;
use ottla_wire::message::fetch_request::{FetchPartition, FetchTopic};
use ottla_wire::message::fetch_response::{EpochEndOffset, LeaderIdAndEpoch};
use ottla_wire::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::message::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use ottla_wire::message::*;
use ottla_wire::record::Codec;
use setup::{Topic, batch, metadata};
use std::process::Command;

const BROKER: &str = "OTTLA_TEST_KAFKA_RESTART";
const FOLDER: &str = "OTTLA_TEST_KAFKA_RESTART_DIR";

/// The epoch of the leader before the restart.
const OLD: i32 = 0;

#[test]
#[ignore = "needs a real Kafka from 3.0 on: the one node of an older leads on as if nothing were: cargo xtask test"]
fn kafka_restart_changes_the_leader_epoch() {
    let mut kafka = Kafka::of(BROKER);
    let topic = Topic::new(&mut kafka, "golden-restarted", 1, &[]);
    topic.write(&mut kafka, 0, &[batch(Codec::None)]);
    ["stop", "start"].into_iter().for_each(command);
    let mut kafka = Kafka::of(BROKER);
    topic.wait(&mut kafka, 0);
    topic.write(&mut kafka, 0, &[batch(Codec::None)]);
    let epoch = metadata(&mut kafka, &topic.name).partitions[0].leader_epoch;
    assert!(epoch > OLD);
    reads_are_fenced(&mut kafka, &topic, epoch);
    reads_have_diverged(&mut kafka, &topic);
    offsets_are_fenced(&mut kafka, &topic);
    epochs_are_told(&mut kafka, &topic);
    topic.remove(&mut kafka);
}

fn reads_are_fenced(kafka: &mut Kafka, topic: &Topic, epoch: i32) {
    for version in kafka.versions::<FetchRequest>().filter(|version| *version >= 9) {
        let partition = FetchPartition { current_leader_epoch: OLD, ..read_from(0) };
        let reply = kafka.ask("read-fenced", &fetch(topic, partition, version), version);
        let partition = &reply.responses[0].partitions[0];
        assert_eq!(Code(partition.error_code), Code::FENCED_LEADER_EPOCH);
        let leader = LeaderIdAndEpoch { leader_id: 1, leader_epoch: epoch };
        // KIP-951.
        let told = if version < 16 { LeaderIdAndEpoch::default() } else { leader };
        assert_eq!(partition.current_leader, told);
        assert_eq!(reply.node_endpoints.len(), usize::from(version >= 16));
    }
}

/// Who has read the fifth record from the leader of before has read what is no more.
fn reads_have_diverged(kafka: &mut Kafka, topic: &Topic) {
    for version in kafka.versions::<FetchRequest>().filter(|version| *version >= 12) {
        let partition = FetchPartition { last_fetched_epoch: OLD, ..read_from(5) };
        let reply = kafka.ask("read-diverged", &fetch(topic, partition, version), version);
        let diverging = &reply.responses[0].partitions[0].diverging_epoch;
        assert_eq!(diverging, &EpochEndOffset { epoch: OLD, end_offset: 3 });
    }
}

fn read_from(fetch_offset: i64) -> FetchPartition {
    FetchPartition { fetch_offset, partition_max_bytes: 4_096, ..Default::default() }
}

fn fetch(topic: &Topic, partition: FetchPartition, version: i16) -> FetchRequest {
    let mut wanted = FetchTopic { partitions: vec![partition], ..Default::default() };
    match version {
        ..13 => wanted.topic.clone_from(&topic.name),
        _ => wanted.topic_id = topic.id,
    }
    FetchRequest { max_bytes: 4_096, session_epoch: -1, topics: vec![wanted], ..Default::default() }
}

fn offsets_are_fenced(kafka: &mut Kafka, topic: &Topic) {
    for version in kafka.versions::<ListOffsetsRequest>().filter(|version| *version >= 4) {
        let end = ListOffsetsPartition { current_leader_epoch: OLD, timestamp: -1, ..Default::default() };
        let topic = ListOffsetsTopic { name: topic.name.clone(), partitions: vec![end] };
        let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
        let reply = kafka.ask("offsets-fenced", &request, version);
        assert_eq!(Code(reply.topics[0].partitions[0].error_code), Code::FENCED_LEADER_EPOCH);
    }
}

fn epochs_are_told(kafka: &mut Kafka, topic: &Topic) {
    for version in kafka.versions::<OffsetForLeaderEpochRequest>() {
        let mut epoch = |case, current_leader_epoch| {
            let partition =
                OffsetForLeaderPartition { partition: 0, current_leader_epoch, leader_epoch: OLD };
            let topic = OffsetForLeaderTopic { topic: topic.name.clone(), partitions: vec![partition] };
            let request = OffsetForLeaderEpochRequest { topics: vec![topic], ..Default::default() };
            kafka.ask(case, &request, version).topics[0].partitions[0].clone()
        };
        let ended = epoch("epochs-before", -1);
        assert_eq!((ended.error_code, ended.leader_epoch, ended.end_offset), (0, OLD, 3));
        assert_eq!(Code(epoch("epochs-fenced", OLD).error_code), Code::FENCED_LEADER_EPOCH);
    }
}

/// `cargo xtask kafka WORD` for the broker that may be stopped.
fn command(word: &str) {
    let [xtask, folder] = ["OTTLA_XTASK", FOLDER].map(|name| std::env::var(name).unwrap());
    let status = Command::new(xtask).args(["kafka", word, "--dir", &folder]).status().unwrap();
    assert!(status.success(), "kafka {word}: {status}");
}
