//! The reading machine: what it is told, what it is asked, what it says to do.

mod brokers;
mod partitions;
mod queue;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use ottla_wire::record::BatchHeader;

use crate::{
    cluster::{Lane, Peer, metadata::Metadata, node::Node, topic::Topic},
    config::{Config, Start},
    event::Event,
    fault::{Fault, Lost},
    fetch::{
        cursor::{Cursor, Phase},
        ledger::Ledger,
        offsets::Questions,
        plan::Plan,
        queue::{Part, Take},
        resolve::{Aim, Resolving},
        turn::TurnState,
    },
    group::{Group, Question},
    partition::TopicPartition,
    request::{Body, Reply, Request},
    timer::{Timers, Why},
};

/// What reads: it is told what happened, and says what to do.
///
/// - `handle_*`: it happened. A reply came, a connection broke, a deadline passed.
/// - verbs ([`seek`](Self::seek), [`pause`](Self::pause), [`take`](Self::take)): the user wants it, at once.
/// - `poll_*`: do this now. To be drained after every change.
/// - nouns ([`position`](Self::position), [`lag`](Self::lag)): look.
///
/// Time only comes in as an argument. Nothing here decodes records or waits.
#[derive(Debug)]
pub struct Machine {
    pub(crate) config: Config,
    pub(crate) rng: fastrand::Rng,
    pub(crate) topics: Vec<Topic>,
    pub(crate) cursors: Vec<Cursor>,
    pub(crate) nodes: BTreeMap<Peer, Node>,
    pub(crate) metadata: Metadata,
    pub(crate) metadata_due: Option<Instant>,
    pub(crate) timers: Timers,
    /// What was wanted of partitions that are not known yet.
    pub(crate) pending: BTreeMap<TopicPartition, Pending>,
    /// Peers that failed since any of them answered; all of them make a round.
    pub(crate) failing: BTreeSet<Peer>,
    pub(crate) ledger: Arc<Ledger>,
    /// Our part in a group.
    pub(crate) group: Option<Group>,
    /// The reader found nothing when it asked last.
    pub(crate) reader_waits: bool,
    /// That the caller holds the whole budget was told.
    pub(crate) told_held: bool,
    asked: BTreeMap<u64, Pledge>,
    next_id: u64,
    rounds: u32,
    outage: Option<Fault>,
    /// That a broker does not speak what we need, until it does.
    unsupported: Option<Unsupported>,
    /// Partitions with something to hand out, the next one first.
    ready: VecDeque<usize>,
    out: VecDeque<Request>,
    /// What is sent when its broker is not throttled any more.
    held: Vec<Request>,
    hang_ups: VecDeque<(Peer, Lane)>,
    events: VecDeque<Event>,
}

/// What was wanted of a partition before it was known.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) seek: Option<Start>,
    pub(crate) paused: bool,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Pledge {
    peer: Peer,
    lane: Lane,
    sent: Instant,
    /// Then it is overdue.
    deadline: Instant,
    /// When we look at it: then, or before, when it is [`LATE`].
    alarm: Instant,
    purpose: Purpose,
}

/// A broker that does not speak what we need.
#[derive(Debug)]
struct Unsupported {
    peer: Peer,
    /// What it does not speak.
    asked: PurposeKind,
    fault: Fault,
}

/// What an answer is for.
#[derive(Debug)]
pub(crate) enum Purpose {
    Metadata,
    Offsets(Questions),
    Epochs(Vec<usize>),
    Fetch(Plan),
    Group(Question),
}

/// What is asked of a broker, whatever about.
type PurposeKind = (std::mem::Discriminant<Purpose>, Option<Question>);

impl Purpose {
    fn kind(&self) -> PurposeKind {
        let question = if let Self::Group(question) = self { Some(*question) } else { None };
        (std::mem::discriminant(self), question)
    }
}

/// A leader that needs so much longer than it was allowed to may be one no more: another broker is asked.
const LATE: Duration = Duration::from_secs(1);

