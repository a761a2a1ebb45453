//! The way of an offset to the coordinator: what was acknowledged, at intervals, and what somebody waits for.
//!
//! One request is under way at a time, so that offsets arrive in order; whoever comes meanwhile shares the next one.

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    sync::Arc,
    time::Instant,
};

use ottla_wire::{
    code::Code,
    message::{
        OffsetCommitRequest, OffsetCommitResponse,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    },
};

use super::{
    Question,
    tenure::{AckError, Tenure},
    verdict::{Verdict, verdict},
};
use crate::{
    cluster::{Lane, Peer},
    event::Event,
    machine::{Machine, Purpose},
    partition::TopicPartition,
    request::{Body, CommitAsk},
};

/// Names what somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

impl Ticket {
    pub(super) const FIRST: Self = Self(0);

    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What to commit.
#[derive(Debug, Clone)]
pub enum Commit {
    /// Everything before `to`, which thereby counts as acknowledged.
    Through {
        /// The tenure that it was handed out in.
        tenure: Arc<Tenure>,
        /// The offset to read next.
        to: i64,
    },
    /// All that was acknowledged.
    Acked,
    /// These offsets, whatever was acknowledged; they may lie before what was committed.
    Offsets(Vec<(TopicPartition, CommitOffset)>),
}

/// An offset to commit, as the user wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitOffset {
    /// The offset to read next: one more than that of the last record that is done.
    pub offset: i64,
    /// The leader epoch of the record before it; -1 if it is not known. Who begins there asks whether the log has been cut
    /// since (KIP-320): a wrong one would have it go back.
    pub leader_epoch: i32,
    /// Kept with the offset, at most 4096 bytes unless the broker allows more (`offset.metadata.max.bytes`).
    pub metadata: String,
}

/// Offset 0, of an epoch that is not known.
impl Default for CommitOffset {
    fn default() -> Self {
        Self { offset: 0, leader_epoch: -1, metadata: String::new() }
    }
}

/// A committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The offset to read next.
    pub offset: i64,
    /// The leader epoch of the record before it; -1 if it was not given.
    pub leader_epoch: i32,
    /// What was kept with it.
    pub metadata: String,
}

/// What came of something that somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Of [`Machine::commit`].
    Commit(Result<(), CommitError>),
    /// Of [`Machine::committed`]; `None` where nothing is committed.
    Committed(Result<Vec<(TopicPartition, Option<Committed>)>, CommitError>),
}

/// Why something could not be committed, or looked up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// It could not be acknowledged.
    #[error(transparent)]
    Ack(#[from] AckError),
    /// The partition is not ours, or not yet.
    #[error("{0} is not assigned to this reader: its offset can only be committed by who owns it")]
    NotOwned(TopicPartition),
    /// Another reader handed it out, and knows how far it is.
    #[error("{0}: another reader handed this out: acknowledge, commit and nack it there")]
    Elsewhere(TopicPartition),
    /// An offset that no log has.
    #[error("{0}: offset {1} cannot be committed: offsets are not negative")]
    Negative(TopicPartition, i64),
    /// The coordinator refused some partitions for good; those that are not listed were committed.
    #[error("group {group}: the coordinator refused the offset of {}{}", first(.partitions), more(.partitions))]
    Refused {
        /// The group.
        group: Arc<str>,
        /// Each partition that was refused, and how.
        partitions: Vec<(TopicPartition, Code)>,
    },
    /// What was acknowledged could not be committed in time; it is read again by whoever owns the partitions next.
    #[error("group {group}: the offsets of {} could not be committed in time: {last}", list(.partitions))]
    Unfinished {
        /// The group.
        group: Arc<str>,
        /// The partitions.
        partitions: Vec<TopicPartition>,
        /// What was in the way.
        last: String,
    },
    /// The reader is closed.
    #[error("the reader is closed")]
    Closed,
}

fn first(partitions: &[(TopicPartition, Code)]) -> String {
    partitions.first().map(|(at, code)| format!("{at} with {code}{}", advice(*code))).unwrap_or_default()
}

