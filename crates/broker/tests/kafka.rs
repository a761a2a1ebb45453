//! The same requests to a real Kafka and to this broker: what they answer must be the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::peer::{Peer, compare, create, delete, now};
use common::{batch, fetch, from, list, produce, sized_batch};
use ottla_broker::wire::Uuid;
use ottla_broker::wire::frame::decode_response;
use ottla_broker::wire::message::create_partitions_request::CreatePartitionsTopic;
use ottla_broker::wire::message::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use ottla_broker::wire::message::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use ottla_broker::wire::message::delete_topics_request::DeleteTopicState;
use ottla_broker::wire::message::fetch_request::{FetchPartition, FetchTopic};
use ottla_broker::wire::message::metadata_request::MetadataRequestTopic;
use ottla_broker::wire::message::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use ottla_broker::wire::message::*;
use ottla_broker::wire::record::{BatchBuilder, Codec, set_base_offset};
use std::fmt::Debug;
use std::io::Write;
use std::time::Duration;

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_api_versions() {
    compare(|peer, _| {
        let named = |name: &str, version: &str| ApiVersionsRequest {
            client_software_name: name.into(),
            client_software_version: version.into(),
            ..Default::default()
        };
        for (name, version) in
            [("ottla", "0.1.0"), ("", "1"), ("o", ""), ("a b", "1"), ("-a", "1"), ("a.-b", "1")]
        {
            let code = peer.ask(&named(name, version), 3).error_code;
            peer.note(format!("software {name:?} {version:?}"), code);
        }
        // A version that neither speaks: the same frame with another number in it.
        for unknown in [6, 99, i16::MAX] {
            let mut frame = peer.frame(&named("ottla", "1"), 3);
            frame[6..8].copy_from_slice(&unknown.to_be_bytes());
            let answer = peer.try_frame(&frame);
            peer.note(format!("ApiVersions {unknown}"), answer);
        }
        let spoken = peer.ask(&named("ottla", "1"), 4);
        for api in spoken.api_keys.iter().filter(|api| SPOKEN.contains(&api.api_key)) {
            peer.note("versions", api);
        }
    });
}

