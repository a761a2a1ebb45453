//! The other APIs, frame by frame. What a real Kafka answers to the same is compared in `kafka.rs`; here is what one
//! broker alone cannot show: leaders elsewhere, nodes that stop, epochs, options.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{WALL_MS, World, batch, list, listed, produce, produced, sized_batch};
use ottla_broker::wire::Uuid;
use ottla_broker::wire::message::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use ottla_broker::wire::message::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use ottla_broker::wire::message::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use ottla_broker::wire::message::delete_topics_request::DeleteTopicState;
use ottla_broker::wire::message::metadata_request::MetadataRequestTopic;
use ottla_broker::wire::message::metadata_response::MetadataResponseTopic;
use ottla_broker::wire::message::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use ottla_broker::wire::message::*;
use ottla_broker::wire::record::Codec;
use ottla_broker::{
    Cluster, ClusterOptions, Code, ConnectionId, Leaders, NodeOptions, Refused, TopicOptions,
};

/// Three nodes, topic `t` with three partitions, led by node 1, 2 and 3.
fn world() -> World {
    let mut cluster = Cluster::new(ClusterOptions::new().nodes(3));
    cluster.create_topic("t", 3).unwrap();
    World::new(cluster)
}

fn metadata(world: &mut World, connection: ConnectionId, names: &[&str]) -> MetadataResponse {
    let topic = |name: &&str| MetadataRequestTopic { name: Some((*name).into()), ..Default::default() };
    let topics = Some(names.iter().map(topic).collect());
    let request = MetadataRequest { topics, allow_auto_topic_creation: true, ..Default::default() };
    world.ask(connection, &request, 12)
}

fn leaders(topic: &MetadataResponseTopic) -> Vec<(i16, i32, i32)> {
    let leader = |partition: &metadata_response::MetadataResponsePartition| {
        (partition.error_code, partition.leader_id, partition.leader_epoch)
    };
    topic.partitions.iter().map(leader).collect()
}

#[test]
fn metadata_says_who_leads() {
    let mut world = world();
    let connection = world.connect(1);
    let response = metadata(&mut world, connection, &["t"]);
    let nodes: Vec<_> =
        response.brokers.iter().map(|node| (node.node_id, node.host.as_str(), node.port)).collect();
    assert_eq!(nodes, [(1, "localhost", 9092), (2, "localhost", 9093), (3, "localhost", 9094)]);
    assert_eq!(response.cluster_id.as_deref(), Some("ottla-broker"));
    assert_eq!(leaders(&response.topics[0]), [(0, 1, 0), (0, 2, 0), (0, 3, 0)]);

    world.cluster.set_leader("t", 0, Some(2)).unwrap();
    world.cluster.set_leader("t", 1, None).unwrap();
    world.cluster.stop_node(3, Leaders::Lose).unwrap();
    let response = metadata(&mut world, connection, &["t"]);
    let missing = Code::LEADER_NOT_AVAILABLE.0;
    assert_eq!(leaders(&response.topics[0]), [(0, 2, 1), (missing, -1, 1), (missing, -1, 1)]);
    assert_eq!(response.brokers.len(), 2);
    let partition = &response.topics[0].partitions[2];
    assert_eq!(
        (&partition.replica_nodes, &partition.isr_nodes, &partition.offline_replicas),
        (&vec![3], &vec![], &vec![3])
    );
}

#[test]
fn metadata_of_all_of_none_and_of_what_comes_to_be() {
    let mut world = World::new(Cluster::new(ClusterOptions::new().auto_create(4)));
    world.cluster.create_topic("b", 1).unwrap();
    world.cluster.create_topic("a", 1).unwrap();
    let connection = world.connect(1);
    let mut names = |topics: Option<Vec<MetadataRequestTopic>>, version| {
        let request = MetadataRequest { topics, allow_auto_topic_creation: true, ..Default::default() };
        let response = world.ask(connection, &request, version);
        response.topics.into_iter().map(|topic| topic.name.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names(Some(vec![]), 0), ["a", "b"], "version 0 has no null");
    assert_eq!(names(None, 1), ["a", "b"]);
    assert_eq!(names(Some(vec![]), 1), Vec::<String>::new());

    let unknown = Code::UNKNOWN_TOPIC_OR_PARTITION.0;
    assert_eq!(metadata(&mut world, connection, &["c"]).topics[0].error_code, unknown);
    assert_eq!(metadata(&mut world, connection, &["c"]).topics[0].partitions.len(), 4);
    let forbid = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic { name: Some("d".into()), ..Default::default() }]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    for _ in 0..2 {
        assert_eq!(world.ask(connection, &forbid, 12).topics[0].error_code, unknown);
    }
}

