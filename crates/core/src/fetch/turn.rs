//! The fence between what is ours to hand out and what is not any more.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

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

impl Turn {
    pub(crate) fn new(paused: bool) -> Self {
        Self { state: AtomicU8::new(if paused { PAUSED } else { LIVE }), position: AtomicI64::new(-1) }
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
        Some(self.position.load(Ordering::Relaxed)).filter(|&p| p >= 0)
    }

    /// Everything before this offset has been handed out.
    #[inline]
    pub fn advance(&self, position: i64) {
        self.position.store(position, Ordering::Relaxed);
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.state.store(if paused { PAUSED } else { LIVE }, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.state.store(OVER, Ordering::Release);
    }
}
