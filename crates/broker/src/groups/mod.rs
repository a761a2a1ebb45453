//! The coordinator of groups, as Kafka 4.4 coordinates those of the classic protocol.
//!
//! - `group` holds a group's members and its state, `join`, `sync` and `rebalance` what changes them.
//! - Who waits is answered by [`Groups::take_answer`]; when, by [`Groups::deadline`].
//! - A coordinator that moves takes over what was in the log: offsets, and the last generation whose leader has synced.
//!
//! Not imitated: the `consumer` (KIP-848), share and streams protocols, the expiry of offsets and of empty groups
//! (`offsets.retention.minutes`), writing to the log failing.

mod desk;
mod group;
mod join;
mod member;
mod offsets;
mod rebalance;
mod seats;
mod sync;
mod view;

pub use group::GroupState;
pub use offsets::CommitView;
pub use view::{GroupView, MemberView};

pub(crate) use desk::{Answer, Reply, refused_join};
pub(crate) use group::Group;
pub(crate) use join::Join;
pub(crate) use offsets::{Committed, Offsets};
pub(crate) use sync::left;

use crate::ConnectionId;
use desk::Desk;
use offsets::CommitLog;
use ottla_wire::code::Code;
use ottla_wire::message::leave_group_request::MemberIdentity;
use ottla_wire::message::leave_group_response::MemberResponse;
use ottla_wire::message::{HeartbeatRequest, SyncGroupRequest};
use seats::Seats;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// What holds for all groups.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) min_session: Duration,
    pub(crate) max_session: Duration,
    pub(crate) initial_delay: Duration,
    pub(crate) most_members: usize,
    pub(crate) remembered_commits: usize,
}

/// All groups of the cluster, whoever coordinates them.
#[derive(Debug)]
pub(crate) struct Groups {
    rules: Rules,
    seats: Seats,
    groups: BTreeMap<String, Group>,
    commits: CommitLog,
    answers: VecDeque<Answer>,
    random: fastrand::Rng,
    /// The latest time told; before the first there are no members.
    now: Option<Instant>,
}

impl Groups {
    pub(crate) fn new(rules: Rules, nodes: impl Iterator<Item = i32>, seed: u64) -> Self {
        Self {
            seats: Seats::new(nodes),
            groups: BTreeMap::new(),
            commits: CommitLog::new(rules.remembered_commits),
            answers: VecDeque::new(),
            random: fastrand::Rng::with_seed(seed),
            now: None,
            rules,
        }
    }

    // Time