#[test]
fn a_topic_made_anew_has_another_id() {
    let mut world = world();
    let connection = world.connect(1);
    let before = metadata(&mut world, connection, &["t"]).topics[0].topic_id;
    world.cluster.append("t", 0, batch(&[1])).unwrap();
    world.cluster.delete_topic("t").unwrap();
    let gone = metadata(&mut world, connection, &["t"]);
    assert_eq!(Code(gone.topics[0].error_code), Code::UNKNOWN_TOPIC_OR_PARTITION);
    world.cluster.create_topic("t", 1).unwrap();
    let after = metadata(&mut world, connection, &["t"]).topics[0].topic_id;
    assert!(before != after && !after.is_zero());
    let by_id = MetadataRequestTopic { name: None, topic_id: before };
    let request = MetadataRequest { topics: Some(vec![by_id]), ..Default::default() };
    assert_eq!(Code(world.ask(connection, &request, 12).topics[0].error_code), Code::UNKNOWN_TOPIC_ID);
    assert_eq!(world.cluster.high_watermark("t", 0), Some(0));
}

#[test]
fn racks_and_addresses_are_told() {
    let nodes = [NodeOptions { rack: Some("east".into()), ..NodeOptions::new(7) }, NodeOptions::new(9)];
    let mut world = World::new(Cluster::new(ClusterOptions::new().with_nodes(nodes).cluster_id("c")));
    world.cluster.set_address(9, "nine.example", 19).unwrap();
    let connection = world.connect(9);
    let response = metadata(&mut world, connection, &[]);
    let told: Vec<_> = response
        .brokers
        .iter()
        .map(|node| (node.node_id, node.host.as_str(), node.port, node.rack.as_deref()))
        .collect();
    assert_eq!(told, [(7, "localhost", 9098, Some("east")), (9, "nine.example", 19, None)]);
    assert_eq!(response.cluster_id.as_deref(), Some("c"));
}

#[test]
fn produce_goes_to_the_leader() {
    let mut world = world();
    let (leader, other) = (world.connect(1), world.connect(2));
    for version in 3..=12 {
        let response = world.ask(other, &produce("t", 0, -1, batch(&[1, 2])), version);
        let partition = produced(&response);
        assert_eq!(Code(partition.error_code), Code::NOT_LEADER_OR_FOLLOWER);
        let hinted: Vec<_> = response.node_endpoints.iter().map(|node| node.node_id).collect();
        assert_eq!(
            (partition.current_leader.leader_id, hinted),
            if version >= 10 { (1, vec![1]) } else { (-1, vec![]) }
        );
    }
    for version in 3..=12 {
        let response = world.ask(leader, &produce("t", 0, 1, batch(&[1, 2])), version);
        let partition = produced(&response);
        assert_eq!((partition.error_code, partition.base_offset), (0, i64::from(version - 3) * 2));
    }
}

#[test]
fn acks_0_gets_no_reply() {
    let mut world = world();
    let connection = world.connect(1);
    world.send(connection, &produce("t", 0, 0, batch(&[1])), 9);
    assert_eq!(
        listed(&world.ask(connection, &list("t", 0, -1), 5)).offset,
        1,
        "the first reply is of the second"
    );
    world.send(connection, &produce("t", 1, 0, batch(&[1])), 9);
    assert_eq!(world.take_bytes(connection), None);
    assert!(world.is_closed(connection));
}

#[test]
fn append_time_and_sizes() {
    let mut world = world();
    let options = TopicOptions { append_time: true, max_message_bytes: 200, ..TopicOptions::new(1) };
    world.cluster.create_topic_with("stamped", options).unwrap();
    let connection = world.connect(1);
    let response = world.ask(connection, &produce("stamped", 0, -1, sized_batch(Codec::Lz4, &[5, 6], 10)), 9);
    assert_eq!(produced(&response).log_append_time_ms, WALL_MS);
    let first = world.ask(connection, &list("stamped", 0, 7), 5);
    assert_eq!((listed(&first).timestamp, listed(&first).offset), (WALL_MS, 0));
    let response = world.ask(connection, &produce("stamped", 0, -1, sized_batch(Codec::None, &[5], 200)), 9);
    assert_eq!(Code(produced(&response).error_code), Code::MESSAGE_TOO_LARGE);
}

