//! A run in named steps: each is announced, timed, and can be run alone; the first that fails ends the run.

use crate::failure::{Failure, Result, misuse};
use crate::table::Table;
use crate::workspace::colours;
use std::time::{Duration, Instant};

pub(crate) struct Steps {
    command: &'static str,
    only: Option<String>,
    names: Vec<&'static str>,
    done: Vec<(&'static str, Outcome)>,
}

enum Outcome {
    Passed(Duration),
    Failed(Duration),
    LeftOut,
}

impl Steps {
    /// `command` is what a person types to run one step again, up to `--only`.
    pub(crate) fn new(command: &'static str, only: Option<String>) -> Self {
        Self { command, only, names: Vec::new(), done: Vec::new() }
    }

    /// Runs a step, if it is wanted.
    pub(crate) fn step(
        &mut self,
        name: &'static str,
        title: &str,
        act: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if !self.wanted(name) {
            return Ok(());
        }
        self.announce(name, title);
        let start = Instant::now();
        match act() {
            Ok(()) => {
                self.done.push((name, Outcome::Passed(start.elapsed())));
                Ok(())
            }
            Err(failure) => {
                self.done.push((name, Outcome::Failed(start.elapsed())));
                Err(self.how_to_repeat(name, &failure))
            }
        }
    }

    /// Notes that a step is not run, and why.
    pub(crate) fn leave_out(&mut self, name: &'static str, why: &str) {
        if self.wanted(name) {
            self.announce(name, &format!("left out: {why}"));
            self.done.push((name, Outcome::LeftOut));
        }
    }

    /// Prints the summary and gives the result of the run.
    pub(crate) fn finish(self, result: Result<()>) -> Result<()> {
        if !self.done.is_empty() {
            eprint!("\n{}", self.summary().render());
        }
        match (result, self.only) {
            (Ok(()), Some(only)) if self.done.is_empty() => {
                misuse(format!("there is no step `{only}`; there are: {}", self.names.join(", ")))
            }
            (result, _) => result,
        }
    }

    fn wanted(&mut self, name: &'static str) -> bool {
        self.names.push(name);
        self.only.as_deref().is_none_or(|only| only == name)
    }

    fn announce(&self, name: &str, title: &str) {
        let (bold, plain) = if colours() { ("\x1b[1;36m", "\x1b[0m") } else { ("", "") };
        eprintln!("\n{bold}== {name}{plain}: {title}");
    }

    fn how_to_repeat(&self, name: &str, failure: &Failure) -> Failure {
        Failure::new(format!("{name}: {failure}\nto run it again: {} --only {name}", self.command))
    }

    fn summary(&self) -> Table {
        let mut table = Table::new(["step", "result", "seconds"]);
        for (name, outcome) in &self.done {
            let (result, took) = match outcome {
                Outcome::Passed(took) => ("passed", Some(took)),
                Outcome::Failed(took) => ("FAILED", Some(took)),
                Outcome::LeftOut => ("left out", None),
            };
            let seconds = took.map_or(String::new(), |took| format!("{:.1}", took.as_secs_f64()));
            table.row([(*name).to_owned(), result.to_owned(), seconds]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::fail;

    fn walk(only: Option<&str>, ran: &mut Vec<&'static str>) -> (Result<()>, String) {
        let mut steps = Steps::new("cargo xtask test", only.map(str::to_owned));
        let mut run = || {
            steps.step("one", "", || {
                ran.push("one");
                Ok(())
            })?;
            steps.leave_out("two", "not today");
            steps.step("three", "", || {
                ran.push("three");
                fail("broken")
            })?;
            steps.step("four", "", || {
                ran.push("four");
                Ok(())
            })
        };
        let result = run();
        let summary = steps.summary().render();
        (steps.finish(result), summary)
    }

    #[test]
    fn the_first_failure_ends_the_run_and_says_how_to_repeat_it() {
        let mut ran = Vec::new();
        let (result, summary) = walk(None, &mut ran);
        assert_eq!(ran, ["one", "three"]);
        let told = result.unwrap_err().to_string();
        assert_eq!(told, "three: broken\nto run it again: cargo xtask test --only three");
        let words: Vec<Vec<_>> = summary.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1][..2], ["one", "passed"]);
        assert_eq!(words[2], ["two", "left", "out"]);
        assert_eq!(words[3][..2], ["three", "FAILED"]);
    }

    #[test]
    fn one_step_alone() {
        let mut ran = Vec::new();
        let (result, summary) = walk(Some("four"), &mut ran);
        assert_eq!((result, ran), (Ok(()), vec!["four"]));
        assert_eq!(summary.lines().count(), 2);
    }

    #[test]
    fn an_unknown_step_is_misuse_and_lists_the_known() {
        let (result, _) = walk(Some("five"), &mut Vec::new());
        let failure = result.unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().ends_with("there are: one, two, three, four"));
    }
}
