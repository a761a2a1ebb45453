//! Scripted faults: each does what it says, to the requests it is for, as often as it says.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{World, batch, fetch, from, list, listed, millis, only, produce, produced, records};
use ottla_broker::wire::frame::decode_response;
use ottla_broker::wire::message::metadata_request::MetadataRequestTopic;
use ottla_broker::wire::message::{
    ApiVersionsRequest, FetchRequest, FetchResponse, ListOffsetsRequest, MetadataRequest, ProduceRequest,
};
use ottla_broker::wire::record::{Batches, RecordError};
use ottla_broker::{ApiKey, Cluster, ClusterOptions, Code, Fault};

fn world() -> World {
    let mut cluster = Cluster::new(ClusterOptions::new().nodes(2));
    for topic in ["a", "b"] {
        cluster.create_topic(topic, 2).unwrap();
        for partition in 0..2 {
            cluster.set_leader(topic, partition, Some(1)).unwrap();
            cluster.append(topic, partition, batch(&[1])).unwrap();
        }
    }
    World::new(cluster)
}

/// The codes that a fetch of all four partitions gets: top level first.
fn codes(world: &mut World, version: i16) -> Vec<Code> {
    let connection = world.connect(1);
    let mut request = fetch("a", vec![from(0, 0), from(1, 0)]);
    request.topics.push(fetch("b", vec![from(0, 0), from(1, 0)]).topics.remove(0));
    let response = world.ask(connection, &request, version);
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let codes = partitions.map(|partition| Code(partition.error_code));
    std::iter::once(Code(response.error_code)).chain(codes).collect()
}

const FAIL: Code = Code::KAFKA_STORAGE_ERROR;
const OK: Code = Code::NONE;

#[test]
fn errors_stand_where_they_should() {
    let on = Fault::partition_error;
    let table: [(Fault, i16, &[Code]); 7] = [
        (Fault::error(ApiKey::Fetch, FAIL), 12, &[FAIL]),
        // Version 6 has no place for an error of the whole.
        (Fault::error(ApiKey::Fetch, FAIL), 6, &[OK, FAIL, FAIL, FAIL, FAIL]),
        (on(ApiKey::Fetch, FAIL), 12, &[OK, FAIL, FAIL, FAIL, FAIL]),
        (on(ApiKey::Fetch, FAIL).topic("b"), 12, &[OK, OK, OK, FAIL, FAIL]),
        (on(ApiKey::Fetch, FAIL).partition(1), 12, &[OK, OK, FAIL, OK, FAIL]),
        (on(ApiKey::Fetch, FAIL).topic("a").partition(1), 12, &[OK, OK, FAIL, OK, OK]),
        (Fault::error(ApiKey::Fetch, FAIL).topic("missing"), 12, &[OK, OK, OK, OK, OK]),
    ];
    for (fault, version, expected) in table {
        let mut world = world();
        let what = format!("{fault:?}");
        world.cluster.fault(fault);
        assert_eq!(codes(&mut world, version), expected, "{what}");
    }
}

#[test]
fn faults_act_as_often_as_they_should() {
    let mut world = world();
    let once = world.cluster.fault(Fault::error(ApiKey::Fetch, FAIL));
    let elsewhere = world.cluster.fault(Fault::error(ApiKey::Fetch, FAIL).node(2).always());
    let other_api = world.cluster.fault(Fault::error(ApiKey::Metadata, FAIL).always());
    assert_eq!(codes(&mut world, 12), [FAIL]);
    assert_eq!(codes(&mut world, 12), [OK; 5]);
    let thrice = world.cluster.fault(Fault::error(ApiKey::Fetch, FAIL).times(3));
    for expected in [&[FAIL][..], &[FAIL], &[FAIL], &[OK; 5]] {
        assert_eq!(codes(&mut world, 12), expected);
    }
    let always = world.cluster.fault(Fault::error(ApiKey::Fetch, FAIL).always());
    for _ in 0..10 {
        assert_eq!(codes(&mut world, 12), [FAIL]);
    }
    world.cluster.clear_fault(always);
    assert_eq!(codes(&mut world, 12), [OK; 5]);
    let hits = [once, elsewhere, other_api, thrice, always].map(|fault| world.cluster.fault_hits(fault));
    assert_eq!(hits, [1, 0, 0, 3, 10]);
}

