//! What becomes ours, and what is given up.

use std::{sync::Arc, time::Instant};

use regex_lite::Regex;

use super::{
    Phase, Revoking,
    commit::CommitError,
    part_of,
    recall::Recalled,
    tenure::{Session, Tenure},
};
use crate::{
    cluster::topic::Topic,
    config::{Start, Subscription},
    event::Event,
    fault::Fault,
    fetch::{
        cursor::{Cursor, Phase as CursorPhase},
        reply::Outlined,
    },
    machine::{Machine, NotRead},
    partition::TopicPartition,
};

/// What happens to partitions, for those who have something to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebalance {
    /// Names it in [`Machine::complete`].
    pub id: u64,
    /// What happens.
    pub kind: RebalanceKind,
    /// To which partitions.
    pub partitions: Vec<TopicPartition>,
}

/// What happens to partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebalanceKind {
    /// They are ours; they are read once [`Machine::complete`] is called.
    Assigned,
    /// They are given up when [`Machine::complete`] is called, or at the deadline. Until then they may be committed.
    Revoked {
        /// When it is over whatever is missing.
        deadline: Instant,
    },
    /// They are somebody else's already: nothing can be committed any more. Not to be completed. Not told of partitions
    /// that were told as revoked before.
    Lost,
}

/// What a partition of a group has beside its place in the log.
#[derive(Debug)]
pub(crate) struct Stake {
    pub(crate) tenure: Arc<Tenure>,
    /// What the coordinator says of its committed offset.
    pub(super) recalled: Recalled,
    /// Where to begin, in the place of the committed offset: the user said so.
    pub(super) given: Option<Start>,
    /// The hook that has not said yet that it may be read.
    pub(super) hook: Option<u64>,
    /// How far it was done when that was last committed.
    pub(super) covered: Option<i64>,
    /// What the coordinator has, as far as we know.
    pub(super) stored: Option<i64>,
    /// Where the reader began.
    pub(super) began: Option<i64>,
    /// The user committed an offset before it was known where to begin: that stands until something is done.
    pub(super) spoken_for: bool,
    /// The offset after the last record that was handed out, in the turns before this one.
    handed: Option<i64>,
    /// From which offsets on which leader epoch holds, of what was fetched.
    epochs: Vec<(i64, i32)>,
}

/// So many changes of leader are remembered for commits.
const EPOCHS_MAX: usize = 64;

impl Stake {
    fn new(at: TopicPartition, session: Arc<Session>) -> Self {
        Self {
            tenure: Arc::new(Tenure::new(at, session)),
            recalled: Recalled::Wanted,
            given: None,
            hook: None,
            covered: None,
            stored: None,
            began: None,
            spoken_for: false,
            handed: None,
            epochs: Vec::new(),
        }
    }

    /// The partition is another one by the same name: what was handed out of the old one counts for nothing.
    pub(crate) fn renew(&mut self) {
        self.tenure.end();
        *self = Self {
            recalled: self.recalled.clone(),
            ..Self::new(self.tenure.at().clone(), self.tenure.session())
        };
    }

    /// The log was cut at `end`: what was handed out beyond counts for nothing.
    pub(crate) fn cut(&mut self, end: i64) {
        self.tenure = self.tenure.succeed(end);
    }

    /// A turn ends: what it handed out and nobody has acknowledged still holds up what is committed.
    pub(crate) fn end_turn(&mut self, handed: i64) {
        if handed >= 0 {
            self.handed = Some(handed);
        }
    }

    /// A turn begins at `start`: the offset up to which its first record covers what lies before it.
    ///
    /// Where the log goes back behind what was done, that is done no more. Where a seek goes forward, what is left out counts
    /// with the first record: the user did not want it; but what was handed out before waits to be acknowledged as ever.
    pub(crate) fn begin_turn(&mut self, start: i64) -> i64 {
        match self.tenure.front() {
            None => {
                self.tenure.restart(start);
                self.began = Some(start);
                if self.spoken_for {
                    self.covered = Some(start);
                }
                start
            }
            Some(_) => {
                self.tenure.cut(start);
                self.handed.unwrap_or(start).min(start)
            }
        }
    }