/// What to do, where the code's own sentence does not say.
fn advice(code: Code) -> &'static str {
    match code {
        Code::UNKNOWN_MEMBER_ID => "; while a group has members, only they can commit",
        Code::TOPIC_AUTHORIZATION_FAILED => "; allow this client to Read the topic",
        Code::GROUP_AUTHORIZATION_FAILED => "; allow this client to Read the group",
        Code::OFFSET_METADATA_TOO_LARGE => "; see the broker's offset.metadata.max.bytes",
        _ => "",
    }
}

fn more(partitions: &[(TopicPartition, Code)]) -> String {
    match partitions.len() {
        0 | 1 => String::new(),
        many => format!(", and of {} more", many - 1),
    }
}

fn list(partitions: &[TopicPartition]) -> String {
    match partitions {
        [one] => one.to_string(),
        [one, rest @ ..] => format!("{one} and {} more", rest.len()),
        [] => "no partition".to_owned(),
    }
}

impl CommitError {
    pub(super) fn ended(at: &TopicPartition) -> Self {
        Self::Ack(AckError::Ended(at.clone()))
    }

    pub(super) fn refused(group: &Arc<str>, partitions: Vec<(TopicPartition, Code)>) -> Self {
        Self::Refused { group: group.clone(), partitions }
    }
}

/// What is to be committed and what is under way.
#[derive(Debug, Default)]
pub(super) struct Commits {
    /// By cursor.
    wanted: BTreeMap<usize, Want>,
    flight: Option<Flight>,
    waiting: BTreeMap<Ticket, Waiting>,
    pub(super) settled: VecDeque<(Ticket, Settled)>,
    next_ticket: u64,
    /// Tickets that stand somewhere and that nobody waits for any more.
    stale: usize,
    /// When to look again for what was acknowledged.
    due: Option<Instant>,
    /// What was in the way the last time.
    trouble: Option<String>,
    /// What was acknowledged when the partitions were given up, and could not be committed.
    pub(super) unfinished: Option<CommitError>,
}

/// A partition whose offset is to be committed. Who wants something else later has the last word, as if both had been
/// committed one after the other.
#[derive(Debug, Default)]
struct Want {
    /// This one; else as far as everything is done when the request is written.
    exactly: Option<Exactly>,
    tickets: Vec<Ticket>,
}

/// An offset that the user named.
#[derive(Debug)]
struct Exactly {
    offset: CommitOffset,
    /// How far everything was done then: what is acknowledged later is committed over it.
    done: Option<i64>,
}

#[derive(Debug)]
struct Flight {
    request: u64,
    /// Who was asked.
    peer: Peer,
    items: BTreeMap<usize, Item>,
}

/// A partition in a request.
#[derive(Debug)]
struct Item {
    want: Want,
    offset: i64,
    /// How far what is done is taken care of with it.
    done: Option<i64>,
}

/// Somebody waits until as many partitions are answered.
#[derive(Debug, Default)]
struct Waiting {
    left: usize,
    refused: Vec<(TopicPartition, Code)>,
    error: Option<CommitError>,
}

/// So few tickets that nobody waits for are not looked for.
const STALE_MAX: usize = 256;

impl Want {
    /// Nobody waits for it in particular.
    fn is_idle(&self) -> bool {
        self.exactly.is_none() && self.tickets.is_empty()
    }
}

impl Commits {
    pub(super) fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.flight.is_none()
    }

    /// Takes out what nobody waits for, once that is the larger part.
    fn sweep(&mut self) {
        if self.stale < STALE_MAX || self.stale < self.waiting.len() {
            return;
        }
        let flying = self.flight.iter_mut().flat_map(|flight| flight.items.values_mut());
        for want in self.wanted.values_mut().chain(flying.map(|item| &mut item.want)) {
            want.tickets.retain(|ticket| self.waiting.contains_key(ticket));
        }
        self.stale = 0;
    }

    /// Whether a request that is under way takes care of what is done.
    fn carries(&self, index: usize, done: Option<i64>) -> bool {
        self.item(index).is_some_and(|item| item.done == done)
    }

    fn item(&self, index: usize) -> Option<&Item> {
        self.flight.as_ref()?.items.get(&index)
    }

    /// Whether an offset that the user named is under way, or waits to be.
    fn names(&self, index: usize) -> bool {
        let waits = self.wanted.get(&index).is_some_and(|want| want.exactly.is_some());
        waits || self.item(index).is_some_and(|item| item.want.exactly.is_some())
    }

    /// Wants what is done to be committed; who waits for that, waits for whatever takes care of it.
    fn want_done(&mut self, index: usize, done: Option<i64>) -> &mut Vec<Ticket> {
        let carried = self.carries(index, done) && !self.wanted.contains_key(&index);
        if carried && let Some(item) = self.flight.as_mut().and_then(|flight| flight.items.get_mut(&index)) {
            return &mut item.want.tickets;
        }
        let want = self.wanted.entry(index).or_default();
        want.exactly.take_if(|exactly| exactly.done != done);
        &mut want.tickets
    }

    /// Wants what is done to be committed, whatever offset was named before.
    fn want_through(&mut self, index: usize, done: Option<i64>) -> &mut Vec<Ticket> {
        if !self.names(index) {
            return self.want_done(index, done);
        }
        let want = self.wanted.entry(index).or_default();
        want.exactly = None;
        &mut want.tickets
    }
}