#[test]
fn offsets_are_listed_by_the_leader_with_its_epoch() {
    let mut world = world();
    for time in [10, 20, 30] {
        world.cluster.append("t", 0, batch(&[time])).unwrap();
        world.cluster.set_leader("t", 0, Some(1)).unwrap();
    }
    world.cluster.delete_records("t", 0, 1).unwrap();
    let (leader, other) = (world.connect(1), world.connect(2));
    let mut ask = |time| {
        let response = world.ask(leader, &list("t", 0, time), 7);
        let found = listed(&response);
        (found.offset, found.timestamp, found.leader_epoch)
    };
    assert_eq!(ask(-1), (3, -1, 3));
    assert_eq!(ask(-2), (1, -1, 1));
    assert_eq!(ask(-3), (2, 30, 2));
    assert_eq!(ask(0), (1, 20, 1));
    assert_eq!(ask(31), (-1, -1, -1));
    let response = world.ask(other, &list("t", 0, -1), 7);
    assert_eq!(Code(listed(&response).error_code), Code::NOT_LEADER_OR_FOLLOWER);
    let mut old = list("t", 0, -1);
    old.topics[0].partitions[0].current_leader_epoch = 2;
    let response = world.ask(leader, &old, 7);
    assert_eq!(Code(listed(&response).error_code), Code::FENCED_LEADER_EPOCH);
}

#[test]
fn epochs_end_where_the_next_leader_began() {
    let mut world = world();
    for times in [&[1, 2][..], &[3], &[4, 5, 6]] {
        world.cluster.append("t", 0, batch(times)).unwrap();
        world.cluster.set_leader("t", 0, Some(1)).unwrap();
    }
    let connection = world.connect(1);
    let mut end = |leader_epoch, current_leader_epoch| {
        let partitions = vec![OffsetForLeaderPartition { partition: 0, current_leader_epoch, leader_epoch }];
        let topics = vec![OffsetForLeaderTopic { topic: "t".into(), partitions }];
        let response = world.ask(connection, &OffsetForLeaderEpochRequest { replica_id: -1, topics }, 4);
        let end = &response.topics[0].partitions[0];
        (Code(end.error_code), end.leader_epoch, end.end_offset)
    };
    assert_eq!(end(0, 3), (Code::NONE, 0, 2));
    assert_eq!(end(1, 3), (Code::NONE, 1, 3));
    assert_eq!(end(2, -1), (Code::NONE, 2, 6));
    assert_eq!(end(3, 3), (Code::NONE, 3, 6));
    assert_eq!(end(4, 3), (Code::NONE, -1, -1));
    assert_eq!(end(0, 1), (Code::FENCED_LEADER_EPOCH, -1, -1));
    assert_eq!(end(0, 9), (Code::UNKNOWN_LEADER_EPOCH, -1, -1));
}

#[test]
fn topics_are_made_where_the_request_says() {
    let mut world = world();
    let connection = world.connect(2);
    let assign = |partition_index, broker_ids: &[i32]| CreatableReplicaAssignment {
        partition_index,
        broker_ids: broker_ids.to_vec(),
    };
    let topic = CreatableTopic {
        name: "placed".into(),
        num_partitions: -1,
        replication_factor: -1,
        assignments: vec![assign(1, &[2, 3]), assign(0, &[3, 1])],
        ..Default::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 1000, validate_only: false };
    let made = world.ask(connection, &request, 7).topics.remove(0);
    assert_eq!((made.error_code, made.num_partitions, made.replication_factor), (0, 2, 2));
    assert_eq!(Some(made.topic_id), world.cluster.topic_id("placed"));
    assert_eq!((world.cluster.leader("placed", 0), world.cluster.leader("placed", 1)), (Some(3), Some(2)));

    let more = CreatePartitionsTopic {
        name: "placed".into(),
        count: 3,
        assignments: Some(vec![CreatePartitionsAssignment { broker_ids: vec![2] }]),
    };
    let request = CreatePartitionsRequest { topics: vec![more], timeout_ms: 1000, validate_only: false };
    assert_eq!(world.ask(connection, &request, 3).results[0].error_code, 0);
    assert_eq!((world.cluster.partitions("placed"), world.cluster.leader("placed", 2)), (3, Some(2)));
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    let mut world = world();
    let id = world.cluster.create_topic("u", 1).unwrap();
    let connection = world.connect(1);
    let by_id = DeleteTopicState { name: None, topic_id: id };
    let request = DeleteTopicsRequest { topics: vec![by_id], timeout_ms: 1000, ..Default::default() };
    let deleted = world.ask(connection, &request, 6).responses.remove(0);
    assert_eq!((deleted.error_code, deleted.name.as_deref()), (0, Some("u")));
    let by_name = DeleteTopicState { name: Some("t".into()), topic_id: Uuid::ZERO };
    let request = DeleteTopicsRequest { topics: vec![by_name], timeout_ms: 1000, ..Default::default() };
    assert_eq!(world.ask(connection, &request, 6).responses[0].error_code, 0);
    assert_eq!(world.cluster.topics(), Vec::<String>::new());
}

