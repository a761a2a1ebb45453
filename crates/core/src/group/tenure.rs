//! The fence around a partition's offset: who may still acknowledge, and how far everything is done.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use crate::partition::TopicPartition;

/// One period of owning a partition, by one assignment.
///
/// It begins when the partition is assigned and ends when it has been given up: when its revoke completes, not when it
/// begins. In between it may be acknowledged. In classic groups the broker checks member and generation of a commit, never
/// who owns the partition, so this fence is ours.
///
/// What is acknowledged in order costs one atomic exchange and visits nobody; the machine looks when it commits.
///
/// ```text
///   done           apart           apart
///   [0 ... front) . . [12 ... 15) . [17, 18)        front is what may be committed
/// ```
#[derive(Debug)]
pub struct Tenure {
    at: TopicPartition,
    /// The offset before which everything is done, with the two marks below.
    front: AtomicU64,
    /// What is done beyond it, begin to end; never touching.
    apart: Mutex<BTreeMap<i64, i64>>,
    /// How many those are.
    islands: AtomicUsize,
    session: Arc<Session>,
}

/// Until when the coordinator takes us for alive, whatever becomes of our heartbeats.
#[derive(Debug)]
pub(crate) struct Session {
    began: Instant,
    /// In ns since then.
    until: AtomicU64,
}

impl Session {
    /// A session without an end.
    pub(crate) fn new(began: Instant) -> Arc<Self> {
        Arc::new(Self { began, until: AtomicU64::new(u64::MAX) })
    }

    pub(crate) fn extend(&self, until: Instant) {
        let until = until.saturating_duration_since(self.began).as_nanos();
        self.until.store(u64::try_from(until).unwrap_or(u64::MAX), SeqCst);
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= Duration::from_nanos(self.until.load(SeqCst))
    }
}

/// The tenure has ended. Part of the same word as the offset, so that nothing is acknowledged after the last look at it.
const ENDED: u64 = 1 << 63;

/// Where the partition begins is not known yet.
const UNKNOWN: u64 = 1 << 62;

/// Who leaves more messages behind without acknowledging them has forgotten them.
const ISLANDS_MAX: usize = 1 << 20;

/// Why something could not be acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AckError {
    /// The partition was given up since; what is not committed is read again by whoever owns it now.
    #[error(
        "{0} was given up since this was handed out (a rebalance, the end of the session, or a topic made anew): what is \
         not committed is handed out again, to whoever owns it now"
    )]
    Ended(TopicPartition),
    /// Messages were left behind, each of which holds up what may be committed.
    #[error(
        "{0}: {ISLANDS_MAX} messages were passed over without being acknowledged; acknowledge each of them, or all \
         before one at once"
    )]
    LeftBehind(TopicPartition),
}

impl Tenure {
    pub(crate) fn new(at: TopicPartition, session: Arc<Session>) -> Self {
        let front = AtomicU64::new(UNKNOWN);
        Self { at, front, apart: Mutex::default(), islands: AtomicUsize::new(0), session }
    }

    /// Which partition.
    pub fn at(&self) -> &TopicPartition {
        &self.at
    }

    pub(crate) fn session(&self) -> Arc<Session> {
        self.session.clone()
    }

    /// Whether it may still be acknowledged.
    pub fn is_open(&self) -> bool {
        self.front.load(SeqCst) & ENDED == 0
    }

    /// Whether the session that it is part of has ended: then others read the partition, and nothing more of it may be
    /// handed out, be it that nobody has told yet. Who wakes from a long sleep is the first to know.
    pub fn is_outlived(&self, now: Instant) -> bool {
        self.session.is_over(now)
    }

    /// What was handed out of `from` up to and without `to` is done.
    ///
    /// # Errors
    ///
    /// The tenure has ended, or too much was left behind.
    #[inline]
    pub fn ack(&self, from: i64, to: i64) -> Result<(), AckError> {
        if self.front.compare_exchange(from as u64, to as u64, SeqCst, SeqCst).is_err() {
            return self.ack_apart(from, to);
        }
        if self.islands.load(SeqCst) > 0 {
            self.join(&mut self.apart());
        }
        Ok(())
    }

    /// Everything before `to` is done.
    ///
    /// # Errors
    ///
    /// The tenure has ended.
    pub fn ack_through(&self, to: i64) -> Result<(), AckError> {
        self.advance(&mut self.apart(), i64::MIN, to).map(|_| ())
    }

    /// The offset before which everything is done; `None` while it is not known where the partition begins.
    pub fn front(&self) -> Option<i64> {
        offset(self.front.load(SeqCst))
    }

    /// Ends it: what is acknowledged from now on is refused.
    pub(crate) fn end(&self) {
        self.front.fetch_or(ENDED, SeqCst);
    }

    /// Begins to count anew at `start`, because the user said so, or because nothing was handed out yet.
    pub(crate) fn restart(&self, start: i64) {
        let mut apart = self.apart();
        apart.clear();
        self.islands.store(0, SeqCst);
        let _ = self.front.fetch_update(SeqCst, SeqCst, |front| Some((front & ENDED) | start as u64));
    }

