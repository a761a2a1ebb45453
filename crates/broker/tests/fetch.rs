//! Fetch, frame by frame under a hand-wound clock: what waits, what wakes it, where it is cut, who may be asked.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{World, batch, fetch, from, list, listed, millis, only, produce, records};
use ottla_broker::wire::message::fetch_request::{FetchPartition, FetchTopic};
use ottla_broker::wire::message::{FetchRequest, ListOffsetsRequest};
use ottla_broker::wire::record::{Batches, set_base_offset};
use ottla_broker::{Cluster, ClusterOptions, Code, ConnectionId, Leaders, TopicOptions};

/// Topic `t` with three partitions on three nodes: partition 0 is led by node 1 (and so on), each on two nodes.
fn world() -> World {
    let mut cluster = Cluster::new(ClusterOptions::new().nodes(3));
    cluster.create_topic_with("t", TopicOptions { replication: 2, ..TopicOptions::new(3) }).unwrap();
    World::new(cluster)
}

fn waiting(partitions: Vec<FetchPartition>, max_wait_ms: i32, min_bytes: i32) -> FetchRequest {
    FetchRequest { max_wait_ms, min_bytes, ..fetch("t", partitions) }
}

/// Asks for partition 0 of `t` and gives its code.
fn code(world: &mut World, connection: ConnectionId, version: i16, partition: FetchPartition) -> Code {
    let request = by_id_where_needed(world, fetch("t", vec![partition]), version);
    Code(only(&world.ask(connection, &request, version)).error_code)
}

fn by_id_where_needed(world: &World, mut request: FetchRequest, version: i16) -> FetchRequest {
    if version >= 13 {
        request.topics[0].topic_id = world.cluster.topic_id("t").unwrap();
    }
    request
}

#[test]
fn what_was_appended_comes_back() {
    for version in 4..=18 {
        let mut world = world();
        let connection = world.connect(1);
        world.cluster.append("t", 0, batch(&[1, 2])).unwrap();
        world.cluster.append("t", 0, batch(&[3])).unwrap();
        let request = by_id_where_needed(&world, fetch("t", vec![from(0, 1)]), version);
        let response = world.ask(connection, &request, version);
        let partition = only(&response);
        let headers: Vec<_> = Batches::new(records(partition)).map(|batch| batch.unwrap().0).collect();
        let offsets: Vec<_> =
            headers.iter().map(|header| (header.base_offset, header.last_offset())).collect();
        assert_eq!(offsets, [(0, 1), (2, 2)], "version {version}");
        assert_eq!((partition.error_code, partition.high_watermark, partition.last_stable_offset), (0, 3, 3));
    }
}

#[test]
fn a_fetch_waits_for_data() {
    let mut world = world();
    let connection = world.connect(1);
    world.send(connection, &waiting(vec![from(0, 0)], 10_000, 1), 12);
    world.wait(millis(9_000));
    assert_eq!(world.take::<FetchRequest>(connection, 12), None);
    world.cluster.append("t", 1, batch(&[1])).unwrap();
    assert_eq!(world.take::<FetchRequest>(connection, 12), None, "another partition");
    world.cluster.append("t", 0, batch(&[1])).unwrap();
    let response = world.take::<FetchRequest>(connection, 12).expect("the reply, without waiting longer");
    assert_eq!(only(&response).high_watermark, 1);
    assert_eq!(world.cluster.poll_deadline(), None);
}

#[test]
fn a_fetch_waits_until_its_time_is_up() {
    let mut world = world();
    let connection = world.connect(1);
    let begun = world.now;
    world.send(connection, &waiting(vec![from(0, 0)], 10_000, 1), 12);
    assert_eq!(world.cluster.poll_deadline(), Some(begun + millis(10_000)));
    world.wait(millis(9_999));
    assert_eq!(world.take::<FetchRequest>(connection, 12), None);
    world.wait(millis(1));
    let response = world.take::<FetchRequest>(connection, 12).expect("an empty reply");
    assert!(records(only(&response)).is_empty());
}