    /// Remembers the leader epochs of what was fetched.
    pub(crate) fn note_epochs(&mut self, batches: &[Outlined]) {
        for batch in batches {
            self.note_epoch(batch.header.base_offset, batch.header.leader_epoch);
        }
    }

    pub(crate) fn note_epoch(&mut self, from: i64, epoch: i32) {
        // After a seek back the same offsets come again.
        self.epochs.retain(|(known, _)| *known < from || from < 0);
        if self.epochs.last().is_none_or(|(_, last)| *last != epoch) {
            if self.epochs.len() >= EPOCHS_MAX {
                self.epochs.remove(0);
            }
            self.epochs.push((from, epoch));
        }
    }

    /// The leader epoch of the record before `offset`, -1 where it is not known.
    pub(super) fn epoch_before(&self, offset: i64) -> i32 {
        self.epochs.iter().rev().find(|(from, _)| *from < offset).map_or(-1, |(_, epoch)| *epoch)
    }
}

impl Cursor {
    /// The offset before which everything is done: what may be committed. It only goes back where a turn does.
    pub(super) fn done(&self) -> Option<i64> {
        let tenure = &self.stake.as_ref()?.tenure;
        // The reader walks on meanwhile. What it had reached before we look at what it handed out is done if all that is.
        let reached = self.turn.reached();
        let front = tenure.front()?;
        // What lies behind the last record that was handed out is not in the log.
        let all = front >= self.turn.handed() && reached > front;
        Some(if all && tenure.ack(front, reached).is_ok() { reached } else { front })
    }

    fn is_drained(&self) -> bool {
        let Some(stake) = &self.stake else { return true };
        let handed = self.turn.handed().max(stake.handed.unwrap_or(-1));
        stake.tenure.front().is_none_or(|front| front >= handed)
    }

    /// Whether something is to be committed that was not yet.
    pub(super) fn commit_is_due(&self) -> bool {
        let covered = self.stake.as_ref().and_then(|stake| stake.covered);
        self.done().is_some_and(|done| covered != Some(done))
    }
}

// Becoming ours.

impl Machine {
    /// The leader has assigned these to us.
    pub(super) fn assigned(&mut self, now: Instant, partitions: Vec<TopicPartition>) {
        let (ours, strange): (Vec<_>, Vec<_>) = partitions.into_iter().partition(|at| self.is_subscribed(at));
        let indices: Vec<usize> = ours.iter().filter_map(|at| self.cursor_for(at)).collect();
        for &index in &indices {
            let before = self.group.as_ref().map_or(&[][..], |group| &group.last_assigned.0);
            let cursor = &mut self.cursors[index];
            cursor.paused = cursor.paused && before.contains(&cursor.at); // as with Java's cooperative members
            self.own(index);
        }
        let Some(group) = &mut self.group else { return };
        group.owned = indices;
        group.last_assigned = (ours.clone(), group.generation);
        let (name, generation, member) = (group.config.id.clone(), group.generation, group.member.clone());
        let hook = group.config.hooks.then(|| self.ring(RebalanceKind::Assigned, ours.clone())).flatten();
        let Some(group) = &mut self.group else { return };
        for &index in &group.owned {
            if let Some(stake) = &mut self.cursors[index].stake {
                stake.hook = hook;
            }
        }
        let due = now + group.config.rebalance_timeout;
        group.hook_due = hook.map(|id| (id, due));
        if hook.is_some() {
            self.wake_group(due);
        }
        if let Some(first) = strange.first() {
            let what = format!("it assigned us {first}, whose topic we did not ask for; it is not read");
            self.tell(Event::AssignmentOdd { group: name.clone(), what });
        }
        self.tell(Event::Assigned { group: name, member, generation, partitions: ours });
        self.want_leaders(now);
        self.commit_at_intervals(now);
        self.watch_reader(now);
    }

    fn want_leaders(&mut self, now: Instant) {
        let Some(group) = &self.group else { return };
        if group.owned.iter().any(|&index| self.cursors[index].leader.is_none()) {
            self.want_metadata(now);
        }
    }

