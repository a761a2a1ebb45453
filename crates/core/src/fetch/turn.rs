//! The fence between what is ours to hand out and what is not any more.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU8, Ordering},
};

use crate::group::tenure::Tenure;

/// A period in which the offsets of a partition come strictly increasing.
///
/// It begins when the partition is assigned and anew with each seek, backward reset or truncation. The machine
/// ends it under its lock; whoever walks a batch looks at it before each record, so that the walk ends with it.
///
/// ```text
///   Live <--pause / resume--> Paused
///     \---------over---------/---------> Over
/// ```
#[derive(Debug)]
pub struct Turn {
    state: AtomicU8,
    /// The offset of the next record to hand out; -1 while it is not known.
    position: AtomicI64,
    /// The offset after the last record that was handed out, or where handing out began.
    handed: AtomicI64,
    /// The tenure that it is part of, in a group.
    tenure: Option<Arc<Tenure>>,
}

/// What a walker may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnState {
    /// Hand out.
    Live,
    /// Keep what is left, hand out nothing.
    Paused,
    /// Drop what is left.
    Over,
}

const LIVE: u8 = 0;
const PAUSED: u8 = 1;
const OVER: u8 = 2;
/// Over, because the user came back to something that was handed out in it.
const WITHDRAWN: u8 = 3;

impl Turn {
    pub(crate) fn new(paused: bool, tenure: Option<Arc<Tenure>>) -> Self {
        Self {
            state: AtomicU8::new(if paused { PAUSED } else { LIVE }),
            position: AtomicI64::new(-1),
            handed: AtomicI64::new(-1),
            tenure,
        }
    }

    /// The tenure that it is part of; `None` without a group.
    pub fn tenure(&self) -> Option<&Arc<Tenure>> {
        self.tenure.as_ref()
    }

    /// Whether records of it may be handed out now.
    #[inline]
    pub fn is_live(&self) -> bool {
        self.state.load(Ordering::Acquire) == LIVE
    }

    /// What a walker may do.
    pub fn state(&self) -> TurnState {
        match self.state.load(Ordering::Acquire) {
            LIVE => TurnState::Live,
            PAUSED => TurnState::Paused,
            _ => TurnState::Over,
        }
    }

    /// The offset of the next record to hand out, once it is known.
    pub fn position(&self) -> Option<i64> {
        let position = self.reached().max(self.handed());
        Some(position).filter(|&position| position >= 0)
    }

    /// Everything before this offset has been handed out, or is not there to be.
    #[inline]
    pub fn advance(&self, position: i64) {
        self.position.store(position, Ordering::Release);
    }

    /// How far batches and parts were walked through: whoever sees that also sees what was handed out on the way there.
    pub(crate) fn reached(&self) -> i64 {
        self.position.load(Ordering::Acquire)
    }

    /// The offset after the last record that was handed out: what lies between there and the next one is not in the log.
    #[inline]
    pub fn handed(&self) -> i64 {
        self.handed.load(Ordering::Relaxed)
    }

    /// The record before this offset has been handed out.
    #[inline]
    pub fn hand_out(&self, end: i64) {
        self.handed.store(end, Ordering::Relaxed);
    }

    /// Begins at `start`; what lies between `handed` and there is not in the log.
    pub(crate) fn begin(&self, start: i64, handed: i64) {
        self.position.store(start, Ordering::Relaxed);
        self.handed.store(handed, Ordering::Relaxed);
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.state.store(if paused { PAUSED } else { LIVE }, Ordering::Release);
    }

    /// Whether the user ended it by coming back to something: what was handed out last does not count as done by itself.
    pub fn is_withdrawn(&self) -> bool {
        self.state.load(Ordering::Acquire) == WITHDRAWN
    }

    pub(crate) fn withdraw(&self) {
        self.state.store(WITHDRAWN, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.state.fetch_max(OVER, Ordering::AcqRel);
    }
}
