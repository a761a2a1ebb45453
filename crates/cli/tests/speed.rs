//! How fast `ottla read` filters and formats, beside `ottla bench`: figures, and whether they are what was promised.
//!
//! `cargo test --release -p ottla-cli --test speed -- --ignored --nocapture`, on the embedded broker, or with
//! `OTTLA_TEST_KAFKA=HOST:PORT` on a real one.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]
#![allow(clippy::print_stdout, reason = "figures are what it is for")]

#[path = "support/kafka.rs"]
mod kafka;
mod support;

use std::{
    fmt::Write,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use support::ottla;
use wait4::Wait4;

const RECORDS: u64 = 1_000_000;
const ROUNDS: usize = 5;

/// What is run; the first is what the others are compared with.
const RUNS: [(&str, &str); 7] = [
    ("bench", "bench TOPIC --count 1000000"),
    ("filter", "read TOPIC --value cupboard-999"),
    ("string", "read TOPIC"),
    ("json", "read TOPIC --value-as json"),
    ("hex", "read TOPIC --value-as hex"),
    ("base64", "read TOPIC --value-as base64"),
    ("objects", "read TOPIC --json"),
];

/// Seconds that a run took, by the clock and of CPU time.
#[derive(Debug, Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
}

#[test]
#[ignore = "measures: cargo test --release -p ottla-cli --test speed -- --ignored --nocapture"]
fn filtering_and_formatting_keep_up() {
    let place = place();
    let (bootstrap, topic) = (&place.bootstrap, &place.topic);
    let lines = lines();
    ottla(&format!("produce {topic} -K :")).broker(bootstrap).run_with(lines.as_bytes()).done();
    let mut costs = vec![Vec::new(); RUNS.len()];
    for round in 0..ROUNDS {
        for turn in 0..RUNS.len() {
            let run = (turn + round) % RUNS.len();
            costs[run].push(cost(&RUNS[run].1.replace("TOPIC", topic), bootstrap));
        }
    }
    // Of CPU time the least: whatever else the machine does can only add to it.
    let bench = least(&costs[0]);
    println!("{RECORDS} records of {} bytes; {ROUNDS} rounds", lines.len() as u64 / RECORDS);
    for ((name, _), costs) in RUNS.iter().zip(&costs) {
        let (wall, cpu) = (median(costs), least(costs));
        let rate = |secs: f64| RECORDS as f64 / secs / 1e6;
        println!(
            "{name:8} {:6.2} M/s by the clock, {:6.2} M/s of CPU time, {:4.2} of bench's speed",
            rate(wall),
            rate(cpu),
            bench / cpu
        );
        assert!(*name != "filter" || bench / cpu >= 0.5, "filtering is too slow");
        assert!(rate(cpu) >= 1.0, "{name} is too slow");
    }
}

/// Where the records are; all of it is gone when this is dropped.
struct Place {
    bootstrap: String,
    topic: String,
    _gone_at_the_end: Box<dyn std::any::Any>,
}

/// A broker in a process of its own, so that it costs this one nothing, or the one that is there.
fn place() -> Place {
    if std::env::var_os("OTTLA_TEST_KAFKA").is_some() {
        let topic = kafka::Topic::created("speed", 6);
        let bootstrap = kafka::environment("OTTLA_TEST_KAFKA");
        return Place { bootstrap, topic: topic.name.clone(), _gone_at_the_end: Box::new(topic) };
    }
    let mut broker = ottla("broker --listen 127.0.0.1:0 --topic speed:6").start();
    Place { bootstrap: broker.line(), topic: "speed".to_owned(), _gone_at_the_end: Box::new(broker) }
}

/// JSON of some 270 bytes, behind keys.
fn lines() -> String {
    const THINGS: [&str; 8] = ["chair", "table", "lamp", "shelf", "carpet", "mirror", "drawer", "cupboard"];
    let mut random = fastrand::Rng::with_seed(7);
    let mut lines = String::new();
    for id in 0..RECORDS {
        let mut thing = || THINGS[random.usize(..THINGS.len())];
        let (first, second, note) = (thing(), thing(), [thing(), thing(), thing(), thing()].join(" "));
        let (customer, cents, sku, day) =
            (random.u32(..100_000), random.u32(..), random.u32(..1000), id % 28 + 1);
        writeln!(
            lines,
            "{}:{{\"id\": {id}, \"customer\": \"c{customer}\", \"status\": \"shipped\", \"total\": {}.{:02}, \
             \"items\": [{{\"sku\": \"{first}-{sku}\", \"count\": 2}}, {{\"sku\": \"{second}-{sku}\", \"count\": 1}}], \
             \"note\": \"{note} and {note}\", \"at\": \"2026-11-{day:02}T08:00:00Z\", \"paid\": true}}",
            id % 5000,
            cents / 100,
            cents % 100
        )
        .unwrap();
    }
    lines
}

fn cost(line: &str, bootstrap: &str) -> Cost {
    let is_read = line.starts_with("read");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ottla"));
    command.args(line.split(' ')).env("KAFKA_BROKERS", bootstrap).stdin(Stdio::null());
    if is_read {
        command.args(["--until", "end", "--stats=json", "-o", "/dev/null"]);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (out, error) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let told = std::io::read_to_string(if is_read {
        Box::new(error) as Box<dyn std::io::Read>
    } else {
        Box::new(out)
    });
    let used = child.wait4().unwrap();
    assert!(used.status.success(), "{line}: {told:?}");
    let told: Value = serde_json::from_str(&told.unwrap()).unwrap();
    assert_eq!(told["n"], RECORDS, "{line}");
    let cpu: Duration = used.rusage.utime + used.rusage.stime;
    Cost { wall: told["secs"].as_f64().unwrap(), cpu: cpu.as_secs_f64() }
}

/// By the clock.
fn median(costs: &[Cost]) -> f64 {
    let mut all: Vec<f64> = costs.iter().map(|cost| cost.wall).collect();
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Of CPU time.
fn least(costs: &[Cost]) -> f64 {
    costs.iter().map(|cost| cost.cpu).fold(f64::MAX, f64::min)
}
