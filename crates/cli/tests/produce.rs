//! `ottla produce` against the embedded broker, read back with `ottla read`.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

mod support;

use std::io::Write;

use ottla_broker::{ApiKey, ClusterOptions, Code, Fault, Leaders};
use support::{Cluster, until};

/// What stands in `orders`, as partition, key, length of the key, value, length of the value, headers.
fn written(cluster: &Cluster) -> Vec<String> {
    let ended = cluster.ottla("read orders --until end -f").arg(r"%p|%k|%K|%s|%S|%h\n").run().quietly();
    ended.sorted().iter().map(ToString::to_string).collect()
}

fn values(cluster: &Cluster) -> Vec<String> {
    let ended = cluster.ottla("read orders --until end").run().quietly();
    ended.lines().iter().map(ToString::to_string).collect()
}

#[test]
fn every_codec_comes_back_as_it_went() {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let cluster = Cluster::with_orders(1);
        let lines: Vec<String> =
            (0..5000).map(|n| format!("{codec} line {n} {}", "x".repeat(n % 200))).collect();
        let input = lines.join("\n") + "\n";
        let ended = cluster.ottla(&format!("produce orders -z {codec}")).run_with(input.as_bytes()).done();
        assert_eq!(ended.stderr, "ottla: 5000 records written to orders\n");
        assert_eq!(values(&cluster), lines, "{codec}");
        let packed = cluster.change(|cluster| cluster.log_bytes("orders", 0).unwrap());
        assert_eq!(packed < input.len() as u64 / 2, codec != "none", "{codec}: {packed} of {}", input.len());
    }
}

#[test]
fn keys_values_and_headers() {
    let cluster = Cluster::with_orders(1);
    let line = "produce orders -K : -Z -H source=shell -H n=1 -H n=2 -H empty=";
    cluster.ottla(line).run_with(b"k:v\n:v\nk:\nv\n\nk:v:w\nlast").done();
    let headers = "source=shell,n=1,n=2,empty=";
    let expected = ["k|1|v:w|3", "k|1|v|1", "k|1||-1", "|-1|last|4", "|-1|v|1", "|-1||-1", "|0|v|1"];
    assert_eq!(written(&cluster), expected.map(|record| format!("0|{record}|{headers}")));
}

#[test]
fn without_options_a_line_is_a_value_whatever_is_in_it() {
    let cluster = Cluster::with_orders(1);
    cluster.ottla("produce orders").run_with(b"a:b\n\n\xff\0\r\n").done();
    let ended = cluster.ottla("read orders --until end -f").arg("[%K %S %s]").run().quietly();
    assert_eq!(ended.stdout, b"[-1 3 a:b][-1 0 ][-1 3 \xff\0\r]");
}

#[test]
fn a_separator_may_be_an_escape_and_longer_than_a_character() {
    for (separator, input) in [(r"\t", "k\tv\n"), ("=>", "k=>v\n"), (r"\x00", "k\0v\n"), ("--", "k--v\n")] {
        let cluster = Cluster::with_orders(1);
        cluster.ottla("produce orders -K").arg(separator).run_with(input.as_bytes()).done();
        assert_eq!(written(&cluster), ["0|k|1|v|1|"], "{separator}");
    }
}

#[test]
fn keys_go_to_the_partitions_where_java_puts_them() {
    let cluster = Cluster::with_orders(6);
    // As murmur2 of kafka-clients 4.4.0 has it; see partition.rs.
    cluster
        .ottla("produce orders -K =")
        .run_with(b"a=1\nab=1\nabc=1\n21=1\nfoobar=1\nOttla Kafka=1\na=2\n")
        .done();
    let expected = [
        "0|21|2|1|1|",
        "0|foobar|6|1|1|",
        "2|ab|2|1|1|",
        "3|abc|3|1|1|",
        "4|Ottla Kafka|11|1|1|",
        "4|a|1|1|1|",
        "4|a|1|2|1|",
    ];
    assert_eq!(written(&cluster), expected);
}

#[test]
fn records_without_keys_go_round() {
    let cluster = Cluster::with_orders(4);
    let input = format!("{}\n", "x".repeat(1000)).repeat(1000);
    cluster.ottla("produce orders").run_with(input.as_bytes()).done();
    let ends: Vec<_> =
        (0..4).map(|p| cluster.change(|cluster| cluster.high_watermark("orders", p).unwrap())).collect();
    assert_eq!(ends.iter().sum::<i64>(), 1000);
    assert!(ends.iter().all(|&end| end > 100), "{ends:?}");
}

#[test]
fn a_partition_can_be_named() {
    let cluster = Cluster::with_orders(3);
    cluster.ottla("produce orders -p 2 -K :").run_with(b"a:1\nb:2\n3\n").done();
    assert_eq!(written(&cluster), ["2|a|1|1|1|", "2|b|1|2|1|", "2||-1|3|1|"]);
}

#[test]
fn a_line_that_was_typed_is_sent_at_once() {
    let cluster = Cluster::with_orders(1);
    let (mut running, mut stdin) = cluster.ottla("produce orders").start_with_input();
    for (line, end) in [("one\n", 1), ("two\nthr", 2), ("ee\n", 3)] {
        stdin.write_all(line.as_bytes()).unwrap();
        until("the line is there", || {
            cluster.change(|cluster| cluster.high_watermark("orders", 0)) == Some(end)
        });
    }
    assert_eq!(values(&cluster), ["one", "two", "three"]);
    running.signal("INT");
    assert_eq!(running.wait(), Some(0));
    running.note("3 records written to orders");
}

