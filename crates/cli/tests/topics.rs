//! `ottla topics` and `ottla offsets` against the embedded broker.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

mod support;

use ottla_broker::ClusterOptions;
use ottla_wire::record::Codec;
use serde_json::{Value, json};
use support::Cluster;

/// `orders` with five records in partition 0 and three in 1, that at offset n with the time 1000 + n; `refunds` is empty.
fn orders() -> Cluster {
    let cluster = Cluster::with_orders(2);
    for (partition, count) in [(0, 5), (1, 3)] {
        for n in 0..count {
            cluster.append_batch(partition, Codec::None, |batch| {
                batch.push(1000 + n, None, Some(b"x"), &[]);
            });
        }
    }
    cluster.change(|cluster| cluster.create_topic("refunds", 1).unwrap());
    cluster
}

fn cells(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn all_topics_are_listed() {
    let ended = orders().ottla("topics").run().quietly();
    let lines: Vec<_> = ended.lines().into_iter().map(cells).collect();
    assert_eq!(lines[0], ["TOPIC", "PARTITIONS", "REPLICAS", "IN-SYNC", "RECORDS"]);
    assert_eq!(lines[1..], [["orders", "2", "1", "1", "8"], ["refunds", "1", "1", "1", "0"]]);
}

#[test]
fn topics_are_found_by_a_pattern_and_shown_by_name() {
    let cluster = orders();
    let ended = cluster.ottla("topics /ref.*/").run().quietly();
    assert_eq!((ended.lines().len(), cells(ended.lines()[1])[0]), (2, "refunds"));
    let ended = cluster.ottla("topics orders").run().quietly();
    let lines: Vec<_> = ended.lines();
    assert_eq!(lines[0], "topic orders: 2 partitions, 8 records");
    assert_eq!(cells(lines[2]), ["PARTITION", "LEADER", "REPLICAS", "IN-SYNC", "BEGIN", "END", "RECORDS"]);
    assert_eq!(cells(lines[3])[4..], ["0", "5", "5"]);
    assert_eq!(cells(lines[4])[4..], ["0", "3", "3"]);
}

#[test]
fn programs_get_topics_as_json() {
    let ended = orders().ottla("topics --json").run().quietly();
    let topics = objects(ended.text());
    assert_eq!((&topics[0]["topic"], &topics[1]["topic"]), (&json!("orders"), &json!("refunds")));
    let partition = &topics[0]["partitions"][1];
    assert_eq!(
        (&partition["begin"], &partition["end"], &partition["records"]),
        (&json!(0), &json!(3), &json!(3))
    );
    assert_eq!((&partition["replicas"], &partition["in_sync"]), (&json!([1]), &json!([1])));
}

#[test]
fn a_partition_without_a_leader_is_told_and_the_others_are_shown() {
    let cluster = Cluster::with_options(ClusterOptions::new().nodes(2));
    cluster.change(|cluster| {
        cluster.create_topic("orders", 2).unwrap();
        cluster.set_leader("orders", 1, None).unwrap();
    });
    cluster.append(0, &["a"]);
    let ended = cluster.ottla("topics orders").run();
    assert_eq!(ended.code, Some(1));
    assert!(ended.text().contains("orders partition 1 has no leader\n"), "{}", ended.text());
    assert_eq!(cells(ended.lines()[3])[4..], ["0", "1", "1"]);
    assert_eq!(cells(ended.lines()[4])[4..], ["-", "-", "-"]);
}

#[test]
fn offsets_say_how_far_partitions_reach() {
    let cluster = orders();
    let ended = cluster.ottla("offsets orders refunds:0").run().quietly();
    let lines: Vec<_> = ended.lines().into_iter().map(cells).collect();
    assert_eq!(lines[0], ["TOPIC", "PARTITION", "BEGIN", "END", "RECORDS"]);
    assert_eq!(
        lines[1..],
        [["orders", "0", "0", "5", "5"], ["orders", "1", "0", "3", "3"], ["refunds", "0", "0", "0", "0"]]
    );
    let ended = cluster.ottla("offsets orders:1").run().quietly();
    assert_eq!((ended.lines().len(), cells(ended.lines()[1])[1]), (2, "1"));
}

#[test]
fn offsets_of_a_time() {
    let cluster = orders();
    for at in ["1003", "@1003", "1970-01-01T00:00:01.003Z"] {
        let ended = cluster.ottla(&format!("offsets orders --at {at}")).run().quietly();
        let lines: Vec<_> = ended.lines().into_iter().map(cells).collect();
        assert_eq!(lines[1], ["orders", "0", "0", "3", "1970-01-01T00:00:01.003Z", "5", "2"], "{at}");
        assert_eq!(lines[2], ["orders", "1", "0", "3", "-", "3", "0"], "{at}");
    }
    let ended = cluster.ottla("offsets orders:0 --json --at 1002").run().quietly();
    let expected = json!({"topic": "orders", "partition": 0, "begin": 0, "end": 5, "records": 3, "offset": 2,
        "timestamp": 1002});
    assert_eq!(objects(ended.text()), [expected]);
}

#[test]
fn what_does_not_exist_is_told() {
    let cluster = orders();
    cluster.ottla("topics ghosts").run().failed("topic ghosts does not exist");
    cluster.ottla("offsets ghosts").run().failed("topic ghosts does not exist");
    cluster.ottla("offsets orders:7").run().failed("topic orders has no partition 7; it has 2 (0 to 1)");
}

#[test]
fn a_dead_address_before_a_live_one_costs_nothing() {
    let cluster = orders();
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let brokers = format!("{dead},{}", cluster.bootstrap());
    cluster.ottla("topics").broker(&brokers).run().quietly();
}