    /// Makes a partition ours: it is read once its offset is known.
    pub(crate) fn own(&mut self, index: usize) {
        let Some(session) = self.group.as_ref().map(|group| group.session.clone()) else { return };
        let cursor = &mut self.cursors[index];
        cursor.stake = Some(Stake::new(cursor.at.clone(), session));
        cursor.until = None;
        self.new_turn(index, CursorPhase::Recalling);
        self.want_recalls(true);
    }

    /// Without membership there is nobody to assign: what is named is ours.
    pub(crate) fn own_if_unassigned(&mut self, index: usize) {
        if let Some(group) = &mut self.group
            && !group.config.member
            && group.closing.is_none()
        {
            group.owned.push(index);
            self.own(index);
        }
    }

    /// Partitions that are named are ours from the first moment on.
    pub(crate) fn begin_stored(&mut self, now: Instant) {
        if self.group.as_ref().is_none_or(|group| group.config.member) {
            return;
        }
        let named: Vec<TopicPartition> = self
            .topics
            .iter()
            .flat_map(|topic| {
                topic.wanted.iter().flatten().map(|&p| TopicPartition::new(topic.name.clone(), p))
            })
            .collect();
        let start = self.config.start;
        for at in named {
            if let Some(index) = self.cursor_for(&at) {
                self.cursors[index].start = start;
            }
        }
        self.commit_at_intervals(now);
    }

    /// A seek while it is not known yet where the partition begins: it begins there.
    pub(crate) fn recalling(&mut self, index: usize, start: Start) -> bool {
        let cursor = &mut self.cursors[index];
        let (CursorPhase::Recalling, Some(stake)) = (&cursor.phase, &mut cursor.stake) else { return false };
        stake.given = Some(start);
        self.settle_recall(index);
        true
    }

    /// Tells who has hooks; its number, if they have to say when they are done.
    fn ring(&mut self, kind: RebalanceKind, partitions: Vec<TopicPartition>) -> Option<u64> {
        let group = self.group.as_mut().filter(|group| group.config.hooks && !partitions.is_empty())?;
        let id = group.next_rebalance;
        group.next_rebalance += 1;
        group.rebalances.push_back(Rebalance { id, kind, partitions });
        Some(id)
    }

    /// The next thing to tell the hooks; never any without [`GroupConfig::hooks`](crate::GroupConfig::hooks).
    pub fn poll_rebalance(&mut self) -> Option<Rebalance> {
        self.group.as_mut()?.rebalances.pop_front()
    }

    /// While an assignment is not complete: reads the partition from `start`, whatever was committed.
    ///
    /// # Errors
    ///
    /// [`NotRead`] if it is not ours (any more).
    pub fn start_at(&mut self, at: &TopicPartition, start: Start) -> Result<(), NotRead> {
        self.seek(at, start)
    }

    /// The hooks are done with a rebalance.
    pub fn complete(&mut self, id: u64) {
        let Some(group) = &mut self.group else { return };
        if let Phase::Revoking(revoking) = &mut group.phase
            && revoking.hook == Some(id)
        {
            revoking.hook = None;
        }
        for index in self.held_by(id) {
            self.let_go(index);
            self.settle_recall(index);
        }
    }

    /// What is ours and waits for this hook.
    fn held_by(&self, id: u64) -> Vec<usize> {
        let waits =
            |&index: &usize| self.cursors[index].stake.as_ref().is_some_and(|stake| stake.hook == Some(id));
        self.group.iter().flat_map(|group| &group.owned).copied().filter(waits).collect()
    }

    fn let_go(&mut self, index: usize) {
        if let Some(stake) = &mut self.cursors[index].stake {
            stake.hook = None;
        }
    }

    /// The hook panicked. Of a revoke it is done; of an assignment it had not said where to begin, and where the committed
    /// offset is means nothing to who keeps his own.
    pub fn complete_panicked(&mut self, id: u64) {
        for index in self.held_by(id) {
            self.let_go(index);
            let at = self.cursors[index].at.clone();
            self.fail_cursor(index, Fault::Hook { at });
        }
        self.complete(id);
    }

