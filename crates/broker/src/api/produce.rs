//! Produce, versions 3 to 13.
//!
//! - Exactly one batch a partition, of format 2 (else INVALID_RECORD), its CRC and header right (CORRUPT_MESSAGE,
//!   INVALID_RECORD), not above the topic's `max.message.bytes` (MESSAGE_TOO_LARGE), zstd from version 7 on.
//! - The batch is kept as it was produced; the broker sets its first offset and leader epoch, on a topic with append
//!   time also the time.
//! - acks 1 and -1 are the same: what is appended is visible at once. acks 0 gets no reply; an error then closes the
//!   connection. From version 10 on a wrong leader is told the right one.
//!
//! Not imitated: replication, quotas; the records inside are not looked at (their offsets, a compacted topic's keys, the
//! limits for timestamps). An idempotent producer's sequence numbers are accepted as they come: a batch sent twice is
//! there twice. Transactions: INVALID_TXN_STATE.

use super::{Asks, Call, Serve, Served, leader_hint};
use crate::Refused;
use crate::fault::Place;
use crate::store::{Store, unknown_topic};
use bytes::Bytes;
use ottla_wire::code::Code;
use ottla_wire::message::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::message::produce_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use ottla_wire::message::{ProduceRequest, ProduceResponse};
use ottla_wire::record::{BatchHeader, Codec, RecordError};

impl Asks for ProduceRequest {
    fn asks_for(&self, store: &Store, place: &Place) -> bool {
        self.topic_data.iter().any(|topic| {
            let Some(name) = name(store, topic) else { return false };
            topic.partition_data.iter().any(|partition| place.has(&name, partition.index))
        })
    }
}

impl Serve for ProduceRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<ProduceResponse> {
        let acks = self.acks;
        let responses: Vec<_> =
            self.topic_data.iter().map(|topic| answer(store, call, acks, topic)).collect();
        let mut partitions = responses.iter().flat_map(|topic| &topic.partition_responses);
        match acks {
            0 if partitions.any(|partition| partition.error_code != 0) => Served::Hangup,
            0 => Served::Nothing,
            _ => {
                let node_endpoints = endpoints(store, partitions);
                Served::Reply(ProduceResponse { responses, node_endpoints, ..Default::default() })
            }
        }
    }
}

fn name(store: &Store, topic: &TopicProduceData) -> Option<String> {
    if topic.topic_id.is_zero() {
        return Some(topic.name.clone());
    }
    store.topic_by_id(topic.topic_id).map(|topic| topic.name.clone())
}

fn answer(store: &mut Store, call: &Call, acks: i16, topic: &TopicProduceData) -> TopicProduceResponse {
    // Version 13 names topics by id only.
    let found = if call.version >= 13 {
        store.topic_by_id(topic.topic_id).map(|topic| topic.name.clone())
    } else {
        Some(topic.name.clone())
    };
    let partitions = topic.partition_data.iter().map(|partition| match &found {
        None => failed(partition.index, &Refused::new(Code::UNKNOWN_TOPIC_ID, "unknown topic id")),
        Some(name) => answer_partition(store, call, acks, name, partition),
    });
    TopicProduceResponse {
        partition_responses: partitions.collect(),
        name: topic.name.clone(),
        topic_id: topic.topic_id,
    }
}

fn answer_partition(
    store: &mut Store,
    call: &Call,
    acks: i16,
    topic: &str,
    asked: &PartitionProduceData,
) -> PartitionProduceResponse {
    let appended = append(store, call, acks, topic, asked);
    match appended {
        Ok(appended) => PartitionProduceResponse {
            index: asked.index,
            base_offset: appended.offset,
            log_append_time_ms: appended.time.unwrap_or(-1),
            log_start_offset: appended.log_start,
            ..Default::default()
        },
        Err(refused) => {
            let mut response = failed(asked.index, &refused);
            if call.version >= 10 && refused.code == Code::NOT_LEADER_OR_FOLLOWER {
                let (leader_id, leader_epoch) = leader_hint(store.partition(topic, asked.index));
                response.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
            }
            response
        }
    }
}

fn failed(index: i32, refused: &Refused) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        error_code: refused.code.0,
        base_offset: -1,
        error_message: Some(refused.message.clone()),
        ..Default::default()
    }
}

