//! One partition: where we stand in it, what is under way, what waits for the reader.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use super::{
    queue::Entry,
    resolve::{Aim, Resolving},
    turn::Turn,
};
use crate::{
    backoff::Backoff,
    cluster::Lane,
    config::{Start, Until},
    group::Stake,
    partition::TopicPartition,
};

/// What a partition is doing.
///
/// ```text
///   Idle <--assigned, revoked--> Recalling      (in a group: not ours; its committed offset is asked for)
///                                    |
///      .-----------------------------'
///      v                   epoch changed
///   Resolving --found--> Reading <-------> Validating      (KIP-320; found while the leader changed: at once here)
///      ^  ^                 |    validated, or moved back by a truncation
///      |  '--out of range---'
///      |                    |
///      '----seek---- Failed <'--fault (told once, after what was fetched before it)
/// ```
#[derive(Debug)]
pub(crate) enum Phase {
    /// It is not ours to read.
    Idle,
    /// Its committed offset is asked for.
    Recalling,
    /// The position is asked for.
    Resolving(Resolving),
    /// The position is known, and records are fetched from there.
    Reading,
    /// The leader changed: does its log agree with what we have read?
    Validating,
    /// It stands still until a seek.
    Failed,
}

/// What is under way for a partition; a partition is live on one lane only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) request: u64,
    pub(crate) lane: Lane,
}

/// One partition.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) at: TopicPartition,
    /// The topic's place in the machine.
    pub(crate) topic: usize,
    pub(crate) turn: Arc<Turn>,
    pub(crate) phase: Phase,
    pub(crate) leader: Option<i32>,
    pub(crate) leader_epoch: i32,
    /// The next offset to fetch.
    pub(crate) next: i64,
    /// The leader epoch of the last batch we took; -1 while there is none.
    pub(crate) last_epoch: i32,
    pub(crate) until: Option<i64>,
    pub(crate) high_watermark: i64,
    pub(crate) log_start: i64,
    pub(crate) live: Option<Live>,
    pub(crate) paused: bool,
    pub(crate) queue: VecDeque<Entry>,
    pub(crate) queued_bytes: usize,
    /// Whether it stands in the machine's list of partitions with something to hand out.
    pub(crate) in_ready: bool,
    pub(crate) backoff: Backoff,
    pub(crate) retry_at: Option<Instant>,
    /// The topic was made anew with fewer partitions, and this one is not among them.
    pub(crate) gone: bool,
    /// That it has no leader was told.
    pub(crate) told_leaderless: bool,
    /// The last leader that it had.
    last_leader: Option<i32>,
    /// Where to begin if nothing is committed.
    pub(crate) start: Start,
    /// In a group, while it is ours.
    pub(crate) stake: Option<Stake>,
    /// Where we were when it was ours the last time.
    pub(crate) remembered: Option<i64>,
}

impl Cursor {
    pub(crate) fn new(at: TopicPartition, topic: usize, aim: Aim, until: Option<Until>) -> Self {
        Self {
            at,
            topic,
            turn: Arc::new(Turn::new(false, None)),
            phase: Phase::Resolving(Resolving::new(aim, until)),
            leader: None,
            leader_epoch: -1,
            next: -1,
            last_epoch: -1,
            until: None,
            high_watermark: -1,
            log_start: -1,
            live: None,
            paused: false,
            queue: VecDeque::new(),
            queued_bytes: 0,
            in_ready: false,
            backoff: Backoff::default(),
            retry_at: None,
            gone: false,
            told_leaderless: false,
            last_leader: None,
            start: Start::default(),
            stake: None,
            remembered: None,
        }
    }

    /// A partition of a group's topic, which is not ours yet.
    pub(crate) fn idle(at: TopicPartition, topic: usize, start: Start) -> Self {
        let mut cursor = Self::new(at, topic, Aim::Start(start), None);
        (cursor.phase, cursor.start) = (Phase::Idle, start);
        cursor
    }

    /// Takes in who leads it; whether that is worth a word.
    pub(crate) fn led_by(&mut self, leader: i32) -> bool {
        let before = self.last_leader.replace(leader);
        std::mem::take(&mut self.told_leaderless) || before.is_some_and(|before| before != leader)
    }

    /// Whether records may be asked for now, room apart.
    pub(crate) fn is_fetchable(&self) -> bool {
        matches!(self.phase, Phase::Reading)
            && !self.paused
            && self.live.is_none()
            && self.retry_at.is_none()
            && self.until.is_none_or(|until| self.next < until)
    }

    /// Whether its leader has something to do for us.
    pub(crate) fn wants_leader(&self) -> bool {
        !self.paused && !matches!(self.phase, Phase::Failed) && !self.is_done()
    }

    /// Whether its next question may be asked now.
    pub(crate) fn may_ask(&self) -> bool {
        self.live.is_none() && self.retry_at.is_none()
    }

    /// Whether everything up to the end that was asked for has been handed out, or nothing more will be.
    pub(crate) fn is_done(&self) -> bool {
        match self.phase {
            _ if self.gone => self.queue.is_empty(),
            Phase::Failed => self.queue.is_empty(),
            Phase::Reading => {
                let reached = |until| self.turn.position().is_some_and(|position| position >= until);
                self.until.is_some_and(reached)
            }
            Phase::Idle => true,
            Phase::Resolving(_) | Phase::Validating | Phase::Recalling => false,
        }
    }

    /// Begins a new turn: what is queued or under way belongs to the old one.
    pub(crate) fn begin_turn(&mut self, phase: Phase) {
        self.turn.end();
        let tenure = self.stake.as_ref().map(|stake| stake.tenure.clone());
        self.turn = Arc::new(Turn::new(self.paused, tenure));
        self.phase = phase;
        self.next = -1;
        self.live = None;
        self.retry_at = None;
        self.backoff.reset();
        self.queue.clear();
        self.queued_bytes = 0;
    }

    /// Only a leader of a new epoch can have a log that parts from what we read (KIP-320). What the one before says now
    /// may tell of a log that is no longer: records and validations are asked for again, positions are validated.
    pub(crate) fn enter_epoch(&mut self) {
        match &mut self.phase {
            Phase::Resolving(resolving) => return resolving.unsure = true,
            Phase::Reading if self.last_epoch >= 0 => self.phase = Phase::Validating,
            Phase::Idle | Phase::Recalling | Phase::Reading | Phase::Validating | Phase::Failed => {}
        }
        self.live = None;
    }

    /// The position was found in a log of this epoch.
    pub(crate) fn found(&mut self, epoch: i32, unsure: bool) {
        self.last_epoch = epoch;
        if unsure && epoch >= 0 {
            self.phase = Phase::Validating;
        }
    }

    /// The position was found: what is fetched next begins there, and a turn that has not begun yet, too.
    pub(crate) fn stand(&mut self, start: i64, until: Option<i64>) {
        self.next = start;
        self.until = until.or(self.until); // an end once found stays
        self.phase = Phase::Reading;
        if self.turn.position().is_none() {
            self.turn.begin(start, start);
        }
    }
}
