//! A member of a group.

use crate::ConnectionId;
use bytes::Bytes;
use ottla_wire::message::join_group_request::JoinGroupRequestProtocol;
use std::time::{Duration, Instant};

/// A member, as the group knows it (Kafka's `ClassicGroupMember`).
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) instance: Option<String>,
    pub(super) client_id: String,
    pub(super) session: Duration,
    pub(super) rebalance: Duration,
    /// What it offers, the best first.
    pub(super) protocols: Vec<JoinGroupRequestProtocol>,
    pub(super) assignment: Bytes,
    /// The connection whose JoinGroup waits for the rebalance to complete.
    pub(super) joining: Option<ConnectionId>,
    /// The connection whose SyncGroup waits for the leader's.
    pub(super) syncing: Option<ConnectionId>,
    /// It has never completed a rebalance: it does not know its id, and cannot send heartbeats.
    pub(super) is_new: bool,
    /// When its session ends; `None` while nobody coordinates the group, or while it waits and its session has ended.
    pub(super) deadline: Option<Instant>,
}

impl Member {
    pub(super) fn metadata(&self, protocol: Option<&str>) -> Bytes {
        let chosen = self.protocols.iter().find(|offered| Some(offered.name.as_str()) == protocol);
        chosen.map(|offered| offered.metadata.clone()).unwrap_or_default()
    }

    pub(super) fn offers(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|offered| offered.name == protocol)
    }

    /// Members that wait need no heartbeats, unless they are new: then the request itself may have been given up.
    pub(super) fn is_excused(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }

    pub(super) fn is_static(&self) -> bool {
        self.instance.is_some()
    }

    pub(super) fn renew(&mut self, now: Instant) {
        self.deadline = Some(after(now, self.session));
    }
}

/// Kafka's timers have a grain of 1 ms; without it a time-out of 0 would come for ever at the same instant.
pub(super) fn after(now: Instant, time: Duration) -> Instant {
    now + time.max(Duration::from_millis(1))
}