    /// It is `now`: sessions and waits whose time has come end, each at its own instant.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(at) = self.deadline().filter(|at| *at <= now) {
            self.now = Some(at);
            let due = self.groups.iter().find_map(|(name, group)| Some((name.clone(), group.timer_at(at)?)));
            let Some((name, timer)) = due else { break };
            self.with(&name, |group, desk| group.handle_timer(&timer, desk));
        }
        self.now = Some(now);
    }

    /// When a session or a wait ends.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.groups.values().filter_map(Group::deadline).min()
    }

    /// The next of those who wait, and what they are told.
    pub(crate) fn take_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Answers somebody who waits.
    pub(crate) fn answer(&mut self, answer: Answer) {
        self.answers.push_back(answer);
    }

    /// Lets a group act; `None` if it is not there.
    fn with<T>(&mut self, name: &str, act: impl FnOnce(&mut Group, &mut Desk<'_>) -> T) -> Option<T> {
        let (group, now) = (self.groups.get_mut(name)?, self.now?);
        let mut desk = Desk { now, rules: &self.rules, random: &mut self.random, answers: &mut self.answers };
        Some(act(group, &mut desk))
    }

    // Members

    /// Whether the node coordinates the group, and is ready to.
    pub(crate) fn check(&self, node: i32, group: &str) -> Result<(), Code> {
        if self.seats.of(group) != Some(node) {
            return Err(Code::NOT_COORDINATOR);
        }
        if self.seats.is_loading(group) { Err(Code::COORDINATOR_LOAD_IN_PROGRESS) } else { Ok(()) }
    }

    /// A member joins. Its answer comes by [`take_answer`](Self::take_answer), unless it is refused here.
    pub(crate) fn join(&mut self, node: i32, name: &str, join: Join) -> Result<(), Code> {
        check_name(name)?;
        if !(self.rules.min_session..=self.rules.max_session).contains(&join.session) {
            return Err(Code::INVALID_SESSION_TIMEOUT);
        }
        self.check(node, name)?;
        if join.member.is_empty() {
            self.existing_or_new(name);
        }
        self.with(name, |group, desk| group.join(join, desk)).ok_or(Code::UNKNOWN_MEMBER_ID)
    }

    /// A member wants its assignment. Its answer comes by [`take_answer`](Self::take_answer), unless it is refused here.
    pub(crate) fn sync(&mut self, node: i32, to: ConnectionId, sync: SyncGroupRequest) -> Result<(), Code> {
        let name = sync.group_id.clone();
        check_name(&name)?;
        self.check(node, &name)?;
        self.with(&name, |group, desk| group.sync(to, sync, desk)).ok_or(Code::UNKNOWN_MEMBER_ID)
    }

    pub(crate) fn heartbeat(&mut self, node: i32, beat: &HeartbeatRequest) -> Result<(), Code> {
        check_name(&beat.group_id)?;
        match self.check(node, &beat.group_id) {
            // Nothing is known of the member yet; it is not to blame.
            Err(Code::COORDINATOR_LOAD_IN_PROGRESS) => return Ok(()),
            checked => checked?,
        }
        let answered = self.with(&beat.group_id, |group, desk| group.heartbeat(beat, desk));
        answered.unwrap_or(Err(Code::UNKNOWN_MEMBER_ID))
    }

    pub(crate) fn leave(
        &mut self,
        node: i32,
        name: &str,
        leaving: &[MemberIdentity],
    ) -> Result<Vec<MemberResponse>, Code> {
        check_name(name)?;
        self.check(node, name)?;
        let unknown = |member| left(member, Err(Code::UNKNOWN_MEMBER_ID));
        let answered = self.with(name, |group, desk| group.leave(leaving, desk));
        Ok(answered.unwrap_or_else(|| leaving.iter().map(unknown).collect()))
    }

    // Offsets

    /// Whether the commit of a member, or of none (generation -1), is accepted. `missing` is told where there is no such
    /// group.
    pub(crate) fn may_commit(
        &mut self,
        node: i32,
        name: &str,
        (member, instance, generation): (&str, Option<&str>, i32),
        missing: Code,
    ) -> Result<(), Code> {
        self.check(node, name)?;
        if generation >= 0 && !self.groups.contains_key(name) {
            return Err(missing);
        }
        let now = self.now;
        let group = self.existing_or_new(name);
        group.check_commit(member, instance, generation)?;
        if let Some(now) = now {
            group.renew_by_commit(member, now);
        }
        Ok(())
    }

    /// Notes that a commit was asked for, and does it if it is not refused.
    pub(crate) fn commit(&mut self, name: &str, commit: CommitView) {
        if commit.refused == Code::NONE {
            let CommitView { offset, leader_epoch, ref metadata, .. } = commit;
            let committed = Committed { offset, leader_epoch, metadata: metadata.clone() };
            self.existing_or_new(name).offsets.put(&commit.topic, commit.partition, committed);
        }
        self.commits.push(name, commit);
    }

    pub(crate) fn commits(&self, name: &str) -> Vec<CommitView> {
        self.commits.of(name)
    }

    /// A topic was deleted, and with it what was committed of it.
    pub(crate) fn forget_topic(&mut self, topic: &str) {
        self.groups.values_mut().for_each(|group| group.offsets.forget_topic(topic));
    }

    // Groups

    pub(crate) fn get(&self, name: &str) -> Option<&Group> {
        self.groups.get(name)
    }

    pub(crate) fn existing_or_new(&mut self, name: &str) -> &mut Group {
        self.groups.entry(name.into()).or_insert_with(Group::new)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.groups.keys()
    }

    pub(crate) fn view(&self, name: &str) -> Option<GroupView> {
        self.groups.get(name).map(|group| group.view(name))
    }

    /// The groups that a node coordinates.
    ///
    /// # Errors
    /// It has not loaded one of them yet.
    pub(crate) fn on_node(&self, node: i32) -> Result<Vec<GroupView>, Code> {
        let of_node = |name: &String| match self.check(node, name) {
            Err(Code::NOT_COORDINATOR) => None,
            checked => Some(checked),
        };
        let of_node = self.groups.iter().filter_map(|(name, group)| Some((of_node(name)?, name, group)));
        of_node.map(|(checked, name, group)| checked.map(|()| group.view(name))).collect()
    }

    pub(crate) fn delete(&mut self, node: i32, name: &str) -> Result<(), Code> {
        self.check(node, name)?;
        let group = self.groups.get(name).ok_or(Code::GROUP_ID_NOT_FOUND)?;
        if group.is_empty() {
            self.groups.remove(name);
            Ok(())
        } else {
            Err(Code::NON_EMPTY_GROUP)
        }
    }

    // Coordinators

    /// The node that coordinates a group, existing or not; `None` while it does not run.
    pub(crate) fn coordinator(&self, name: &str) -> Option<i32> {
        self.seats.of(name).filter(|node| self.seats.runs(*node))
    }

    /// Lets another node coordinate a group.
    pub(crate) fn set_coordinator(&mut self, name: &str, node: i32) {
        if self.seats.of(name) == Some(node) {
            return;
        }
        self.unload(name);
        self.seats.move_to(name, node);
        self.load(name);
    }

    /// The coordinator begins to read a group's log, as after a move.
    pub(crate) fn begin_loading(&mut self, name: &str) {
        self.unload(name);
        self.seats.begin_loading(name);
    }

    pub(crate) fn finish_loading(&mut self, name: &str) {
        if self.seats.is_loading(name) {
            self.seats.finish_loading(name);
            self.load(name);
        }
    }

    pub(crate) fn node_stopped(&mut self, node: i32, heirs: &[i32]) {
        let groups = self.seated_at(node);
        groups.iter().for_each(|name| self.unload(name));
        self.seats.stop(node, heirs);
        groups.iter().for_each(|name| self.load(name));
    }

    pub(crate) fn node_started(&mut self, node: i32) {
        self.seats.start(node);
        self.seated_at(node).iter().for_each(|name| self.load(name));
    }

    fn seated_at(&self, node: i32) -> Vec<String> {
        self.groups.keys().filter(|name| self.seats.of(name) == Some(node)).cloned().collect()
    }

    fn unload(&mut self, name: &str) {
        self.with(name, |group, desk| group.unload(desk));
    }

    fn load(&mut self, name: &str) {
        if self.seats.is_served(name) {
            self.with(name, |group, desk| group.load(desk.now));
        }
    }
}

fn check_name(name: &str) -> Result<(), Code> {
    if name.is_empty() { Err(Code::INVALID_GROUP_ID) } else { Ok(()) }
}
