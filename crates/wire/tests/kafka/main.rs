//! A real Kafka is asked everything that can be asked here, in every version that both speak: it has to understand the
//! request, and its reply has to be read and written anew to the same bytes. `cargo xtask golden` records these
//! questions and answers for the tests in `../golden`, which need no Kafka.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod connecting;
mod groups;
mod logs;
#[path = "../golden/reread.rs"]
mod reread;
mod setup;
mod topics;
mod transactions;

use ottla_wire::Uuid;

/// No topic is called so.
const MISSING: &str = "golden-missing";

/// No topic has this id.
const MISSING_ID: Uuid = Uuid(*b"no topic has it.");

/// The broker that is asked; it is not stopped meanwhile.
const BROKER: &str = "OTTLA_TEST_KAFKA";
