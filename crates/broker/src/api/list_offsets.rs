//! ListOffsets, versions 1 to 11.
//!
//! - -1 the end (high watermark; under read-committed the last stable offset, which is the same here), -2 the start, -3
//!   the record with the greatest timestamp (from version 7 on), -4 the start of the local log (8), -5 and -6 the tiered
//!   log (9, 11), which is always empty. Another negative time, or one before its version: UNSUPPORTED_VERSION.
//! - Otherwise the first record that is not before the time, looked for record by record, compressed batches too; -1 if
//!   there is none.
//! - Only the leader answers; leader epochs are checked. A partition asked for twice: INVALID_REQUEST,
//!   once.
//!
//! Not imitated: OFFSET_NOT_AVAILABLE after a change of leader, tiered storage.

use super::{Asks, Call, Serve, Served};
use crate::fault::Place;
use crate::log::{Found, Log};
use crate::store::{Partition, Store};
use ottla_wire::code::Code;
use ottla_wire::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::message::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use ottla_wire::message::{ListOffsetsRequest, ListOffsetsResponse};

impl Asks for ListOffsetsRequest {
    fn asks_for(&self, _store: &Store, place: &Place) -> bool {
        let has = |topic: &ListOffsetsTopic| {
            topic.partitions.iter().any(|partition| place.has(&topic.name, partition.partition_index))
        };
        self.topics.iter().any(has)
    }
}

impl Serve for ListOffsetsRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<ListOffsetsResponse> {
        let topic = |topic: &ListOffsetsTopic| {
            let asked = topic.partitions.iter().enumerate().filter(|(at, asked)| is_first(topic, *at, asked));
            let partitions = asked.map(|(at, asked)| answer(store, call, topic, at, asked)).collect();
            ListOffsetsTopicResponse { name: topic.name.clone(), partitions }
        };
        let topics = self.topics.iter().map(topic).collect();
        Served::Reply(ListOffsetsResponse { topics, ..Default::default() })
    }
}

fn is_first(topic: &ListOffsetsTopic, at: usize, asked: &ListOffsetsPartition) -> bool {
    topic.partitions[..at].iter().all(|before| before.partition_index != asked.partition_index)
}

fn is_last(topic: &ListOffsetsTopic, at: usize, asked: &ListOffsetsPartition) -> bool {
    topic.partitions[at + 1..].iter().all(|after| after.partition_index != asked.partition_index)
}

fn answer(
    store: &Store,
    call: &Call,
    topic: &ListOffsetsTopic,
    at: usize,
    asked: &ListOffsetsPartition,
) -> ListOffsetsPartitionResponse {
    let index = asked.partition_index;
    let found = match call.errors.at(&topic.name, index) {
        Some(code) => Err(code),
        None if !is_last(topic, at, asked) => Err(Code::INVALID_REQUEST),
        None => check_time(asked.timestamp, call.version)
            .and_then(|()| store.led(call.node, &topic.name, index, asked.current_leader_epoch))
            .and_then(|partition| look_up(partition, asked.timestamp)),
    };
    let error_code = super::code(&found);
    let nothing = Found { timestamp: -1, offset: -1, leader_epoch: -1 };
    let Found { timestamp, offset, leader_epoch } = found.unwrap_or(nothing);
    let leader_epoch = if call.version >= 4 { leader_epoch } else { -1 };
    ListOffsetsPartitionResponse { partition_index: index, error_code, timestamp, offset, leader_epoch }
}

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// Times below zero are names, each known from a version on.
fn check_time(time: i64, version: i16) -> Result<(), Code> {
    let since = match time {
        0.. | LATEST | EARLIEST => 1,
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        EARLIEST_PENDING_UPLOAD => 11,
        _ => i16::MAX,
    };
    if version < since { Err(Code::UNSUPPORTED_VERSION) } else { Ok(()) }
}

fn look_up(partition: &Partition, time: i64) -> Result<Found, Code> {
    let log = &partition.log;
    let at = |offset, leader_epoch| Found { timestamp: -1, offset, leader_epoch };
    let found = match time {
        LATEST => Ok(Some(at(log.last_stable_offset(), partition.epoch))),
        EARLIEST | EARLIEST_LOCAL => Ok(Some(at(log.start(), start_epoch(log)))),
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => Ok(None),
        MAX_TIMESTAMP => log.newest(),
        _ => log.by_time(time),
    };
    match found {
        Ok(found) => Ok(found.unwrap_or(at(-1, -1))),
        Err(_) => Err(Code::CORRUPT_MESSAGE),
    }
}

fn start_epoch(log: &Log) -> i32 {
    log.epochs().earliest(log.start()).unwrap_or(-1)
}