/// After so many requests in a row that a broker speaks no version of, the reader fails.
const NOT_SPOKEN_MAX: u32 = 3;

/// The partition is not among those that are read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not read by this reader")]
pub struct NotRead(pub TopicPartition);

impl Machine {
    /// A machine that has not asked anything yet.
    pub fn new(now: Instant, config: Config) -> Self {
        let mut rng = fastrand::Rng::with_seed(config.seed);
        let mut seeds = config.bootstrap.clone();
        rng.shuffle(&mut seeds);
        let node = |(place, address)| (Peer::Seed(place), Node::new(address, config.max_bytes));
        let topics = config.subscriptions.iter();
        let mut machine = Self {
            nodes: seeds.into_iter().enumerate().map(node).collect(),
            topics: topics.map(|s| Topic::new(s.topic.clone(), s.partitions.clone())).collect(),
            group: config.group.clone().map(|group| Group::new(now, group)),
            config,
            rng,
            cursors: Vec::new(),
            metadata: Metadata::default(),
            metadata_due: None,
            timers: Timers::default(),
            pending: BTreeMap::new(),
            failing: BTreeSet::new(),
            ledger: Arc::default(),
            reader_waits: false,
            told_held: false,
            asked: BTreeMap::new(),
            next_id: 1,
            rounds: 0,
            outage: None,
            unsupported: None,
            ready: VecDeque::new(),
            out: VecDeque::new(),
            held: Vec::new(),
            hang_ups: VecDeque::new(),
            events: VecDeque::new(),
        };
        machine.want_metadata(now);
        machine.begin_stored(now);
        machine
    }

    // What happened.

    /// A connection stands and both ends know each other's versions.
    pub fn handle_connected(&mut self, peer: Peer) {
        let Some(node) = self.nodes.get(&peer) else { return };
        let address = node.address.clone();
        // No answer yet: a broker that shakes hands and then says nothing more is as good as away.
        self.tell(Event::Connected { peer, address });
    }

    /// An answer came.
    pub fn handle_reply(&mut self, now: Instant, id: u64, mut reply: Reply) {
        let Some(pledge) = self.redeem(id) else { return };
        self.throttled(now, pledge.peer, pledge.lane, *reply.throttle_ms());
        self.answered(now, pledge.peer, pledge.lane);
        self.is_spoken(&pledge);
        match (pledge.purpose, pledge.peer, reply) {
            (Purpose::Metadata, peer, Reply::Metadata(response)) => {
                self.take_metadata(now, id, peer, &response);
            }
            (Purpose::Offsets(questions), _, Reply::ListOffsets(response)) => {
                self.take_offsets(now, id, &questions, &response);
            }
            (Purpose::Epochs(asked), _, Reply::LeaderEpochs(response)) => {
                self.take_epochs(now, id, &asked, &response);
            }
            (Purpose::Fetch(plan), Peer::Node(node), Reply::Fetch(reply)) => {
                self.take_fetch(now, id, node, &plan, reply);
            }
            (Purpose::Group(question), _, reply) => self.take_group(now, id, question, reply),
            // The driver reads an answer by its question's kind, so this is a driver's mistake; treat as unanswered.
            (purpose, peer, _) => self.unanswered_purpose(now, id, peer, purpose),
        }
    }

    /// Bytes of an answer are coming in: its deadline moves on.
    pub fn handle_progress(&mut self, now: Instant, peer: Peer, lane: Lane) {
        let wait = self.config.request_timeout;
        for (&id, pledge) in self.asked.iter_mut().filter(|(_, p)| p.peer == peer && p.lane == lane) {
            self.timers.remove(pledge.alarm, Why::Reply(id));
            pledge.deadline = pledge.deadline.max(now + wait);
            pledge.alarm = pledge.deadline; // whose answer comes is not silent
            self.timers.add(pledge.alarm, Why::Reply(id));
        }
    }