#[test]
fn an_error_is_told_at_once_and_does_nothing_else() {
    let mut world = world();
    let connection = world.connect(1);
    world.cluster.fault(Fault::partition_error(ApiKey::Produce, Code::NOT_ENOUGH_REPLICAS));
    let response = world.ask(connection, &produce("a", 0, -1, batch(&[1])), 9);
    assert_eq!(Code(produced(&response).error_code), Code::NOT_ENOUGH_REPLICAS);
    assert_eq!(world.cluster.high_watermark("a", 0), Some(1), "nothing was appended");

    world.cluster.fault(Fault::partition_error(ApiKey::Fetch, FAIL).partition(1));
    let request = FetchRequest { max_wait_ms: 10_000, ..fetch("a", vec![from(0, 1), from(1, 1)]) };
    assert_eq!(world.ask(connection, &request, 12).responses[0].partitions[1].error_code, FAIL.0);
}

#[test]
fn metadata_fails_as_a_whole_by_topic_and_by_partition() {
    let named = MetadataRequestTopic { name: Some("a".into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![named]), ..Default::default() };
    for (fault, version, expected) in [
        (Fault::error(ApiKey::Metadata, FAIL), 13, [FAIL, OK, OK]),
        (Fault::error(ApiKey::Metadata, FAIL), 12, [OK, FAIL, OK]),
        (Fault::partition_error(ApiKey::Metadata, FAIL).topic("a"), 12, [OK, FAIL, OK]),
        (Fault::partition_error(ApiKey::Metadata, FAIL).topic("a").partition(1), 12, [OK, OK, FAIL]),
        (Fault::partition_error(ApiKey::Metadata, FAIL).topic("b"), 12, [OK, OK, OK]),
    ] {
        let mut world = world();
        let connection = world.connect(2);
        world.cluster.fault(fault);
        let response = world.ask(connection, &request, version);
        let topic = response.topics.first();
        let topic_code = topic.map_or(0, |topic| topic.error_code);
        let partition_code =
            topic.and_then(|topic| topic.partitions.get(1)).map_or(0, |partition| partition.error_code);
        assert_eq!([response.error_code, topic_code, partition_code].map(Code), expected);
    }
}

#[test]
fn a_delayed_reply_holds_up_its_connection_only() {
    let mut world = world();
    let (slow, other) = (world.connect(1), world.connect(1));
    world.cluster.fault(Fault::delay(ApiKey::ListOffsets, millis(500)).connection(slow));
    world.send(slow, &list("a", 0, -1), 5);
    world.send(slow, &list("b", 0, -2), 5);
    world.ask(other, &produce("a", 0, -1, batch(&[1])), 9);
    assert_eq!(listed(&world.ask(other, &list("a", 0, -1), 5)).offset, 2);
    world.wait(millis(499));
    assert_eq!(world.take_bytes(slow), None);
    world.wait(millis(1));
    assert_eq!(listed(&world.take::<ListOffsetsRequest>(slow, 5).unwrap()).offset, 1, "as it was when asked");
    assert_eq!(listed(&world.take::<ListOffsetsRequest>(slow, 5).unwrap()).offset, 0, "the next at once");
}

#[test]
fn a_delayed_fetch_is_parked_first() {
    let mut world = world();
    let connection = world.connect(1);
    world.cluster.fault(Fault::delay(ApiKey::Fetch, millis(500)));
    let request = FetchRequest { max_wait_ms: 10_000, ..fetch("a", vec![from(0, 1)]) };
    world.send(connection, &request, 12);
    world.wait(millis(3_000));
    world.cluster.append("a", 0, batch(&[1])).unwrap();
    world.wait(millis(499));
    assert_eq!(world.take_bytes(connection), None);
    world.wait(millis(1));
    assert!(!records(only(&world.take::<FetchRequest>(connection, 12).unwrap())).is_empty());
}

