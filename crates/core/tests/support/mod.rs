//! A toy network with a hand-wound clock: machines and an embedded cluster on one thread, without socket or task.
//!
//! ```text
//!   Machine <-> Client's links <-> Net: latency, order per connection, loss <-> Cluster
//!      |                                                                          |
//!   Virtual reader --> Watch: what was handed out <-- compared with --> Truth: what the logs held, and when
//! ```
//! [`World`] winds the clock to the next thing that happens, wherever that is. All that is random comes from one seed.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test binary uses its part of it")]

mod chaos;
mod clients;
mod group;
mod member;
mod net;
mod reader;
mod seeds;
mod trace;
mod truth;
mod ward;
mod watch;
mod world;

pub use chaos::{Chaos, perhaps_a_dead_address, some_kinds, some_latency, some_topics};
pub use clients::{Life, Sent};
pub use member::{Acks, Caller, Piece};
pub use net::Latency;
pub use reader::{Habit, Read};
pub use seeds::{Regressions, run_seeds, some_kafka};
pub use trace::{trace, tracing};
pub use truth::{Produce, Shape};
pub use ward::Ward;
pub use watch::Watch;
pub use world::{Setup, World, ms, secs};

use ottla_core::TopicPartition;

/// Names a partition.
pub fn tp(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}
