//! Produce, versions 3 to 13.
//!
//! - Exactly one batch a partition, of format 2 (else INVALID_RECORD), its CRC and header right (CORRUPT_MESSAGE,
//!   INVALID_RECORD), not above the topic's `max.message.bytes` (MESSAGE_TOO_LARGE), zstd from version 7 on. A batch that
//!   is cut counts as none. Null, which a real broker never answers, closes the connection.
//! - The batch is kept as it was produced; the broker sets its first offset and leader epoch, on a topic with append
//!   time also the time.
//! - acks 1 and -1 are the same: what is appended is visible at once. acks 0 gets no reply; an error then closes the
//!   connection. From version 10 on a wrong leader is told the right one.
//!
//! Not imitated: replication, quotas; the records inside are not looked at (their offsets, a compacted topic's keys, the
//! limits for timestamps). An idempotent producer's sequence numbers are accepted as they come: a batch sent twice is
//! there twice. Transactions: INVALID_TXN_STATE, as if none had begun.

use super::{Asks, Call, Serve, Served, leader_hint};
use crate::Refused;
use crate::fault::Place;
use crate::store::{Node, Store, unknown_topic};
use bytes::Bytes;
use ottla_wire::code::Code;
use ottla_wire::message::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::message::produce_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use ottla_wire::message::{ProduceRequest, ProduceResponse};
use ottla_wire::record::{BatchHeader, Batches, Codec, RecordError};

impl Asks for ProduceRequest {
    fn asks_for(&self, store: &Store, place: &Place) -> bool {
        self.topic_data.iter().any(|topic| {
            let by_id = store.topic_by_id(topic.topic_id).map(|topic| topic.name.as_str());
            let name = by_id.unwrap_or(&topic.name);
            topic.partition_data.iter().any(|partition| place.has(name, partition.index))
        })
    }
}

impl Serve for ProduceRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<ProduceResponse> {
        let mut partitions = self.topic_data.iter().flat_map(|topic| &topic.partition_data);
        if partitions.any(|partition| partition.records.is_none()) {
            return Served::Hangup;
        }
        let answers = self.topic_data.iter().map(|topic| answer(&self, store, call, topic));
        let responses: Vec<_> = answers.collect();
        let mut partitions = responses.iter().flat_map(|topic| &topic.partition_responses);
        match self.acks {
            0 if partitions.any(|partition| partition.error_code != 0) => Served::Hangup,
            0 => Served::Nothing,
            _ => {
                let node_endpoints = endpoints(store, partitions);
                Served::Reply(ProduceResponse { responses, node_endpoints, ..Default::default() })
            }
        }
    }
}

fn answer(
    request: &ProduceRequest,
    store: &mut Store,
    call: &Call,
    topic: &TopicProduceData,
) -> TopicProduceResponse {
    // Version 13 names topics by id only.
    let name = match call.version {
        13.. => store.topic_by_id(topic.topic_id).map(|topic| topic.name.clone()),
        _ => Some(topic.name.clone()),
    };
    let partitions = topic.partition_data.iter().map(|asked| match &name {
        Some(name) => {
            let appended = append(request, store, call, name, asked);
            describe(store, call, name, asked.index, appended)
        }
        None => failed(asked.index, &Code::UNKNOWN_TOPIC_ID.into()),
    });
    let partition_responses = partitions.collect();
    TopicProduceResponse { name: topic.name.clone(), topic_id: topic.topic_id, partition_responses }
}

fn describe(
    store: &Store,
    call: &Call,
    topic: &str,
    index: i32,
    appended: Result<Appended, Failed>,
) -> PartitionProduceResponse {
    let Appended { base_offset, time, log_start } = match appended {
        Ok(appended) => appended,
        Err(refused) => {
            let mut response = failed(index, &refused);
            if call.version >= 10 && refused.why.code == Code::NOT_LEADER_OR_FOLLOWER {
                let (leader_id, leader_epoch) = leader_hint(store.partition(topic, index));
                response.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
            }
            return response;
        }
    };
    PartitionProduceResponse {
        index,
        base_offset,
        log_append_time_ms: time.unwrap_or(-1),
        log_start_offset: log_start,
        ..Default::default()
    }
}

fn failed(index: i32, failed: &Failed) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        error_code: failed.why.code.0,
        base_offset: -1,
        log_start_offset: failed.log_start.unwrap_or(-1),
        error_message: Some(failed.why.message.clone()),
        ..Default::default()
    }
}

struct Appended {
    base_offset: i64,
    time: Option<i64>,
    log_start: i64,
}

/// Why a batch was not appended. Where it was looked at and found invalid, the reply tells the start of the log.
struct Failed {
    why: Refused,
    log_start: Option<i64>,
}

impl From<Refused> for Failed {
    fn from(why: Refused) -> Self {
        Self { why, log_start: None }
    }
}

