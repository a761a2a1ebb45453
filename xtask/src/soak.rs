//! `cargo xtask soak`: what takes too long for every change, and is run before a release.

use crate::args::Args;
use crate::dataset::{self, Size, TOPICS};
use crate::failure::Result;
use crate::kafka::Kafka;
use crate::kafka::node::Settings;
use crate::steps::Steps;
use crate::workspace::{cargo, check, release_ottla, target};
use crate::{peers, readback, sim, test, versions};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Sixteen times proptest's default.
const CASES: &str = "4096";

/// How long a group's members are killed and frozen.
const CHAOS: Duration = Duration::from_secs(120);

/// How long three nodes under steady load are killed, frozen and restarted.
const STORM: Duration = Duration::from_secs(300);

/// How many schedules of groups are simulated, and how many of readers without one.
const GROUP_SEEDS: u64 = 2000;
const READ_SEEDS: u64 = 1000;
const DAMAGE_SEEDS: u64 = 2000;

/// How long each of the four targets is fuzzed: an hour together.
const FUZZ_SECONDS: &str = "900";

pub(crate) fn run(mut args: Args) -> Result<()> {
    let only = args.value("--only")?;
    args.finish()?;
    let mut steps = Steps::new("cargo xtask soak", only);
    let result = everything(&mut steps);
    steps.finish(result)
}

fn everything(steps: &mut Steps) -> Result<()> {
    steps.step("deny", "licenses, sources and doubles of what we depend on", deny)?;
    steps.step("cases", "the tests with random input, with many cases", || {
        check(cargo().args(["test", "--workspace"]).env("PROPTEST_CASES", CASES))
    })?;
    steps.step("fuzz", "what a Kafka wrote, changed at random, for an hour", || {
        check(
            cargo()
                .args(["test", "--package", "ottla-wire", "--test", "fuzz"])
                .env("OTTLA_FUZZ_SECONDS", FUZZ_SECONDS),
        )
    })?;
    steps.step("sim", "thousands of simulated schedules", || {
        sim::many("group", GROUP_SEEDS)?;
        sim::many("read", READ_SEEDS)?;
        sim::many("damage", DAMAGE_SEEDS)
    })?;
    steps.step("readback", "millions of records, as Java reads them", read_back)?;
    steps.step("chaos", "a group whose members are killed and frozen", || test::chaos(CHAOS))?;
    steps.step("mixed", "groups with members of every other make", || test::mixed(&peers::build()?))?;
    steps.step("restart", "ten rounds of stopping a real Kafka", || test::restarts(10))?;
    steps.step("nodes", "groups on three nodes that die, too", || test::nodes(CHAOS))?;
    steps.step("storm", "steady load on three nodes, of which one is always in trouble", || {
        test::storm(STORM)
    })?;
    steps.step("versions", "reading and groups on older Kafkas, and on the oldest", versions::long)
}

fn read_back() -> Result<()> {
    let ottla = release_ottla()?;
    let kafka = Kafka::start("soak", &Settings::default())?;
    dataset::fill(&kafka.tools(), kafka.dir(), &TOPICS, Size::FULL)?;
    readback::check(&ottla, &kafka.tools(), &TOPICS, Size::FULL)
}

fn deny() -> Result<()> {
    let program = cargo_deny()?;
    check(
        Command::new(program)
            .args(["--all-features", "check", "bans", "licenses", "sources"])
            .current_dir(crate::workspace::root()),
    )
}

/// cargo-deny as it is installed, else built into the target directory.
fn cargo_deny() -> Result<PathBuf> {
    let installed = PathBuf::from("cargo-deny");
    if Command::new(&installed).arg("--version").output().is_ok() {
        return Ok(installed);
    }
    let tools = target()?.join("tools");
    let ours = tools.join("bin/cargo-deny");
    if !ours.exists() {
        eprintln!("cargo-deny is not there; building it into {} (minutes, once)", tools.display());
        check(cargo().args(["install", "--locked", "cargo-deny", "--root"]).arg(&tools))?;
    }
    Ok(ours)
}