    /// A broker does not speak what was to be asked, in any version of ours.
    pub fn handle_unsupported(&mut self, now: Instant, id: u64, what: String) {
        let Some(pledge) = self.redeem(id) else { return };
        if let Purpose::Epochs(asked) = &pledge.purpose {
            // A broker without the feature cannot be asked: go on unvalidated.
            for &index in asked {
                if self.settle(index, id) {
                    self.cursors[index].phase = Phase::Reading;
                    self.touch(index);
                }
            }
            return;
        }
        self.not_spoken(&pledge, &what);
        self.tell(Event::Misbehaved { peer: pledge.peer, what });
        self.peer_down(now, pledge.peer, pledge.lane);
        self.hang_up(pledge.peer, pledge.lane); // the next connection asks for its versions anew
        self.unanswered_purpose(now, id, pledge.peer, pledge.purpose);
    }

    /// A connection broke, or could not be made. Answers that were expected over it will not come.
    ///
    /// A connection that nothing was expected of (a broker closes idle ones) is no failure.
    pub fn handle_lost(&mut self, now: Instant, peer: Peer, lane: Lane, lost: &Lost) {
        let ids: Vec<u64> =
            self.asked.iter().filter(|(_, p)| p.peer == peer && p.lane == lane).map(|(&id, _)| id).collect();
        let was_idle = self.was_idle(peer, lane, &ids);
        if ids.is_empty() {
            return;
        }
        if !was_idle {
            self.failed(now, peer, lane, lost);
        }
        for id in ids {
            if let Some(pledge) = self.redeem(id) {
                self.unanswered_purpose(now, id, peer, pledge.purpose);
            }
        }
        self.want_metadata(now);
    }

