//! How members get their assignment, show that they live, and go.

use super::desk::Desk;
use super::group::{Group, GroupState};
use crate::ConnectionId;
use ottla_wire::code::Code;
use ottla_wire::message::leave_group_request::MemberIdentity;
use ottla_wire::message::leave_group_response::MemberResponse;
use ottla_wire::message::{HeartbeatRequest, SyncGroupRequest, SyncGroupResponse};
use std::collections::BTreeMap;

impl Group {
    // Sync

    /// Answers with the assignment when the leader has sent it, or at once.
    pub(super) fn sync(&mut self, to: ConnectionId, sync: SyncGroupRequest, desk: &mut Desk<'_>) {
        if let Err(code) = self.try_sync(to, sync, desk) {
            desk.refuse_sync(Some(to), code);
        }
    }

    fn try_sync(
        &mut self,
        to: ConnectionId,
        sync: SyncGroupRequest,
        desk: &mut Desk<'_>,
    ) -> Result<(), Code> {
        self.check_sync(&sync)?;
        match self.state {
            GroupState::Empty => return Err(Code::UNKNOWN_MEMBER_ID),
            GroupState::PreparingRebalance => return Err(Code::REBALANCE_IN_PROGRESS),
            GroupState::CompletingRebalance | GroupState::Stable => self.note_synced(&sync.member_id),
        }
        let Some(member) = self.members.get_mut(&sync.member_id) else { return Err(Code::UNKNOWN_MEMBER_ID) };
        member.syncing = Some(to);
        if self.state == GroupState::Stable {
            let assignment = member.assignment.clone();
            member.syncing = None;
            desk.answer_sync(Some(to), self.synced(assignment));
        } else if self.is_leader(&sync.member_id) {
            self.assign(sync, desk);
        }
        Ok(())
    }

    fn check_sync(&self, sync: &SyncGroupRequest) -> Result<(), Code> {
        self.check_member(&sync.member_id, sync.group_instance_id.as_deref())?;
        if sync.generation_id != self.generation {
            return Err(Code::ILLEGAL_GENERATION);
        }
        let differ =
            |said: &Option<String>, is: &Option<String>| said.is_some() && is.is_some() && said != is;
        if differ(&sync.protocol_type, &self.protocol_type) || differ(&sync.protocol_name, &self.protocol) {
            return Err(Code::INCONSISTENT_GROUP_PROTOCOL);
        }
        Ok(())
    }

    fn note_synced(&mut self, id: &str) {
        self.unsynced.remove(id);
        if self.unsynced.is_empty() {
            self.sync_timer = None;
        }
    }

    /// The leader's assignment, which is empty for members it leaves out.
    fn assign(&mut self, sync: SyncGroupRequest, desk: &mut Desk<'_>) {
        let given = sync.assignments.into_iter().map(|given| (given.member_id, given.assignment));
        let mut given: BTreeMap<_, _> = given.collect();
        for (id, member) in &mut self.members {
            member.assignment = given.remove(id).unwrap_or_default();
        }
        self.propagate(Code::NONE, desk);
        self.enter(GroupState::Stable);
        self.store();
    }

    fn synced(&self, assignment: bytes::Bytes) -> SyncGroupResponse {
        SyncGroupResponse {
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            assignment,
            ..Default::default()
        }
    }

    // Heartbeat

    pub(super) fn heartbeat(&mut self, beat: &HeartbeatRequest, desk: &Desk<'_>) -> Result<(), Code> {
        self.check_member(&beat.member_id, beat.group_instance_id.as_deref())?;
        if beat.generation_id != self.generation {
            return Err(Code::ILLEGAL_GENERATION);
        }
        let Some(member) = self.members.get_mut(&beat.member_id) else { return Err(Code::UNKNOWN_MEMBER_ID) };
        member.renew(desk.now);
        match self.state {
            GroupState::PreparingRebalance => Err(Code::REBALANCE_IN_PROGRESS),
            _ => Ok(()),
        }
    }

    // Leave

    /// Static members may be named without their id.
    pub(super) fn leave(&mut self, leaving: &[MemberIdentity], desk: &mut Desk<'_>) -> Vec<MemberResponse> {
        let results: Vec<_> = leaving.iter().map(|member| self.leave_one(member, desk)).collect();
        if results.iter().any(Result::is_ok) && self.state != GroupState::Empty {
            self.rebalance(desk);
        }
        leaving.iter().zip(results).map(|(member, result)| left(member, result)).collect()
    }

    fn leave_one(&mut self, leaving: &MemberIdentity, desk: &mut Desk<'_>) -> Result<(), Code> {
        let instance = leaving.group_instance_id.as_deref();
        let id = match leaving.member_id.as_str() {
            "" => {
                let id = instance.and_then(|instance| self.static_member(instance)).cloned();
                id.ok_or(Code::UNKNOWN_MEMBER_ID)?
            }
            id if self.pending.remove(id).is_some() => return Ok(()),
            id => {
                self.check_member(id, instance)?;
                id.into()
            }
        };
        if let Some(member) = self.members.get_mut(&id) {
            desk.refuse_join(member.joining.take(), "", Code::UNKNOWN_MEMBER_ID);
        }
        self.remove(&id);
        Ok(())
    }
}

/// What somebody is told who wants to leave.
pub(crate) fn left(member: &MemberIdentity, result: Result<(), Code>) -> MemberResponse {
    MemberResponse {
        member_id: member.member_id.clone(),
        group_instance_id: member.group_instance_id.clone(),
        error_code: result.err().unwrap_or(Code::NONE).0,
    }
}
