//! A group: its members, its state, and the protocol they choose (Kafka's `ClassicGroup`).

use super::desk::Desk;
use super::member::Member;
use super::offsets::Offsets;
use super::seats::java_hash;
use ottla_wire::code::Code;
use ottla_wire::message::join_group_request::JoinGroupRequestProtocol;
use ottla_wire::message::join_group_response::JoinGroupResponseMember;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

/// Where a group stands.
///
/// ```text
///                               all have joined, or           the leader
///               first join      rebalance time-out            syncs
///   [ Empty ]-------------> [ Preparing ]---------> [ Completing ]---------> [ Stable ]
///       ^                    |  Rebalance             Rebalance                  |
///       |   nobody is left   |      ^                       |                    |
///       +--------------------+      +-----------------------+--------------------+
///                                     join, leave, new metadata, session end, sync time-out;
///                                     in Stable also when the leader joins as it was
/// ```
///
/// A group that is not there is said to be `Dead`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupState {
    /// It has no members, but may have offsets.
    Empty,
    /// It waits for its members to join again.
    PreparingRebalance,
    /// It waits for the leader's assignment.
    CompletingRebalance,
    /// All members have been told what is theirs.
    Stable,
}

impl GroupState {
    /// The name that Kafka gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Until when the group waits for its members to join.
#[derive(Debug, Clone, Copy)]
pub(super) struct JoinTimer {
    pub(super) at: Instant,
    /// Of an empty group's first rebalance, which is prolonged by members that come: the delay, and what may be added.
    pub(super) initial: Option<(Duration, Duration)>,
}

/// A group of the classic protocol.
#[derive(Debug)]
pub(crate) struct Group {
    pub(super) state: GroupState,
    pub(super) previous: GroupState,
    pub(super) generation: i32,
    pub(super) protocol_type: Option<String>,
    pub(super) protocol: Option<String>,
    pub(super) leader: Option<String>,
    pub(super) members: BTreeMap<String, Member>,
    /// Ids given out, and when they lapse.
    pub(super) pending: BTreeMap<String, Instant>,
    /// Members of this generation that have not synced yet.
    pub(super) unsynced: BTreeSet<String>,
    /// A member came during the initial delay, which is prolonged then.
    pub(super) somebody_came: bool,
    pub(super) join_timer: Option<JoinTimer>,
    pub(super) sync_timer: Option<Instant>,
    pub(super) stored: Stored,
    pub(crate) offsets: Offsets,
}

/// What stands in the log: from it the next coordinator makes the group.
#[derive(Debug, Clone, Default)]
pub(super) struct Stored {
    generation: i32,
    protocol_type: Option<String>,
    protocol: Option<String>,
    leader: Option<String>,
    members: BTreeMap<String, Member>,
}

impl Group {
    pub(super) fn new() -> Self {
        Self {
            state: GroupState::Empty,
            previous: GroupState::Empty,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            pending: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            somebody_came: false,
            join_timer: None,
            sync_timer: None,
            stored: Stored::default(),
            offsets: Offsets::default(),
        }
    }

    /// Whether it has no members, and none is coming.
    pub(super) fn is_empty(&self) -> bool {
        self.state == GroupState::Empty
    }

    pub(super) fn enter(&mut self, state: GroupState) {
        self.previous = std::mem::replace(&mut self.state, state);
    }

    // Members

    pub(super) fn add(&mut self, id: &str, protocol_type: &str, member: Member) {
        if self.members.is_empty() {
            self.protocol_type = Some(protocol_type.into());
        }
        self.leader.get_or_insert_with(|| id.into());
        self.pending.remove(id);
        self.members.insert(id.into(), member);
    }

    /// Of a leader's death some other member becomes the leader.
    pub(super) fn remove(&mut self, id: &str) {
        self.members.remove(id);
        self.pending.remove(id);
        self.unsynced.remove(id);
        if self.is_leader(id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    pub(super) fn is_leader(&self, id: &str) -> bool {
        self.leader.as_deref() == Some(id)
    }

    /// The id of the static member of this name.
    pub(super) fn static_member(&self, instance: &str) -> Option<&String> {
        let is_it = |member: &Member| member.instance.as_deref() == Some(instance);
        self.members.iter().find(|(_, member)| is_it(member)).map(|(id, _)| id)
    }

    /// Checks that this is a member, and that nobody else has taken its instance's place.
    pub(super) fn check_member(&self, id: &str, instance: Option<&str>) -> Result<(), Code> {
        if let Some(instance) = instance {
            match self.static_member(instance) {
                None => return Err(Code::UNKNOWN_MEMBER_ID),
                Some(current) if current != id => return Err(Code::FENCED_INSTANCE_ID),
                Some(_) => {}
            }
        }
        if self.members.contains_key(id) { Ok(()) } else { Err(Code::UNKNOWN_MEMBER_ID) }
    }

    pub(super) fn all_have_joined(&self) -> bool {
        self.pending.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    /// The longest that any member may take.
    pub(super) fn rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.rebalance).max().unwrap_or_default()
    }

    /// What the leader is told.
    pub(super) fn roll(&self) -> Vec<JoinGroupResponseMember> {
        let entry = |(id, member): (&String, &Member)| JoinGroupResponseMember {
            member_id: id.clone(),
            group_instance_id: member.instance.clone(),
            metadata: member.metadata(self.protocol.as_deref()),
        };
        self.members.iter().map(entry).collect()
    }

    // Protocols

    /// Whether somebody who offers these has one in common with all members.
    pub(super) fn supports(&self, protocol_type: &str, protocols: &[JoinGroupRequestProtocol]) -> bool {
        if self.state == GroupState::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|offered| self.all_offer(&offered.name))
    }

