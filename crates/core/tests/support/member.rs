//! What a caller who reads as a member of a group does with what it is handed: acknowledges at once, late, in disorder,
//! not at all; waits for commits; takes its time in hooks.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use ottla_core::{CommitError, Rebalance, Settled, Tenure, Ticket, TopicPartition};

use super::reader::Read;

/// How the caller acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// Each record when it is handed out.
    AtOnce,
    /// Each record so long after.
    Late(Duration),
    /// In any order, some record each time.
    Disorder(Duration),
    /// All but each nth, which is forgotten.
    Sparse(u64),
    /// All before the latest, now and then.
    Through(Duration),
    /// Commits each record and waits for that before the next.
    Wait,
    /// Nothing.
    Never,
}

/// A record, or several, that the caller has and has not acknowledged: offsets `from` up to and without `to`.
#[derive(Debug, Clone)]
pub struct Piece {
    pub at: TopicPartition,
    pub tenure: Arc<Tenure>,
    /// Of the record itself.
    pub offset: i64,
    pub from: i64,
    pub to: i64,
}

/// Something that was asked for and is answered by a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A commit of all before `to`.
    Through(TopicPartition, i64),
    /// Anything else.
    Other,
}

/// A caller of a member.
#[derive(Debug)]
pub struct Caller {
    pub acks: Acks,
    /// How long the hooks take; `None`: for ever.
    pub hooks_take: Option<Duration>,
    /// What the hooks were told.
    pub rebalances: Vec<(Instant, Rebalance)>,
    /// What was asked for and is not answered.
    pub open: Vec<(Ticket, Wanted)>,
    pub settled: Vec<(Instant, Ticket, Settled)>,
    /// The user has asked for the end.
    pub closing: bool,
    pub closed: Option<(Instant, Result<(), CommitError>)>,
    pub held: VecDeque<Piece>,
    /// Those of [`Acks::Sparse`].
    pub forgotten: Vec<Piece>,
    /// Pieces that were refused because their tenure had ended.
    pub refused: u64,
    pub acked: u64,
    /// The commit that must be answered before the next record is asked for.
    pub waits_for: Option<Ticket>,
    /// The next time that something is acknowledged is arranged.
    pub arranged: bool,
}

impl Caller {
    pub fn new() -> Self {
        Self {
            acks: Acks::AtOnce,
            hooks_take: Some(Duration::ZERO),
            rebalances: Vec::new(),
            open: Vec::new(),
            settled: Vec::new(),
            closing: false,
            closed: None,
            held: VecDeque::new(),
            forgotten: Vec::new(),
            refused: 0,
            acked: 0,
            waits_for: None,
            arranged: false,
        }
    }

    /// How long after a record was handed out something is acknowledged; `None`: at once, or never.
    pub fn patience(&self) -> Option<Duration> {
        match self.acks {
            Acks::Late(pause) | Acks::Disorder(pause) | Acks::Through(pause) => Some(pause),
            Acks::AtOnce | Acks::Sparse(_) | Acks::Wait | Acks::Never => None,
        }
    }

    /// The pieces that are acknowledged now.
    pub fn due(&mut self, rng: &mut fastrand::Rng) -> Vec<Piece> {
        match self.acks {
            Acks::AtOnce | Acks::Late(_) | Acks::Wait => self.held.drain(..).collect(),
            Acks::Sparse(nth) => {
                let (due, forgotten) = self.held.drain(..).partition(|_| rng.u64(0..nth) > 0);
                self.forgotten.extend::<Vec<_>>(forgotten);
                due
            }
            Acks::Disorder(_) => {
                let many = self.held.len() / 2 + 1;
                let mut some = Vec::new();
                for _ in 0..many {
                    let place = rng.usize(0..self.held.len().max(1));
                    some.extend(self.held.swap_remove_back(place));
                }
                some
            }
            Acks::Through(_) => self.held.drain(..).collect(),
            Acks::Never => Vec::new(),
        }
    }

    /// Remembers what was forgotten.
    pub fn recollect(&mut self) {
        self.held.extend(self.forgotten.drain(..));
    }

    /// What came of a commit or a question.
    pub fn answer(&self, ticket: Ticket) -> Option<&Settled> {
        self.settled.iter().find(|(_, settled, _)| *settled == ticket).map(|(_, _, answer)| answer)
    }
}

impl Read {
    /// What acknowledging it covers; `None` without a group.
    pub fn piece(&self) -> Option<Piece> {
        let tenure = self.turn.tenure()?.clone();
        Some(Piece { at: self.at.clone(), tenure, offset: self.offset, from: self.from, to: self.to })
    }
}