impl Machine {
    /// Commits; what came of it is told by [`poll_settled`](Self::poll_settled).
    ///
    /// # Errors
    ///
    /// What can be said at once: the tenure has ended, the partition is not ours, the offset is none.
    pub fn commit(&mut self, what: Commit) -> Result<Ticket, CommitError> {
        if self.is_closed() {
            return Err(CommitError::Closed);
        }
        let ticket = self.next_ticket();
        let count = match what {
            Commit::Through { tenure, to } => self.commit_through(ticket, &tenure, to)?,
            Commit::Acked => self.commit_acked(ticket),
            Commit::Offsets(offsets) => self.commit_exactly(ticket, offsets)?,
        };
        let Some(group) = &mut self.group else { return Err(CommitError::Closed) };
        match count {
            0 => group.commits.settled.push_back((ticket, Settled::Commit(Ok(())))),
            left => _ = group.commits.waiting.insert(ticket, Waiting { left, ..Waiting::default() }),
        }
        Ok(ticket)
    }

    pub(super) fn next_ticket(&mut self) -> Ticket {
        let Some(group) = &mut self.group else { return Ticket(0) };
        group.commits.next_ticket += 1;
        Ticket(group.commits.next_ticket)
    }

    /// Nobody waits for it any more. What was to be committed is committed all the same.
    pub fn forget(&mut self, ticket: Ticket) {
        let Some(group) = &mut self.group else { return };
        group.recalls.forget(ticket);
        let commits = &mut group.commits;
        if commits.waiting.remove(&ticket).is_some() {
            commits.stale += 1;
            commits.sweep();
        }
    }

    /// What came of something that somebody waits for.
    pub fn poll_settled(&mut self) -> Option<(Ticket, Settled)> {
        self.group.as_mut()?.commits.settled.pop_front()
    }

    /// How many partitions are waited for.
    fn commit_through(
        &mut self,
        ticket: Ticket,
        tenure: &Arc<Tenure>,
        to: i64,
    ) -> Result<usize, CommitError> {
        self.handed_out_here(tenure)?;
        tenure.ack_through(to)?;
        let index = self.owned_index(tenure.at())?;
        let cursor = &self.cursors[index];
        let (due, done) = (cursor.commit_is_due(), cursor.done());
        let stake = cursor.stake.as_ref().filter(|stake| tenure.counts_in(&stake.tenure, to - 1));
        let stored = stake.ok_or_else(|| CommitError::ended(tenure.at()))?.stored;
        let Some(group) = &mut self.group else { return Err(CommitError::Closed) };
        if !due && stored >= Some(to) && !group.commits.names(index) {
            return Ok(0);
        }
        group.commits.want_through(index, done).push(ticket);
        Ok(1)
    }

    /// Whether a message is one of ours.
    pub(super) fn handed_out_here(&self, tenure: &Tenure) -> Result<(), CommitError> {
        let ours = self.group.as_ref().is_some_and(|group| tenure.is_of(&group.session));
        if ours { Ok(()) } else { Err(CommitError::Elsewhere(tenure.at().clone())) }
    }

    fn commit_acked(&mut self, ticket: Ticket) -> usize {
        let due = self.due_commits();
        for &index in &due {
            let done = self.cursors[index].done();
            if let Some(group) = &mut self.group {
                group.commits.want_done(index, done).push(ticket);
            }
        }
        due.len()
    }

