//! `cargo xtask assignors`: what Kafka's own assignors answer, for the tests of ottla-core.
//!
//! The answers are committed, so that the tests need no Java; `--check` says whether what is committed is what Java
//! answers.

use crate::args::Args;
use crate::failure::{During, Result, fail};
use crate::kafka::jars;
use crate::workspace;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn run(mut args: Args) -> Result<()> {
    let check = args.flag("--check");
    args.finish()?;
    let (answers, table) = (answers()?, data("assignors.json"));
    if !check {
        return fs::write(&table, answers).during(|| format!("writing {}", table.display()));
    }
    match fs::read(&table).during(|| format!("reading {}", table.display()))? == answers {
        true => Ok(()),
        false => {
            fail(format!("{} is not what Java answers: `cargo xtask assignors` writes it", table.display()))
        }
    }
}

fn answers() -> Result<Vec<u8>> {
    let mut java = Command::new(jars::java()?);
    java.arg("-cp").arg(format!("{}/*", jars::kafka(jars::NEWEST)?.display()));
    let output =
        java.arg(data("Assignors.java")).arg(jars::NEWEST).output().during(|| "starting Java".into())?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => {
            let told = String::from_utf8_lossy(&output.stderr);
            fail(format!("Kafka's assignors failed:\n{}", jars::last_lines(&told, 10)))
        }
    }
}

fn data(name: &str) -> PathBuf {
    workspace::root().join("crates/core/tests/data").join(name)
}