    /// Each member votes for the first of its protocols that all offer.
    pub(super) fn elect_protocol(&self) -> Option<String> {
        let mut votes: BTreeMap<_, u32> = BTreeMap::new();
        for member in self.members.values() {
            let vote = member.protocols.iter().find(|offered| self.all_offer(&offered.name));
            if let Some(vote) = vote {
                *votes.entry((java_bucket(&vote.name), vote.name.as_str())).or_default() += 1;
            }
        }
        // Of those with equally many the first, in the order of a Java map.
        let most = votes.values().copied().max()?;
        votes.into_iter().find(|(_, count)| *count == most).map(|((_, name), _)| name.into())
    }

    fn all_offer(&self, protocol: &str) -> bool {
        self.members.values().all(|member| member.offers(protocol))
    }

    // Commits

    /// Whether a client may commit that says it is this member of this generation (-1: that it is none).
    pub(super) fn check_commit(
        &self,
        member: &str,
        instance: Option<&str>,
        generation: i32,
    ) -> Result<(), Code> {
        if generation < 0 && self.state == GroupState::Empty {
            return Ok(());
        }
        if generation < 0 && member.is_empty() && instance.is_none() {
            return Err(Code::UNKNOWN_MEMBER_ID);
        }
        self.check_member(member, instance)?;
        if generation != self.generation {
            return Err(Code::ILLEGAL_GENERATION);
        }
        match self.state {
            GroupState::CompletingRebalance => Err(Code::REBALANCE_IN_PROGRESS),
            _ => Ok(()),
        }
    }

    /// A commit is as good as a heartbeat.
    pub(super) fn renew_by_commit(&mut self, member: &str, now: Instant) {
        if matches!(self.state, GroupState::Stable | GroupState::PreparingRebalance)
            && let Some(member) = self.members.get_mut(member)
        {
            member.renew(now);
        }
    }

    // Coordinators

    /// Writes to the log how things stand.
    pub(super) fn store(&mut self) {
        self.stored = Stored {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            members: self.members.iter().map(|(id, member)| (id.clone(), self.to_store(member))).collect(),
        };
    }

    /// Of its protocols only the chosen one is written.
    fn to_store(&self, member: &Member) -> Member {
        let mut member =
            Member { joining: None, syncing: None, deadline: None, is_new: false, ..member.clone() };
        member.protocols.retain(|offered| Some(&offered.name) == self.protocol.as_ref());
        member
    }

    /// The coordinator gives the group up, and tells those who wait. What was not in the log is forgotten.
    pub(super) fn unload(&mut self, desk: &mut Desk<'_>) {
        for (id, member) in &mut self.members {
            desk.refuse_join(member.joining.take(), id, Code::NOT_COORDINATOR);
            desk.refuse_sync(member.syncing.take(), Code::NOT_COORDINATOR);
        }
        let offsets = std::mem::take(&mut self.offsets);
        let stored = std::mem::take(&mut self.stored);
        *self = Self {
            state: if stored.members.is_empty() { GroupState::Empty } else { GroupState::Stable },
            generation: stored.generation,
            protocol_type: stored.protocol_type.clone(),
            protocol: stored.protocol.clone(),
            leader: stored.leader.clone(),
            members: stored.members.clone(),
            stored,
            offsets,
            ..Self::new()
        };
    }

    /// A coordinator takes the group over. All sessions begin anew.
    pub(super) fn load(&mut self, now: Instant) {
        self.members.values_mut().for_each(|member| member.renew(now));
    }
}

/// Where a `java.util.HashMap` of few entries puts this key.
fn java_bucket(key: &str) -> u32 {
    let hash = java_hash(key) as u32;
    (hash ^ (hash >> 16)) & 15
}