impl From<Code> for Failed {
    fn from(code: Code) -> Self {
        Refused::new(code, code.sentence()).into()
    }
}

fn append(
    request: &ProduceRequest,
    store: &mut Store,
    call: &Call,
    topic: &str,
    asked: &PartitionProduceData,
) -> Result<Appended, Failed> {
    if !(-1..=1).contains(&request.acks) {
        return Err(Code::INVALID_REQUIRED_ACKS.into());
    }
    if let Some(code) = call.errors.at(topic, asked.index) {
        return Err(code.into());
    }
    let options = store.topic(topic).ok_or_else(unknown_topic)?.options.clone();
    let (header, batch) = only_batch(call.version, asked.records.as_ref())?;
    if header.is_transactional() && request.transactional_id.is_none() {
        return Err(Code::TRANSACTIONAL_ID_AUTHORIZATION_FAILED.into());
    }
    let log_start = store.led(call.node, topic, asked.index, -1)?.log.start();
    check_whole(&header, &batch, options.max_message_bytes)?;
    check_sense(&header).map_err(|why| Failed { why, log_start: Some(log_start) })?;
    let time = options.append_time.then_some(call.wall_ms);
    let base_offset = store.append(topic, asked.index, &batch, time)?;
    let log_start = store.partition(topic, asked.index).map_or(log_start, |partition| partition.log.start());
    Ok(Appended { base_offset, time, log_start })
}

/// The batch, of a form that this version may carry. That matters before who leads does.
fn only_batch(version: i16, records: Option<&Bytes>) -> Result<(BatchHeader, Bytes), Refused> {
    let records = records.ok_or_else(|| invalid("there are no records"))?;
    let mut batches = Batches::new(records);
    let first = batches.next().ok_or_else(|| invalid("there must be one record batch"))?;
    let (header, range) = first.map_err(|error| unreadable(&error))?;
    if header.magic < 2 {
        return Err(unreadable(&RecordError::OldFormat { magic: header.magic, at: range.start }));
    }
    let codec = header.codec().map_err(|error| unreadable(&error))?;
    if version < 7 && codec == Codec::Zstd {
        let message = "zstd needs version 7 of Produce";
        return Err(Refused::new(Code::UNSUPPORTED_COMPRESSION_TYPE, message));
    }
    match batches.next() {
        None => Ok((header, records.slice(range))),
        Some(Ok(_)) => Err(invalid("there must be exactly one record batch")),
        Some(Err(error)) => Err(unreadable(&error)),
    }
}

fn check_whole(header: &BatchHeader, batch: &[u8], max_message_bytes: usize) -> Result<(), Refused> {
    if header.size() > max_message_bytes {
        let size = header.size();
        let message =
            format!("The record batch size of {size} bytes exceeds the maximum {max_message_bytes}.");
        return Err(Refused::new(Code::MESSAGE_TOO_LARGE, message));
    }
    header.check_crc(batch).map_err(|error| Refused::new(Code::CORRUPT_MESSAGE, error.to_string()))
}

fn check_sense(header: &BatchHeader) -> Result<(), Refused> {
    let offsets = i64::from(header.last_offset_delta) + 1;
    match header {
        _ if header.base_offset != 0 => Err(invalid("The first offset of the record batch should be 0.")),
        _ if header.count < 1 => Err(invalid("The record batch has no records.")),
        _ if offsets != i64::from(header.count) => Err(invalid("The record batch's offsets have gaps.")),
        _ if header.is_control() => Err(invalid("Clients are not allowed to write control records.")),
        _ if header.is_transactional() => {
            Err(Refused::new(Code::INVALID_TXN_STATE, "Transactions are not imitated."))
        }
        _ => Ok(()),
    }
}

fn invalid(message: &str) -> Refused {
    Refused::new(Code::INVALID_RECORD, message)
}

fn unreadable(error: &RecordError) -> Refused {
    let code = match error {
        RecordError::OldFormat { .. } | RecordError::BatchOffsets { .. } | RecordError::Count { .. } => {
            Code::INVALID_RECORD
        }
        _ => Code::CORRUPT_MESSAGE,
    };
    Refused::new(code, error.to_string())
}

/// The addresses of the leaders hinted at.
fn endpoints<'a>(
    store: &Store,
    partitions: impl Iterator<Item = &'a PartitionProduceResponse>,
) -> Vec<NodeEndpoint> {
    let mut leaders: Vec<_> = partitions.map(|partition| partition.current_leader.leader_id).collect();
    leaders.sort_unstable();
    leaders.dedup();
    let endpoint = |node: &Node| NodeEndpoint {
        node_id: node.options.id,
        host: node.options.host.clone(),
        port: i32::from(node.options.port),
        rack: node.options.rack.clone(),
    };
    leaders.into_iter().filter_map(|leader| store.node(leader).map(endpoint)).collect()
}