    fn commit_exactly(
        &mut self,
        ticket: Ticket,
        offsets: Vec<(TopicPartition, CommitOffset)>,
    ) -> Result<usize, CommitError> {
        let mut found = BTreeMap::new();
        for (at, offset) in offsets {
            if offset.offset < 0 {
                return Err(CommitError::Negative(at, offset.offset));
            }
            found.insert(self.owned_index(&at)?, offset);
        }
        let count = found.len();
        for (index, offset) in found {
            let done = self.cursors[index].done();
            if let Some(group) = &mut self.group {
                let want = group.commits.wanted.entry(index).or_default();
                want.exactly = Some(Exactly { offset, done });
                want.tickets.push(ticket);
            }
            if let Some(stake) = &mut self.cursors[index].stake {
                stake.spoken_for = stake.tenure.front().is_none();
            }
        }
        Ok(count)
    }

    fn owned_index(&self, at: &TopicPartition) -> Result<usize, CommitError> {
        let index = self.cursor_named(&at.topic, at.partition);
        index
            .filter(|&index| self.cursors[index].stake.is_some())
            .ok_or_else(|| CommitError::NotOwned(at.clone()))
    }

    fn due_commits(&self) -> Vec<usize> {
        let Some(group) = &self.group else { return Vec::new() };
        group.owned.iter().copied().filter(|&index| self.cursors[index].commit_is_due()).collect()
    }

    /// Puts all that was acknowledged on its way.
    pub(super) fn flush(&mut self) {
        for index in self.due_commits() {
            self.commit_soon(index);
        }
    }

    /// Commits where reading begins without waiting for the interval: were it forgotten, what comes meanwhile could be
    /// missed.
    pub(super) fn commit_soon(&mut self, index: usize) {
        let done = self.cursors[index].done();
        if self.cursors[index].commit_is_due()
            && let Some(group) = &mut self.group
        {
            group.commits.want_done(index, done);
        }
    }

    pub(crate) fn commit_at_intervals(&mut self, now: Instant) {
        let Some(group) = &mut self.group else { return };
        let due = now + group.config.commit_interval;
        group.commits.due = Some(due);
        self.wake_group(due);
    }

    pub(super) fn commit_may_be_due(&mut self, now: Instant) {
        let Some(group) = &mut self.group else { return };
        if group.commits.due.take_if(|due| *due <= now).is_some() && !group.owned.is_empty() {
            self.flush();
            self.commit_at_intervals(now);
        }
    }

    // To the coordinator and back.

    pub(super) fn plan_commit(&mut self, now: Instant) {
        let Some(group) = &self.group else { return };
        let commits = &group.commits;
        let may = group.may_commit() && group.not_before.is_none();
        if commits.wanted.is_empty() || commits.flight.is_some() || !may {
            return;
        }
        let Some(peer) = self.coordinator_peer() else { return };
        let Some(group) = &mut self.group else { return };
        let wanted = std::mem::take(&mut group.commits.wanted);
        let mut items = BTreeMap::new();
        let mut topics: BTreeMap<String, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
        for (index, want) in wanted {
            let cursor = &self.cursors[index];
            let Some(stake) = &cursor.stake else { continue };
            let (exact, done) = match &want.exactly {
                Some(exactly) => (Some(exactly.offset.clone()), exactly.done),
                None => (None, cursor.done()),
            };
            let of_done = || done.map(|offset| (offset, stake.epoch_before(offset), String::new()));
            let exact = exact.map(|exact| (exact.offset, exact.leader_epoch, exact.metadata));
            let Some((offset, epoch, metadata)) = exact.or_else(of_done) else { continue };
            topics.entry(cursor.at.topic.to_string()).or_default().push(OffsetCommitRequestPartition {
                partition_index: cursor.at.partition,
                committed_offset: offset,
                committed_leader_epoch: epoch,
                committed_metadata: Some(metadata),
                ..OffsetCommitRequestPartition::default()
            });
            items.insert(index, Item { want, offset, done });
        }
        if items.is_empty() {
            return;
        }
        let Some(group) = &self.group else { return };
        let topic = |(name, partitions)| OffsetCommitRequestTopic {
            name,
            partitions,
            ..OffsetCommitRequestTopic::default()
        };
        let request = OffsetCommitRequest {
            group_id: group.config.id.to_string(),
            generation_id_or_member_epoch: group.generation,
            member_id: group.member.clone(),
            group_instance_id: group.config.instance.clone(),
            topics: topics.into_iter().map(topic).collect(),
            ..OffsetCommitRequest::default()
        };
        let ask = CommitAsk { request, retention: group.config.retention };
        let id = self.send(now, peer, Lane::Group, Body::Commit(ask), Purpose::Group(Question::Commit));
        if let Some(group) = &mut self.group {
            group.commits.flight = Some(Flight { request: id, peer, items });
        }
    }