/// The APIs that this broker speaks.
const SPOKEN: [i16; 21] = [0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 37, 42];

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_closes_what_it_cannot_read() {
    compare(|peer, topic| {
        let good = peer.frame(&fetch(topic, vec![from(0, 0)]), 12);
        for (what, api, version) in [
            ("unknown API", 12_345_i16, 0_i16),
            ("version above", 1, 19),
            ("version below", 1, 3),
            ("Produce 2", 0, 2),
        ] {
            let mut frame = good.clone();
            frame[4..6].copy_from_slice(&api.to_be_bytes());
            frame[6..8].copy_from_slice(&version.to_be_bytes());
            peer.note_closing(what, &frame);
        }
        peer.note_closing("a frame of 0 bytes", &[0; 4]);
        peer.note_closing("a negative length", &[0xff; 4]);
        peer.note_closing("a length of 1 GiB", &(1_i32 << 30).to_be_bytes());
        peer.note_closing("HTTP", b"GET / HTTP/1.1\r\n\r\n");
        let mut short = good.clone();
        short.truncate(good.len() - 3);
        let length = (short.len() as i32 - 4).to_be_bytes();
        short[..4].copy_from_slice(&length);
        peer.note_closing("a request that is cut", &short);
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_metadata() {
    compare(|peer, topic| {
        let id = create(peer, topic, 3, &[]);
        let by_name = |name: &str| MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
        let by_id = |id| MetadataRequestTopic { name: None, topic_id: id };
        for version in 0..=13 {
            let names = [topic, "compare-missing", "not/allowed", "", ".."];
            let mut asked: Vec<_> = names.iter().map(|name| vec![by_name(name)]).collect();
            if version >= 12 {
                asked.push(vec![by_id(id)]);
                asked.push(vec![by_id(Uuid([7; 16]))]);
            }
            asked.push(vec![by_name(topic), by_name("compare-missing")]);
            for topics in asked {
                let what = format!("Metadata {version} {topics:?}")
                    .replace(topic, "T")
                    .replace(&id.to_string(), "ID");
                let request = MetadataRequest {
                    topics: Some(topics),
                    allow_auto_topic_creation: version < 4,
                    ..Default::default()
                };
                let answer = peer.ask(&request, version);
                peer.note(what, (answer.error_code, sorted_topics(answer, id)));
            }
        }
        let one_by_id = MetadataRequest { topics: Some(vec![by_id(id)]), ..Default::default() };
        let frame = peer.frame(&one_by_id, 12);
        let answer = peer.try_frame(&frame);
        peer.note("by id 12", answer.is_some());
    });
}

/// Topics by name, nodes numbered as they are counted here.
fn sorted_topics(mut answer: MetadataResponse, id: Uuid) -> Vec<impl Debug> {
    answer.topics.sort_by(|a, b| a.name.cmp(&b.name));
    for topic in &mut answer.topics {
        topic.partitions.sort_by_key(|partition| partition.partition_index);
        if topic.topic_id == id {
            topic.topic_id = Uuid([1; 16]);
        }
        for partition in &mut topic.partitions {
            for node in partition.replica_nodes.iter_mut().chain(&mut partition.isr_nodes) {
                *node = 1;
            }
            partition.leader_id = partition.leader_id.min(1);
        }
    }
    answer.topics
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_produce() {
    compare(|peer, topic| {
        let id = create(peer, topic, 2, &[("max.message.bytes", "5000")]);
        let good = batch(&TIMES);
        for version in 3..=12 {
            note_produced(peer, version, "a batch", &produce(topic, 0, -1, good.clone()));
        }
        let mut by_id = produce("", 0, 1, good.clone());
        by_id.topic_data[0].topic_id = id;
        note_produced(peer, 13, "by id", &by_id);
        by_id.topic_data[0].topic_id = Uuid([9; 16]);
        note_produced(peer, 13, "by an unknown id", &by_id);

        let zstd = sized_batch(Codec::Zstd, &TIMES, 10);
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let mut based = good.clone();
        set_base_offset(&mut based, 77).unwrap();
        let control = built(|builder| builder.control(true));
        let transactional = built(|builder| builder.transactional(true).producer(4, 0, 0));
        let mut gap = BatchBuilder::new(Codec::None);
        gap.push(TIMES[0], None, None, &[]);
        gap.skip(1);
        gap.push(TIMES[1], None, None, &[]);
        let mut magic_1 = good.clone();
        magic_1[16] = 1;
        let mut magic_3 = good.clone();
        magic_3[16] = 3;
        let cases = [
            ("zstd", zstd),
            ("a broken CRC", flipped),
            ("a first offset that is not 0", based),
            ("two batches", [good.clone(), good.clone()].concat()),
            ("a batch and a half", [&good[..], &good[..100]].concat()),
            ("half a batch", good[..100].to_vec()),
            ("no batch", Vec::new()),
            ("a batch that is too large", sized_batch(Codec::None, &TIMES, 3000)),
            ("a gap inside", gap.build().unwrap()),
            ("control records", control),
            ("a transaction that was not begun", transactional),
            ("format 1", magic_1),
            ("format 3", magic_3),
        ];
        for (what, records) in cases {
            for version in [3, 7, 12] {
                note_produced(peer, version, what, &produce(topic, 0, -1, records.clone()));
            }
        }
        note_produced(peer, 9, "partition 2 of 2", &produce(topic, 2, -1, good.clone()));
        note_produced(peer, 9, "a missing topic", &produce("compare-missing", 0, -1, good.clone()));
        note_produced(peer, 9, "acks 2", &produce(topic, 0, 2, good.clone()));
        // acks 0 gets no reply; an error closes the connection.
        let silent = peer.frame(&produce(topic, 1, 0, good.clone()), 9);
        peer.stream.write_all(&silent).unwrap();
        let end = peer.ask(&list(topic, 1, -1), 5);
        peer.note("after acks 0", end);
        let wrong = peer.frame(&produce(topic, 5, 0, good), 9);
        peer.note_closing("acks 0 to a missing partition", &wrong);
    });
}

const TIMES: [i64; 3] = [1_700_000_000_100, 1_700_000_000_300, 1_700_000_000_200];

fn built(set: impl FnOnce(&mut BatchBuilder) -> &mut BatchBuilder) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    set(&mut builder);
    builder.push(TIMES[0], Some(&[0, 0, 0, 1]), Some(&[0; 6]), &[]);
    builder.build().unwrap()
}

fn note_produced(peer: &mut Peer, version: i16, what: &str, request: &ProduceRequest) {
    let frame = peer.frame(request, version);
    let what = format!("Produce {version}: {what}");
    let Some(answer) = peer.try_frame(&frame) else { return peer.note(what, "closed") };
    let mut answer = decode_response::<ProduceRequest>(answer, version).unwrap().1;
    for topic in &mut answer.responses {
        topic.name.clear();
        topic.topic_id = Uuid::ZERO;
        for partition in &mut topic.partition_responses {
            // How it is said is each one's own.
            partition.error_message = None;
            partition.record_errors.clear();
        }
    }
    peer.note(what, answer);
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_fetch_cuts() {
    compare(|peer, topic| {
        let id = create(peer, topic, 3, &[]);
        for (partition, sizes) in [(0, [10, 2000, 500]), (1, [700, 0, 30])] {
            for (size, codec) in sizes.into_iter().zip([Codec::None, Codec::Lz4, Codec::None]) {
                peer.ask(&produce(topic, partition, -1, sized_batch(codec, &TIMES, size)), 9);
            }
        }
        for offset in 0..=9 {
            for max_bytes in [0, 1, 100, 6000, 10_000_000] {
                for partition_max in [0, 1, 60, 61, 150, 2000, 7000, 10_000_000] {
                    let asked = |partition, fetch_offset| FetchPartition {
                        partition,
                        fetch_offset,
                        partition_max_bytes: partition_max,
                        ..Default::default()
                    };
                    let mut request = fetch(topic, vec![asked(2, 0), asked(0, offset), asked(1, 3)]);
                    request.max_bytes = max_bytes;
                    let what = format!("from {offset}, max {max_bytes}, partition max {partition_max}");
                    note_fetched(peer, 12, &what, &request);
                }
            }
        }
        for version in 4..=18 {
            for isolation_level in [0, 1] {
                let mut request = fetch(topic, vec![from(0, 1), from(2, 0), from(1, 4)]);
                request.isolation_level = isolation_level;
                if version >= 13 {
                    request.topics[0].topic_id = id;
                }
                note_fetched(peer, version, &format!("isolation {isolation_level}"), &request);
            }
        }
    });
}

fn note_fetched(peer: &mut Peer, version: i16, what: &str, request: &FetchRequest) {
    let answer = peer.ask(request, version);
    peer.note(format!("Fetch {version}: {what}"), without_ids(answer));
}

/// Names and ids differ, and addresses do.
fn without_ids(mut answer: FetchResponse) -> FetchResponse {
    for topic in &mut answer.responses {
        topic.topic.clear();
        topic.topic_id = Uuid([u8::from(!topic.topic_id.is_zero()); 16]);
        for partition in &mut topic.partitions {
            partition.current_leader.leader_id = partition.current_leader.leader_id.min(1);
        }
    }
    for endpoint in &mut answer.node_endpoints {
        (endpoint.node_id, endpoint.port) = (1, 1);
        endpoint.host.clear();
    }
    answer
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_fetch_errors() {
    compare(|peer, topic| {
        let id = create(peer, topic, 2, &[]);
        for _ in 0..3 {
            peer.ask(&produce(topic, 0, -1, batch(&TIMES)), 9);
        }
        peer.ask(&delete_records(topic, 0, 4), 2);
        for version in [4, 6, 9, 11, 12, 13, 15, 16, 18] {
            let mut note = |what: &str, change: &dyn Fn(&mut FetchRequest)| {
                let mut request = fetch(topic, vec![from(0, 5)]);
                if version >= 13 {
                    request.topics[0].topic_id = id;
                }
                change(&mut request);
                note_fetched(peer, version, what, &request);
            };
            let first = |request: &mut FetchRequest, change: &dyn Fn(&mut FetchPartition)| {
                change(&mut request.topics[0].partitions[0]);
            };
            for offset in [-2, -1, 0, 3, 4, 8, 9, 10, i64::MAX] {
                note(&format!("offset {offset}"), &|request| {
                    first(request, &|asked| asked.fetch_offset = offset);
                });
            }
            note("partition 2 of 2", &|request| first(request, &|asked| asked.partition = 2));
            note("partition -1", &|request| first(request, &|asked| asked.partition = -1));
            note("a missing topic", &|request| {
                request.topics[0].topic = "compare-missing".into();
                request.topics[0].topic_id = Uuid([3; 16]);
            });
            note("missing ones between others", &|request| {
                let topic = request.topics[0].clone();
                request.topics[0].partitions.extend([from(7, 0), from(1, 0)]);
                let missing =
                    FetchTopic { topic: "compare-missing".into(), topic_id: Uuid([3; 16]), ..topic };
                request.topics.insert(0, missing);
            });
            note("nothing", &|request| request.topics.clear());
            if version >= 9 {
                for epoch in [-1, 0, 1] {
                    note(&format!("epoch {epoch}"), &|request| {
                        first(request, &|asked| asked.current_leader_epoch = epoch);
                    });
                }
                note("epoch 1 and offset out of range", &|request| {
                    first(request, &|asked| {
                        asked.current_leader_epoch = 1;
                        asked.fetch_offset = 99;
                    });
                });
            }
            if version >= 12 {
                for (epoch, offset) in [(0, 5), (0, 9), (0, 10), (0, 2), (1, 5), (1, 99), (-1, 5)] {
                    note(&format!("last fetched epoch {epoch}, offset {offset}"), &|request| {
                        first(request, &|asked| {
                            asked.last_fetched_epoch = epoch;
                            asked.fetch_offset = offset;
                        });
                    });
                }
            }
            if version >= 7 {
                for (session, epoch) in [(12_345, 1), (0, 1), (0, -1), (12_345, -1)] {
                    note(&format!("session {session}, epoch {epoch}"), &|request| {
                        request.session_id = session;
                        request.session_epoch = epoch;
                    });
                }
            }
        }
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_fetch_waits() {
    compare(|peer, topic| {
        create(peer, topic, 2, &[]);
        peer.ask(&produce(topic, 0, -1, batch(&TIMES)), 9);
        let size = batch(&TIMES).len() as i32;
        let mut note = |what: &str, change: &dyn Fn(&mut FetchRequest)| {
            let mut request = fetch(topic, vec![from(0, 3)]);
            request.max_wait_ms = 400;
            change(&mut request);
            let asked = now();
            let answer = peer.ask(&request, 12);
            // Either at once or when the time is up; a slow machine may make it later, never earlier.
            let waited = asked.elapsed() >= Duration::from_millis(390);
            peer.note(what, (waited, without_ids(answer)));
        };
        note("nothing new", &|_| {});
        note("an empty partition", &|request| request.topics[0].partitions = vec![from(1, 0)]);
        note("no wait", &|request| request.max_wait_ms = 0);
        note("a negative wait", &|request| request.max_wait_ms = -1);
        note("no bytes wanted", &|request| request.min_bytes = 0);
        note("enough", &|request| request.topics[0].partitions = vec![from(0, 0)]);
        for more in [0, 1] {
            note(&format!("{more} more than there is"), &|request| {
                request.topics[0].partitions = vec![from(0, 0)];
                request.min_bytes = size + more;
            });
        }
        note("more than may be sent", &|request| {
            request.topics[0].partitions = vec![from(0, 0)];
            request.min_bytes = size * 10;
            request.max_bytes = size;
        });
        note("less than the minimum from a partition", &|request| {
            request.topics[0].partitions = vec![from(0, 0)];
            request.topics[0].partitions[0].partition_max_bytes = 10;
            request.min_bytes = 100;
        });
        note("an error among others", &|request| {
            request.topics[0].partitions = vec![from(1, 0), from(0, 99)];
        });
        note("a missing partition among others", &|request| {
            request.topics[0].partitions = vec![from(1, 0), from(9, 0)];
        });
        note("only a missing partition", &|request| request.topics[0].partitions = vec![from(9, 0)]);
        note("a fenced epoch", &|request| request.topics[0].partitions[0].current_leader_epoch = 7);
        note("a diverging epoch", &|request| {
            request.topics[0].partitions = vec![from(0, 3)];
            request.topics[0].partitions[0].last_fetched_epoch = 0;
        });
    });
}

/// What comes while a fetch waits, and what is asked behind it on the same connection.
#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_parked_fetches() {
    compare(|peer, topic| {
        create(peer, topic, 2, &[]);
        let size = batch(&TIMES).len() as i32;
        let mut producer = Peer::new(peer.who, &peer.address);
        for (what, min_bytes, batches) in [("one byte", 1, 1), ("two batches", size * 2, 2)] {
            let end = common::listed(&producer.ask(&list(topic, 0, -1), 5)).offset;
            let mut request = fetch(topic, vec![from(1, 0), from(0, end)]);
            (request.max_wait_ms, request.min_bytes) = (20_000, min_bytes);
            let parked = [peer.frame(&request, 12), peer.frame(&list(topic, 0, -1), 5)].concat();
            let asked = now();
            peer.stream.write_all(&parked).unwrap();
            for _ in 0..batches {
                peer.stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                let early = peer.stream.peek(&mut [0]).is_ok();
                peer.stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                peer.note(format!("{what}: early"), early);
                producer.ask(&produce(topic, 0, -1, batch(&TIMES)), 9);
            }
            let answer = decode_response::<FetchRequest>(peer.read().unwrap(), 12).unwrap().1;
            peer.note(what, (asked.elapsed() < Duration::from_secs(15), without_ids(answer)));
            let behind = decode_response::<ListOffsetsRequest>(peer.read().unwrap(), 5).unwrap().1;
            peer.note(format!("{what}: behind"), behind.topics[0].partitions[0].clone());
        }
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_list_offsets() {
    compare(|peer, topic| {
        create(peer, topic, 2, &[]);
        let at = TIMES[0];
        for (codec, times) in [
            (Codec::None, &[at + 100, at + 300, at + 200][..]),
            (Codec::Gzip, &[at + 50, at + 400, at + 400, at + 10]),
            (Codec::Lz4, &[at + 20]),
        ] {
            peer.ask(&produce(topic, 0, -1, sized_batch(codec, times, 20)), 9);
        }
        let note = |peer: &mut Peer, what: &str, version: i16, request: &ListOffsetsRequest| {
            let answer = peer.ask(request, version);
            peer.note(format!("ListOffsets {version}: {what}"), &answer.topics[0].partitions);
        };
        for deleted in [0, 1, 5] {
            peer.ask(&delete_records(topic, 0, deleted), 2);
            for offset in [-100, 0, 1, 20, 51, 100, 101, 201, 300, 301, 400, 401] {
                note(peer, &format!("time {offset} from {deleted}"), 7, &list(topic, 0, at + offset));
            }
            for version in 1..=11 {
                for name in -7..=0 {
                    for partition in 0..=2 {
                        let what = format!("{name} of partition {partition} from {deleted}");
                        note(peer, &what, version, &list(topic, partition, name));
                    }
                }
            }
        }
        for epoch in [-1, 0, 1] {
            let mut request = list(topic, 0, -1);
            request.topics[0].partitions[0].current_leader_epoch = epoch;
            note(peer, &format!("epoch {epoch}"), 5, &request);
        }
        note(peer, "a missing topic", 5, &list("compare-missing", 0, -1));
        let mut twice = list(topic, 0, -1);
        let again = twice.topics[0].partitions[0].clone();
        twice.topics[0].partitions.push(again);
        note(peer, "twice", 5, &twice);
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_append_time() {
    compare(|peer, topic| {
        create(peer, topic, 1, &[("message.timestamp.type", "LogAppendTime")]);
        for codec in [Codec::None, Codec::Zstd] {
            let answer = peer.ask(&produce(topic, 0, -1, sized_batch(codec, &TIMES, 50)), 9);
            let produced = common::produced(&answer);
            peer.note("produced", (produced.base_offset, produced.log_append_time_ms > TIMES[2]));
        }
        let answer = peer.ask(&fetch(topic, vec![from(0, 0)]), 12);
        for batch in ottla_broker::wire::record::Batches::new(common::records(common::only(&answer))) {
            let (mut header, range) = batch.unwrap();
            header.check_crc(&common::records(common::only(&answer))[range]).unwrap();
            assert!(header.max_timestamp > TIMES[2]);
            (header.max_timestamp, header.crc) = (0, 0);
            peer.note("header", header);
        }
        // The second batch may have the time of the first.
        let newest = peer.ask(&list(topic, 0, -3), 7);
        peer.note("newest", [0, 3].contains(&common::listed(&newest).offset));
        let first = peer.ask(&list(topic, 0, TIMES[2]), 7);
        peer.note("first", common::listed(&first).offset);
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_offset_for_leader_epoch() {
    compare(|peer, topic| {
        create(peer, topic, 1, &[]);
        for round in 0..2 {
            for version in 2..=4 {
                for epoch in [-1, 0, 1, 5] {
                    for current_leader_epoch in [-1, 0, 1] {
                        for partition in [0, 1] {
                            let asked = OffsetForLeaderPartition {
                                partition,
                                current_leader_epoch,
                                leader_epoch: epoch,
                            };
                            let request = OffsetForLeaderEpochRequest {
                                replica_id: if version >= 3 { -1 } else { -2 },
                                topics: vec![OffsetForLeaderTopic {
                                    topic: topic.into(),
                                    partitions: vec![asked],
                                }],
                            };
                            let answer = peer.ask(&request, version);
                            let what = format!("round {round}, version {version}, epoch {epoch}");
                            let what = format!("{what} in {current_leader_epoch} of partition {partition}");
                            peer.note(what, &answer.topics[0].partitions);
                        }
                    }
                }
            }
            peer.ask(&produce(topic, 0, -1, batch(&TIMES)), 9);
        }
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_topics() {
    compare(|peer, topic| {
        let node = peer.ask(&MetadataRequest::default(), 9).brokers[0].node_id;
        let plain = |name: &str, partitions, replication_factor| CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor,
            ..Default::default()
        };
        let assigned = |name: &str, assignments: &[(i32, &[i32])]| CreatableTopic {
            assignments: assignments
                .iter()
                .map(|(partition_index, nodes)| CreatableReplicaAssignment {
                    partition_index: *partition_index,
                    broker_ids: nodes.iter().map(|by| node + by).collect(),
                })
                .collect(),
            ..plain(name, -1, -1)
        };
        let configured = |name: &str, config: &str, value: &str| CreatableTopic {
            configs: vec![CreatableTopicConfig { name: config.into(), value: Some(value.into()) }],
            ..plain(name, 1, 1)
        };
        let dotted = topic.replace('-', ".");
        let under = topic.replace('-', "_");
        let long = "x".repeat(250);
        let cases: Vec<(&str, Vec<CreatableTopic>)> = vec![
            ("default", vec![plain(topic, -1, -1)]),
            ("again", vec![plain(topic, 1, 1)]),
            ("no partitions", vec![plain("compare-x", 0, 1)]),
            ("-2 partitions", vec![plain("compare-x", -2, 1)]),
            ("no replicas", vec![plain("compare-x", 1, 0)]),
            ("too many replicas", vec![plain("compare-x", 1, 9)]),
            ("no name", vec![plain("", 1, 1)]),
            ("..", vec![plain("..", 1, 1)]),
            ("bad letters", vec![plain("a b", 1, 1)]),
            ("too long", vec![plain(&long, 1, 1)]),
            ("twice", vec![plain("compare-x", 1, 1), plain("compare-x", 1, 1)]),
            ("dotted", vec![plain(&dotted, 2, 1)]),
            ("colliding", vec![plain(&under, 1, 1)]),
            (
                "assigned and counted",
                vec![CreatableTopic { num_partitions: 2, ..assigned("compare-x", &[(0, &[0])]) }],
            ),
            ("assigned to nobody", vec![assigned("compare-x", &[(0, &[])])]),
            ("assigned to a stranger", vec![assigned("compare-x", &[(0, &[50])])]),
            ("assigned twice", vec![assigned("compare-x", &[(0, &[0, 0])])]),
            ("assigned with a gap", vec![assigned("compare-x", &[(0, &[0]), (2, &[0])])]),
            ("a wrong time type", vec![configured("compare-x", "message.timestamp.type", "Never")]),
            ("a wrong size", vec![configured("compare-x", "max.message.bytes", "many")]),
        ];
        for version in [2, 5, 7] {
            for (what, topics) in &cases {
                for validate_only in [true, false] {
                    let request =
                        CreateTopicsRequest { topics: topics.clone(), timeout_ms: 10_000, validate_only };
                    let answer = peer.ask(&request, version);
                    let codes: Vec<_> = answer
                        .topics
                        .iter()
                        .map(|made| (made.error_code, made.num_partitions, made.replication_factor))
                        .collect();
                    peer.note(
                        format!("CreateTopics {version}: {what}, only checked: {validate_only}"),
                        codes,
                    );
                }
            }
        }
        for partitions in [10_000, 10_001, i32::MAX] {
            let topics = vec![plain("compare-x", partitions, 1)];
            let request = CreateTopicsRequest { topics, timeout_ms: 10_000, validate_only: true };
            let code = peer.ask(&request, 7).topics[0].error_code;
            peer.note(format!("{partitions} partitions"), code);
            let more = CreatePartitionsTopic { name: dotted.clone(), count: partitions, assignments: None };
            let request =
                CreatePartitionsRequest { topics: vec![more], timeout_ms: 10_000, validate_only: true };
            let code = peer.ask(&request, 3).results[0].error_code;
            peer.note(format!("up to {partitions} partitions"), code);
        }
        for version in 0..=3 {
            for count in [0, 1, 2, 3] {
                let more = CreatePartitionsTopic { name: dotted.clone(), count, assignments: None };
                let request = CreatePartitionsRequest {
                    topics: vec![more],
                    timeout_ms: 10_000,
                    validate_only: version < 2,
                };
                let code = peer.ask(&request, version).results[0].error_code;
                peer.note(format!("CreatePartitions {version}: {count}"), code);
            }
        }
        let missing = CreatePartitionsTopic { name: "compare-x".into(), count: 2, assignments: None };
        let request =
            CreatePartitionsRequest { topics: vec![missing], timeout_ms: 10_000, validate_only: false };
        let code = peer.ask(&request, 2).results[0].error_code;
        peer.note("CreatePartitions of a missing topic", code);
        for version in 1..=6 {
            let request =
                if version < 6 { delete("compare-x") } else { delete_6(Some("compare-x"), Uuid::ZERO) };
            let code = peer.ask(&request, version).responses[0].error_code;
            peer.note(format!("DeleteTopics {version}: missing"), code);
        }
        let code = peer.ask(&delete_6(None, Uuid([5; 16])), 6).responses[0].error_code;
        peer.note("DeleteTopics: an unknown id", code);
        let answer = peer.ask(&delete(&dotted), 5).responses[0].clone();
        peer.note("DeleteTopics", (answer.error_code, answer.name == Some(dotted)));
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_delete_records() {
    compare(|peer, topic| {
        create(peer, topic, 2, &[]);
        for _ in 0..3 {
            peer.ask(&produce(topic, 0, -1, batch(&TIMES)), 9);
        }
        for version in 0..=2 {
            for offset in [-2, 0, 4, 2, 10, 99] {
                let answer = peer.ask(&delete_records(topic, 0, offset), version);
                peer.note(format!("DeleteRecords {version}: {offset}"), &answer.topics[0].partitions);
            }
        }
        let read = peer.ask(&fetch(topic, vec![from(0, 4)]), 12);
        peer.note("from the start", without_ids(read));
        let answer = peer.ask(&delete_records(topic, 0, -1), 2);
        peer.note("all", &answer.topics[0].partitions);
        let answer = peer.ask(&delete_records(topic, 7, 1), 2);
        peer.note("a missing partition", &answer.topics[0].partitions);
        for epoch in [0, 1] {
            let request = OffsetForLeaderEpochRequest {
                replica_id: -1,
                topics: vec![OffsetForLeaderTopic {
                    topic: topic.into(),
                    partitions: vec![OffsetForLeaderPartition {
                        partition: 0,
                        current_leader_epoch: -1,
                        leader_epoch: epoch,
                    }],
                }],
            };
            let answer = peer.ask(&request, 4);
            peer.note(format!("end of epoch {epoch}"), &answer.topics[0].partitions);
        }
    });
}

fn delete_6(name: Option<&str>, topic_id: Uuid) -> DeleteTopicsRequest {
    let topic = DeleteTopicState { name: name.map(Into::into), topic_id };
    DeleteTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() }
}

fn delete_records(topic: &str, partition_index: i32, offset: i64) -> DeleteRecordsRequest {
    let partitions = vec![DeleteRecordsPartition { partition_index, offset }];
    let topics = vec![DeleteRecordsTopic { name: topic.into(), partitions }];
    DeleteRecordsRequest { topics, timeout_ms: 10_000 }
}
