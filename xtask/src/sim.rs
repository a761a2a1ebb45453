//! `cargo xtask sim`: the simulations of `crates/core/tests`, seed by seed, for as many as one has patience for.
//!
//! A simulation is a test file whose name ends in `simulation.rs`. It takes the variables below, and says `seed N failed`
//! of the first that does.

use crate::args::Args;
use crate::failure::{During, Failure, Result, fail, misuse};
use crate::watchdog::Watchdog;
use crate::workspace::{self, cargo};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One seed, with all that happened.
const SEED: &str = "OTTLA_SEED";
/// So many seeds.
const SEEDS: &str = "OTTLA_SEEDS";
/// The first of them.
const FROM: &str = "OTTLA_FROM";

/// How many seeds run between two lines of progress; a simulation checks that so many did something at all.
const PORTION: u64 = 100;

/// No portion takes as long as this: on two cores it is some 3 s.
const LIMIT: Duration = Duration::from_secs(600);

pub(crate) fn run(mut args: Args) -> Result<()> {
    let seeds = args.parsed("--seeds", "a number of seeds")?;
    let from = args.parsed("--from", "a seed")?;
    let seed = args.parsed("--seed", "a seed")?;
    let only = args.value("--only")?;
    args.finish()?;
    if seed.is_some() && (seeds.is_some() || from.is_some()) {
        return misuse("--seed runs one seed; --seeds and --from say which many");
    }
    let simulations = Simulation::named(only.as_deref())?;
    match seed {
        Some(seed) => simulations.iter().try_for_each(|simulation| simulation.show(seed)),
        None => {
            let (from, count) = (from.unwrap_or(0), seeds.unwrap_or(1000));
            simulations.iter().try_for_each(|simulation| simulation.run(from, count))
        }
    }
}

/// Runs the simulation of this name with so many seeds.
pub(crate) fn many(name: &str, seeds: u64) -> Result<()> {
    Simulation::named(Some(name))?.iter().try_for_each(|simulation| simulation.run(0, seeds))
}

/// One of the test files.
struct Simulation {
    /// What a person calls it: `group` for `group_simulation.rs`, `read` for `simulation.rs`.
    name: String,
    test: String,
}

impl Simulation {
    fn named(only: Option<&str>) -> Result<Vec<Self>> {
        let all = Self::all()?;
        let names = all.iter().map(|simulation| simulation.name.clone()).collect::<Vec<_>>().join(", ");
        let wanted = |simulation: &Self| only.is_none_or(|only| only == simulation.name);
        let found: Vec<_> = all.into_iter().filter(wanted).collect();
        match (found.is_empty(), only) {
            (true, Some(only)) => misuse(format!("there is no simulation `{only}`; there are: {names}")),
            _ => Ok(found),
        }
    }

    fn all() -> Result<Vec<Self>> {
        let dir = workspace::root().join("crates/core/tests");
        let entries = fs::read_dir(&dir).during(|| format!("reading {}", dir.display()))?;
        let files = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut all: Vec<_> = files.filter_map(|file| Self::in_file(&file)).collect();
        all.sort_by(|a, b| b.name.cmp(&a.name));
        Ok(all)
    }

    fn in_file(file: &str) -> Option<Self> {
        let test = file.strip_suffix(".rs")?;
        let name = test.strip_suffix("simulation")?.trim_end_matches('_');
        let name = if name.is_empty() { "read" } else { name };
        Some(Self { name: name.to_owned(), test: test.to_owned() })
    }

    /// Runs one seed and shows what happens in it.
    fn show(&self, seed: u64) -> Result<()> {
        let mut test = self.test(&self.built()?);
        match test.env(SEED, seed.to_string()).status().during(|| format!("running {}", self.test))? {
            status if status.success() => Ok(()),
            _ => fail(format!("{}: seed {seed} failed", self.name)),
        }
    }

    fn run(&self, from: u64, count: u64) -> Result<()> {
        let (program, start) = (self.built()?, Instant::now());
        let mut done = 0;
        while done < count {
            let portion = PORTION.max(count / 20).min(count - done);
            self.portion(&program, from + done, portion)?;
            done += portion;
            let seconds = start.elapsed().as_secs_f64();
            eprintln!("  {:6} {done:>6} of {count} seeds, {seconds:.0} s", self.name);
        }
        Ok(())
    }