    pub(super) fn take_commit(&mut self, now: Instant, id: u64, answer: &OffsetCommitResponse) {
        let Some(group) = &mut self.group else { return };
        let Some(flight) = group.commits.flight.take_if(|flight| flight.request == id) else { return };
        let mut codes: BTreeMap<(&str, i32), Code> = BTreeMap::new();
        for topic in &answer.topics {
            for partition in &topic.partitions {
                codes.insert((&topic.name, partition.partition_index), Code(partition.error_code));
            }
        }
        let mut whole: Option<(Code, Verdict)> = None;
        let (mut refused, mut told) = (Vec::new(), false);
        for (index, item) in flight.items {
            let at = self.cursors[index].at.clone();
            let code = codes.get(&(&*at.topic, at.partition)).copied().unwrap_or(Code::UNKNOWN_SERVER_ERROR);
            match self.commit_verdict(code) {
                None => self.committed_item(index, item),
                // Who waits is told; what was only acknowledged is tried again, and fails the reader if it must.
                Some(verdict @ (Verdict::Refuse | Verdict::Fatal))
                    if verdict == Verdict::Refuse || !item.want.tickets.is_empty() =>
                {
                    told |= verdict == Verdict::Fatal;
                    refused.push((at.clone(), code));
                    self.settle_tickets(item.want.tickets, |waiting| {
                        waiting.refused.push((at.clone(), code));
                    });
                }
                Some(verdict) => {
                    whole = Some((code, verdict));
                    self.want_again(index, item.want);
                }
            }
        }
        self.tell_refused_commits(refused);
        self.drop_what_was_carried();
        match whole {
            None if told => {}
            None => self.group_works(),
            Some((code, verdict)) => self.refused_commit(now, code, verdict),
        }
    }

    /// What came in between nobody waits for, and the request carried it.
    fn drop_what_was_carried(&mut self) {
        let Some(group) = &mut self.group else { return };
        let cursors = &self.cursors;
        group.commits.wanted.retain(|&index, want| !want.is_idle() || cursors[index].commit_is_due());
    }

    /// What the code means for us; `None`: it is committed.
    fn commit_verdict(&self, code: Code) -> Option<Verdict> {
        let member = self.group.as_ref().is_some_and(|group| group.config.member);
        match verdict(Question::Commit, code) {
            _ if code == Code::NONE => None,
            // Without membership there is no place to take again: others are active in the group.
            Verdict::Unknown | Verdict::Stale | Verdict::Fenced if !member => Some(Verdict::Refuse),
            verdict => Some(verdict),
        }
    }

    fn committed_item(&mut self, index: usize, item: Item) {
        if let Some(stake) = &mut self.cursors[index].stake {
            stake.covered = item.done;
            stake.stored = Some(item.offset);
        }
        self.settle_tickets(item.want.tickets, |_| {});
    }

    fn refused_commit(&mut self, now: Instant, code: Code, verdict: Verdict) {
        if let Some(group) = &mut self.group {
            group.commits.trouble = Some(format!("the coordinator answered {code}"));
        }
        match verdict {
            Verdict::Elsewhere => self.forget_coordinator(),
            Verdict::Unknown | Verdict::Stale | Verdict::Fenced => {
                return self.out_of_group(now, Question::Commit, code, verdict);
            }
            Verdict::Fatal => self.fail_group(Question::Commit, code, None),
            _ => self.tell_refused(Question::Commit, code),
        }
        self.pause_group(now);
    }

