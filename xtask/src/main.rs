//! The project's own commands: `cargo xtask COMMAND`. Every module tells its progress on standard error.
#![allow(clippy::disallowed_methods, reason = "xtask stands at the outermost edge: it times what it runs")]

mod args;
mod assignors;
mod bench;
mod dataset;
mod failure;
mod generate;
mod golden;
mod kafka;
mod measure;
mod peers;
mod readback;
mod sim;
mod soak;
mod steps;
mod table;
mod test;
mod versions;
mod watchdog;
mod workspace;

use args::Args;
use failure::{Result, misuse};
use std::process::ExitCode;

const USAGE: &str = "\
The commands of the Ottla project.

usage: cargo xtask COMMAND [OPTIONS]

  test        everything CI checks: format, clippy, docs, all tests, the demo, and the tests on a real Apache Kafka
                --no-kafka          leave out what needs Java and Maven (CI never does)
                --only STEP         one step alone (an unknown name lists them)
  soak        the long checks: millions of records, ten broker restarts, licenses, many random cases, thousands of
              simulated schedules, two minutes of chaos, groups with librdkafka, franz-go and kafka-go (Go, make and cc)
                --only STEP         deny, cases, sim, readback, chaos, mixed, restart, nodes, storm, fuzz or versions
  sim         the simulations of crates/core/tests, many seeds of each; a seed that fails is kept in target/sim
                --seeds N           how many (1000)
                --from S            the first of them (0)
                --seed S            this one alone, with all that happens in it
                --only NAME         one of the simulations: read, group, damage
  bench       what reading costs, beside a program that does only what cannot be avoided (bench/README.md)
                --rounds N          how often each client reads each topic (5)
                --quick             a tenth of the records
                --topics A,B        some of plain1, plain6, lz46, zstd6, snappy6, gzip6
                --only A,B          some of the clients (floor, batch, message, ...)
                --extra NAME=CMD    another client, called as CMD BROKER TOPIC part:0|all COUNT
                --broker ADDR       an existing broker instead of an own one; topics that it has are read as they are
                --json FILE         every single measurement
  kafka       a real Apache Kafka on this machine
                up    [--version 4.4.0] [--nodes N] [--port N] [--dir DIR] [--set KEY=VALUE]...   prints its address;
                      with --nodes 3 a cluster of so many (racks r0, r1, ...; replication 3, in sync 2);
                      tried: 4.4.0, 3.9.1, and with a ZooKeeper beside them 2.8.2 and 1.1.1
                down  [--dir DIR | --all] [--delete]
                stop  [--dir DIR] [--kill]    start [--dir DIR]    with the same port and data
                freeze [--dir DIR]            thaw  [--dir DIR]    alive, but silent
                      of a cluster: down, stop, start, freeze and thaw take --node N for one of its nodes (1, 2, ...)
                      without --dir: the one that runs
                tool  CLASS ARGS...           a Java tool of Kafka: TopicCommand, GetOffsetShell, ...
  generate    the protocol's messages in Rust, from the schemas in the jar of Kafka's clients
                --check             only say whether what is committed is what would be written
                --jar PATH          that jar, instead of the one that Maven gets
  assignors   what Kafka's own assignors answer to many groups (crates/core/tests/data/assignors.json)
                --check             only say whether what is committed is what they answer
  golden      records anew what Kafka's tools, we and a real Kafka say to each other (crates/wire/tests/golden)
                --version V         only with this Kafka: 4.4.0, 3.9.1 or 2.8.2
";

fn main() -> ExitCode {
    workspace::remember_self();
    match run(Args::of_process()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(mut args: Args) -> Result<()> {
    let command = args.word();
    if let Some(part) = command.as_deref().and_then(usage_of).filter(|_| args.ask_for_help()) {
        print!("{part}");
        return Ok(());
    }
    match command.as_deref() {
        Some("test") => test::run(args),
        Some("soak") => soak::run(args),
        Some("sim") => sim::run(args),
        Some("bench") => bench::run(args),
        Some("kafka") => kafka::command::run(args),
        Some("generate") => generate::run(args),
        Some("assignors") => assignors::run(args),
        Some("golden") => golden::run(args),
        None | Some("help" | "--help" | "-h") => {
            print!("{USAGE}");
            Ok(())
        }
        Some(other) => misuse(format!("there is no command `{other}`; `cargo xtask help` lists them")),
    }
}

/// The part of [`USAGE`] about one command.
fn usage_of(command: &str) -> Option<String> {
    let begins = |line: &str| line.strip_prefix("  ").is_some_and(|line| !line.starts_with(' '));
    let is_wanted = |line: &str| begins(line) && line.split_whitespace().next() == Some(command);
    let mut lines = USAGE.lines().skip_while(|line| !is_wanted(line));
    let first = lines.next()?;
    let part: Vec<_> = std::iter::once(first).chain(lines.take_while(|line| !begins(line))).collect();
    Some(format!("usage: cargo xtask {command} ...\n\n{}\n", part.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_part_of_the_usage() {
        let parts: Vec<_> = ["test", "soak", "sim", "bench", "kafka", "generate", "assignors", "golden"]
            .map(|command| (command, usage_of(command).unwrap()))
            .into();
        for (command, part) in &parts {
            assert!(part.contains(&format!("\n  {command} ")), "{part}");
        }
        let lines: usize = parts.iter().map(|(_, part)| part.lines().count() - 2).sum();
        let head = USAGE.lines().take_while(|line| !line.starts_with("  test ")).count();
        assert_eq!(lines + head, USAGE.lines().count(), "no line is lost, none comes twice");
        assert!(parts[0].1.contains("--no-kafka") && !parts[0].1.contains("soak"), "{}", parts[0].1);
        assert_eq!(usage_of("tset"), None);
        assert_eq!(usage_of("up"), None);
    }

    #[test]
    fn help_is_no_error_wherever_it_is_asked_for() {
        for line in [
            "",
            "help",
            "--help",
            "test --help",
            "test -h",
            "soak --help",
            "sim --seeds 5 --help",
            "bench --quick --help",
            "kafka --help",
            "kafka up --help",
            "kafka tool --help",
            "generate --help",
            "assignors --help",
            "golden --help",
        ] {
            assert_eq!(run(Args::new(line.split_whitespace())), Ok(()), "{line}");
        }
        assert_eq!(run(Args::new(["tset"])).unwrap_err().exit_code(), 2);
        assert_eq!(run(Args::new(["tset", "--help"])).unwrap_err().exit_code(), 2);
    }
}
