//! A reader that does not ask any more holds partitions that others could read (Java's `max.poll.interval.ms`).

use std::time::{Duration, Instant};

use super::{Phase, part_of};
use crate::{event::Event, machine::Machine};

/// Whether the reader still asks.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Grows with each question.
    asked: u64,
    /// What was seen the last time, and since when it has not changed.
    seen: Option<(Sign, Instant)>,
    /// When to look again.
    due: Option<Instant>,
    /// It was silent for too long: we stay out until it asks.
    pub(super) too_long: bool,
}

/// A sign of life: it asked, or walked on in what it was given.
type Sign = (u64, i64);

impl Machine {
    /// The reader has asked.
    pub(crate) fn reader_asks(&mut self, now: Instant) {
        // Who wakes from a long sleep may ask before any deadline is looked at.
        self.session_may_end(now);
        let Some(group) = &mut self.group else { return };
        group.silence.asked += 1;
        if std::mem::take(&mut group.silence.too_long) {
            group.reason = "the reader asks again".to_owned();
            self.wake_group(now);
        }
    }

    pub(super) fn watch_reader(&mut self, now: Instant) {
        let sign = self.sign();
        let Some(group) = &mut self.group else { return };
        if let Some(interval) = group.config.max_poll_interval {
            group.silence.seen = Some((sign, now));
            self.look_again(now, interval);
        }
    }

    fn look_again(&mut self, now: Instant, interval: Duration) {
        let due = now + part_of(interval, 1, 4);
        if let Some(group) = &mut self.group {
            group.silence.due = Some(due);
        }
        self.wake_group(due);
    }

    pub(super) fn reader_may_be_silent(&mut self, now: Instant) {
        let Some(group) = &mut self.group else { return };
        let (Some(interval), Phase::Stable) = (group.config.max_poll_interval, &group.phase) else { return };
        // The group is woken for other reasons, too.
        let is_due = group.silence.due.take_if(|due| *due <= now).is_some();
        let Some((seen, since)) = group.silence.seen.filter(|_| is_due) else { return };
        let (sign, waits) = (self.sign(), self.reader_starves());
        let Some(group) = &mut self.group else { return };
        if waits || seen != sign {
            group.silence.seen = Some((sign, now));
        } else if now >= since + interval {
            return self.stay_out(now);
        }
        self.look_again(now, interval);
    }

    /// Gives all up until the reader asks again.
    fn stay_out(&mut self, now: Instant) {
        let Some(group) = &mut self.group else { return };
        group.silence.too_long = true;
        group.silence.seen = None;
        let (name, interval) = (group.config.id.clone(), group.config.max_poll_interval.unwrap_or_default());
        self.tell(Event::ReaderSilent { group: name, interval });
        self.begin_revoke(now, &format!("the reader did not ask for {interval:?}"));
    }

    /// Out of the group without being missed: others get our partitions at once.
    pub(super) fn leave_silently(&mut self, now: Instant) {
        let Some(group) = &self.group else { return };
        if group.member.is_empty() || group.is_static() {
            return; // a static one is missed when its session ends
        }
        if self.send_leave(now, "the reader does not ask any more").is_some()
            && let Some(group) = &mut self.group
        {
            group.member.clear();
            group.generation = -1;
        }
    }

    fn sign(&self) -> Sign {
        let Some(group) = &self.group else { return (0, 0) };
        let position = |&index: &usize| self.cursors[index].turn.position().unwrap_or(0);
        (group.silence.asked, group.owned.iter().map(position).fold(0, i64::wrapping_add))
    }
}