    /// Nobody else would say why nothing is read.
    pub(super) fn hook_may_be_busy(&mut self, now: Instant) {
        let Some(group) = &mut self.group else { return };
        let Some((id, _)) = group.hook_due.take_if(|(_, due)| *due <= now) else { return };
        let (group, time) = (group.config.id.clone(), group.config.rebalance_timeout);
        let held = self.held_by(id).into_iter();
        let partitions: Vec<TopicPartition> = held.map(|index| self.cursors[index].at.clone()).collect();
        if !partitions.is_empty() {
            self.tell(Event::HookBusy { group, partitions, time });
        }
    }

    /// Whether the partitions that were told as revoked under this number may still be committed.
    pub fn is_revoking(&self, id: u64) -> bool {
        let phase = self.group.as_ref().map(|group| &group.phase);
        matches!(phase, Some(Phase::Revoking(revoking)) if revoking.hook == Some(id))
    }

    /// Whether all that was handed out of what we own is acknowledged.
    pub fn is_drained(&self) -> bool {
        let owned = self.group.iter().flat_map(|group| &group.owned);
        owned.map(|&index| &self.cursors[index]).all(Cursor::is_drained)
    }

    // Giving up.

    /// Joins anew as soon as we are in and have given up what we own.
    pub(super) fn want_rejoin(&mut self, now: Instant, reason: String) {
        let Some(group) = self.group.as_mut().filter(|group| group.config.member) else { return };
        match group.phase {
            Phase::Stable => self.begin_revoke(now, &reason),
            Phase::Joining { .. } | Phase::Assigning { .. } | Phase::Syncing { .. } => {
                group.rejoin_wanted = Some(reason);
            }
            Phase::Apart | Phase::Revoking(_) | Phase::Left => {}
        }
    }

    pub(super) fn rejoin_as_wanted(&mut self, now: Instant) {
        if let Some(reason) = self.group.as_mut().and_then(|group| group.rejoin_wanted.take()) {
            self.begin_revoke(now, &reason);
        }
    }

    /// Hands out nothing more of what we own; once that is committed it is given up, and we join again.
    pub(super) fn begin_revoke(&mut self, now: Instant, reason: &str) {
        let Some(group) = &mut self.group else { return };
        if !matches!(group.phase, Phase::Stable) {
            return;
        }
        group.rejoin_wanted = None;
        group.reason = reason.to_owned();
        let timeout = group.config.rebalance_timeout;
        let deadline = now + part_of(timeout, 7, 8);
        self.revoke_until(now, deadline, reason);
    }

    pub(super) fn revoke_until(&mut self, now: Instant, deadline: Instant, reason: &str) {
        let Some(group) = &self.group else { return };
        let (name, owned) = (group.config.id.clone(), group.owned.clone());
        for &index in &owned {
            self.retire(index);
        }
        let partitions: Vec<TopicPartition> =
            owned.iter().map(|&index| self.cursors[index].at.clone()).collect();
        let hooks_until = now + (deadline - now).mul_f64(0.8);
        let hook = self.ring(RebalanceKind::Revoked { deadline: hooks_until }, partitions.clone());
        self.enter(Phase::Revoking(Revoking { hook, hooks_until, deadline, flushed: false }));
        self.wake_group(hooks_until);
        self.wake_group(deadline);
        self.tell(Event::Revoking { group: name, partitions, reason: reason.to_owned() });
    }

    /// Ends the turn of a partition that is still ours: it may be committed, and nothing of it is handed out.
    fn retire(&mut self, index: usize) {
        self.give_up(index, self.cursors[index].next);
        let cursor = &mut self.cursors[index];
        cursor.turn.end();
        cursor.phase = CursorPhase::Idle;
        cursor.retry_at = None;
        self.touch(index);
    }

    pub(super) fn plan_revoke(&mut self, now: Instant) {
        let Some(group) = &mut self.group else { return };
        let Phase::Revoking(revoking) = &mut group.phase else { return };
        if revoking.hook.is_some() && now < revoking.hooks_until {
            return;
        }
        if !std::mem::replace(&mut revoking.flushed, true) {
            self.flush();
        }
        let Some(group) = &self.group else { return };
        let Phase::Revoking(revoking) = &group.phase else { return };
        if group.commits.is_idle() || now >= revoking.deadline {
            self.finish_revoke();
        }
    }

