//! A Kafka cluster inside a process, for tests and demonstrations.
//!
//! [`Cluster`] has neither socket nor clock nor task: frames and times go in, frames and a deadline come out. Under a
//! hand-wound clock, with a seed, a test that fails once fails again. [`Broker`] puts it behind TCP.
//!
//! Any Kafka client can use it: topics are made, produced to and read, with long polls, limits cut at the byte, leader
//! epochs, topic ids and the error codes of Apache Kafka 4.4, which it is compared with. Groups of the classic protocol
//! are coordinated: members join, with or without a handshake, static ones too, are assigned, commit, fall silent and go.
//! It can pass for an older one by the versions that it speaks ([`ClusterOptions::like`]).
//! What goes wrong can be scripted ([`Fault`]): errors, delays, cut and wrong replies, leaders and coordinators that move
//! or load, nodes that stop.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use ottla_broker::{ApiKey, Broker, ClusterOptions, Code, Fault};
//!
//! let broker = Broker::start(ClusterOptions::new().nodes(3)).await?;
//! broker.with(|cluster| {
//!     cluster.create_topic("letters", 6)?;
//!     cluster.append_values("letters", 0, 1_700_000_000_000, ["Dear", "Ottla"])
//! })?;
//! // The next fetch of partition 0 meets a broker that has just lost it.
//! let fault = Fault::partition_error(ApiKey::Fetch, Code::NOT_LEADER_OR_FOLLOWER).topic("letters").partition(0);
//! let fault = broker.with(|cluster| cluster.fault(fault));
//!
//! // .. let a client read from broker.bootstrap() ..
//!
//! println!("the fault met {} requests", broker.with(|cluster| cluster.fault_hits(fault)));
//! # Ok(()) }
//! ```
//!
//! Each API's file in `src/api` says what it does not imitate. In general:
//! - Nothing is replicated. A partition has one log, whatever its replicas and its leader: what is produced is visible at
//!   once, and the high watermark is the end of the log.
//! - Everything is in memory. There are no segments, no compaction, no retention but by
//!   [bytes](ClusterOptions::max_log_bytes).
//! - A group's state is in memory too; a coordinator that moves finds what Kafka's log would hold. Offsets never expire.
//! - No transactions, groups of the newer protocols (KIP-848, share, streams), quotas, access control, TLS or SASL.

mod api;
mod cluster;
mod connection;
mod epochs;
mod fault;
mod groups;
mod like;
mod log;
mod options;
mod received;
mod refused;
mod serve;
mod shell;
mod store;
#[cfg(test)]
mod testing;

pub use cluster::{Cluster, Output};
pub use fault::{Fault, FaultId};
pub use groups::{CommitView, GroupState, GroupView, MemberView};
pub use like::Like;
pub use options::{ClusterOptions, NodeOptions};
pub use received::Received;
pub use refused::Refused;
pub use shell::{Broker, BrokerOptions};
pub use store::{Leaders, TopicOptions};

pub use ottla_wire as wire;
pub use ottla_wire::api::ApiKey;
pub use ottla_wire::code::Code;

use std::fmt;

/// A connection of a client to a node. Never given twice by one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
