//! Partitions by name and place; their turns and faults.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Machine, NotRead};
use crate::{
    cluster::{Peer, topic::Topic},
    event::Event,
    fault::Fault,
    fetch::{cursor::Phase, queue::Entry, turn::Turn},
    partition::TopicPartition,
    timer::Why,
};

impl Machine {
    /// The partition's place; `None` if it is wanted but not known yet.
    pub(super) fn known(&self, at: &TopicPartition) -> Result<Option<usize>, NotRead> {
        let is_wanted = |t: &&Topic| t.name == at.topic && t.wants(at.partition) && at.partition >= 0;
        let wanted = self.topics.iter().find(is_wanted).filter(|topic| topic.subscribed);
        let known = wanted.map(|topic| topic.cursor(at.partition)).ok_or_else(|| NotRead(at.clone()))?;
        match known {
            // In a group only what is ours can be sought, and only until it is given up.
            Some(index) if matches!(self.cursors[index].phase, Phase::Idle) => Err(NotRead(at.clone())),
            None if self.group.is_some() => Err(NotRead(at.clone())),
            known => Ok(known),
        }
    }

    pub(crate) fn cursor_named(&self, topic: &str, partition: i32) -> Option<usize> {
        self.topics.iter().find(|t| *t.name == *topic)?.cursor(partition)
    }

    /// Ends the wait of a partition for request `id`; false if it waits for another one, or none.
    pub(crate) fn settle(&mut self, index: usize, id: u64) -> bool {
        let cursor = &mut self.cursors[index];
        let waits = cursor.live.is_some_and(|live| live.request == id);
        if waits {
            cursor.live = None;
        }
        waits
    }

    /// Something about the partition changed that may allow a request.
    pub(crate) fn touch(&mut self, index: usize) {
        if let Some(node) = self.cursors[index].leader.and_then(|id| self.nodes.get_mut(&Peer::Node(id))) {
            node.dirty = true;
        }
    }

    /// The user waits for the partition: the express lane begins anew with no wait.
    pub(crate) fn hasten(&mut self, index: usize) {
        self.touch(index);
        if let Some(node) = self.cursors[index].leader.and_then(|id| self.nodes.get_mut(&Peer::Node(id))) {
            node.express_wait = Duration::ZERO;
        }
    }

    /// Asks for the partition again after a pause.
    pub(crate) fn retry_cursor(&mut self, now: Instant, index: usize) {
        let (min, max) = (self.config.backoff_min, self.config.backoff_max);
        let cursor = &mut self.cursors[index];
        let at = now + cursor.backoff.fail(min, max, &mut self.rng);
        cursor.retry_at = Some(at);
        self.timers.add(at, Why::Partition(index));
    }

    pub(super) fn cursor_may_ask(&mut self, now: Instant, index: usize) {
        let cursor = &mut self.cursors[index];
        if cursor.retry_at.is_some_and(|at| at <= now) {
            cursor.retry_at = None;
            self.touch(index);
        }
    }

    /// Begins a new turn; returns the old one.
    pub(crate) fn new_turn(&mut self, index: usize, phase: Phase) -> Arc<Turn> {
        self.uncount(index);
        let cursor = &mut self.cursors[index];
        let old = cursor.turn.clone();
        if let Some(stake) = &mut cursor.stake {
            stake.end_turn(old.handed());
        }
        cursor.begin_turn(phase);
        self.unready(index);
        old
    }

    /// The partition stands still at `offset` until a seek.
    pub(super) fn stand_still(&mut self, index: usize, offset: i64) {
        self.new_turn(index, Phase::Failed);
        self.cursors[index].turn.advance(offset);
    }

    /// The partition fails once what was fetched before is handed out.
    pub(crate) fn fail_cursor(&mut self, index: usize, fault: Fault) {
        self.tell(Event::Fault(fault.clone()));
        let cursor = &mut self.cursors[index];
        cursor.phase = Phase::Failed;
        cursor.live = None;
        self.enqueue(index, Entry::Fault(fault));
    }

    /// The reader fails until metadata says otherwise.
    pub(crate) fn fail_topic(&mut self, topic: usize, fault: Fault) {
        if self.topics[topic].fault.as_ref() != Some(&fault) {
            self.topics[topic].fault = Some(fault.clone());
            self.tell(Event::Fault(fault));
        }
    }

    /// The reader fails until a leader answers otherwise.
    pub(crate) fn refuse_topic(&mut self, topic: usize, fault: Fault) {
        if self.topics[topic].refused.as_ref() != Some(&fault) {
            self.topics[topic].refused = Some(fault.clone());
            self.tell(Event::Fault(fault));
        }
    }

    /// A partition's leader has answered.
    pub(crate) fn served(&mut self, index: usize) {
        self.cursors[index].backoff.reset();
        self.not_refused(index);
    }

    /// A partition's leader has answered, be it that the answer does not help.
    pub(crate) fn not_refused(&mut self, index: usize) {
        self.topics[self.cursors[index].topic].refused = None;
    }
}