#[test]
fn bytes_are_counted_over_all_partitions_but_no_partition_counts_more_than_may_be_sent() {
    let mut world = world();
    let connection = world.connect(1);
    for partition in 0..3 {
        world.cluster.set_leader("t", partition, Some(1)).unwrap();
    }
    let size = batch(&[1]).len() as i32;
    world.send(connection, &waiting(vec![from(0, 0), from(1, 0), from(2, 0)], 1000, size * 2), 12);
    world.cluster.append("t", 2, batch(&[1])).unwrap();
    assert_eq!(world.take::<FetchRequest>(connection, 12), None);
    world.cluster.append("t", 0, batch(&[1])).unwrap();
    assert!(world.take::<FetchRequest>(connection, 12).is_some());

    let small = FetchPartition { partition_max_bytes: 10, ..from(0, 1) };
    world.send(connection, &waiting(vec![small, from(1, 0)], 1000, size), 12);
    world.cluster.append("t", 0, batch(&[1])).unwrap();
    assert_eq!(world.take::<FetchRequest>(connection, 12), None, "ten bytes are not enough");
    world.cluster.append("t", 1, batch(&[1])).unwrap();
    assert!(world.take::<FetchRequest>(connection, 12).is_some());
}

#[test]
fn requests_behind_a_parked_fetch_wait_and_come_in_order() {
    let mut world = world();
    let (first, second) = (world.connect(1), world.connect(1));
    world.send(first, &waiting(vec![from(0, 0)], 5_000, 1), 12);
    world.send(first, &list("t", 0, -1), 5);
    world.send(first, &waiting(vec![from(0, 1)], 3_000, 1), 12);
    assert_eq!(world.cluster.waiting(first), 3);
    assert_eq!(world.take_bytes(first), None);
    // The other connection is served.
    assert_eq!(listed(&world.ask(second, &list("t", 0, -1), 5)).offset, 0);
    world.ask(second, &produce("t", 0, -1, batch(&[1])), 9);
    assert_eq!(only(&world.take::<FetchRequest>(first, 12).unwrap()).high_watermark, 1);
    assert_eq!(listed(&world.take::<ListOffsetsRequest>(first, 5).unwrap()).offset, 1);
    assert_eq!(world.take_bytes(first), None, "the next fetch is parked");
    // Its time began when it was its turn.
    world.wait(millis(2_999));
    assert_eq!(world.take_bytes(first), None);
    world.wait(millis(1));
    assert!(world.take::<FetchRequest>(first, 12).is_some());
    assert_eq!(world.cluster.waiting(first), 0);
}

#[test]
fn a_parked_fetch_is_told_when_what_it_waits_for_changes() {
    type Change = fn(&mut Cluster);
    let changes: [(&str, Change, Code); 5] = [
        ("leader away", |cluster| cluster.set_leader("t", 0, Some(3)).unwrap(), Code::FENCED_LEADER_EPOCH),
        ("no leader", |cluster| cluster.set_leader("t", 0, None).unwrap(), Code::FENCED_LEADER_EPOCH),
        ("deleted", |cluster| cluster.delete_topic("t").unwrap(), Code::UNKNOWN_TOPIC_OR_PARTITION),
        (
            "made anew",
            |cluster| {
                cluster.delete_topic("t").unwrap();
                cluster.create_topic("t", 1).unwrap();
            },
            Code::INCONSISTENT_TOPIC_ID,
        ),
        ("truncated", |cluster| cluster.truncate("t", 0, 0).unwrap(), Code::OFFSET_OUT_OF_RANGE),
    ];
    for (what, change, code) in changes {
        let mut world = world();
        let connection = world.connect(1);
        world.cluster.append("t", 0, batch(&[1])).unwrap();
        let partition = FetchPartition { current_leader_epoch: 0, ..from(0, 1) };
        let request = by_id_where_needed(&world, waiting(vec![partition], 10_000, 1), 13);
        world.send(connection, &request, 13);
        assert_eq!(world.take_bytes(connection), None, "{what}");
        change(&mut world.cluster);
        let response = world.take::<FetchRequest>(connection, 13).expect("a reply at once");
        assert_eq!(Code(only(&response).error_code), code, "{what}");
    }
}

#[test]
fn a_disconnected_client_is_forgotten() {
    let mut world = world();
    let connection = world.connect(1);
    world.send(connection, &waiting(vec![from(0, 0)], 10_000, 1), 12);
    world.cluster.disconnect(connection);
    assert_eq!(world.cluster.poll_deadline(), None);
    world.cluster.append("t", 0, batch(&[1])).unwrap();
    assert_eq!(world.take_bytes(connection), None);
}

#[test]
fn leader_epochs_fence() {
    let mut world = world();
    world.cluster.set_leader("t", 0, Some(2)).unwrap();
    world.cluster.set_leader("t", 0, Some(1)).unwrap();
    let connection = world.connect(1);
    for (epoch, expected) in [
        (-1, Code::NONE),
        (0, Code::FENCED_LEADER_EPOCH),
        (1, Code::FENCED_LEADER_EPOCH),
        (2, Code::NONE),
        (3, Code::UNKNOWN_LEADER_EPOCH),
    ] {
        let partition = FetchPartition { current_leader_epoch: epoch, ..from(0, 0) };
        assert_eq!(code(&mut world, connection, 12, partition), expected, "epoch {epoch}");
    }
}

