//! Commands that look at a cluster: `ottla topics`, `ottla offsets` and `ottla doctor`.

pub(crate) mod client;
mod doctor;
mod offsets;
mod release;
mod topic;
mod topics;
mod visit;

use crate::{
    exit::Exit,
    interrupt::Interrupt,
    plan::{DoctorPlan, OffsetsPlan, TopicsPlan},
    tell::Failure,
};

pub(crate) async fn topics(plan: &TopicsPlan, mut interrupt: Interrupt) -> Result<Exit, Failure> {
    tokio::select! {
        biased;
        () = interrupt.happened() => Ok(Exit::Done),
        end = topics::run(plan) => end,
    }
}

pub(crate) async fn offsets(plan: &OffsetsPlan, mut interrupt: Interrupt) -> Result<Exit, Failure> {
    tokio::select! {
        biased;
        () = interrupt.happened() => Ok(Exit::Done),
        end = offsets::run(plan) => end,
    }
}

pub(crate) async fn doctor(plan: &DoctorPlan, mut interrupt: Interrupt) -> Result<Exit, Failure> {
    tokio::select! {
        biased;
        () = interrupt.happened() => Ok(Exit::Done),
        end = doctor::run(plan) => end,
    }
}

/// As a cell; what is not known is empty.
fn number(number: Option<impl ToString>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}