#[test]
fn a_cut_reply_ends_the_connection() {
    for bytes in [0, 3, 4, 50] {
        let mut world = world();
        let connection = world.connect(1);
        world.cluster.fault(Fault::cut(ApiKey::Produce, bytes));
        world.send(connection, &produce("a", 0, -1, batch(&[1])), 9);
        assert_eq!(world.take_bytes(connection).map(|sent| sent.len()), Some(bytes));
        assert!(world.is_closed(connection));
        assert_eq!(world.cluster.high_watermark("a", 0), Some(2), "the request was served");
    }
    let mut world = world();
    let connection = world.connect(1);
    world.cluster.fault(Fault::cut(ApiKey::Produce, 1_000_000));
    world.send(connection, &produce("a", 0, -1, batch(&[1])), 9);
    let whole = world.take::<ProduceRequest>(connection, 9).unwrap();
    assert_eq!(produced(&whole).base_offset, 1);
}

#[test]
fn close_and_silence_serve_nothing() {
    let mut world = world();
    let connection = world.connect(1);
    world.cluster.fault(Fault::close(ApiKey::Produce));
    world.send(connection, &produce("a", 0, -1, batch(&[1])), 9);
    assert_eq!(world.take_bytes(connection), None);
    assert!(world.is_closed(connection));

    let connection = world.connect(1);
    world.cluster.fault(Fault::silence(ApiKey::Produce));
    world.send(connection, &produce("a", 0, -1, batch(&[1])), 9);
    world.send(connection, &list("a", 0, -1), 5);
    world.wait(millis(3_600_000));
    assert_eq!(world.take_bytes(connection), None);
    assert!(!world.is_closed(connection));
    assert_eq!(world.cluster.high_watermark("a", 0), Some(1), "nothing was appended");
}

#[test]
fn garbage_takes_the_place_of_a_reply() {
    let mut world = world();
    let connection = world.connect(1);
    let hit = world.cluster.fault(Fault::garbage(ApiKey::Fetch, &b"HTTP/1.1 400 Bad Request\r\n"[..]));
    world.send(connection, &fetch("a", vec![from(0, 0)]), 12);
    assert_eq!(world.take_bytes(connection).as_deref(), Some(&b"HTTP/1.1 400 Bad Request\r\n"[..]));
    assert_eq!(world.cluster.fault_hits(hit), 1);
    assert_eq!(listed(&world.ask(connection, &list("a", 0, -1), 5)).offset, 1, "the connection lives");
}

#[test]
fn corrupted_records_fail_their_crc_and_nothing_else() {
    let mut world = world();
    let connection = world.connect(1);
    world.cluster.fault(Fault::corrupt_records(70).topic("a").partition(1));
    let request = fetch("a", vec![from(0, 0), from(1, 0)]);
    let check = |response: &FetchResponse| -> Vec<bool> {
        let partitions = response.responses[0].partitions.iter();
        let checks = partitions.map(|partition| {
            let bytes = records(partition);
            let (header, range) = Batches::new(bytes).next().unwrap().unwrap();
            !matches!(header.check_crc(&bytes[range]), Err(RecordError::Crc { .. }))
        });
        checks.collect()
    };
    let broken = world.ask(connection, &request, 12);
    assert_eq!(check(&broken), [true, false]);
    let whole = world.ask(connection, &request, 12);
    assert_eq!(check(&whole), [true, true], "the log itself is unharmed");
    let differing = |partition: usize| {
        let [broken, whole] =
            [&broken, &whole].map(|response| records(&response.responses[0].partitions[partition]));
        broken.iter().zip(whole).filter(|(broken, whole)| broken != whole).count()
    };
    assert_eq!([differing(0), differing(1)], [0, 1]);
}

#[test]
fn a_reply_can_be_rewritten() {
    let mut world = world();
    let connection = world.connect(1);
    let rewrite = Fault::rewrite::<FetchRequest>(|response, version| {
        assert_eq!(version, 12);
        response.throttle_time_ms = 700;
        response.responses[0].partitions[0].preferred_read_replica = 2;
        response.responses[0].partitions.truncate(1);
    });
    world.cluster.fault(rewrite);
    let response = world.ask(connection, &fetch("a", vec![from(0, 0), from(1, 0)]), 12);
    assert_eq!((response.throttle_time_ms, only(&response).preferred_read_replica), (700, 2));
    assert!(!records(only(&response)).is_empty(), "the records are there for the rewriter, too");
}