#[test]
fn who_does_not_lead_says_who_does() {
    let mut world = world();
    let connection = world.connect(3);
    assert_eq!(world.cluster.leader("t", 0), Some(1));
    for version in [4, 10, 11, 12, 15, 16, 18] {
        let request = by_id_where_needed(&world, fetch("t", vec![from(0, 0)]), version);
        let response = world.ask(connection, &request, version);
        let partition = only(&response);
        assert_eq!(Code(partition.error_code), Code::NOT_LEADER_OR_FOLLOWER);
        let endpoints: Vec<_> =
            response.node_endpoints.iter().map(|node| (node.node_id, node.port)).collect();
        if version >= 16 {
            assert_eq!((partition.current_leader.leader_id, partition.current_leader.leader_epoch), (1, 0));
            assert_eq!(endpoints, [(1, 9092)]);
        } else {
            assert_eq!(partition.current_leader.leader_id, -1);
            assert_eq!(endpoints, []);
        }
    }
}

#[test]
fn a_replica_serves_readers_that_know_of_it() {
    let mut world = world();
    world.cluster.append("t", 0, batch(&[1])).unwrap();
    let (leader, replica) = (world.connect(1), world.connect(2));
    assert_eq!(code(&mut world, replica, 10, from(0, 0)), Code::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(code(&mut world, replica, 11, from(0, 0)), Code::NONE);
    world.cluster.set_leader("t", 0, None).unwrap();
    for connection in [leader, replica] {
        assert_eq!(code(&mut world, connection, 12, from(0, 0)), Code::NOT_LEADER_OR_FOLLOWER);
    }
}

#[test]
fn a_log_that_went_another_way_is_told() {
    let mut world = world();
    let connection = world.connect(1);
    world.cluster.append("t", 0, batch(&[1, 2, 3])).unwrap();
    world.cluster.append("t", 0, batch(&[4, 5])).unwrap();
    // The new leader had only the first batch.
    world.cluster.truncate("t", 0, 3).unwrap();
    world.cluster.set_leader("t", 0, Some(1)).unwrap();
    world.cluster.append("t", 0, batch(&[6, 7, 8])).unwrap();
    for (epoch, offset, expected) in
        [(0, 3, None), (0, 5, Some((0, 3))), (1, 6, None), (1, 5, None), (-1, 5, None)]
    {
        let partition = FetchPartition { last_fetched_epoch: epoch, ..from(0, offset) };
        let response = world.ask(connection, &fetch("t", vec![partition]), 12);
        let diverging = &only(&response).diverging_epoch;
        let told = (diverging.epoch >= 0).then_some((diverging.epoch, diverging.end_offset));
        assert_eq!(told, expected, "epoch {epoch}, offset {offset}");
    }
    let partition = FetchPartition { last_fetched_epoch: 2, ..from(0, 5) };
    assert_eq!(code(&mut world, connection, 12, partition), Code::OFFSET_OUT_OF_RANGE);
}

#[test]
fn a_first_batch_always_comes_whole_and_the_rest_is_cut() {
    let mut world = world();
    let connection = world.connect(1);
    for partition in 0..2 {
        world.cluster.set_leader("t", partition, Some(1)).unwrap();
        for _ in 0..3 {
            world.cluster.append("t", partition, batch(&[1, 2])).unwrap();
        }
    }
    let size = batch(&[1, 2]).len();
    let mut sizes = |max_bytes: usize, partition_max: [usize; 2]| {
        let asked = |partition: i32, offset| FetchPartition {
            partition_max_bytes: partition_max[partition as usize] as i32,
            ..from(partition, offset)
        };
        let request =
            FetchRequest { max_bytes: max_bytes as i32, ..fetch("t", vec![asked(0, 1), asked(1, 0)]) };
        let response = world.ask(connection, &request, 12);
        let [first, second] = &response.responses[0].partitions[..] else { panic!("two partitions") };
        [records(first).len(), records(second).len()]
    };
    assert_eq!(sizes(0, [0, 0]), [size, 0]);
    assert_eq!(sizes(1000, [1, 1]), [size, 0]);
    assert_eq!(sizes(size + 10, [1000, 1000]), [size + 10, 0]);
    assert_eq!(sizes(10 * size, [size + 10, size - 1]), [size + 10, 0]);
    assert_eq!(sizes(10 * size, [size + 10, size]), [size + 10, size]);
    assert_eq!(sizes(10 * size, [size + 10, 2 * size - 1]), [size + 10, 2 * size - 1]);
    assert_eq!(sizes(4 * size, [10 * size, 10 * size]), [3 * size, size]);
    assert_eq!(sizes(4 * size - 1, [10 * size, 10 * size]), [3 * size, 0]);
}

#[test]
fn records_that_are_gone_and_gaps() {
    let mut world = world();
    let connection = world.connect(1);
    for _ in 0..3 {
        world.cluster.append("t", 0, batch(&[1, 2])).unwrap();
    }
    let mut gap = batch(&[1]);
    set_base_offset(&mut gap, 100).unwrap();
    world.cluster.append_as_is("t", 0, gap).unwrap();
    world.cluster.delete_records("t", 0, 3).unwrap();
    assert_eq!(code(&mut world, connection, 12, from(0, 2)), Code::OFFSET_OUT_OF_RANGE);
    assert_eq!(code(&mut world, connection, 12, from(0, 102)), Code::OFFSET_OUT_OF_RANGE);
    for (offset, first) in [(3, 2), (5, 4), (6, 100), (50, 100), (100, 100)] {
        let response = world.ask(connection, &fetch("t", vec![from(0, offset)]), 12);
        let partition = only(&response);
        assert_eq!((partition.log_start_offset, partition.high_watermark), (3, 101));
        let (header, _) = Batches::new(records(partition)).next().unwrap().unwrap();
        assert_eq!(header.base_offset, first, "from {offset}");
    }
}

#[test]
fn sessions_are_refused_as_by_a_full_cache() {
    let mut world = world();
    let connection = world.connect(1);
    for (session_id, session_epoch, expected) in [
        (0, -1, Code::NONE),
        (0, 0, Code::NONE),
        (7, -1, Code::NONE),
        (7, 1, Code::FETCH_SESSION_ID_NOT_FOUND),
        (0, 1, Code::FETCH_SESSION_ID_NOT_FOUND),
    ] {
        let request = FetchRequest { session_id, session_epoch, ..fetch("t", vec![from(0, 0)]) };
        let response = world.ask(connection, &request, 12);
        assert_eq!((Code(response.error_code), response.session_id), (expected, 0));
        assert_eq!(response.responses.is_empty(), expected != Code::NONE);
    }
}

#[test]
fn what_is_missing_does_not_end_the_wait_for_what_is_there() {
    let mut world = world();
    let connection = world.connect(1);
    let mut request = waiting(vec![from(0, 0), from(9, 0)], 1_000, 1);
    let missing = FetchTopic { topic: "missing".into(), ..request.topics[0].clone() };
    request.topics.push(missing);
    world.send(connection, &request, 12);
    assert_eq!(world.take_bytes(connection), None);
    world.wait(millis(1_000));
    let response = world.take::<FetchRequest>(connection, 12).unwrap();
    let codes: Vec<_> = response
        .responses
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|partition| Code(partition.error_code)))
        .collect();
    let missing = Code::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(codes, [Code::NONE, missing, missing, missing]);
}

