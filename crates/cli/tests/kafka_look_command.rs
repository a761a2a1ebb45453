//! `topics`, `offsets`, `doctor`, filters and `--tail` against a real Apache Kafka.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]
#![allow(clippy::disallowed_methods, reason = "tests look at the clock")]

#[path = "support/kafka.rs"]
mod kafka;
mod support;

use kafka::{Topic, environment};
use serde_json::Value;
use support::ottla;

/// Three partitions; the lines n of the keys k0 to k9, a hundred in all.
fn filled(name: &str) -> Topic {
    let topic = Topic::created(name, 3);
    let lines: String = (0..100).map(|n| format!("k{}:{{\"n\":{n}}}\n", n % 10)).collect();
    topic.produce("-K :", &lines);
    topic
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_topics_and_offsets_say_how_far_partitions_reach() {
    let topic = filled("reach");
    let ended = topic.ottla("topics", "").run().quietly();
    assert_eq!(ended.lines()[0], format!("topic {}: 3 partitions, 100 records", topic.name));
    let ended = topic.ottla("topics", "--json").run().quietly();
    let object: Value = serde_json::from_str(ended.text()).unwrap();
    let partitions = object["partitions"].as_array().unwrap();
    assert!(partitions.iter().all(|partition| partition["replicas"] == partition["in_sync"]), "{object}");
    assert!(partitions.iter().all(|partition| partition["leader"].is_i64()), "{object}");
    let ended = topic.ottla("offsets", "--json --at -1h").run().quietly();
    let rows: Vec<Value> = ended.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.iter().map(|row| row["records"].as_i64().unwrap()).sum::<i64>(), 100);
    assert!(rows.iter().all(|row| row["offset"] == row["begin"]), "{rows:?}");
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_filters_and_tails_find_what_was_written() {
    let topic = filled("filters");
    assert_eq!(topic.read("--until end --value /:[0-9],?}/ --key k7"), ["{\"n\":7}"]);
    let ended = topic.ottla("read", "--tail 2 --key k3 --json --value-as json").run().quietly();
    let values: Vec<Value> = ended.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<_> = values.iter().map(|object| object["value"]["n"].as_i64().unwrap()).collect();
    assert_eq!(numbers, [83, 93]);
    assert_eq!(topic.ottla("read", "--tail 1000").run().quietly().lines().len(), 100);
}

/// Other tests may be creating topics that have no leaders yet, so of problems nothing is said.
#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_doctor_reaches_the_broker_and_knows_it() {
    let broker = environment("OTTLA_TEST_KAFKA");
    let ended = ottla("doctor").broker(&broker).run();
    let text = ended.text();
    assert!(text.contains("controller: broker ") && !text.contains("unreachable"), "{text}");
    // The Kafkas that the tests run on.
    let releases = ["4.4 (Fetch 18", "3.9 (Fetch 17", "2.8 (Fetch 12", "1.1 (Fetch 7"];
    let names = |line: &str| releases.iter().any(|release| line.contains(&format!(" {release}")));
    let known = |who: &str| ended.lines().iter().any(|line| line.starts_with(who) && names(line));
    assert!(known("bootstrap  ") && known("broker 1"), "{text}");
    assert_eq!(ended.stderr, "");
}