    fn finish_revoke(&mut self) {
        let Some(group) = &self.group else { return };
        let name = group.config.id.clone();
        if let Some(what) = self.unfinished(None) {
            self.fail_waiting(&what);
            self.tell(Event::CommitFailed { group: name, what: what.to_string() });
        }
        self.end_tenures();
        self.enter(Phase::Apart);
    }

    /// What we own is not ours any more; whoever owns it now reads on from the last commit.
    pub(super) fn lose(&mut self, reason: &str) {
        let Some(group) = &mut self.group else { return };
        // Whoever was told that they are revoked learns of the loss when it commits.
        let told = matches!(group.phase, Phase::Revoking(_));
        group.reason = reason.to_owned();
        group.heartbeat = None;
        group.heartbeat_due = None;
        let (name, owned) = (group.config.id.clone(), group.owned.clone());
        let partitions: Vec<TopicPartition> =
            owned.iter().map(|&index| self.cursors[index].at.clone()).collect();
        _ = self.unfinished(Some(reason)); // for whoever closes the reader
        for &index in &owned {
            self.retire(index);
        }
        self.end_tenures();
        if !told {
            self.ring(RebalanceKind::Lost, partitions.clone());
        }
        self.tell(Event::PartitionsLost { group: name, partitions, reason: reason.to_owned() });
        self.enter(Phase::Apart);
    }

    /// Ends whatever is left.
    pub(super) fn end_all(&mut self) {
        let owned = self.group.as_ref().map(|group| group.owned.clone()).unwrap_or_default();
        for index in owned {
            self.retire(index);
        }
        self.end_tenures();
    }

    /// From here on nothing of what we owned can be acknowledged or committed.
    fn end_tenures(&mut self) {
        let Some(group) = &mut self.group else { return };
        for index in std::mem::take(&mut group.owned) {
            let cursor = &mut self.cursors[index];
            // Should nobody have committed when it comes back to us, we know where we were.
            cursor.remembered = cursor.done().or(cursor.remembered);
            if let Some(stake) = cursor.stake.take() {
                stake.tenure.end();
                self.fail_commits_of(index, &CommitError::ended(stake.tenure.at()));
            }
        }
    }

    /// The partition was made anew while it is ours.
    pub(crate) fn renew_stake(&mut self, index: usize) {
        let cursor = &mut self.cursors[index];
        cursor.remembered = None;
        if let Some(stake) = &mut cursor.stake {
            stake.renew();
            self.fail_commits_of(index, &CommitError::ended(&self.cursors[index].at));
        }
    }

    // What we read.

    /// Reads these topics from now on, and those whose names match the pattern. What is not among them is given up, what is
    /// new begins where [`Config::start`](crate::Config::start) says.
    pub fn subscribe(&mut self, now: Instant, topics: &[Arc<str>], pattern: Option<Regex>) {
        let wanted = |name: &str| topics.iter().any(|topic| **topic == *name);
        let matches = |name: &str| pattern.as_ref().is_some_and(|pattern| pattern.is_match(name));
        for topic in &mut self.topics {
            topic.subscribed = wanted(&topic.name) || matches(&topic.name);
        }
        for name in topics {
            if !self.topics.iter().any(|known| known.name == *name) {
                self.topics.push(Topic::new(name.clone(), None));
            }
        }
        let named = |topic: &Arc<str>| Subscription { topic: topic.clone(), partitions: None };
        self.config.subscriptions = topics.iter().map(named).collect();
        self.config.pattern = pattern;
        self.want_metadata(now);
        self.want_rejoin(now, "the topics that we read were changed".to_owned());
    }

    /// The topics that we read, sorted.
    pub(super) fn subscribed(&self) -> Vec<Arc<str>> {
        let mut topics: Vec<Arc<str>> =
            self.topics.iter().filter(|topic| topic.subscribed).map(|topic| topic.name.clone()).collect();
        topics.sort();
        topics
    }

    fn is_subscribed(&self, at: &TopicPartition) -> bool {
        at.partition >= 0 && self.topics.iter().any(|topic| topic.subscribed && topic.name == at.topic)
    }
}
