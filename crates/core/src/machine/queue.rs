//! What waits to be handed out, and whose turn it is.

use super::Machine;
use crate::{
    cluster::Peer,
    fetch::{
        cursor::{Cursor, Phase},
        queue::{Entry, Take},
    },
};

impl Machine {
    /// Ends every turn: nothing more is handed out, also not of a batch that the caller has begun.
    pub fn halt(&mut self) {
        for cursor in &self.cursors {
            cursor.turn.end();
        }
    }

    pub(crate) fn enqueue(&mut self, index: usize, entry: Entry) {
        self.uncount(index);
        let cursor = &mut self.cursors[index];
        if let Entry::Part(part) = &entry {
            cursor.queued_bytes += part.bytes();
        }
        cursor.queue.push_back(entry);
        self.recount(index);
        self.make_ready(index);
    }

    pub(super) fn make_ready(&mut self, index: usize) {
        let cursor = &mut self.cursors[index];
        if !cursor.paused && !cursor.queue.is_empty() && !std::mem::replace(&mut cursor.in_ready, true) {
            self.ready.push_back(index);
        }
    }

    pub(super) fn take_from(&mut self, index: usize) -> Option<Take> {
        if self.cursors[index].paused {
            return None;
        }
        self.uncount(index);
        let cursor = &mut self.cursors[index];
        let entry = cursor.queue.pop_front();
        if let Some(Entry::Part(part)) = &entry {
            cursor.queued_bytes -= part.bytes();
        }
        self.recount(index);
        self.make_ready(index);
        self.touch(index);
        match entry? {
            Entry::Part(part) => Some(Take::Part(part)),
            Entry::Fault(fault) => Some(Take::Fault(fault)),
        }
    }

    /// Takes what the partition has queued out of its broker's account. Paired with [`recount`](Self::recount).
    pub(crate) fn uncount(&mut self, index: usize) {
        self.account(index, |total, part| total - part);
    }

    /// Enters it again.
    pub(crate) fn recount(&mut self, index: usize) {
        self.account(index, |total, part| total + part);
    }

    /// What a paused partition keeps does not slow its broker's others.
    pub(super) fn account(&mut self, index: usize, op: impl Fn(usize, usize) -> usize) {
        let cursor = &self.cursors[index];
        if cursor.paused {
            return;
        }
        if let Some(node) = cursor.leader.and_then(|id| self.nodes.get_mut(&Peer::Node(id))) {
            node.queued_bytes = op(node.queued_bytes, cursor.queued_bytes);
            node.queued_parts = op(node.queued_parts, cursor.queue.len());
        }
    }

    pub(crate) fn pause_cursor(&mut self, index: usize) {
        if self.cursors[index].paused {
            return;
        }
        self.uncount(index);
        self.cursors[index].paused = true;
        self.cursors[index].turn.set_paused(true);
        self.touch(index);
    }

    /// Space is short: what paused partitions keep is fetched again when they are resumed; what nobody is handed while
    /// the reader fails, when it does no more.
    pub fn give_up_paused(&mut self) {
        self.give_up_queued(self.fails());
    }

    /// What paused partitions keep; or what all of them do.
    pub(crate) fn give_up_queued(&mut self, all: bool) {
        for index in 0..self.cursors.len() {
            let cursor = &self.cursors[index];
            if (cursor.paused || all)
                && matches!(cursor.phase, Phase::Reading)
                && let Some(Entry::Part(first)) = cursor.queue.front()
            {
                self.give_up(index, first.from);
            }
        }
    }

    /// Forgets what is queued of a partition, to be fetched again from `next` on.
    pub(crate) fn give_up(&mut self, index: usize, next: i64) {
        self.uncount(index);
        let cursor = &mut self.cursors[index];
        cursor.next = next;
        cursor.live = None;
        cursor.queue.clear();
        cursor.queued_bytes = 0;
        self.unready(index);
    }

    /// Whether nothing is handed out, because the whole reader fails.
    pub(super) fn fails(&self) -> bool {
        self.unsupported.is_some()
            || self.group.as_ref().is_some_and(|group| group.fault().is_some())
            || self.topics.iter().any(|topic| topic.fault().is_some())
    }

    pub(crate) fn unready(&mut self, index: usize) {
        if std::mem::take(&mut self.cursors[index].in_ready) {
            self.ready.retain(|&other| other != index);
        }
    }

    pub(super) fn all_done(&self) -> bool {
        self.config.until.is_some()
            && (self.config.pattern.is_none() || self.metadata.has_answered())
            && self.topics.iter().all(|topic| !topic.subscribed || topic.is_complete())
            && self.cursors.iter().all(Cursor::is_done)
    }
}
