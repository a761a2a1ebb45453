//! The machine that reads Apache Kafka: what to ask whom next, what is ours to hand out, where we stand.
//!
//! It has no socket, no task and no clock. Whoever drives it tells it what happened and when, and carries out what
//! it asks for; so all of its schedules can be run in a test, with a clock wound by hand.

mod address;
mod backoff;
mod cluster;
mod config;
mod event;
mod fault;
mod fetch;
mod group;
mod machine;
mod partition;
mod request;
mod timer;
mod verdict;

pub use address::Address;
pub use cluster::{Lane, Peer};
pub use config::{Config, GroupConfig, MissingTopic, OnOutOfRange, Start, Subscription, Until};
pub use event::Event;
pub use fault::{Fault, Lost};
pub use fetch::{
    ledger::{Account, Buffered, Lease, Ledger},
    queue::{Part, Take},
    reply::{FetchReply, Outlined},
    turn::{Turn, TurnState},
};
pub use group::assign::{
    Assignment, Assignor, GroupMember, GroupPartition, GroupTopics, Range, RoundRobin, Sticky,
};
pub use group::{
    Commit, CommitError, CommitOffset, Committed, Member, Rebalance, RebalanceKind, Settled, Ticket,
    tenure::{AckError, Tenure},
};
pub use machine::{Machine, NotRead};
pub use partition::TopicPartition;
pub use request::{AskError, Asked, Body, FetchAsk, KnowsInstances, Reply, Request};
pub use timer::Why;
