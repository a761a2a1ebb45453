//! `cargo xtask test`: what CI checks, in its order.
//!
//! A test that needs a real Kafka stands in a file `tests/kafka*.rs`, is called `kafka_*` and is marked
//! `#[ignore = "needs a real Kafka: cargo xtask test"]`; it finds a broker, with the topics of
//! [`dataset`] filled, through the variables below, and fails when they are missing. One that stops
//! its broker stands in `tests/kafka_restart*.rs` and is called `kafka_restart_*`; such tests run one at a time, and
//! have a broker for themselves. So have `kafka_nodes_*` in `tests/kafka_nodes*.rs`, which stop nodes of a cluster of
//! three, and those that load a whole machine: `kafka_chaos_*` and `kafka_mixed_*`. What is called `kafka_peers_*` needs
//! programs that only `cargo xtask soak` builds.

use crate::args::Args;
use crate::dataset::{self, Size, TOPICS};
use crate::failure::{During, Result, fail};
use crate::kafka::node::Settings;
use crate::kafka::{Kafka, jars};
use crate::peers::{self, Peer};
use crate::readback;
use crate::steps::Steps;
use crate::versions;
use crate::workspace::{cargo, check, own_binary, release_ottla, shown};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The address of the broker with the filled topics.
const KAFKA: &str = "OTTLA_TEST_KAFKA";
/// That broker's folder, for `kafka freeze` and the like.
const KAFKA_DIR: &str = "OTTLA_TEST_KAFKA_DIR";
/// The address of the broker that may be stopped; it holds the topic plain6.
const RESTART: &str = "OTTLA_TEST_KAFKA_RESTART";
/// Its folder: `$OTTLA_XTASK kafka stop --dir $OTTLA_TEST_KAFKA_RESTART_DIR`.
const RESTART_DIR: &str = "OTTLA_TEST_KAFKA_RESTART_DIR";
/// This program.
const XTASK: &str = "OTTLA_XTASK";
/// How often the restart tests restart their broker.
const ROUNDS: &str = "OTTLA_TEST_ROUNDS";
/// The addresses of the cluster of three nodes, and its folder.
const NODES: &str = "OTTLA_TEST_KAFKA_NODES";
const NODES_DIR: &str = "OTTLA_TEST_KAFKA_NODES_DIR";
/// How long the chaos lasts.
const CHAOS: &str = "OTTLA_CHAOS_SECONDS";
/// How long the storm lasts.
const STORM: &str = "OTTLA_STORM_SECONDS";
/// As long as they last here; soak has more patience.
const CHAOS_TIME: Duration = Duration::from_secs(20);
const STORM_TIME: Duration = Duration::from_secs(15);

/// What a step of its own runs.
const APART: [&str; 5] = ["kafka_restart_", "kafka_nodes_", "kafka_chaos_", "kafka_mixed_", "kafka_peers_"];

pub(crate) fn run(mut args: Args) -> Result<()> {
    let no_kafka = args.flag("--no-kafka");
    let only = args.value("--only")?;
    args.finish()?;
    let mut steps = Steps::new("cargo xtask test", only);
    let result = if no_kafka { without_kafka(&mut steps) } else { everything(&mut steps) };
    steps.finish(result)
}

fn everything(steps: &mut Steps) -> Result<()> {
    // First, so that a machine that lacks something says so at once.
    steps.step("java", "Java and Apache Kafka are here", || {
        jars::java()?;
        [jars::NEWEST].iter().chain(&versions::OLDER).try_for_each(|version| jars::kafka(version).map(drop))
    })?;
    code(steps)?;
    steps.step("generated", "the committed messages are those of Kafka's schemas", generated)?;
    running(steps)?;
    let mut filled = None;
    steps.step("readback", "whole topics, as Java reads them", || read_back(with_topics(&mut filled)?))?;
    steps.step("kafka", "tests on a real Kafka", || tests_on(with_topics(&mut filled)?))?;
    drop(filled);
    steps.step("mixed", "groups with members of Kafka's own client", || mixed(&[]))?;
    steps.step("chaos", "a group whose members are killed and frozen", || chaos(CHAOS_TIME))?;
    steps.step("restart", "tests that stop a real Kafka", || restarts(1))?;
    steps.step("nodes", "three nodes that die, freeze and lose what they lead", || nodes(CHAOS_TIME))?;
    steps.step("versions", "reading and groups on older Kafkas", versions::short)
}