    /// Deadlines passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(why) = self.timers.due(now) {
            match why {
                Why::Metadata => self.metadata_is_due(now),
                Why::MetadataHedge => self.hedge_metadata(now),
                Why::Peer(peer) => self.peer_may_open(now, peer),
                Why::Partition(index) => self.cursor_may_ask(now, index),
                Why::Group => self.group_is_due(now),
                Why::Reply(id) => self.reply_overdue(now, id),
            }
        }
    }

    // What the user wants.

    /// Begins a new turn of a partition at `start`; nothing from before is handed out any more.
    ///
    /// # Errors
    ///
    /// [`NotRead`] if the partition is not part of the subscription.
    pub fn seek(&mut self, at: &TopicPartition, start: Start) -> Result<(), NotRead> {
        match self.known(at)? {
            None => self.pending.entry(at.clone()).or_default().seek = Some(start),
            Some(index) if self.recalling(index, start) => {}
            Some(index) => {
                let until = if self.cursors[index].until.is_some() { None } else { self.config.until };
                self.new_turn(index, Phase::Resolving(Resolving::new(Aim::Start(start), until)));
                self.cursors[index].last_epoch = -1;
                self.settle_position(index);
                self.hasten(index);
            }
        }
        Ok(())
    }

    /// Hands out nothing more of a partition until it is resumed; what was fetched is kept while there is room.
    ///
    /// # Errors
    ///
    /// As [`seek`](Self::seek).
    pub fn pause(&mut self, at: &TopicPartition) -> Result<(), NotRead> {
        match self.known(at)? {
            None => self.pending.entry(at.clone()).or_default().paused = true,
            Some(index) => self.pause_cursor(index),
        }
        Ok(())
    }

    /// Goes on with a paused partition; also while it is given up in a group, should it come back.
    ///
    /// # Errors
    ///
    /// As [`seek`](Self::seek).
    pub fn resume(&mut self, at: &TopicPartition) -> Result<(), NotRead> {
        if let Some(index) = self.cursor_named(&at.topic, at.partition)
            && matches!(self.cursors[index].phase, Phase::Idle)
            && std::mem::take(&mut self.cursors[index].paused)
        {
            return Ok(());
        }
        let Some(index) = self.known(at)? else {
            self.pending.entry(at.clone()).or_default().paused = false;
            return Ok(());
        };
        if std::mem::replace(&mut self.cursors[index].paused, false) {
            self.cursors[index].turn.set_paused(false);
            self.recount(index);
            self.make_ready(index);
            self.hasten(index);
        }
        Ok(())
    }

    /// The next thing to hand out.
    pub fn take(&mut self, now: Instant) -> Take {
        self.reader_asks(now);
        if let Some(fault) = self.topics.iter().find_map(Topic::fault).cloned() {
            return Take::Fault(fault);
        }
        if let Some(fault) = self.group.as_ref().and_then(Group::fault) {
            return Take::Fault(fault.clone());
        }
        if let Some(unsupported) = &self.unsupported {
            return Take::Fault(unsupported.fault.clone());
        }
        if let Some(outage) = self.outage.take() {
            return Take::Fault(outage);
        }
        while let Some(index) = self.ready.pop_front() {
            self.cursors[index].in_ready = false;
            if let Some(taken) = self.take_from(index) {
                self.reader_waits = false;
                return taken;
            }
        }
        if self.all_done() {
            return Take::Ended;
        }
        if !std::mem::replace(&mut self.reader_waits, true) {
            self.nodes.values_mut().for_each(|node| node.dirty = true);
        }
        Take::Waiting
    }

    /// The reader found a batch damaged: the partition fails there. `None` if its turn is over anyway.
    pub fn reject(&mut self, part: &Part, header: &BatchHeader, reason: String) -> Option<Fault> {
        if part.turn.state() == TurnState::Over {
            return None;
        }
        let begin = match header.is_wrapper() {
            true => part.turn.handed(), // where it begins was not found out
            false => header.base_offset,
        };
        let offset = begin.max(part.from);
        let fault = Fault::Corrupt { at: self.cursors[part.cursor].at.clone(), offset, reason };
        self.stand_still(part.cursor, offset);
        self.tell(Event::Fault(fault.clone()));
        Some(fault)
    }

    /// There is room again for what could not be fetched before.
    pub fn handle_room(&mut self) {
        self.nodes.values_mut().for_each(|node| node.dirty = true);
    }

    // What to do now.

    /// The next request to send; its connection is made at need.
    pub fn poll_request(&mut self, now: Instant) -> Option<Request> {
        if self.out.is_empty() {
            self.plan(now);
        }
        self.out.pop_front()
    }

    /// The next connection to close, because its broker is gone, moved, or hangs.
    pub fn poll_hang_up(&mut self) -> Option<(Peer, Lane)> {
        self.hang_ups.pop_front()
    }

    /// The next thing to tell.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether [`take`](Self::take) would not wait.
    pub fn poll_ready(&self) -> bool {
        !self.ready.is_empty() || self.outage.is_some() || self.fails() || self.all_done()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), and what for.
    pub fn poll_deadline(&self) -> Option<(Instant, Why)> {
        self.timers.next()
    }

    // Looking.

    /// Where a broker is.
    pub fn address(&self, peer: Peer) -> Option<&crate::Address> {
        self.nodes.get(&peer).map(|node| &node.address)
    }

    /// The partitions that are read, as far as they are known; in a group those that are assigned to us.
    pub fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        let read = self.cursors.iter().filter(|cursor| !matches!(cursor.phase, Phase::Idle));
        read.map(|cursor| &cursor.at)
    }

    /// The offset of the next record to hand out; `None` while it is not known.
    ///
    /// # Errors
    ///
    /// As [`seek`](Self::seek).
    pub fn position(&self, at: &TopicPartition) -> Result<Option<i64>, NotRead> {
        Ok(match (self.known(at)?, self.pending.get(at)) {
            (Some(index), _) => self.cursors[index].turn.position(),
            (None, Some(Pending { seek: Some(Start::Offset(offset)), .. })) => Some(*offset),
            (None, _) => None,
        })
    }

    /// How many offsets lie between the position and the end of the log as of the last reply; `None` while one of
    /// them is not known.
    ///
    /// # Errors
    ///
    /// As [`seek`](Self::seek).
    pub fn lag(&self, at: &TopicPartition) -> Result<Option<u64>, NotRead> {
        let Some(index) = self.known(at)? else { return Ok(None) };
        let cursor = &self.cursors[index];
        let end = Some(cursor.high_watermark).filter(|&end| end >= 0);
        let lag = |(end, position): (i64, i64)| u64::try_from(end - position).unwrap_or(0);
        Ok(end.zip(cursor.turn.position()).map(lag))
    }

    /// The account of what is held.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Whether the reader waits and nothing is there for it.
    pub fn reader_starves(&self) -> bool {
        self.reader_waits && self.ready.is_empty()
    }

    /// What it was told to do.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

