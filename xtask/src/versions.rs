//! The tests on the Kafkas that people have. What an old one lacks is an absent feature, never an error.
//!
//! A test that cannot hold on an old broker says from which version on it does, and why, where it says what it needs:
//!
//! ```text
//! #[ignore = "needs a real Kafka from 2.3 on, where members may be static: cargo xtask test"]
//! ```
//!
//! What a version leaves out for that is listed by the run.

use crate::dataset::{self, Size, TOPICS};
use crate::failure::{During, Result, fail};
use crate::kafka::Kafka;
use crate::kafka::node::Settings;
use crate::readback;
use crate::test::{self, for_groups, is_apart};
use crate::workspace::{cargo, release_ottla};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the tests run on, beside the newest.
pub(crate) const OLDER: [&str; 2] = ["3.9.1", "2.8.2"];

/// The oldest that starts on a Java of today, and that we share versions with.
const OLDEST: &str = "1.1.1";

/// A minute or so for each version.
pub(crate) fn short() -> Result<()> {
    let topics = dataset::named(&["plain6".into(), "lz46".into()])?;
    for version in OLDER {
        let kafka = Kafka::start("versions", &of(version))?;
        dataset::fill(&kafka.tools(), kafka.dir(), &topics, Size::FEW)?;
        readback::check(&release_ottla()?, &kafka.tools(), &topics, Size::FEW)?;
        tests_on(&kafka, version)?;
        test::chaos_on(&kafka, Duration::from_secs(10))?;
    }
    Ok(())
}

/// With many records, for longer, with restarts; and the oldest.
pub(crate) fn long() -> Result<()> {
    for version in OLDER {
        let kafka = Kafka::start("versions", &of(version))?;
        dataset::fill(&kafka.tools(), kafka.dir(), &TOPICS, Size::TENTH)?;
        readback::check(&release_ottla()?, &kafka.tools(), &TOPICS, Size::TENTH)?;
        tests_on(&kafka, version)?;
        test::chaos_on(&kafka, Duration::from_secs(60))?;
        drop(kafka);
        test::restarts_of(version, 3)?;
    }
    // No tool of a later Kafka speaks to it, so nothing is read back.
    let kafka = Kafka::start("versions", &of(OLDEST))?;
    tests_on(&kafka, OLDEST)?;
    test::chaos_on(&kafka, Duration::from_secs(20))
}

fn of(version: &str) -> Settings {
    Settings { version: version.into(), ..for_groups() }
}

/// All tests that a broker of this version can be asked for, and no fewer.
fn tests_on(kafka: &Kafka, version: &str) -> Result<()> {
    let tests = tests_for(version, &["--workspace"], |name| !is_apart(name))?;
    let mut run = test::ignored_tests("kafka*");
    run.arg("--exact").args(names(&tests));
    match test::passed(test::about(&mut run, kafka))? {
        passed if passed as usize == tests.len() => Ok(()),
        passed => fail(format!("{passed} tests ran on {version}, instead of {}", tests.len())),
    }
}

/// A test that needs a real Kafka, and what it says of that.
#[derive(Debug, PartialEq)]
pub(crate) struct Ignored {
    name: String,
    needs: String,
}

/// Of the tests in these packages that are wanted by their names, those that hold on this version; tells which do not.
pub(crate) fn tests_for(
    version: &str,
    packages: &[&str],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Ignored>> {
    let wanted = ignored_tests(packages)?.into_iter().filter(|test| is_wanted(&test.name));
    let (beyond, held): (Vec<_>, Vec<_>) = wanted.partition(|test| test.is_beyond(version));
    let mut by_needs = BTreeMap::<_, BTreeSet<_>>::new();
    for test in &beyond {
        by_needs.entry(&*test.needs).or_default().insert(&*test.name);
    }
    for (needs, names) in by_needs {
        let names: Vec<_> = names.into_iter().collect();
        eprintln!("  left out on {version}, since it {needs}:\n    {}", names.join("\n    "));
    }
    Ok(held)
}

/// Their names, each once.
pub(crate) fn names(tests: &[Ignored]) -> BTreeSet<&str> {
    tests.iter().map(|test| &*test.name).collect()
}

/// What Cargo lists of them when it leaves them out.
fn ignored_tests(packages: &[&str]) -> Result<Vec<Ignored>> {
    let mut list = cargo();
    list.arg("test").args(packages).args(["--test", "kafka*", "--", "kafka_"]);
    let output = list.output().during(|| "starting Cargo".into())?;
    if !output.status.success() {
        return fail(format!("listing the tests:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(Ignored::parse).collect())
}

impl Ignored {
    /// From `test NAME ... ignored, NEEDS`.
    fn parse(line: &str) -> Option<Self> {
        let (name, needs) = line.strip_prefix("test ")?.split_once(" ... ignored, ")?;
        let needs = needs.strip_suffix(": cargo xtask test").unwrap_or(needs);
        Some(Self { name: name.into(), needs: needs.into() })
    }

    /// Whether it needs a later version than this.
    fn is_beyond(&self, version: &str) -> bool {
        let from =
            self.needs.strip_prefix("needs a real Kafka from ").and_then(|rest| rest.split(' ').next());
        from.is_some_and(|from| numbers(version) < numbers(from))
    }
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_says_from_which_version_on_it_holds() {
        let line = "test groups::kafka_static ... ignored, needs a real Kafka from 2.3 on, for static members: \
                    cargo xtask test";
        let test = Ignored::parse(line).unwrap();
        assert_eq!(test.name, "groups::kafka_static");
        assert_eq!(test.needs, "needs a real Kafka from 2.3 on, for static members");
        let beyond: Vec<_> = ["1.1.1", "2.2.9", "2.3", "2.3.0", "2.10.1", "4.4.0"]
            .map(|version| test.is_beyond(version))
            .into();
        assert_eq!(beyond, [true, true, false, false, false, false]);
    }

    #[test]
    fn a_test_that_says_nothing_of_versions_holds_on_all() {
        let test = Ignored::parse("test kafka_a ... ignored, needs a real Kafka: cargo xtask test").unwrap();
        assert!(!test.is_beyond("0.11.0"));
        assert_eq!(Ignored::parse("test kafka_a ... ok"), None);
    }
}
