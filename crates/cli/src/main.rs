//! The `ottla` command: what was typed ([`args`]), what it means ([`mod@plan`]), and the commands that act on it.

// This is the outermost layer: it looks at the clock.
#![allow(clippy::disallowed_methods)]

mod args;
mod bench;
mod broker;
mod demo;
mod escape;
mod exit;
mod filter;
mod foreign;
mod format;
mod group;
mod help;
mod interrupt;
mod json;
mod kind;
mod look;
mod manual;
mod member;
mod news;
mod output;
mod partition;
mod plan;
mod pretty;
mod produce;
mod progress;
mod read;
mod row;
mod shape;
mod stats;
mod table;
mod tail;
mod tell;
mod time;
mod watch;

use std::{io, process::ExitCode, time::SystemTime};

use clap::{CommandFactory, error::ErrorKind};
use tokio::runtime::{Builder, Runtime};

use crate::{args::Args, exit::Exit, interrupt::Interrupt, plan::Plan, tell::Failure};

fn main() -> ExitCode {
    let exit = match plan() {
        Ok(plan) => act(plan),
        Err(usage) => return explain(&usage),
    };
    match exit {
        Ok(exit) => exit.into(),
        Err(Failure(why)) => {
            tell::note(why);
            Exit::Failed.into()
        }
    }
}

fn plan() -> Result<Plan, clap::Error> {
    let args = Args::try_from_line(std::env::args_os())?;
    Plan::new(args, SystemTime::now()).map_err(|why| Args::command().error(ErrorKind::ValueValidation, why))
}

/// Prints help, the version, or what was wrong.
fn explain(usage: &clap::Error) -> ExitCode {
    let _ = usage.print(); // nobody reads it; that is no failure
    if usage.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
}

fn act(plan: Plan) -> Result<Exit, Failure> {
    let runtime = runtime(&plan)?;
    let end = runtime.block_on(async {
        let interrupt = Interrupt::listen()?;
        match plan {
            Plan::Read(plan) => read::run(*plan, interrupt).await,
            Plan::Topics(plan) => look::topics(&plan, interrupt).await,
            Plan::Offsets(plan) => look::offsets(&plan, interrupt).await,
            Plan::Doctor(plan) => look::doctor(&plan, interrupt).await,
            Plan::Produce(plan) => produce::run(plan, interrupt).await,
            Plan::Groups(plan) => group::list(&plan, interrupt).await,
            Plan::Group(plan) => group::run(plan, interrupt).await,
            Plan::Bench(plan) => bench::run(plan, interrupt).await,
            Plan::Demo { records } => demo::run(records, interrupt).await,
            Plan::Broker(plan) => broker::run(plan, interrupt).await,
            Plan::Completions(shell) => manual::completions(shell),
            Plan::Man(names) => manual::man(&names),
        }
    });
    // Dropping it would wait for what blocks, such as the look-up of a name, also after Ctrl-C.
    runtime.shutdown_background();
    end
}

fn runtime(plan: &Plan) -> io::Result<Runtime> {
    match plan {
        // Broker and client in one process: each has something to do while the other works.
        Plan::Demo { .. } | Plan::Broker(_) => {
            Builder::new_multi_thread().worker_threads(2).enable_all().build()
        }
        // Network, decoding and formatting take turns on one thread; writing has its own. Two workers were measured with
        // five million records: they cost 2 to 10 % more CPU, for hand-overs, and took as long.
        _ => Builder::new_current_thread().enable_all().build(),
    }
}
