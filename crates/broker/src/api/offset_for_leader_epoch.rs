//! OffsetForLeaderEpoch, versions 2 to 4.
//!
//! - The greatest epoch that is not above the one asked for, and where it ends; -1 and -1 if the epoch is above all that
//!   are known. An epoch below all ends where the oldest begins.
//! - Only the leader answers; the current leader epoch is checked.
//!
//! Not imitated: replicas that ask.

use super::{Asks, Call, Serve, Served};
use crate::fault::Place;
use crate::store::Store;
use ottla_wire::message::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use ottla_wire::message::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use ottla_wire::message::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

impl Asks for OffsetForLeaderEpochRequest {
    fn asks_for(&self, _store: &Store, place: &Place) -> bool {
        let has = |topic: &OffsetForLeaderTopic| {
            topic.partitions.iter().any(|partition| place.has(&topic.topic, partition.partition))
        };
        self.topics.iter().any(has)
    }
}

impl Serve for OffsetForLeaderEpochRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<OffsetForLeaderEpochResponse> {
        let topic = |topic: &OffsetForLeaderTopic| OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|asked| answer(store, call, &topic.topic, asked))
                .collect(),
        };
        let topics = self.topics.iter().map(topic).collect();
        Served::Reply(OffsetForLeaderEpochResponse { topics, ..Default::default() })
    }
}

fn answer(store: &Store, call: &Call, topic: &str, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
    let found = match call.errors.at(topic, asked.partition) {
        Some(code) => Err(code),
        None => store.led(call.node, topic, asked.partition, asked.current_leader_epoch),
    };
    let end = found.as_ref().ok().and_then(|partition| {
        let log = &partition.log;
        log.epochs().end_of(asked.leader_epoch, log.end())
    });
    let (leader_epoch, end_offset) = end.unwrap_or((-1, -1));
    EpochEndOffset { error_code: super::code(&found), partition: asked.partition, leader_epoch, end_offset }
}