    fn portion(&self, program: &PathBuf, from: u64, count: u64) -> Result<()> {
        let running = || format!("running {}", self.test);
        let mut test = self.test(program);
        test.env(FROM, from.to_string()).env(SEEDS, count.to_string());
        let child = test.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().during(running)?;
        let watchdog = Watchdog::set(child.id(), LIMIT);
        let output = child.wait_with_output().during(running)?;
        if watchdog.call_off() {
            let last = from + count - 1;
            return fail(format!(
                "{}: seeds {from} to {last} did not end within {} s",
                self.name,
                LIMIT.as_secs()
            ));
        }
        if output.status.success() {
            return Ok(());
        }
        let told = [output.stdout, output.stderr].concat();
        Err(self.told(&String::from_utf8_lossy(&told)))
    }

    /// What a failed portion printed becomes a file, its end and the way to see it again.
    fn told(&self, text: &str) -> Failure {
        let Some(seed) = failed_seed(text) else {
            return Failure::new(format!("{}: {}", self.name, last_lines(text, 20)));
        };
        let kept = match self.keep(seed, text) {
            Ok(path) => format!("all of it: {}", path.display()),
            Err(failure) => failure.to_string(),
        };
        let name = &self.name;
        Failure::new(format!(
            "{}\n{name}: seed {seed} failed ({kept})\nto run it again: cargo xtask sim --only {name} --seed {seed}",
            last_lines(text, 40)
        ))
    }

    fn keep(&self, seed: u64, text: &str) -> Result<PathBuf> {
        let dir = workspace::target()?.join("sim");
        fs::create_dir_all(&dir).during(|| format!("making {}", dir.display()))?;
        let path = dir.join(format!("{}-{seed}.log", self.name));
        fs::write(&path, text).during(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    fn test(&self, program: &PathBuf) -> Command {
        let mut test = Command::new(program);
        test.arg("--nocapture").current_dir(workspace::root().join("crates/core"));
        for variable in [SEED, SEEDS, FROM] {
            test.env_remove(variable);
        }
        test
    }

    /// Builds the test and says where it is. Not optimized: a simulation wants every check for overflow.
    fn built(&self) -> Result<PathBuf> {
        let mut build = cargo();
        build.args(["test", "--package", "ottla-core", "--test", &self.test, "--no-run"]);
        build.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
        let output = build.output().during(|| format!("building {}", self.test))?;
        if !output.status.success() {
            return fail(format!("{} does not compile", self.test));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().filter_map(executable).next_back() {
            Some(program) => Ok(program),
            None => fail(format!("Cargo names no program for {}", self.test)),
        }
    }
}

/// The program that a line of Cargo's messages is about.
fn executable(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    message["executable"].as_str().map(PathBuf::from)
}

/// N of `seed N failed`.
fn failed_seed(text: &str) -> Option<u64> {
    let behind = text.split("seed ").skip(1);
    behind.filter_map(|rest| rest.split_once(" failed")?.0.parse().ok()).last()
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulations_are_known_by_their_files() {
        let name = |file| Simulation::in_file(file).map(|simulation| simulation.name);
        assert_eq!(name("simulation.rs").as_deref(), Some("read"));
        assert_eq!(name("group_simulation.rs").as_deref(), Some("group"));
        assert_eq!(name("schedules.rs"), None);
        assert!(Simulation::named(Some("read")).unwrap()[0].test == "simulation");
        assert!(Simulation::named(Some("red")).err().unwrap().to_string().contains("there are: "));
    }

    #[test]
    fn the_seed_that_failed_is_found() {
        assert_eq!(failed_seed("thread panicked\nseed 17 failed: OTTLA_SEED=17 cargo test"), Some(17));
        assert_eq!(
            failed_seed("seed 17 failed: ..\ntest promises ... FAILED\n1 failed; 0 ignored"),
            Some(17)
        );
        assert_eq!(failed_seed("test result: 1 failed"), None);
        assert_eq!(failed_seed(""), None);
    }

    #[test]
    fn contradicting_options_are_refused() {
        let told = |line: &str| run(Args::new(line.split_whitespace())).unwrap_err();
        assert_eq!(told("--seed 1 --seeds 2").exit_code(), 2);
        assert_eq!(told("--seeds x").exit_code(), 2);
    }
}