struct Appended {
    offset: i64,
    time: Option<i64>,
    log_start: i64,
}

fn append(
    store: &mut Store,
    call: &Call,
    acks: i16,
    topic: &str,
    asked: &PartitionProduceData,
) -> Result<Appended, Refused> {
    if !(-1..=1).contains(&acks) {
        return Err(Refused::new(Code::INVALID_REQUIRED_ACKS, format!("acks is {acks}")));
    }
    if let Some(code) = call.errors.at(topic, asked.index) {
        return Err(Refused::new(code, "as the test wanted"));
    }
    let options = store.topic(topic).ok_or_else(unknown_topic)?.options.clone();
    let records = asked.records.as_ref().filter(|records| !records.is_empty());
    let records = records.ok_or_else(|| Refused::new(Code::INVALID_RECORD, "there is no batch"))?;
    check_form(call.version, records)?;
    store.led(call.node, topic, asked.index, -1).map_err(|code| Refused::new(code, code.sentence()))?;
    check_batch(records, options.max_message_bytes)?;
    let time = options.append_time.then_some(call.wall_ms);
    let offset = store.append(topic, asked.index, records, time)?;
    let log_start = store.partition(topic, asked.index).map_or(-1, |partition| partition.log.start());
    Ok(Appended { offset, time, log_start })
}

/// What is checked before it matters who leads.
fn check_form(version: i16, records: &Bytes) -> Result<(), Refused> {
    let header =
        BatchHeader::parse(records).map_err(|error| Refused::new(code(&error), error.to_string()))?;
    let codec = header.codec().map_err(|error| Refused::new(Code::CORRUPT_MESSAGE, error.to_string()))?;
    if version < 7 && codec == Codec::Zstd {
        let message =
            format!("Produce requests with version {version} are not allowed to use ZStandard compression");
        return Err(Refused::new(Code::UNSUPPORTED_COMPRESSION_TYPE, message));
    }
    if records.len() > header.size() {
        let message = format!(
            "Produce requests with version {version} may contain exactly one record batch per partition"
        );
        return Err(Refused::new(Code::INVALID_RECORD, message));
    }
    Ok(())
}

fn check_batch(records: &Bytes, max_message_bytes: usize) -> Result<(), Refused> {
    let header =
        BatchHeader::parse(records).map_err(|error| Refused::new(code(&error), error.to_string()))?;
    if header.size() > max_message_bytes {
        let message = format!(
            "The record batch size is {} bytes which exceeds the maximum configured value of {max_message_bytes}.",
            header.size()
        );
        return Err(Refused::new(Code::MESSAGE_TOO_LARGE, message));
    }
    header.check_crc(records).map_err(|error| Refused::new(Code::CORRUPT_MESSAGE, error.to_string()))?;
    if header.count < 1 || header.last_offset_delta + 1 != header.count {
        let message = format!(
            "Inconsistent batch offset range [{}, {}] and count of records {}",
            header.base_offset,
            header.last_offset(),
            header.count
        );
        return Err(Refused::new(Code::INVALID_RECORD, message));
    }
    if header.is_control() {
        return Err(Refused::new(Code::INVALID_RECORD, "Clients are not allowed to write control records"));
    }
    if header.is_transactional() {
        return Err(Refused::new(Code::INVALID_TXN_STATE, "transactions are not imitated"));
    }
    Ok(())
}

fn code(error: &RecordError) -> Code {
    match error {
        RecordError::OldFormat { .. } | RecordError::UnknownMagic { .. } => Code::INVALID_RECORD,
        _ => Code::CORRUPT_MESSAGE,
    }
}

/// The addresses of the leaders hinted at.
fn endpoints<'a>(
    store: &Store,
    partitions: impl Iterator<Item = &'a PartitionProduceResponse>,
) -> Vec<NodeEndpoint> {
    let mut leaders: Vec<_> = partitions.map(|partition| partition.current_leader.leader_id).collect();
    leaders.sort_unstable();
    leaders.dedup();
    let endpoint = |node: &crate::store::Node| NodeEndpoint {
        node_id: node.options.id,
        host: node.options.host.clone(),
        port: i32::from(node.options.port),
        rack: node.options.rack.clone(),
    };
    leaders.into_iter().filter_map(|leader| store.node(leader).map(endpoint)).collect()
}