    /// What lies at `end` and beyond is no more: other records will take its place.
    pub(crate) fn cut(&self, end: i64) {
        let mut apart = self.apart();
        apart.split_off(&end);
        if let Some(mut last) = apart.last_entry() {
            let cut = end.min(*last.get());
            last.insert(cut);
        }
        self.islands.store(apart.len(), SeqCst);
        let _ = self.front.fetch_update(SeqCst, SeqCst, |front| {
            offset(front).filter(|&offset| offset > end).map(|_| (front & ENDED) | end as u64)
        });
    }

    #[cold]
    fn ack_apart(&self, from: i64, to: i64) -> Result<(), AckError> {
        let mut apart = self.apart();
        if self.advance(&mut apart, from, to)? {
            return Ok(());
        }
        if apart.len() >= ISLANDS_MAX {
            return Err(AckError::LeftBehind(self.at.clone()));
        }
        insert(&mut apart, from, to);
        self.islands.store(apart.len(), SeqCst);
        // The front may have come here meanwhile, without having seen this one.
        self.join(&mut apart);
        Ok(())
    }

    /// Moves the front to `to` if it stands at `from` or beyond; false if it does not.
    fn advance(&self, apart: &mut BTreeMap<i64, i64>, from: i64, to: i64) -> Result<bool, AckError> {
        loop {
            let word = self.front.load(SeqCst);
            if word & ENDED != 0 {
                return Err(AckError::Ended(self.at.clone()));
            }
            let Some(front) = offset(word).filter(|&front| front >= from) else { return Ok(false) };
            if to <= front {
                return Ok(true);
            }
            if self.front.compare_exchange(word, to as u64, SeqCst, SeqCst).is_ok() {
                self.join(apart);
                return Ok(true);
            }
        }
    }

    /// Moves the front over all that it has reached.
    fn join(&self, apart: &mut BTreeMap<i64, i64>) {
        loop {
            let word = self.front.load(SeqCst);
            let Some(front) = offset(word).filter(|_| word & ENDED == 0) else { break };
            let Some((_, end)) = apart.first_key_value().filter(|(begin, _)| **begin <= front) else { break };
            let to = (*end).max(front);
            if self.front.compare_exchange(word, to as u64, SeqCst, SeqCst).is_ok() {
                apart.pop_first();
            }
        }
        self.islands.store(apart.len(), SeqCst);
    }

    fn apart(&self) -> MutexGuard<'_, BTreeMap<i64, i64>> {
        self.apart.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn offset(word: u64) -> Option<i64> {
    (word & UNKNOWN == 0).then_some((word & !ENDED) as i64)
}

/// Enters `from` to `to`, together with all that it touches.
fn insert(apart: &mut BTreeMap<i64, i64>, mut from: i64, mut to: i64) {
    if let Some((&begin, &end)) = apart.range(..=from).next_back()
        && end >= from
    {
        (from, to) = (begin, to.max(end));
    }
    while let Some((&begin, &end)) = apart.range(from..=to).next() {
        apart.remove(&begin);
        to = to.max(end);
    }
    apart.insert(from, to);
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test has a clock")]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn tenure(start: i64) -> Tenure {
        let tenure = Tenure::new(TopicPartition::new("t", 0), Session::new(Instant::now()));
        tenure.restart(start);
        tenure
    }

    #[test]
    fn the_front_never_passes_what_is_not_acknowledged() {
        let tenure = tenure(10);
        for (from, to, front) in [
            (12, 13, 10),
            (14, 15, 10),
            (10, 11, 11),
            (13, 14, 11), // closes the gap between two islands
            (11, 12, 15),
            (11, 12, 15), // again
            (15, 20, 20), // a gap that the log has came with the message
        ] {
            tenure.ack(from, to).expect("it is open");
            assert_eq!(tenure.front(), Some(front), "after {from} to {to}");
        }
        tenure.ack(30, 31).expect("it is open");
        tenure.ack_through(25).expect("it is open");
        assert_eq!(tenure.front(), Some(25));
        tenure.ack_through(30).expect("it is open");
        assert_eq!(tenure.front(), Some(31), "what was done apart is joined");
        assert_eq!(tenure.islands.load(SeqCst), 0);
    }

    #[test]
    fn nothing_is_acknowledged_after_its_end() {
        let tenure = tenure(0);
        tenure.ack(0, 1).expect("it is open");
        tenure.ack(5, 6).expect("it is open");
        tenure.end();
        let ended = Err(AckError::Ended(tenure.at().clone()));
        assert_eq!(tenure.ack(1, 2), ended);
        assert_eq!(tenure.ack(7, 8), ended);
        assert_eq!(tenure.ack_through(9), ended);
        assert_eq!(tenure.front(), Some(1));
    }

    #[test]
    fn a_cut_log_takes_what_was_done_beyond_with_it() {
        let tenure = tenure(0);
        tenure.ack(0, 4).expect("it is open");
        tenure.ack(6, 9).expect("it is open");
        tenure.ack(12, 13).expect("it is open");
        tenure.cut(7);
        tenure.ack(4, 6).expect("it is open");
        assert_eq!(tenure.front(), Some(7));
        tenure.cut(3);
        assert_eq!(tenure.front(), Some(3));
    }

    #[test]
    fn many_threads_leave_no_gap() {
        let tenure = Arc::new(tenure(0));
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let tenure = tenure.clone();
                std::thread::spawn(move || {
                    for offset in (thread..40_000).step_by(4) {
                        tenure.ack(offset, offset + 1).expect("it is open");
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(tenure.front(), Some(40_000));
        assert_eq!(tenure.islands.load(SeqCst), 0);
    }
}
