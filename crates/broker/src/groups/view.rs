//! Groups as a test sees them.

use super::group::{Group, GroupState};
use super::member::Member;
use bytes::Bytes;
use std::time::Duration;

/// A group, as its coordinator knows it at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupView {
    /// Its id.
    pub name: String,
    /// Where it stands.
    pub state: GroupState,
    /// The number of its last completed rebalance.
    pub generation: i32,
    /// What kind of members it has: `consumer`; `None` if it never had any.
    pub protocol_type: Option<String>,
    /// The assignor chosen in this generation.
    pub protocol: Option<String>,
    /// The id of the member that assigns.
    pub leader: Option<String>,
    /// Its members, by id.
    pub members: Vec<MemberView>,
    /// Ids that were given out to members that have not come back with them yet (KIP-394).
    pub pending: Vec<String>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberView {
    /// The id it was given.
    pub id: String,
    /// `group.instance.id`, of a static member.
    pub instance: Option<String>,
    /// What its client calls itself.
    pub client_id: String,
    /// The names of the assignors it offers, the best first.
    pub protocols: Vec<String>,
    /// What it tells the leader: its subscription, for the chosen assignor.
    pub metadata: Bytes,
    /// What the leader assigned to it.
    pub assignment: Bytes,
    /// How long it may be silent.
    pub session_timeout: Duration,
    /// How long it may take to rejoin.
    pub rebalance_timeout: Duration,
    /// Its JoinGroup waits for the others.
    pub is_joining: bool,
    /// Its SyncGroup waits for the leader's.
    pub is_syncing: bool,
}

impl Group {
    pub(super) fn view(&self, name: &str) -> GroupView {
        let protocol = self.protocol.as_deref();
        GroupView {
            name: name.into(),
            state: self.state,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            members: self.members.iter().map(|(id, member)| member.view(id, protocol)).collect(),
            pending: self.pending.keys().cloned().collect(),
        }
    }
}

impl Member {
    fn view(&self, id: &str, protocol: Option<&str>) -> MemberView {
        MemberView {
            id: id.into(),
            instance: self.instance.clone(),
            client_id: self.client_id.clone(),
            protocols: self.protocols.iter().map(|offered| offered.name.clone()).collect(),
            metadata: self.metadata(protocol),
            assignment: self.assignment.clone(),
            session_timeout: self.session,
            rebalance_timeout: self.rebalance,
            is_joining: self.joining.is_some(),
            is_syncing: self.syncing.is_some(),
        }
    }
}
