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
//! # Groups
//!
//! ```no_run
//! # async fn example() -> Result<(), ottla::Error> {
//! use ottla::{Group, Reader};
//!
//! let mut reader: Reader<Group> =
//!     Reader::builder("localhost:9092").group("billing").topics(["orders", "refunds"]).open()?;
//! # let is_time_to_go = || true;
//! while let Some(message) = reader.next().await? {
//!     println!("{} {:?}", message.offset(), message.value());
//!     match reader.ack(&message) { // done with it
//!         Err(error) if error.is_fenced() => {} // given to another member meanwhile, which reads it again
//!         result => result?,
//!     }
//!     if is_time_to_go() {
//!         break;
//!     }
//! }
//! reader.close().await?; // commits what was acknowledged, and says how that went
//! # Ok(())
//! # }
//! ```
//!
//! [`Builder::group`] makes a [`Reader<Group>`], a member of a consumer group; [`Builder::stored_in`] a [`Reader<Stored>`],
//! which reads partitions that you name and keeps its offsets in a group. Both acknowledge and commit:
//!
//! - [`ack`](Reader::ack) says that a message is done, in whatever order that happens. It costs an atomic operation. What is
//!   acknowledged is committed at an [interval](Builder::commit_interval), before a partition is given up, and on close, but
//!   never past a message that was handed out and is not acknowledged: at least once, whatever crashes.
//! - [`commit`](Reader::commit) waits until everything up to a message is committed. Many may wait at a time.
//! - [`nack`](Reader::nack) comes back to a message.
//! - [`Builder::auto_ack`] does without: a message counts as done when the following one is asked for.
//!
//! A message may be held, and acknowledged from any task, as long as its partition is ours. Once that was given up, and with
//! it the right to commit, both are [`ErrorKind::Fenced`]; whoever owns the partition now reads the message again.
//! [`Builder::on_rebalance`] tells when partitions come and go.
//!
//! # What is waited for
//!
//! By default a broker that is away and a topic that does not exist are waited for; see [`Builder::max_attempts`] and
//! [`Builder::missing_topic`]. What happens meanwhile is told as [`Event`]s, each of them a sentence.
//!
//! # How it connects
//!
//! Over plain [`Tcp`], unless [`Builder::connect`] is given something else that can [`Connect`]: through a proxy, over a Unix
//! socket, to mapped addresses.
//!
//! # What is not there yet
//!
//! Incremental (cooperative) rebalances and the group protocol of KIP-848, read-committed, TLS and SASL.

// This is the outermost layer of the library: it gives the machine its time.
#![allow(clippy::disallowed_methods)]

mod batch;
mod builder;
mod caught;
mod commits;
mod connect;
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
pub use connect::{Connect, Connecting, Transport};
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
pub use options::{Connector, Options};
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
pub use sockets::Tcp;

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