/// What the verbs and handlers have in common.
impl Machine {
    fn plan(&mut self, now: Instant) {
        self.plan_metadata(now);
        self.plan_group(now);
        let ids: Vec<i32> = self.node_ids().collect();
        for id in ids {
            let Some(node) = self.nodes.get_mut(&Peer::Node(id)) else { continue };
            if std::mem::take(&mut node.dirty) && node.is_open() {
                self.ask_offsets(now, id);
                self.ask_epochs(now, id);
                self.plan_fetch(now, id);
            }
        }
    }

    pub(crate) fn node_ids(&self) -> impl Iterator<Item = i32> {
        self.nodes.keys().filter_map(|peer| match peer {
            Peer::Node(id) => Some(*id),
            Peer::Seed(_) => None,
        })
    }

    pub(crate) fn send(&mut self, now: Instant, peer: Peer, lane: Lane, body: Body, purpose: Purpose) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let patience = self.config.request_timeout + body.broker_wait();
        let held = self.nodes.get(&peer).and_then(|node| node.throttled.get(&lane)).copied();
        let begin = held.unwrap_or(now).max(now);
        let deadline = begin + body.patience().unwrap_or(patience).min(patience);
        let alarm = match purpose {
            Purpose::Fetch(_) | Purpose::Offsets(_) | Purpose::Epochs(_) => begin + body.broker_wait() + LATE,
            Purpose::Metadata | Purpose::Group(_) => deadline, // these look elsewhere by themselves
        };
        let alarm = alarm.min(deadline);
        self.timers.add(alarm, Why::Reply(id));
        self.asked.insert(id, Pledge { peer, lane, sent: begin, deadline, alarm, purpose });
        let request = Request { id, peer, lane, body };
        match held {
            Some(_) => self.held.push(request),
            None => self.out.push_back(request),
        }
        id
    }

    /// What an answer was expected for; it is expected no more, and the request not sent if it was not yet.
    fn redeem(&mut self, id: u64) -> Option<Pledge> {
        let pledge = self.asked.remove(&id)?;
        self.timers.remove(pledge.alarm, Why::Reply(id));
        self.out.retain(|request| request.id != id);
        self.held.retain(|request| request.id != id);
        Some(pledge)
    }

    /// How many questions for offsets wait at a broker.
    pub(crate) fn asked_offsets(&self, node: i32) -> usize {
        let at_node = |pledge: &&Pledge| {
            pledge.peer == Peer::Node(node) && matches!(pledge.purpose, Purpose::Offsets(_))
        };
        self.asked.values().filter(at_node).count()
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// A question will not be answered.
    fn unanswered_purpose(&mut self, now: Instant, id: u64, peer: Peer, purpose: Purpose) {
        let cursors = match purpose {
            Purpose::Metadata => return self.lost_metadata(id),
            Purpose::Offsets(questions) => questions.into_iter().map(|(index, _)| index).collect(),
            Purpose::Epochs(asked) => asked,
            Purpose::Group(question) => return self.lost_group(now, id, question),
            Purpose::Fetch(plan) => {
                if let Peer::Node(node) = peer {
                    self.free_fetch_lane(node, plan.lane, id);
                    self.ask_for_less(node, &plan);
                }
                plan.into_cursors()
            }
        };
        for index in cursors {
            if self.settle(index, id) {
                self.touch(index); // the broker's own pause is pause enough
            }
        }
    }
}
