//! `produce` and `read` while a real Apache Kafka is stopped and started.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

#[path = "support/kafka.rs"]
mod kafka;
mod support;

use std::{io::Write, process::Command};

use kafka::{Topic, environment};

/// Starts or stops the broker that is ours to stop.
fn kafka(verb: &str) {
    let mut xtask = Command::new(environment("OTTLA_XTASK"));
    let folder = environment("OTTLA_TEST_KAFKA_RESTART_DIR");
    assert!(xtask.args(["kafka", verb, "--dir", &folder]).status().unwrap().success(), "kafka {verb}");
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_restart_goes_unnoticed_by_the_records() {
    let rounds = std::env::var("OTTLA_TEST_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let topic = Topic::at("OTTLA_TEST_KAFKA_RESTART", "restart").create(1, &[]);
    let mut reading = topic.ottla("read", "").start();
    let (mut producing, mut stdin) = topic.ottla("produce", "").start_with_input();
    let mut next = 0;
    let mut write = |count: u32| {
        (next..next + count).for_each(|number| writeln!(stdin, "{number}").unwrap());
        next += count;
    };
    let mut came = 0;
    let mut read = |count: u32| {
        (came..came + count).for_each(|number| assert_eq!(reading.line(), number.to_string()));
        came += count;
    };
    for _ in 0..rounds {
        write(1000);
        read(1000);
        kafka("stop");
        write(1000);
        producing.note("trying again");
        kafka("start");
        write(1000);
        read(2000);
        producing.note("reachable again");
    }
    drop(stdin);
    let ended = producing.end().done();
    assert!(ended.stderr.contains(&format!("{} records written", 3000 * rounds)), "{}", ended.stderr);
    reading.note("trying again");
    reading.note("reachable again");
    reading.ends_cleanly_on("INT");
}
