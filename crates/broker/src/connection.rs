//! Where a connection stands.

use crate::api::fetch::Fetch;
use crate::fault::Effects;
use crate::{ConnectionId, Output};
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Instant;

/// A client's connection to a node.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) node: i32,
    /// Frames that wait until the request before them is answered.
    pub(crate) queue: VecDeque<Bytes>,
    pub(crate) phase: Phase,
}

/// What a connection does with its request. In every phase but `Idle` later frames wait.
///
/// ```text
///            frame: answered at once
///           +------+
///           v      |      frame: a fetch without enough data
///        [ Idle ]--+----------------------------------------> [ Parked ]
///         ^ | | |  |      frame: a member joins or syncs        |    |
///         | | | |  +----------------------------------------> [ Waiting ]
///         | | | |           data, error, deadline; answer       |    |
///         | | | +<----------------------------------------------+    |
///         | | |   reply made, fault "delay"                          | same
///         | | +------------------------------> [ Held ] <------------+
///         | |        time                        |
///         +-------------------------------------+
///           |   fault "silence"
///           +------------------> [ Silent ]    (until the connection goes)
/// ```
#[derive(Debug)]
pub(crate) enum Phase {
    /// It has none.
    Idle,
    /// A fetch waits for data.
    Parked(Box<Parked>),
    /// A member joins or syncs: the group's coordinator answers when it is time, maybe at once.
    Waiting(Box<ReplyTo>),
    /// The reply is made and sent later.
    Held { until: Instant, outputs: Vec<Output> },
    /// There will be no reply.
    Silent,
}

#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) fetch: Fetch,
    pub(crate) to: ReplyTo,
}

/// Where a reply goes, and what happens to it on its way.
#[derive(Debug)]
pub(crate) struct ReplyTo {
    pub(crate) connection: ConnectionId,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) effects: Effects,
}

impl Connection {
    pub(crate) fn new(node: i32) -> Self {
        Self { node, queue: VecDeque::new(), phase: Phase::Idle }
    }
}

impl Phase {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Parked(parked) => Some(parked.fetch.deadline()),
            Self::Held { until, .. } => Some(*until),
            Self::Idle | Self::Waiting(_) | Self::Silent => None,
        }
    }
}