#[test]
fn no_input_is_no_failure() {
    let ended = Cluster::with_orders(1).ottla("produce orders").run_with(b"").done();
    assert_eq!(ended.stderr, "ottla: 0 records written to orders\n");
}

#[test]
fn the_first_failure_ends_it_and_what_was_written_is_told() {
    let cluster = Cluster::with_orders(1);
    let (mut running, mut stdin) = cluster.ottla("produce orders").start_with_input();
    stdin.write_all(b"one\ntwo\n").unwrap();
    until("two are there", || cluster.change(|cluster| cluster.high_watermark("orders", 0)) == Some(2));
    let fault = Fault::partition_error(ApiKey::Produce, Code::MESSAGE_TOO_LARGE).always();
    cluster.change(|cluster| cluster.fault(fault));
    stdin.write_all(b"three\n").unwrap();
    assert_eq!(running.wait(), Some(1));
    let ended = running.end().failed("orders partition 0: the broker answered MESSAGE_TOO_LARGE (10)");
    assert!(ended.stderr.ends_with("2 records written to orders; 1 refused\n"), "{}", ended.stderr);
}

#[test]
fn what_passes_is_tried_again() {
    for code in [Code::NOT_LEADER_OR_FOLLOWER, Code::NOT_ENOUGH_REPLICAS, Code::REQUEST_TIMED_OUT] {
        let cluster = Cluster::with_orders(2);
        let fault = Fault::partition_error(ApiKey::Produce, code).partition(1).times(3);
        let fault = cluster.change(|cluster| cluster.fault(fault));
        cluster.ottla("produce orders -p 1").run_with(b"x\ny\n").done();
        assert_eq!(values(&cluster), ["x", "y"], "{code}");
        assert_eq!(cluster.change(|cluster| cluster.fault_hits(fault)), 3);
    }
}

#[test]
fn a_leader_that_moves_is_followed() {
    let cluster = Cluster::with_options(ClusterOptions::new().nodes(3));
    cluster.change(|cluster| cluster.create_topic("orders", 1).unwrap());
    let (running, mut stdin) = cluster.ottla("produce orders").start_with_input();
    for (leader, end) in [(1, 1), (2, 2), (3, 3), (1, 4)] {
        cluster.change(|cluster| cluster.set_leader("orders", 0, Some(leader)).unwrap());
        writeln!(stdin, "{leader}").unwrap();
        until("the line is there", || {
            cluster.change(|cluster| cluster.high_watermark("orders", 0)) == Some(end)
        });
    }
    drop(stdin);
    running.end().done();
    assert_eq!(values(&cluster), ["1", "2", "3", "1"]);
}

#[test]
fn an_outage_is_waited_through() {
    let cluster = Cluster::with_orders(1);
    let (mut running, mut stdin) = cluster.ottla("produce orders").start_with_input();
    stdin.write_all(b"before\n").unwrap();
    until("the line is there", || cluster.change(|cluster| cluster.high_watermark("orders", 0)) == Some(1));
    cluster.change(|cluster| cluster.stop_node(1, Leaders::Lose).unwrap());
    stdin.write_all(b"meanwhile\n").unwrap();
    running.note("trying again");
    cluster.change(|cluster| cluster.start_node(1).unwrap());
    running.note("reachable again");
    drop(stdin);
    let ended = running.end().done();
    assert_eq!(values(&cluster), ["before", "meanwhile"]);
    assert!(ended.stderr.ends_with("ottla: 2 records written to orders\n"), "{}", ended.stderr);
}

#[test]
fn a_connection_that_breaks_is_made_again() {
    let cluster = Cluster::with_orders(1);
    cluster.change(|cluster| cluster.fault(Fault::close(ApiKey::Produce).times(2)));
    cluster.ottla("produce orders").run_with(b"x\n").done();
    assert_eq!(values(&cluster), ["x"]);
}

#[test]
fn an_older_broker_is_written_to() {
    for (versions, topic_id) in [((3, 8), false), ((3, 12), false), ((3, 13), true)] {
        let options = ClusterOptions::new().versions(ApiKey::Produce, versions.0, versions.1);
        let cluster = Cluster::with_options(options);
        cluster.change(|cluster| cluster.create_topic("orders", 1).unwrap());
        cluster.ottla("produce orders -z zstd").run_with(b"x\n").done();
        assert_eq!(values(&cluster), ["x"], "{versions:?}, topic ids: {topic_id}");
    }
}

/// Such as /dev/zero; the line before it is written.
#[test]
fn a_line_without_end_is_refused_at_once() {
    let cluster = Cluster::with_orders(1);
    let mut input = b"before\n".to_vec();
    input.resize(70 << 20, 0);
    let ended = cluster.ottla("produce orders").run_with(&input).failed("more than 64 MiB");
    assert_eq!(values(&cluster), ["before"]);
    assert!(ended.stderr.ends_with("ottla: 1 record written to orders\n"), "{}", ended.stderr);
}
