//! The end: what was acknowledged is committed, and the group need not wait until it misses us.

use std::time::Instant;

use ottla_wire::{
    code::Code,
    message::{LeaveGroupRequest, LeaveGroupResponse, leave_group_request::MemberIdentity},
};

use super::{
    Phase, Question,
    commit::CommitError,
    part_of,
    verdict::{Verdict, verdict},
};
use crate::{
    cluster::Lane,
    machine::{Machine, Purpose},
    request::Body,
};

/// How far closing is.
#[derive(Debug)]
pub(super) struct Closing {
    deadline: Instant,
    /// The farewell that waits for its answer.
    leaving: Option<u64>,
    /// It was said before, and not taken: the next one waits for the pause that followed.
    tried: bool,
    told: bool,
}

impl Machine {
    /// Begins to close: hands out nothing more, has revokes completed, commits what was acknowledged and leaves the group,
    /// all of it before `deadline`. [`poll_closed`](Self::poll_closed) says when that is done.
    pub fn close(&mut self, now: Instant, deadline: Instant) {
        let Some(group) = &mut self.group else { return };
        if group.closing.is_some() {
            return;
        }
        group.commits.unfinished = None; // of an earlier rebalance: that was told then
        group.closing = Some(Closing { deadline, leaving: None, tried: false, told: false });
        if let Phase::Revoking(revoking) = &mut group.phase {
            let until = now + part_of(deadline - now, 4, 5);
            revoking.deadline = revoking.deadline.min(until);
            revoking.hooks_until = revoking.hooks_until.min(now + part_of(deadline - now, 3, 5));
            self.wake_group(until);
        }
        self.wake_group(deadline);
    }

    /// How closing went, once it is done; told once. A machine without a group is closed by being dropped.
    pub fn poll_closed(&mut self) -> Option<Result<(), CommitError>> {
        let Some(group) = &mut self.group else { return Some(Ok(())) };
        let done = matches!(group.phase, Phase::Left);
        let closing = group.closing.as_mut().filter(|closing| done && !closing.told)?;
        closing.told = true;
        Some(group.commits.unfinished.take().map_or(Ok(()), Err))
    }

    pub(super) fn plan_close(&mut self, now: Instant) {
        let Some(group) = &self.group else { return };
        let Some(closing) = &group.closing else { return };
        let deadline = closing.deadline;
        match &group.phase {
            Phase::Left => self.fail_queries(&CommitError::Closed),
            _ if now >= deadline => self.give_up_closing(),
            Phase::Stable => {
                let until = now + part_of(deadline - now, 4, 5);
                self.revoke_until(now, until, "the reader is closed");
                self.plan_revoke(now);
                if self.group.as_ref().is_some_and(|group| matches!(group.phase, Phase::Apart)) {
                    self.leave(now); // nothing was to be committed
                }
            }
            // Its answer will name us, unless it knows us already; a static member need not say farewell.
            Phase::Joining { .. } if group.member.is_empty() && !group.is_static() => {}
            Phase::Revoking(_) => {}
            Phase::Apart | Phase::Joining { .. } | Phase::Assigning { .. } | Phase::Syncing { .. } => {
                self.leave(now);
            }
        }
    }

    /// Says farewell, where somebody would wait for us; a static member is expected back.
    fn leave(&mut self, now: Instant) {
        let Some(group) = &self.group else { return };
        if !group.config.member || group.is_static() || group.member.is_empty() {
            return self.enter_left();
        }
        let pauses = group.not_before.is_some();
        let may = |closing: &Closing| closing.leaving.is_none() && !(closing.tried && pauses);
        if group.closing.as_ref().is_some_and(may)
            && let Some(id) = self.send_leave(now, "the reader is closed")
            && let Some(closing) = self.group.as_mut().and_then(|group| group.closing.as_mut())
        {
            (closing.leaving, closing.tried) = (Some(id), true);
        }
    }

    pub(super) fn send_leave(&mut self, now: Instant, reason: &str) -> Option<u64> {
        let peer = self.coordinator_peer()?;
        let group = self.group.as_ref()?;
        let member = MemberIdentity {
            member_id: group.member.clone(),
            group_instance_id: group.config.instance.clone(),
            reason: Some(reason.to_owned()),
            ..MemberIdentity::default()
        };
        let request = LeaveGroupRequest {
            group_id: group.config.id.to_string(),
            members: vec![member],
            ..LeaveGroupRequest::default()
        };
        Some(self.send(now, peer, Lane::Group, Body::Leave(request), Purpose::Group(Question::Leave)))
    }

    pub(super) fn take_leave(&mut self, now: Instant, id: u64, answer: &LeaveGroupResponse) {
        let leaving = self.group.as_ref().and_then(|group| group.closing.as_ref()?.leaving);
        if leaving != Some(id) {
            return;
        }
        let of_member = answer.members.first().map(|member| member.error_code);
        let code = Code(if answer.error_code == 0 { of_member.unwrap_or(0) } else { answer.error_code });
        match verdict(Question::Leave, code) {
            Verdict::Elsewhere => self.forget_coordinator(),
            Verdict::Retry => {}
            _ => return self.enter_left(), // whatever it is: nobody waits for us there
        }
        self.lost_leave(id);
        self.pause_group(now);
    }

    /// Whether it was closed, and that is over.
    pub(super) fn is_closed(&self) -> bool {
        self.group.as_ref().is_some_and(|g| g.closing.is_some() && matches!(g.phase, Phase::Left))
    }

    /// The farewell was not answered: once more, while there is time.
    pub(super) fn lost_leave(&mut self, id: u64) {
        if let Some(closing) = self.group.as_mut().and_then(|group| group.closing.as_mut()) {
            closing.leaving.take_if(|leaving| *leaving == id);
        }
    }

    fn give_up_closing(&mut self) {
        if let Some(what) = self.unfinished(None) {
            self.fail_waiting(&what);
        }
        self.enter_left();
    }

    fn enter_left(&mut self) {
        self.end_all();
        self.enter(Phase::Left);
        self.fail_queries(&CommitError::Closed);
    }
}
