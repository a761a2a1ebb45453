//! The fence around a partition's offset: who may still acknowledge, and how far everything is done.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
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
    /// The log was cut there: what lies before it counts in the one that took this one's place, the rest is no more.
    heir: OnceLock<(i64, Arc<Self>)>,
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
        "{0} was given up since this was handed out (a rebalance, the end of the session, a topic made anew, or a log that \
         was cut before this record): what is not committed is handed out again, to whoever owns it now"
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
        Self::standing(at, session, UNKNOWN, BTreeMap::new())
    }

    fn standing(at: TopicPartition, session: Arc<Session>, front: u64, apart: BTreeMap<i64, i64>) -> Self {
        let islands = AtomicUsize::new(apart.len());
        Self {
            at,
            front: AtomicU64::new(front),
            apart: Mutex::new(apart),
            islands,
            session,
            heir: OnceLock::new(),
        }
    }

    /// Which partition.
    pub fn at(&self) -> &TopicPartition {
        &self.at
    }

    /// Whether it is of the reader that has this session.
    pub(crate) fn is_of(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }

    pub(crate) fn session(&self) -> Arc<Session> {
        self.session.clone()
    }

    /// Whether all that was handed out in it may still be acknowledged.
    pub fn is_open(&self) -> bool {
        self.front.load(SeqCst) & ENDED == 0
    }

    /// Whether the record at `offset`, which was handed out in it, may still be acknowledged.
    pub fn takes(&self, offset: i64) -> bool {
        self.heir.get().map_or_else(|| self.is_open(), |(end, heir)| offset < *end && heir.takes(offset))
    }

    /// Whether the record at `offset`, which was handed out in it, counts in `current`.
    pub(crate) fn counts_in(&self, current: &Self, offset: i64) -> bool {
        match self.heir.get() {
            None => std::ptr::eq(self, current) && self.is_open(),
            Some((end, heir)) => offset < *end && heir.counts_in(current, offset),
        }
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
        let result = self.advance(&mut self.apart(), i64::MIN, to);
        match self.heir.get() {
            Some((end, heir)) if result.is_err() && to <= *end => heir.ack_through(to),
            _ => result.map(|_| ()),
        }
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

    /// The log was cut at `end`: other records take the place of those beyond, and only what lies before can still be
    /// acknowledged by whoever holds it. Gives the tenure of what is handed out from now on.
    pub(crate) fn succeed(&self, end: i64) -> Arc<Self> {
        // Whoever finds it ended waits for this lock, and finds the heir after.
        let mut apart = self.apart();
        let front = self.front.fetch_or(ENDED, SeqCst);
        let islands = std::mem::take(&mut *apart);
        let heir = Arc::new(Self::standing(self.at.clone(), self.session.clone(), front, islands));
        heir.cut(end);
        let (_, heir) = self.heir.get_or_init(|| (end, heir));
        heir.clone()
    }

    #[cold]
    fn ack_apart(&self, from: i64, to: i64) -> Result<(), AckError> {
        let mut apart = self.apart();
        match self.advance(&mut apart, from, to) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(ended) => {
                let Some((end, heir)) = self.heir.get() else { return Err(ended) };
                if from < *end {
                    heir.ack(from, to.min(*end))?; // the gap before it, if it is no more itself
                }
                return if to > *end { Err(ended) } else { Ok(()) };
            }
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
    fn what_a_cut_took_with_it_counts_for_nothing() {
        let old = tenure(0);
        old.ack(0, 2).expect("it is open");
        old.ack(4, 5).expect("it is open");
        old.ack(8, 9).expect("it is open");
        let new = old.succeed(7);
        let ended = Err(AckError::Ended(old.at().clone()));
        assert_eq!(old.ack(7, 8), ended);
        assert_eq!((old.ack_through(8), new.front()), (ended.clone(), Some(2)));
        assert_eq!((old.ack_through(7), new.front()), (Ok(()), Some(7)));
        assert_eq!((old.takes(6), old.takes(7), new.takes(7)), (true, false, true));
        assert!(old.counts_in(&new, 6) && !old.counts_in(&new, 7) && !old.counts_in(&old, 6));
        assert_eq!(new.ack(7, 8), Ok(()));
        let newest = new.succeed(3);
        assert_eq!(newest.front(), Some(3));
        assert_eq!((old.ack(5, 6), new.ack(7, 8)), (ended.clone(), ended.clone()));
        assert_eq!((old.ack(2, 3), old.takes(2)), (Ok(()), true));
        newest.end();
        assert_eq!((old.ack(2, 3), old.takes(2)), (ended, false));
    }

    #[test]
    fn what_is_left_before_a_cut_is_done_by_whoever_holds_it() {
        let old = tenure(0);
        old.ack(3, 4).expect("it is open");
        let new = old.succeed(5);
        old.ack(0, 1).expect("it was not cut");
        old.ack(1, 3).expect("it was not cut");
        assert_eq!(new.front(), Some(4));
        assert!(old.ack(4, 6).is_err(), "a record at 5, after a gap");
        assert_eq!(new.front(), Some(5), "the gap is none of the record's");
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
