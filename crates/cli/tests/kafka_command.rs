//! The command against a real Apache Kafka.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]
#![allow(clippy::disallowed_methods, reason = "tests look at the clock")]

#[path = "support/kafka.rs"]
mod kafka;
mod support;

use std::{
    io::{BufRead, BufReader, Write},
    time::{Duration, SystemTime},
};

use kafka::Topic;
use serde_json::Value;
use support::until;

#[test]
#[ignore = "needs a real Kafka from 2.1 on, which knows zstd: cargo xtask test"]
fn kafka_every_codec_comes_back_as_it_went() {
    let topic = Topic::created("codecs", 3);
    let mut expected = Vec::new();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let lines: Vec<String> = (0..5000).map(|n| format!("{codec} {n} {}", "x".repeat(n % 200))).collect();
        topic.produce(&format!("-z {codec}"), &(lines.join("\n") + "\n"));
        expected.extend(lines);
    }
    expected.sort_unstable();
    assert_eq!(topic.read("--until end"), expected);
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_keys_nulls_and_headers_survive() {
    let topic = Topic::created("fields", 1);
    topic.produce("-K : -Z -H a=1 -H b= -H a=2", "k:v\n:\nplain\n");
    let ended = topic.ottla("read", "--until end --json").run().quietly();
    let objects: Vec<Value> = ended.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fields: Vec<_> =
        objects.iter().map(|object| (object["key"].clone(), object["value"].clone())).collect();
    assert_eq!(fields, [("k".into(), "v".into()), ("".into(), Value::Null), (Value::Null, "plain".into())]);
    for object in &objects {
        assert_eq!(object["headers"], serde_json::json!([["a", "1"], ["b", ""], ["a", "2"]]));
        assert_eq!((&object["timestamp_type"], &object["leader_epoch"]), (&"create".into(), &0.into()));
    }
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_append_time_is_the_brokers() {
    let topic = Topic::new("append").create(1, &[("message.timestamp.type", "LogAppendTime")]);
    topic.produce("", "x\n");
    let ended = topic.ottla("read", "--until end --json").run().quietly();
    let object: Value = serde_json::from_str(ended.text()).unwrap();
    assert_eq!(object["timestamp_type"], "append");
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_every_beginning_and_end() {
    let topic = Topic::created("places", 2);
    let lines = |name: &str| (0..5).map(|n| format!("{name}{n}\n")).collect::<String>();
    topic.produce("-p 0", &lines("a"));
    // Times have a millisecond; what comes now shall be later than what came before.
    let before = SystemTime::now();
    until("the clock goes on", || before.elapsed().unwrap() > Duration::from_millis(2));
    topic.produce("-p 1", &lines("b"));
    let ended = topic.ottla("read", "-p 1 -n 1 -f %T").run().quietly();
    let between = ended.text().to_owned();
    for (options, expected) in [
        ("--until end --from latest", &[][..]),
        ("--until end --from 3", &["a3", "a4", "b3", "b4"]),
        ("--until end --from -1", &["a4", "b4"]),
        ("--until 2", &["a0", "a1", "b0", "b1"]),
        ("--until 3 --from 2 -p 1", &["b2"]),
        (&format!("--until end --from @{between}"), &["b0", "b1", "b2", "b3", "b4"]),
        (&format!("--until @{between}"), &["a0", "a1", "a2", "a3", "a4"]),
        ("--until end --from @-1h -n 10", &["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2", "b3", "b4"]),
        ("--until @-1h", &[]),
    ] {
        assert_eq!(topic.read(options), expected, "{options}");
    }
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_a_missing_topic_fails_or_is_waited_for() {
    let topic = Topic::new("missing");
    let why = format!("topic {} does not exist", topic.name);
    topic.ottla("read", "--until end").run().failed(&why);
    topic.ottla("produce", "").run_with(b"x\n").failed(&why);
    topic.ottla("bench", "--count 1").run().failed(&why);
    let mut running = topic.ottla("read", "").start();
    running.note("does not exist; waiting for it");
    let topic = topic.create(2, &[]);
    topic.produce("-p 1", "first\n");
    assert_eq!(running.line(), "first");
    running.ends_cleanly_on("INT");
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_a_missing_partition_fails_or_is_waited_for() {
    let topic = Topic::created("partition", 1);
    topic.ottla("read", "-p 1 --until end").run().failed("has no partition 1; it has 1");
    let mut running = topic.ottla("read", "-p 1").start();
    running.note("waiting for it");
    topic.add_partitions(2);
    // The new partition takes a moment to be known to all of the broker.
    until("the new partition is there", || {
        topic.ottla("produce", "-p 1").run_with(b"first\n").code == Some(0)
    });
    assert_eq!(running.line(), "first");
    running.ends_cleanly_on("INT");
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_a_line_typed_is_read_at_once_and_ctrl_c_ends_both() {
    let topic = Topic::created("live", 3);
    let mut reading = topic.ottla("read", "").start();
    let (mut producing, mut stdin) = topic.ottla("produce", "").start_with_input();
    for line in ["one", "two", "three"] {
        writeln!(stdin, "{line}").unwrap();
        assert_eq!(reading.line(), line);
    }
    reading.ends_cleanly_on("INT");
    producing.signal("INT");
    assert_eq!(producing.wait(), Some(0));
    producing.note("3 records written");
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_a_reader_that_has_enough_is_no_failure() {
    let topic = Topic::created("head", 1);
    topic.produce("", &"some line of a text\n".repeat(100_000));
    for options in ["", "--until end", "--json"] {
        let mut running = topic.ottla("read", options).start();
        BufReader::new(running.stdout()).read_line(&mut String::new()).unwrap();
        running.end().quietly();
    }
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_a_record_too_large_ends_produce_with_the_count() {
    let topic = Topic::new("large").create(1, &[("max.message.bytes", "100000")]);
    let input = format!("fits\n{}\n", "x".repeat(200_000));
    let (mut running, mut stdin) = topic.ottla("produce", "").start_with_input();
    stdin.write_all(&input.as_bytes()[..5]).unwrap();
    until("the first is there", || topic.ottla("read", "--until end").run().text() == "fits\n");
    stdin.write_all(&input.as_bytes()[5..]).unwrap();
    assert_eq!(running.wait(), Some(1));
    let ended = running.end().failed("MESSAGE_TOO_LARGE");
    assert!(ended.stderr.contains("1 record written"), "{}", ended.stderr);
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_bench_counts_what_was_produced() {
    let topic = Topic::created("bench", 2);
    topic.produce("-K : -z lz4", &"key:value\n".repeat(10_000));
    for api in ["batch", "message"] {
        let ended = topic.ottla("bench", &format!("--count 10000 --api {api}")).run().quietly();
        let object: Value = serde_json::from_str(ended.text()).unwrap();
        assert_eq!((&object["n"], &object["bytes"]), (&10_000.into(), &80_000.into()));
    }
    topic.ottla("bench", "--count 10001").run().failed("holds 10000 records, not 10001");
}