fn without_kafka(steps: &mut Steps) -> Result<()> {
    code(steps)?;
    running(steps)?;
    steps.leave_out("generated", "the schemas are in Kafka's jar");
    steps.leave_out("readback", "it needs a real Kafka");
    steps.leave_out("kafka", "these tests need a real Kafka");
    steps.leave_out("mixed", "it needs a real Kafka");
    steps.leave_out("chaos", "it needs a real Kafka");
    steps.leave_out("restart", "these tests need a real Kafka");
    steps.leave_out("nodes", "these tests need three nodes of a real Kafka");
    steps.leave_out("versions", "it needs several versions of a real Kafka");
    steps.step("left-out", "the tests that were left out", || {
        check(ignored_tests("kafka*").args(["--list", "--format", "terse"]))
    })
}

fn code(steps: &mut Steps) -> Result<()> {
    steps.step("format", "rustfmt would change nothing", || {
        check(cargo().args(["fmt", "--all", "--check"]))?;
        check(cargo().args(["fmt", "--manifest-path", "bench/floor/Cargo.toml", "--check"]))?;
        check(cargo().args(["fmt", "--manifest-path", peers::RUST, "--check"]))
    })?;
    steps.step("clippy", "clippy has nothing to say", || {
        check(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    })?;
    steps.step("docs", "the documentation builds without warnings", || {
        let doc = |what: &[&str]| {
            check(cargo().args(["doc", "--no-deps"]).args(what).env("RUSTDOCFLAGS", "-D warnings"))
        };
        // Apart, and first: the command and the library have one name, and so one place for their pages.
        doc(&["--package", "ottla-cli"])?;
        doc(&["--workspace", "--exclude", "ottla-cli"])
    })
}

fn running(steps: &mut Steps) -> Result<()> {
    steps.step("tests", "all tests that need nothing but this machine", || {
        check(cargo().args(["test", "--workspace"]))
    })?;
    steps.step("build", "the command, optimized", || release_ottla().map(drop))?;
    steps.step("demo", "a million records through the embedded broker", || {
        check(Command::new(release_ottla()?).arg("demo"))
    })
}

fn generated() -> Result<()> {
    check(Command::new(own_binary()).args(["generate", "--check"]))
}

/// The broker with the topics, started when the first step needs it.
fn with_topics(broker: &mut Option<Kafka>) -> Result<&Kafka> {
    if broker.is_none() {
        let kafka = Kafka::start("test", &Settings::default())?;
        dataset::fill(&kafka.tools(), kafka.dir(), &TOPICS, Size::SHORT)?;
        *broker = Some(kafka);
    }
    broker.as_ref().map_or_else(|| fail("there is no broker"), Ok)
}

fn read_back(kafka: &Kafka) -> Result<()> {
    let ottla = release_ottla()?;
    readback::check(&ottla, &kafka.tools(), &TOPICS, Size::SHORT)
}

fn tests_on(kafka: &Kafka) -> Result<()> {
    let mut test = ignored_tests("kafka*");
    test.args(APART.iter().flat_map(|name| ["--skip", name]));
    some_passed(about(&mut test, kafka))
}

/// Tells tests where the broker is that they share.
pub(crate) fn about<'a>(test: &'a mut Command, kafka: &Kafka) -> &'a mut Command {
    test.env(XTASK, own_binary()).env(KAFKA, kafka.bootstrap()).env(KAFKA_DIR, kafka.dir())
}

/// Whether a step of its own runs this test.
pub(crate) fn is_apart(name: &str) -> bool {
    APART.iter().any(|part| name.contains(part))
}

/// The tests that stop and start their broker, so often each.
pub(crate) fn restarts(rounds: u32) -> Result<()> {
    restarts_of(jars::NEWEST, rounds)
}

/// The same with a Kafka of this version.
pub(crate) fn restarts_of(version: &str, rounds: u32) -> Result<()> {
    let kafka = Kafka::start("restart", &Settings { version: version.into(), ..Settings::default() })?;
    dataset::fill(&kafka.tools(), kafka.dir(), &dataset::named(&["plain6".into()])?, Size::SHORT)?;
    let tests = versions::tests_for(version, &["--workspace"], |name| name.contains("kafka_restart_"))?;
    let mut test = ignored_tests("kafka_restart*");
    test.args(["--test-threads=1", "--exact"]).args(versions::names(&tests));
    test.env(XTASK, own_binary()).env(ROUNDS, rounds.to_string());
    some_passed(test.env(RESTART, kafka.bootstrap()).env(RESTART_DIR, kafka.dir()))
}