    fn tell_refused_commits(&mut self, refused: Vec<(TopicPartition, Code)>) {
        let Some(group) = &mut self.group else { return };
        if !refused.is_empty() {
            let name = group.config.id.clone();
            let what = CommitError::refused(&name, refused).to_string();
            // Closing tells it if it gets no further, and names the group itself.
            let trouble = what.strip_prefix(&format!("group {name}: ")).unwrap_or(&what);
            group.commits.trouble = Some(trouble.to_owned());
            self.tell(Event::CommitFailed { group: name, what });
        }
    }

    pub(super) fn lost_commit(&mut self, id: u64) {
        let Some(group) = &mut self.group else { return };
        let Some(flight) = group.commits.flight.take_if(|flight| flight.request == id) else { return };
        let trouble = self.address(flight.peer).map(|at| format!("the coordinator at {at} did not answer"));
        let Some(group) = &mut self.group else { return };
        group.commits.trouble = trouble;
        for (index, item) in flight.items {
            self.want_again(index, item.want);
        }
    }

    /// What was wanted since has the last word.
    fn want_again(&mut self, index: usize, want: Want) {
        let Some(group) = &mut self.group else { return };
        match group.commits.wanted.entry(index) {
            Entry::Vacant(place) => _ = place.insert(want),
            Entry::Occupied(mut newer) => newer.get_mut().tickets.extend(want.tickets),
        }
    }

    fn settle_tickets(&mut self, tickets: Vec<Ticket>, note: impl Fn(&mut Waiting)) {
        let Some(group) = &mut self.group else { return };
        let commits = &mut group.commits;
        for ticket in tickets {
            let Some(waiting) = commits.waiting.get_mut(&ticket) else { continue };
            note(waiting);
            waiting.left -= 1;
            if waiting.left > 0 {
                continue;
            }
            let done = commits.waiting.remove(&ticket).unwrap_or_default();
            let result = match (done.error, done.refused) {
                (Some(error), _) => Err(error),
                (None, refused) if refused.is_empty() => Ok(()),
                (None, refused) => Err(CommitError::refused(&group.config.id, refused)),
            };
            commits.settled.push_back((ticket, Settled::Commit(result)));
        }
    }

    /// Who waits for a commit of what we own waits in vain.
    pub(super) fn fail_waiting(&mut self, error: &CommitError) {
        let owned = self.group.as_ref().map(|group| group.owned.clone()).unwrap_or_default();
        for index in owned {
            self.fail_commits_of(index, error);
        }
    }

    /// The partition is not ours any more: who waits for its commit is told.
    pub(super) fn fail_commits_of(&mut self, index: usize, error: &CommitError) {
        let Some(group) = &mut self.group else { return };
        let commits = &mut group.commits;
        let mut tickets = commits.wanted.remove(&index).map(|want| want.tickets).unwrap_or_default();
        if let Some(flight) = &mut commits.flight
            && let Some(item) = flight.items.remove(&index)
        {
            tickets.extend(item.want.tickets);
        }
        self.settle_tickets(tickets, |waiting| waiting.error = Some(error.clone()));
    }

    /// What was acknowledged and is not committed.
    fn uncommitted(&self) -> Vec<TopicPartition> {
        let Some(group) = &self.group else { return Vec::new() };
        let moved = |&&index: &&usize| {
            let cursor = &self.cursors[index];
            cursor.commit_is_due() && cursor.stake.as_ref().is_some_and(|stake| stake.began != cursor.done())
        };
        group.owned.iter().filter(moved).map(|&index| self.cursors[index].at.clone()).collect()
    }

    /// Notes what could not be committed in time, if anything, and why; what the coordinator owes or said last, unless there is
    /// a reason.
    pub(super) fn unfinished(&mut self, why: Option<&str>) -> Option<CommitError> {
        let partitions = self.uncommitted();
        if partitions.is_empty() {
            return None;
        }
        let asked = self.group.as_ref().and_then(|group| group.commits.flight.as_ref());
        let owes = asked.and_then(|flight| self.address(flight.peer));
        let owes = owes.map(|at| format!("the coordinator at {at} has not answered"));
        let group = self.group.as_mut()?;
        let last = why.map(str::to_owned).or(owes).or_else(|| group.commits.trouble.clone());
        let last =
            last.unwrap_or_else(|| "the coordinator could not be reached, or did not answer".to_owned());
        let error = CommitError::Unfinished { group: group.config.id.clone(), partitions, last };
        group.commits.unfinished = Some(error.clone());
        Some(error)
    }
}
