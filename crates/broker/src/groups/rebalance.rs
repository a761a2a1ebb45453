//! How a group gets from one generation to the next, and what happens when time runs out.

use super::desk::Desk;
use super::group::{Group, GroupState, JoinTimer};
use super::member::after;
use bytes::Bytes;
use ottla_wire::code::Code;
use ottla_wire::message::{JoinGroupResponse, SyncGroupResponse};
use std::time::{Duration, Instant};

/// What a group waits for, in the order in which it comes at the same instant.
#[derive(Debug)]
pub(super) enum Timer {
    /// The session of a member, or of an id that was given out.
    Member(String),
    /// The rebalance time-out for joining.
    Join,
    /// The same for syncing.
    Sync,
}

impl Group {
    // Time

    /// When something ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let sessions = self.members.values().filter_map(|member| member.deadline);
        let pending = self.pending.values().copied();
        let waits = self.join_timer.map(|timer| timer.at).into_iter().chain(self.sync_timer);
        sessions.chain(pending).chain(waits).min()
    }

    /// What ends at its deadline.
    pub(super) fn timer_at(&self, deadline: Instant) -> Option<Timer> {
        let member = self.members.iter().find(|(_, member)| member.deadline == Some(deadline));
        let pending = self.pending.iter().find(|(_, lapses)| **lapses == deadline);
        let member = member.map(|(id, _)| id).or(pending.map(|(id, _)| id));
        let join = || self.join_timer.filter(|timer| timer.at == deadline).map(|_| Timer::Join);
        let sync = || self.sync_timer.filter(|at| *at == deadline).map(|_| Timer::Sync);
        member.cloned().map(Timer::Member).or_else(join).or_else(sync)
    }

    pub(super) fn handle_timer(&mut self, timer: &Timer, desk: &mut Desk<'_>) {
        match timer {
            Timer::Member(id) => self.end_session(id, desk),
            Timer::Join => self.end_wait_for_joins(desk),
            Timer::Sync => self.end_wait_for_syncs(desk),
        }
    }

    fn end_session(&mut self, id: &str, desk: &mut Desk<'_>) {
        if self.pending.remove(id).is_some() {
            return self.complete_if_all_joined(desk);
        }
        let Some(member) = self.members.get_mut(id) else { return };
        member.deadline = None;
        if member.is_excused() {
            return;
        }
        desk.refuse_join(member.joining.take(), "", Code::UNKNOWN_MEMBER_ID);
        self.remove(id);
        match self.state {
            GroupState::Stable | GroupState::CompletingRebalance => self.prepare(desk),
            GroupState::PreparingRebalance => self.complete_if_all_joined(desk),
            GroupState::Empty => {}
        }
    }

    fn end_wait_for_joins(&mut self, desk: &mut Desk<'_>) {
        let Some(JoinTimer { initial, .. }) = self.join_timer.take() else { return };
        match initial {
            Some((delay, left)) if self.somebody_came && left > Duration::ZERO => {
                self.somebody_came = false;
                let next = desk.rules.initial_delay.min(left);
                let at = after(desk.now, next);
                self.join_timer = Some(JoinTimer { at, initial: Some((next, left.saturating_sub(delay))) });
            }
            _ => self.complete_join(desk),
        }
    }

    /// Members that have not fetched their assignment in time are removed.
    fn end_wait_for_syncs(&mut self, desk: &mut Desk<'_>) {
        self.sync_timer = None;
        let late = std::mem::take(&mut self.unsynced);
        if late.is_empty() {
            return;
        }
        late.iter().for_each(|id| self.remove(id));
        self.prepare(desk);
    }

    // Joining

    /// Something has changed: a rebalance begins, or one under way may be complete.
    pub(super) fn rebalance(&mut self, desk: &mut Desk<'_>) {
        match self.state {
            GroupState::PreparingRebalance => self.complete_if_all_came_back(desk),
            _ => self.prepare(desk),
        }
    }

    /// Begins a rebalance.
    pub(super) fn prepare(&mut self, desk: &mut Desk<'_>) {
        if self.state == GroupState::CompletingRebalance {
            self.members.values_mut().for_each(|member| member.assignment = Bytes::new());
            self.propagate(Code::REBALANCE_IN_PROGRESS, desk);
        }
        self.unsynced.clear();
        self.sync_timer = None;
        let is_first = self.state == GroupState::Empty;
        self.enter(GroupState::PreparingRebalance);
        if is_first { self.wait_for_the_first(desk) } else { self.wait_for_all(desk) }
    }

    /// An empty group waits a little for others to come.
    fn wait_for_the_first(&mut self, desk: &mut Desk<'_>) {
        self.somebody_came = false;
        let delay = desk.rules.initial_delay;
        if delay.is_zero() {
            return self.complete_join(desk);
        }
        let left = self.rebalance_timeout().saturating_sub(delay);
        self.join_timer = Some(JoinTimer { at: desk.now + delay, initial: Some((delay, left)) });
    }

    fn wait_for_all(&mut self, desk: &mut Desk<'_>) {
        if self.all_have_joined() {
            self.complete_join(desk);
        } else {
            self.wait_for_joins(desk);
        }
    }

    fn wait_for_joins(&mut self, desk: &Desk<'_>) {
        let at = after(desk.now, self.rebalance_timeout());
        self.join_timer = Some(JoinTimer { at, initial: None });
    }

    /// A group's first rebalance takes its time, even if all are there.
    pub(super) fn complete_if_all_came_back(&mut self, desk: &mut Desk<'_>) {
        if self.previous != GroupState::Empty {
            self.complete_if_all_joined(desk);
        }
    }

    fn complete_if_all_joined(&mut self, desk: &mut Desk<'_>) {
        if self.state == GroupState::PreparingRebalance && self.all_have_joined() {
            self.complete_join(desk);
        }
    }

    /// Ends the wait: dynamic members that have not come are removed, the others told. Static ones stay until their
    /// session ends.
    fn complete_join(&mut self, desk: &mut Desk<'_>) {
        self.join_timer = None;
        let late = self.members.iter().filter(|(_, member)| member.joining.is_none() && !member.is_static());
        let late: Vec<String> = late.map(|(id, _)| id.clone()).collect();
        late.iter().for_each(|id| self.remove(id));
        if self.members.is_empty() {
            self.become_empty();
        } else if self.elect_leader_who_joined() {
            self.begin_generation(desk);
        } else {
            self.wait_for_joins(desk);
        }
    }

    /// Keeps the leader, if it has joined, else makes the next one leader who has; `false` if none has.
    fn elect_leader_who_joined(&mut self) -> bool {
        let has_joined = |id: &String| self.members.get(id).is_some_and(|member| member.joining.is_some());
        if self.leader.as_ref().is_some_and(has_joined) {
            return true;
        }
        let Some(next) = self.members.keys().find(|id| has_joined(id)).cloned() else { return false };
        self.leader = Some(next);
        true
    }

    fn become_empty(&mut self) {
        self.generation += 1;
        self.protocol = None;
        self.unsynced.clear();
        self.enter(GroupState::Empty);
        self.store();
    }

    fn begin_generation(&mut self, desk: &mut Desk<'_>) {
        self.generation += 1;
        self.protocol = self.elect_protocol();
        self.enter(GroupState::CompletingRebalance);
        self.unsynced = self.members.keys().cloned().collect();
        self.sync_timer = Some(after(desk.now, self.rebalance_timeout()));
        for id in self.unsynced.clone() {
            let response = self.joined(&id);
            let Some(member) = self.members.get_mut(&id) else { continue };
            member.renew(desk.now);
            member.is_new = false;
            desk.answer_join(member.joining.take(), response);
        }
    }

    /// What a member is told of the current generation.
    pub(super) fn joined(&self, id: &str) -> JoinGroupResponse {
        JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member_id: id.into(),
            members: if self.is_leader(id) { self.roll() } else { Vec::new() },
            ..Default::default()
        }
    }

    // Syncing

    /// Tells all who wait for it what the leader assigned, or that it will not come.
    pub(super) fn propagate(&mut self, code: Code, desk: &mut Desk<'_>) {
        let (protocol_type, protocol_name) = match code {
            Code::NONE => (self.protocol_type.clone(), self.protocol.clone()),
            _ => (None, None),
        };
        for member in self.members.values_mut() {
            let Some(to) = member.syncing.take() else { continue };
            member.renew(desk.now);
            let response = SyncGroupResponse {
                error_code: code.0,
                protocol_type: protocol_type.clone(),
                protocol_name: protocol_name.clone(),
                assignment: member.assignment.clone(),
                ..Default::default()
            };
            desk.answer_sync(Some(to), response);
        }
    }
}