/// Ours in groups with Java's consumer, and with these.
pub(crate) fn mixed(peers: &[Peer]) -> Result<()> {
    let kafka = Kafka::start("mixed", &for_groups())?;
    let mut test = ignored_tests("kafka_mixed*");
    // Each has a Java of its own.
    test.arg("--test-threads=2");
    if peers.is_empty() {
        test.args(["--skip", "kafka_peers_"]);
    }
    test.envs(peers.iter().map(|peer| (peer.variable, &peer.program)));
    some_passed(test.env(XTASK, own_binary()).env(KAFKA, kafka.bootstrap()))
}

/// Members that come, go, are killed and are frozen for so long.
pub(crate) fn chaos(time: Duration) -> Result<()> {
    chaos_on(&Kafka::start("chaos", &for_groups())?, time)
}

/// The same on a broker that is there; its settings have to be those [for groups](for_groups).
pub(crate) fn chaos_on(kafka: &Kafka, time: Duration) -> Result<()> {
    let mut test = ignored_tests("kafka_group_chaos");
    // What happened is told also when all is well.
    test.arg("--nocapture");
    test.env(CHAOS, time.as_secs().to_string());
    some_passed(test.env(XTASK, own_binary()).env(KAFKA, kafka.bootstrap()))
}

/// The tests that stop nodes of a cluster.
pub(crate) fn nodes(chaos: Duration) -> Result<()> {
    nodes_in("kafka_nodes*", chaos, STORM_TIME)
}

/// The one with a steady load, for so long.
pub(crate) fn storm(time: Duration) -> Result<()> {
    nodes_in("kafka_nodes_storm", CHAOS_TIME, time)
}

fn nodes_in(files: &str, chaos: Duration, storm: Duration) -> Result<()> {
    let kafka = Kafka::start_nodes("nodes", 3, &for_groups())?;
    let mut test = ignored_tests(files);
    test.args(["--test-threads=1", "--nocapture"]);
    test.env(XTASK, own_binary()).env(CHAOS, chaos.as_secs().to_string());
    test.env(STORM, storm.as_secs().to_string());
    some_passed(test.env(NODES, kafka.bootstrap()).env(NODES_DIR, kafka.dir()))
}

/// Members may be dead for a second: the broker's own 6 would make tests wait.
pub(crate) fn for_groups() -> Settings {
    let session = ("group.min.session.timeout.ms".into(), "1000".into());
    Settings { set: vec![session], ..Settings::default() }
}

/// `cargo test` of the ignored tests in the files `tests/FILES.rs`.
pub(crate) fn ignored_tests(files: &str) -> Command {
    let mut test = cargo();
    test.args(["test", "--workspace", "--test", files, "--", "--ignored"]);
    test
}

/// Runs `cargo test`, showing its output, and fails also when no test ran: Cargo takes that for a success.
fn some_passed(test: &mut Command) -> Result<()> {
    match passed(test)? {
        0 => fail(format!("{} ran no test", shown(test))),
        _ => Ok(()),
    }
}

/// Runs `cargo test`, showing its output, and says how many tests passed; one that did not is a failure.
pub(crate) fn passed(test: &mut Command) -> Result<u32> {
    let name = shown(test);
    let mut child = test.stdout(Stdio::piped()).spawn().during(|| format!("running {name}"))?;
    let Some(stdout) = child.stdout.take() else { return fail(format!("{name} has no output")) };
    let mut passed = 0;
    for line in BufReader::new(stdout).lines() {
        let line = line.during(|| format!("reading from {name}"))?;
        passed += passed_in(&line);
        println!("{line}");
    }
    match child.wait().during(|| format!("waiting for {name}"))? {
        status if !status.success() => fail(format!("{name} failed ({status})")),
        _ => Ok(passed),
    }
}

/// How many tests passed according to a line `test result: ok. 3 passed; 0 failed; ...`.
fn passed_in(line: &str) -> u32 {
    let count = line.strip_prefix("test result: ok. ").and_then(|rest| rest.split(' ').next());
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_counted() {
        assert_eq!(passed_in("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured"), 12);
        assert_eq!(passed_in("test result: FAILED. 12 passed; 1 failed"), 0);
        assert_eq!(passed_in("test kafka_reads ... ok"), 0);
    }

    #[test]
    fn a_run_without_tests_is_a_failure() {
        let say = |text: &str| some_passed(Command::new("echo").arg(text));
        say("test result: ok. 1 passed; 0 failed").unwrap();
        assert!(say("test result: ok. 0 passed; 0 failed").unwrap_err().to_string().ends_with("ran no test"));
        assert!(some_passed(&mut Command::new("false")).unwrap_err().to_string().contains("failed"));
    }
}