#[test]
fn nodes_stop_and_start() {
    let mut world = world();
    let (stopped, other) = (world.connect(1), world.connect(2));
    world.send(stopped, &waiting(vec![from(0, 0)], 10_000, 1), 12);
    world.cluster.stop_node(1, Leaders::Lose).unwrap();
    assert!(world.is_closed(stopped));
    assert!(!world.is_closed(other));
    assert_eq!(world.cluster.connect(1), None);
    assert_eq!((world.cluster.leader("t", 0), world.cluster.leader_epoch("t", 0)), (None, Some(1)));
    world.cluster.start_node(1).unwrap();
    assert_eq!((world.cluster.leader("t", 0), world.cluster.leader_epoch("t", 0)), (Some(1), Some(2)));
    let again = world.connect(1);
    assert_eq!(code(&mut world, again, 12, from(0, 0)), Code::NONE);

    world.cluster.stop_node(1, Leaders::Move).unwrap();
    let heir = world.cluster.leader("t", 0).unwrap();
    assert_ne!(heir, 1);
    world.cluster.start_node(1).unwrap();
    assert_eq!(world.cluster.leader("t", 0), Some(heir), "a node that comes back does not lead at once");
}

/// The same calls give the same bytes.
#[test]
fn deterministic() {
    let run = || {
        let mut world = world();
        let connection = world.connect(1);
        world.ask(connection, &produce("t", 0, -1, batch(&[1, 2])), 9);
        let request = by_id_where_needed(&world, fetch("t", vec![from(0, 0)]), 13);
        world.send(connection, &request, 13);
        world.take_bytes(connection).unwrap()
    };
    assert_eq!(run(), run());
}
