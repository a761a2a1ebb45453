//! `ottla groups` and `ottla group`.

mod delete;
mod seek;
mod show;

use ottla::{Address, Groups};
use serde::Serialize;

use crate::{
    exit::Exit,
    interrupt::Interrupt,
    plan::{Deed, GroupPlan, GroupsPlan},
    table::{Side, Table},
    tell::{self, Failure},
    watch::PATIENCE,
};

pub(crate) async fn list(plan: &GroupsPlan, mut interrupt: Interrupt) -> Result<Exit, Failure> {
    tokio::select! {
        biased;
        () = interrupt.happened() => Ok(Exit::Done),
        end = print_list(plan) => end.map(|()| Exit::Done),
    }
}

pub(crate) async fn run(plan: GroupPlan, mut interrupt: Interrupt) -> Result<Exit, Failure> {
    let mut groups = connect(&plan.brokers)?;
    let (groups, group) = (&mut groups, plan.group.as_str());
    let deed = async {
        match plan.deed {
            Deed::Show { json, watch: false } => show::once(groups, group, json).await,
            Deed::Show { json, watch: true } => show::watch(groups, group, json).await,
            Deed::Seek { targets, start, yes } => seek::run(groups, group, &targets, start, yes).await,
            Deed::Delete { yes } => delete::run(groups, group, yes).await,
        }
    };
    tokio::select! {
        biased;
        () = interrupt.happened() => Ok(Exit::Done),
        end = deed => end.map(|()| Exit::Done),
    }
}

fn connect(brokers: &[Address]) -> Result<Groups, Failure> {
    let brokers: Vec<String> = brokers.iter().map(ToString::to_string).collect();
    Ok(Groups::new(&brokers.join(","))?.client_id("ottla-cli").timeout(PATIENCE))
}

async fn print_list(plan: &GroupsPlan) -> Result<(), Failure> {
    let groups = connect(&plan.brokers)?.list().await?;
    if plan.json {
        for group in groups {
            let (kind, state) = (group.kind.to_string(), group.state);
            tell::json(&Listed { group: group.id, kind, protocol_type: group.protocol_type, state })?;
        }
        return Ok(());
    }
    let mut table = Table::new(&["GROUP", "KIND", "TYPE", "STATE"].map(|title| (title, Side::Left)));
    for group in groups {
        table.push([group.id, group.kind.to_string(), group.protocol_type, group.state]);
    }
    tell::text(&table.text())
}

/// A group as `ottla groups --json` has it.
#[derive(Serialize)]
struct Listed {
    group: String,
    kind: String,
    protocol_type: String,
    state: String,
}
