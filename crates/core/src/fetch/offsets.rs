//! Positions by ListOffsets: one question a partition, all questions to one broker together.

use std::{collections::BTreeMap, time::Instant};

use ottla_wire::{
    code::Code,
    message::{
        ListOffsetsRequest, ListOffsetsResponse,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        list_offsets_response::ListOffsetsPartitionResponse,
    },
};

use super::{
    cursor::{Cursor, Live, Phase},
    queue::{Entry, Part},
    resolve::{Aim, Found, Question},
};
use crate::{
    cluster::{Lane, Peer},
    event::Event,
    fault::Fault,
    machine::{Machine, Purpose},
    request::Body,
    verdict::{Place, Verdict, verdict},
};

/// The questions of one request, by cursor.
pub(crate) type Questions = Vec<(usize, Question)>;

/// After so many refusals in a row a leader epoch that we were told is doubted.
const DOUBTED_AFTER: u32 = 6;

/// How many such requests may wait at a broker: who seeks in a loop gets the last one answered soon.
const OFFSETS_ASKED_MAX: usize = 4;

impl Machine {
    /// Asks `node` for the positions that its partitions wait for.
    pub(crate) fn ask_offsets(&mut self, now: Instant, node: i32) {
        if self.asked_offsets(node) >= OFFSETS_ASKED_MAX {
            return; // an answer brings us here again
        }
        let questions = self.open_questions(node);
        if questions.is_empty() {
            return;
        }
        let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for &(cursor, question) in &questions {
            let cursor = &self.cursors[cursor];
            topics.entry(&cursor.at.topic).or_default().push(ListOffsetsPartition {
                partition_index: cursor.at.partition,
                current_leader_epoch: cursor.leader_epoch,
                timestamp: question.timestamp(),
                ..ListOffsetsPartition::default()
            });
        }
        let topic = |(name, partitions): (&str, _)| ListOffsetsTopic {
            name: name.to_owned(),
            partitions,
            ..ListOffsetsTopic::default()
        };
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: topics.into_iter().map(topic).collect(),
            timeout_ms: i32::try_from(self.config.request_timeout.as_millis()).unwrap_or(i32::MAX),
            ..ListOffsetsRequest::default()
        };
        let asked: Vec<usize> = questions.iter().map(|(cursor, _)| *cursor).collect();
        let id = self.send(
            now,
            Peer::Node(node),
            Lane::Control,
            Body::ListOffsets(request),
            Purpose::Offsets(questions),
        );
        for cursor in asked {
            self.cursors[cursor].live = Some(Live { request: id, lane: Lane::Control });
        }
    }

    fn open_questions(&mut self, node: i32) -> Questions {
        let Some(known) = self.nodes.get(&Peer::Node(node)) else { return Vec::new() };
        let wanting = |&cursor: &usize| match &self.cursors[cursor] {
            Cursor { phase: Phase::Resolving(resolving), .. } if self.cursors[cursor].may_ask() => {
                resolving.step().err().map(|question| (cursor, question))
            }
            _ => None,
        };
        known.cursors.iter().filter_map(wanting).collect()
    }

    /// Takes the answers.
    pub(crate) fn take_offsets(
        &mut self,
        now: Instant,
        id: u64,
        questions: &Questions,
        response: &ListOffsetsResponse,
    ) {
        for topic in &response.topics {
            for answer in &topic.partitions {
                let cursor = self.cursor_named(&topic.name, answer.partition_index);
                let asked = questions.iter().find(|(asked, _)| Some(*asked) == cursor);
                if let Some(&(cursor, question)) = asked
                    && self.settle(cursor, id)
                {
                    self.take_offset(now, cursor, question, answer);
                }
            }
        }
        for &(cursor, _) in questions {
            if self.settle(cursor, id) {
                self.left_out(cursor);
                self.retry_cursor(now, cursor);
            }
        }
    }

    fn take_offset(
        &mut self,
        now: Instant,
        index: usize,
        question: Question,
        answer: &ListOffsetsPartitionResponse,
    ) {
        let code = Code(answer.error_code);
        if code != Code::NONE {
            return self.judge_cursor(now, index, Place::Offsets, code);
        }
        let resets =
            |phase: &Phase| matches!(phase, Phase::Resolving(r) if matches!(r.aim, Aim::Reset { .. }));
        match resets(&self.cursors[index].phase) {
            true => self.not_refused(index), // only a fetch shows whether the new position serves better
            false => self.served(index),
        }
        let cursor = &mut self.cursors[index];
        if let Phase::Resolving(resolving) = &mut cursor.phase {
            let offset = Some(answer.offset).filter(|&offset| offset >= 0);
            resolving.answer(question, offset, answer.leader_epoch);
        }
        self.settle_position(index);
    }

    /// Begins to read where the answers say, once they suffice.
    pub(crate) fn settle_position(&mut self, index: usize) {
        let cursor = &mut self.cursors[index];
        let Phase::Resolving(resolving) = &cursor.phase else { return };
        let (aim, step) = (resolving.aim, resolving.step());
        let (epoch, unsure) = (resolving.epoch(), resolving.unsure);
        match (step, aim) {
            (Err(_), _) => {}
            (Ok(Found::At { start, until }), Aim::Start(_)) => {
                // Nothing would ever be fetched from beyond the end, so no broker would say that it is out of range.
                let beyond = resolving.is_beyond_end(start);
                cursor.stand(start, until);
                cursor.found(epoch, unsure);
                self.begin_stake(index, start);
                if beyond {
                    self.find_range(index);
                }
            }
            (Ok(Found::At { start, until }), Aim::Reset { from, .. }) => {
                self.reset_cursor(index, from, start, until);
                let cursor = &mut self.cursors[index];
                cursor.found(if start == from { cursor.last_epoch } else { epoch }, unsure);
            }
            (Ok(Found::OutOfRange { offset, earliest, latest }), _) => {
                let at = cursor.at.clone();
                self.fail_cursor(index, Fault::OutOfRange { at, offset, earliest, latest });
            }
        }
        self.touch(index);
    }

    /// Forward, the turn goes on: what is queued comes before the gap. Backward, a new one begins.
    fn reset_cursor(&mut self, index: usize, from: i64, to: i64, until: Option<i64>) {
        let at = self.cursors[index].at.clone();
        match to < from {
            true => self.rewind(index, to, until),
            false => self.step_over(index, to, until),
        }
        self.tell(match to == from {
            true => Event::Refused { at, code: Code::OFFSET_OUT_OF_RANGE }, // a passing confusion, or it would be here again
            false => Event::OffsetReset { at, from, to },
        });
    }

    /// Goes on at `to`. The reader may still be at what came before, so the step waits in its place in the queue.
    fn step_over(&mut self, index: usize, to: i64, until: Option<i64>) {
        let cursor = &mut self.cursors[index];
        let from = cursor.next;
        cursor.stand(to, until);
        if from < to {
            let step = Part::step(index, cursor, from);
            self.enqueue(index, Entry::Part(step));
        }
    }

    /// Begins a new turn at `to`, or where the reader stands if that is before it: what was fetched but not yet
    /// handed out is fetched again.
    pub(crate) fn rewind(&mut self, index: usize, to: i64, until: Option<i64>) {
        if let Some(stake) = &mut self.cursors[index].stake {
            stake.cut(to);
        }
        let turn = self.new_turn(index, Phase::Reading);
        let start = turn.position().map_or(to, |position| position.min(to));
        let cursor = &mut self.cursors[index];
        cursor.stand(start, until);
        if let Some(stake) = &mut cursor.stake {
            let handed = stake.begin_turn(start);
            cursor.turn.begin(start, handed);
        }
    }

    /// A broker that knows no leader epoch as high as ours is behind, and catches up; if it does not, what we were told
    /// was wrong.
    fn doubt_epoch(&mut self, now: Instant, index: usize, code: Code) {
        let cursor = &mut self.cursors[index];
        if code == Code::UNKNOWN_LEADER_EPOCH && cursor.backoff.failures() >= DOUBTED_AFTER {
            cursor.leader_epoch = -1;
            self.want_metadata(now);
        }
    }

    /// What the table says about a code that concerns one partition.
    pub(crate) fn judge_cursor(&mut self, now: Instant, index: usize, place: Place, code: Code) {
        let at = self.cursors[index].at.clone();
        match verdict(place, code) {
            Verdict::Retry => {
                self.tell(Event::Refused { at, code });
                self.retry_cursor(now, index);
                self.doubt_epoch(now, index, code);
            }
            Verdict::Refresh | Verdict::Missing if self.is_gone(index) => self.leave_leader(index),
            Verdict::Refresh | Verdict::Missing => {
                self.tell(Event::Refused { at, code });
                self.retry_cursor(now, index);
                self.want_metadata(now);
            }
            Verdict::Reset => self.out_of_range(now, index),
            Verdict::Fail => {
                let offset = self.cursors[index].next;
                self.fail_cursor(index, Fault::Partition { at, offset, code });
            }
            Verdict::Fatal => {
                let topic = self.cursors[index].topic;
                self.refuse_topic(topic, Fault::Topic { topic: at.topic, code });
                self.retry_cursor(now, index);
                self.want_metadata(now);
            }
        }
    }
}
