//! Does the new leader's log agree with what we have read (KIP-320)?

use std::{collections::BTreeMap, time::Instant};

use ottla_wire::{
    code::Code,
    message::{
        OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
        offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
        offset_for_leader_epoch_response::EpochEndOffset,
    },
};

use super::cursor::{Live, Phase};
use crate::{
    cluster::{Lane, Peer},
    config::OnOutOfRange,
    event::Event,
    fault::Fault,
    machine::{Machine, Purpose},
    request::Body,
    verdict::Place,
};

impl Machine {
    /// Asks `node` where the epochs ended that its partitions were last read in.
    pub(crate) fn ask_epochs(&mut self, now: Instant, node: i32) {
        let Some(known) = self.nodes.get(&Peer::Node(node)) else { return };
        let wants = |&&index: &&usize| {
            matches!(self.cursors[index].phase, Phase::Validating) && self.cursors[index].may_ask()
        };
        let wanting: Vec<usize> = known.cursors.iter().filter(wants).copied().collect();
        if wanting.is_empty() {
            return;
        }
        let mut topics: BTreeMap<&str, Vec<OffsetForLeaderPartition>> = BTreeMap::new();
        for &index in &wanting {
            let cursor = &self.cursors[index];
            topics.entry(&cursor.at.topic).or_default().push(OffsetForLeaderPartition {
                partition: cursor.at.partition,
                current_leader_epoch: cursor.leader_epoch,
                leader_epoch: cursor.last_epoch,
                ..OffsetForLeaderPartition::default()
            });
        }
        let topic = |(name, partitions): (&str, _)| OffsetForLeaderTopic {
            topic: name.to_owned(),
            partitions,
            ..OffsetForLeaderTopic::default()
        };
        let request = OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics: topics.into_iter().map(topic).collect(),
            ..OffsetForLeaderEpochRequest::default()
        };
        let purpose = Purpose::Epochs(wanting.clone());
        let id = self.send(now, Peer::Node(node), Lane::Control, Body::LeaderEpochs(request), purpose);
        for index in wanting {
            self.cursors[index].live = Some(Live { request: id, lane: Lane::Control });
        }
    }

    /// Takes the answers.
    pub(crate) fn take_epochs(
        &mut self,
        now: Instant,
        id: u64,
        asked: &[usize],
        response: &OffsetForLeaderEpochResponse,
    ) {
        for topic in &response.topics {
            for answer in &topic.partitions {
                if let Some(index) = self.cursor_named(&topic.topic, answer.partition)
                    && self.settle(index, id)
                {
                    self.take_epoch(now, index, answer);
                }
            }
        }
        for &index in asked {
            if self.settle(index, id) {
                self.retry_cursor(now, index);
            }
        }
    }

    fn take_epoch(&mut self, now: Instant, index: usize, answer: &EpochEndOffset) {
        let code = Code(answer.error_code);
        if code != Code::NONE {
            return self.judge_cursor(now, index, Place::Epochs, code);
        }
        self.served(index);
        let cursor = &mut self.cursors[index];
        let from = cursor.next;
        // An undefined answer means that the broker does not know, not that the log was cut.
        if answer.end_offset < 0 || answer.end_offset >= from {
            cursor.phase = Phase::Reading;
            return self.touch(index);
        }
        self.truncated(index, from, answer);
    }

    fn truncated(&mut self, index: usize, from: i64, answer: &EpochEndOffset) {
        let end = answer.end_offset;
        let at = self.cursors[index].at.clone();
        if self.config.on_out_of_range == OnOutOfRange::Error {
            return self.fail_cursor(index, Fault::Truncated { at, offset: from, end });
        }
        let until = self.cursors[index].until;
        self.rewind(index, end, until);
        let cursor = &mut self.cursors[index];
        cursor.last_epoch = answer.leader_epoch; // so that a second cut is noticed, too
        if let Some(stake) = &mut cursor.stake {
            stake.note_epoch(end - 1, answer.leader_epoch); // the same for whoever begins where we commit
        }
        self.tell(Event::Truncated { at, from, to: end });
        self.touch(index);
    }
}
