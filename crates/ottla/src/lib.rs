//! Reads Apache Kafka.
//!
//! ```no_run
//! # async fn example() -> Result<(), ottla::Error> {
//! use ottla::{Reader, Start};
//!
//! let mut reader = Reader::builder("localhost:9092").topic("orders").start(Start::Earliest).open()?;
//! while let Some(message) = reader.next().await? {
//!     println!("{} {:?}", message.offset(), message.value());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Reader`] is where to begin: [`Reader::builder`] says what to read, [`Reader::next`] and [`Reader::next_batch`] hand it
//! out, [`Reader::control`] seeks, pauses and closes from any task, [`Reader::events`] tells what happens inside.
//!
//! By default a broker that is away and a topic that does not exist are waited for; see [`Builder::max_attempts`] and
//! [`Builder::missing_topic`]. Not there yet: consumer groups and commits, read-committed, TLS and SASL.

// This is the outermost layer of the library: it gives the machine its time.
#![allow(clippy::disallowed_methods)]

mod batch;
mod builder;
mod commits;
mod connection;
mod control;
mod dial;
mod driver;
mod error;
mod events;
mod frames;
mod groups;
mod hooks;
mod kind;
mod message;
mod options;
mod pool;
#[doc(hidden)]
pub mod raw;
mod reader;
mod shared;
mod sockets;
mod tickets;
mod walk;

pub use batch::{Batch, Records};
pub use builder::Builder;
pub use control::Control;
pub use error::{Error, ErrorKind};
pub use events::Events;
pub use groups::{
    Coordinator, GroupDescription, GroupKind, GroupListing, Groups, MemberDescription, PartitionLag,
    ResolvedOffset,
};
pub use hooks::{Assigned, Lost, Rebalance, Revoked};
pub use kind::{Commits, Group, Partitions, Stored};
pub use message::Message;
#[doc(hidden)]
pub use options::Options;
pub use ottla_core::{
    Address, Assignment, Assignor, Buffered, CommitOffset, Committed, Event, Fault, GroupMember,
    GroupPartition, GroupTopics, Member, MissingTopic, OnOutOfRange, Peer, Range, RoundRobin, Start, Sticky,
    TopicPartition, Until,
};
pub use ottla_wire::{
    code::Code,
    record::{Header, Headers, Record, RecordError, TimestampType},
};
pub use reader::{Reader, Stream};

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
