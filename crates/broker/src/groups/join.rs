//! How members come.

use super::desk::Desk;
use super::group::{Group, GroupState};
use super::member::{Member, after};
use crate::ConnectionId;
use bytes::Bytes;
use ottla_wire::code::Code;
use ottla_wire::message::join_group_request::JoinGroupRequestProtocol;
use std::time::Duration;

/// A JoinGroup that came.
#[derive(Debug)]
pub(crate) struct Join {
    /// Where its answer goes.
    pub(crate) to: ConnectionId,
    pub(crate) client_id: String,
    /// Whether a new member first gets an id only, and has to come back with it (KIP-394).
    pub(crate) hands_out_id: bool,
    /// Whether a static leader that comes back may be told that there is nothing to assign (KIP-814).
    pub(crate) may_skip_assignment: bool,
    /// Empty for a new member.
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) session: Duration,
    pub(crate) rebalance: Duration,
    pub(crate) protocol_type: String,
    pub(crate) protocols: Vec<JoinGroupRequestProtocol>,
}

impl Group {
    /// Takes a member in, or back. It is answered when the rebalance is complete, or at once.
    pub(super) fn join(&mut self, join: Join, desk: &mut Desk<'_>) {
        let (to, member) = (join.to, join.member.clone());
        if !self.has_room_for(&member, desk.rules.most_members) {
            self.remove(&member);
            return desk.refuse_join(Some(to), "", Code::GROUP_MAX_SIZE_REACHED);
        }
        if let Err(code) = self.try_join(join, desk) {
            desk.refuse_join(Some(to), &member, code);
        }
    }

    fn try_join(&mut self, join: Join, desk: &mut Desk<'_>) -> Result<(), Code> {
        if !self.supports(&join.protocol_type, &join.protocols) {
            return Err(Code::INCONSISTENT_GROUP_PROTOCOL);
        }
        if join.member.is_empty() {
            self.join_as_new(join, desk);
            Ok(())
        } else if self.pending.contains_key(&join.member) {
            self.join_as_pending(join, desk)
        } else {
            self.rejoin(join, desk)
        }
    }

    /// While members join, those count who have; the last ones to come back may find no room.
    fn has_room_for(&self, member: &str, most: usize) -> bool {
        let known = self.members.get(member);
        match self.state {
            GroupState::Empty => true,
            GroupState::PreparingRebalance => {
                let joined = self.members.values().filter(|member| member.joining.is_some()).count();
                known.is_some_and(|member| member.joining.is_some()) || joined < most
            }
            _ => known.is_some() || self.members.len() < most,
        }
    }

    fn join_as_new(&mut self, join: Join, desk: &mut Desk<'_>) {
        let id = desk.new_member_id(join.instance.as_deref().unwrap_or(&join.client_id));
        let before = join.instance.as_deref().and_then(|instance| self.static_member(instance)).cloned();
        match before {
            Some(before) => self.replace_static(&before, &id, join, desk),
            None if join.instance.is_none() && join.hands_out_id => {
                self.pending.insert(id.clone(), after(desk.now, join.session));
                desk.refuse_join(Some(join.to), &id, Code::MEMBER_ID_REQUIRED);
            }
            None => self.join_with(&id, join, desk),
        }
    }

    fn join_as_pending(&mut self, join: Join, desk: &mut Desk<'_>) -> Result<(), Code> {
        if join.instance.is_some() {
            return Err(Code::UNKNOWN_SERVER_ERROR);
        }
        let id = join.member.clone();
        self.join_with(&id, join, desk);
        Ok(())
    }

    fn join_with(&mut self, id: &str, join: Join, desk: &mut Desk<'_>) {
        if self.state == GroupState::PreparingRebalance && self.previous == GroupState::Empty {
            self.somebody_came = true;
        }
        let member = Member {
            instance: join.instance,
            client_id: join.client_id,
            session: join.session,
            rebalance: join.rebalance,
            protocols: join.protocols,
            assignment: Bytes::new(),
            joining: Some(join.to),
            syncing: None,
            is_new: true,
            deadline: Some(desk.now + NEW_MEMBER_JOIN_TIMEOUT),
        };
        self.add(id, &join.protocol_type, member);
        self.rebalance(desk);
    }

    fn rejoin(&mut self, join: Join, desk: &mut Desk<'_>) -> Result<(), Code> {
        let id = join.member.clone();
        self.check_member(&id, join.instance.as_deref())?;
        let same = self.members.get(&id).is_some_and(|member| member.protocols == join.protocols);
        let begins_anew = match self.state {
            GroupState::Empty => return Err(Code::UNKNOWN_MEMBER_ID),
            GroupState::PreparingRebalance => true,
            // It may not have received the answer.
            GroupState::CompletingRebalance => !same,
            // The leader comes back when what is to be assigned has changed.
            GroupState::Stable => !same || self.is_leader(&id),
        };
        if begins_anew {
            self.update(&id, join);
            self.rebalance(desk);
        } else {
            desk.answer_join(Some(join.to), self.joined(&id));
        }
        Ok(())
    }

    fn update(&mut self, id: &str, join: Join) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.protocols = join.protocols;
        member.session = join.session;
        member.rebalance = join.rebalance;
        member.joining = Some(join.to);
    }

    /// A static member comes back without its id, and gets a new one in its old place (KIP-345). Who still waits under
    /// the old id is fenced.
    fn replace_static(&mut self, before: &str, id: &str, join: Join, desk: &mut Desk<'_>) {
        let Some(mut member) = self.members.remove(before) else { return };
        desk.refuse_join(member.joining.take(), before, Code::FENCED_INSTANCE_ID);
        desk.refuse_sync(member.syncing.take(), Code::FENCED_INSTANCE_ID);
        member.is_new = false;
        member.renew(desk.now);
        self.members.insert(id.into(), member);
        let leader_before = self.leader.clone().unwrap_or_default();
        if self.is_leader(before) {
            self.leader = Some(id.into());
        }
        let may_skip_assignment = join.may_skip_assignment;
        self.update(id, join);
        match self.state {
            GroupState::Stable if self.elect_protocol() == self.protocol => {
                self.keep_going(id, &leader_before, may_skip_assignment, desk);
            }
            GroupState::Stable | GroupState::CompletingRebalance => self.prepare(desk),
            _ => self.complete_if_all_came_back(desk),
        }
    }

    /// The replaced member changes nothing for the others: there is no rebalance.
    ///
    /// A leader that cannot be told to skip the assignment is told that its old id leads, so that it does not assign.
    fn keep_going(&mut self, id: &str, leader_before: &str, may_skip: bool, desk: &mut Desk<'_>) {
        self.store();
        let mut response = self.joined(id);
        if may_skip {
            response.skip_assignment = self.is_leader(id);
        } else {
            response.leader = leader_before.into();
            response.members.clear();
        }
        if let Some(member) = self.members.get_mut(id) {
            desk.answer_join(member.joining.take(), response);
        }
    }
}

/// How long a new member's JoinGroup waits before it is taken for abandoned (Kafka's
/// `CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS`).
const NEW_MEMBER_JOIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);