#[test]
fn records_are_deleted_by_the_leader() {
    let mut world = world();
    for _ in 0..3 {
        world.cluster.append("t", 0, batch(&[1, 2])).unwrap();
    }
    let (leader, other) = (world.connect(1), world.connect(2));
    let mut delete = |connection, offset| {
        let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset }];
        let topics = vec![DeleteRecordsTopic { name: "t".into(), partitions }];
        let response = world.ask(connection, &DeleteRecordsRequest { topics, timeout_ms: 1000 }, 2);
        let deleted = &response.topics[0].partitions[0];
        (Code(deleted.error_code), deleted.low_watermark)
    };
    assert_eq!(delete(other, 3), (Code::NOT_LEADER_OR_FOLLOWER, -1));
    assert_eq!(delete(leader, 3), (Code::NONE, 3));
    assert_eq!(delete(leader, 99), (Code::OFFSET_OUT_OF_RANGE, -1));
    assert_eq!(delete(leader, -1), (Code::NONE, 6));
    assert_eq!(world.cluster.log_start("t", 0), Some(6));
    assert_eq!(world.cluster.log_bytes("t", 0), Some(0));
}

#[test]
fn idempotent_producers_get_ids_of_their_own() {
    let mut world = world();
    let connection = world.connect(1);
    let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
    for version in 0..=5 {
        let given = world.ask(connection, &request, version);
        assert_eq!((given.error_code, given.producer_id, given.producer_epoch), (0, i64::from(version), 0));
    }
    let request = InitProducerIdRequest { transactional_id: Some("x".into()), ..Default::default() };
    assert_eq!(Code(world.ask(connection, &request, 5).error_code), Code::UNSUPPORTED_VERSION);
}

#[test]
fn values_are_appended_from_inside() {
    let mut world = world();
    assert_eq!(world.cluster.append_values("t", 0, 5, ["a", "b"]), Ok(0));
    assert_eq!(world.cluster.append_values("t", 0, 6, [b"c"]), Ok(2));
    let refused = |result: Result<i64, Refused>| result.unwrap_err().code;
    assert_eq!(refused(world.cluster.append_values("t", 0, 6, [""; 0])), Code::INVALID_RECORD);
    assert_eq!(refused(world.cluster.append_values("t", 9, 6, [""])), Code::UNKNOWN_TOPIC_OR_PARTITION);
    let connection = world.connect(1);
    let found = world.ask(connection, &list("t", 0, 6), 5);
    assert_eq!((listed(&found).offset, listed(&found).timestamp), (2, 6));
}

#[test]
fn a_full_log_forgets_its_oldest_batches() {
    let mut cluster = Cluster::new(ClusterOptions::new().max_log_bytes(1000));
    cluster.create_topic("t", 1).unwrap();
    let mut world = World::new(cluster);
    let connection = world.connect(1);
    for _ in 0..50 {
        let response = world.ask(connection, &produce("t", 0, -1, batch(&[1])), 9);
        let partition = produced(&response);
        assert_eq!(Some(partition.log_start_offset), world.cluster.log_start("t", 0));
        assert!(world.cluster.log_bytes("t", 0).unwrap() <= 1000);
    }
    assert!(world.cluster.log_start("t", 0).unwrap() > 30);
    assert_eq!(world.cluster.high_watermark("t", 0), Some(50));
}

#[test]
fn bytes_that_are_no_request_close_their_connection_only() {
    let frames: [&[u8]; 6] = [b"", b"\0", b"GET / HTTP/1.1", &[0xff; 20], &[0; 8], &[0; 100]];
    for frame in frames {
        let mut world = world();
        let (bad, good) = (world.connect(1), world.connect(1));
        let frame = [&[0; 4], frame].concat();
        world.send_bytes(bad, frame);
        assert!(world.is_closed(bad));
        assert_eq!(listed(&world.ask(good, &list("t", 0, -1), 5)).offset, 0);
        assert_eq!(world.take_bytes(bad), None);
    }
}

/// No bytes, least of all a request with some bytes wrong, may make the broker panic.
#[test]
fn any_bytes_are_survivable() {
    let mut random = fastrand::Rng::with_seed(5);
    let good: Vec<Vec<u8>> = {
        let frame = |bytes: Result<Vec<u8>, _>| bytes.unwrap();
        use ottla_broker::wire::frame::encode_request;
        vec![
            frame(encode_request(&common::fetch("t", vec![common::from(0, 0)]), 12, 1, "x")),
            frame(encode_request(&produce("t", 0, -1, sized_batch(Codec::Gzip, &[1, 2], 9)), 9, 1, "x")),
            frame(encode_request(&list("t", 0, 5), 7, 1, "x")),
            frame(encode_request(&MetadataRequest::default(), 12, 1, "x")),
        ]
    };
    let mut world = world();
    for _ in 0..20_000 {
        let mut frame = good[random.usize(..good.len())].clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(4..frame.len());
            frame[at] = random.u8(..);
        }
        frame.truncate(random.usize(frame.len() / 2..=frame.len()));
        let connection = world.connect(1);
        world.send_bytes(connection, frame);
        world.cluster.disconnect(connection);
        while world.cluster.poll_output().is_some() {}
    }
}