#[test]
fn faults_add_up() {
    let mut world = world();
    let connection = world.connect(1);
    world.cluster.fault(Fault::error(ApiKey::Fetch, FAIL));
    world.cluster.fault(Fault::delay(ApiKey::Fetch, millis(100)));
    world.cluster.fault(Fault::rewrite::<FetchRequest>(|response, _| response.throttle_time_ms = 5));
    world.send(connection, &fetch("a", vec![from(0, 0)]), 12);
    assert_eq!(world.take_bytes(connection), None);
    world.wait(millis(100));
    let response = world.take::<FetchRequest>(connection, 12).unwrap();
    assert_eq!((Code(response.error_code), response.throttle_time_ms), (FAIL, 5));
}

#[test]
fn an_older_broker() {
    let options = ClusterOptions::new().versions(ApiKey::Fetch, 0, 11).without(ApiKey::OffsetForLeaderEpoch);
    let mut world = World::new(Cluster::new(options));
    let connection = world.connect(1);
    let request = ApiVersionsRequest {
        client_software_name: "ottla".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    let range = |world: &mut World, connection, api: ApiKey| {
        let spoken = world.ask(connection, &request, 3).api_keys;
        spoken
            .iter()
            .find(|spoken| spoken.api_key == api as i16)
            .map(|api| (api.min_version, api.max_version))
    };
    assert_eq!(range(&mut world, connection, ApiKey::Fetch), Some((4, 11)));
    assert_eq!(range(&mut world, connection, ApiKey::OffsetForLeaderEpoch), None);
    world.cluster.set_versions(ApiKey::Fetch, Some((4, 7)));
    assert_eq!(range(&mut world, connection, ApiKey::Fetch), Some((4, 7)));
    world.send(connection, &fetch("a", vec![]), 8);
    assert!(world.is_closed(connection), "a version that is not spoken");

    // Nor is the one of ApiVersions, but that is answered.
    world.cluster.set_versions(ApiKey::ApiVersions, Some((0, 2)));
    let connection = world.connect(1);
    world.send(connection, &request, 3);
    let frame = world.take_bytes(connection).unwrap();
    let (_, answer) = decode_response::<ApiVersionsRequest>(frame.slice(4..), 3).unwrap();
    assert_eq!(Code(answer.error_code), Code::UNSUPPORTED_VERSION);
    assert_eq!((answer.api_keys[0].api_key, answer.api_keys[0].max_version), (18, 2));
    assert_eq!(world.ask(connection, &request, 2).error_code, 0);
    let hit = world.cluster.fault(Fault::close(ApiKey::ApiVersions));
    world.send(connection, &request, 3);
    assert!(world.is_closed(connection));
    assert_eq!(world.cluster.fault_hits(hit), 1, "faults act on what is not spoken, too");
}

#[test]
fn what_was_asked_can_be_looked_at() {
    let mut world = world();
    let (first, second) = (world.connect(1), world.connect(2));
    world.ask(first, &fetch("a", vec![from(0, 0)]), 12);
    world.ask(second, &list("b", 1, -2), 5);
    let seen: Vec<_> =
        world.cluster.received().map(|seen| (seen.api, seen.version, seen.node, seen.connection)).collect();
    assert_eq!(seen, [(ApiKey::Fetch, 12, 1, first), (ApiKey::ListOffsets, 5, 2, second)]);
    let last = world.cluster.received().next_back().unwrap();
    assert_eq!(last.client_id.as_deref(), Some("test"));
    assert_eq!(last.request::<ListOffsetsRequest>(), Some(list("b", 1, -2)));
    assert_eq!(last.request::<FetchRequest>(), None);
    world.cluster.forget_received();
    assert_eq!(world.cluster.received().count(), 0);
    assert_eq!((world.cluster.requests(ApiKey::Fetch), world.cluster.requests(ApiKey::Produce)), (1, 0));
    assert_eq!((world.cluster.opened_connections(1), world.cluster.open_connections(1)), (1, 1));
}
