//! The commands about groups against a real Apache Kafka.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

#[path = "support/kafka.rs"]
mod kafka;
mod support;

use kafka::{Topic, environment};
use serde_json::Value;
use support::{Ended, Ottla, Running, ottla, until};

/// The group of a topic is called like the topic.
fn on_kafka(line: &str) -> Ottla {
    ottla(line).broker(&environment("OTTLA_TEST_KAFKA"))
}

fn shown(topic: &Topic) -> Value {
    let ended = on_kafka(&format!("group show {} --json", topic.name)).run().quietly();
    serde_json::from_str(ended.text()).unwrap()
}

fn column(shown: &Value, name: &str) -> Vec<Option<i64>> {
    shown["partitions"].as_array().unwrap().iter().map(|row| row[name].as_i64()).collect()
}

/// A member that has said which partitions it has.
fn read(topic: &Topic, options: &str) -> Running {
    let mut running = topic.ottla("read", &format!("-g {} {options}", topic.name)).start();
    running.note("reading ");
    running
}

fn lines(running: &mut Running, count: usize) -> Vec<String> {
    (0..count).map(|_| running.line()).collect()
}

/// Four partitions with ten records each, which tell their place.
fn numbered(topic: &Topic, from: usize) {
    for partition in 0..4 {
        let input: String = (from..from + 10).map(|n| format!("{partition}/{n}\n")).collect();
        topic.produce(&format!("-p {partition}"), &input);
    }
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_two_members_share_a_topic_and_each_record_is_printed_once() {
    let topic = Topic::created("pair", 4);
    numbered(&topic, 0);
    let mut first = read(&topic, "");
    let mut printed = lines(&mut first, 40);
    let mut second = read(&topic, "");
    first.note("giving up ");
    first.note("reading ");
    numbered(&topic, 10);
    printed.extend(lines(&mut first, 20));
    printed.extend(lines(&mut second, 20));
    let of_group = shown(&topic);
    assert_eq!(of_group["members"].as_array().unwrap().len(), 2, "{of_group}");
    first.ends_cleanly_on("INT");
    second.note("giving up ");
    second.note("reading ");
    numbered(&topic, 20);
    printed.extend(lines(&mut second, 40));
    second.ends_cleanly_on("INT");
    printed.sort_unstable();
    let mut expected: Vec<String> = (0..4).flat_map(|p| (0..30).map(move |n| format!("{p}/{n}"))).collect();
    expected.sort_unstable();
    assert_eq!(printed, expected);
    let of_group = shown(&topic);
    assert_eq!(column(&of_group, "committed"), [Some(30); 4]);
    assert_eq!(column(&of_group, "lag"), [Some(0); 4]);
    assert_eq!(of_group["state"], "Empty");
}

#[test]
#[ignore = "needs a real Kafka from 2.6 on, which lists groups with their states: cargo xtask test"]
fn kafka_a_group_is_sought_shown_and_deleted() {
    let topic = Topic::created("seek", 4);
    numbered(&topic, 0);
    let group = &topic.name;
    let seek = |options: &str| -> Ended { on_kafka(&format!("group seek {group} {group}{options}")).run() };
    let show = format!("group show {group}");
    seek(" --to 7 --yes").done();
    let of_group = shown(&topic);
    assert_eq!(
        (column(&of_group, "committed"), column(&of_group, "lag")),
        (vec![Some(7); 4], vec![Some(3); 4])
    );
    let behind = of_group["partitions"][0]["behind_secs"].as_f64().unwrap();
    assert!((0.0..300.0).contains(&behind), "{behind}");
    seek(":2 --to earliest --yes").done();
    assert_eq!(column(&shown(&topic), "committed"), [Some(7), Some(7), Some(0), Some(7)]);
    assert!(seek(" --to latest").done().stderr.contains("nothing was changed"));
    let listed = on_kafka("groups").run().quietly();
    let row = listed.lines().into_iter().find(|line| line.starts_with(group.as_str())).unwrap();
    assert!(row.contains("classic") && row.ends_with("Empty"), "{row}");

    let mut running = read(&topic, "");
    assert_eq!(lines(&mut running, 19).len(), 19);
    until("it is committed", || column(&shown(&topic), "lag") == [Some(0); 4]);
    seek(" --to earliest --yes").failed("has 1 member (ottla-cli");
    on_kafka(&format!("group delete {group} --yes")).run().failed("has 1 member (ottla-cli at ");
    running.ends_cleanly_on("INT");

    on_kafka(&format!("group delete {group} --yes")).run().done();
    on_kafka(&show).run().failed("does not exist");
}

#[test]
#[ignore = "needs a real Kafka from 2.3 on, where members may be static: cargo xtask test"]
fn kafka_a_static_member_comes_back_to_its_partitions() {
    let topic = Topic::created("static", 4);
    numbered(&topic, 0);
    let start = || read(&topic, "--instance till-1");
    let mut running = start();
    lines(&mut running, 40);
    running.ends_cleanly_on("INT");
    let of_group = shown(&topic);
    assert_eq!(
        (&of_group["state"], &of_group["members"][0]["instance"]),
        (&"Stable".into(), &"till-1".into())
    );
    assert_eq!(column(&of_group, "committed"), [Some(10); 4]);
    numbered(&topic, 10);
    let mut running = start();
    assert!(lines(&mut running, 40).iter().all(|line| line.contains("/1")));
    running.ends_cleanly_on("INT");
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_bench_reads_as_a_member() {
    let topic = Topic::created("bench", 4);
    numbered(&topic, 0);
    for api in ["batch", "message"] {
        let options = format!("-g {}-{api} --count 40 --api {api}", topic.name);
        let ended = topic.ottla("bench", &options).run().done();
        let object: Value = serde_json::from_str(ended.text()).unwrap();
        assert_eq!(object["n"], 40);
        topic.ottla("bench", &options).run().failed("holds 0 records that group");
    }
}
