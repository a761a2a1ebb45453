//! Members of other make (`xtask/peers`), built for the tests that put them into groups with ours.

use crate::failure::{During, Result, fail};
use crate::workspace::{self, cargo, check};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each is called, and the variable that tells tests where it is.
pub(crate) struct Peer {
    pub(crate) variable: &'static str,
    pub(crate) program: PathBuf,
}

/// What building them needs, how it says that it is there, and for what.
const NEEDED: [(&str, &str, &str); 3] = [
    ("go", "version", "franz-go and kafka-go"),
    ("make", "--version", "librdkafka"),
    ("cc", "--version", "librdkafka"),
];

/// Builds all of them; fails before anything else if something is missing.
pub(crate) fn build() -> Result<Vec<Peer>> {
    check_needed(&NEEDED)?;
    let target = workspace::target()?.join("peers");
    let peer = |variable, program: &str| Peer { variable, program: target.join(program) };
    eprintln!("building librdkafka, franz-go and kafka-go into {} (minutes, once)", target.display());
    build_rust(&target)?;
    build_go(&target)?;
    Ok(vec![
        peer("OTTLA_TEST_LIBRDKAFKA", "release/rdkafka-member"),
        peer("OTTLA_TEST_FRANZ_GO", "go/franz-go"),
        peer("OTTLA_TEST_KAFKA_GO", "go/kafka-go"),
    ])
}

/// The manifest of the one in Rust, for its format to be checked.
pub(crate) const RUST: &str = "xtask/peers/rdkafka/Cargo.toml";

fn build_rust(target: &Path) -> Result<()> {
    let mut build = cargo();
    check(build.args(["build", "--release", "--locked", "--manifest-path", RUST, "--target-dir"]).arg(target))
}

fn build_go(target: &Path) -> Result<()> {
    let programs = target.join("go");
    std::fs::create_dir_all(&programs).during(|| format!("making {}", programs.display()))?;
    let mut build = Command::new("go");
    // The slash says that it is a folder.
    build.args(["build", "-o"]).arg(programs.join("")).arg("./...");
    check(build.current_dir(workspace::root().join("xtask/peers/go")))
}

fn check_needed(needed: &[(&str, &str, &str)]) -> Result<()> {
    let is_missing = |program: &str, says: &str| {
        !Command::new(program).arg(says).output().is_ok_and(|output| output.status.success())
    };
    let missing = needed.iter().filter(|(program, says, _)| is_missing(program, says));
    let missing: Vec<_> = missing.map(|(program, _, what)| format!("`{program}` (for {what})")).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => fail(format!("members of other make cannot be built: {} is missing", missing.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        check_needed(&[("true", "", "nothing")]).unwrap();
        let needed =
            [("true", "", "nothing"), ("no-such-program", "version", "one"), ("false", "", "another")];
        let told = check_needed(&needed).unwrap_err().to_string();
        assert!(told.ends_with("`no-such-program` (for one), `false` (for another) is missing"), "{told}");
    }
}
