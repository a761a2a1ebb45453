//! A fetch's answer, looked through but not decoded: where batches begin and end, what may follow.
//!
//! This runs where the frame arrives, outside the machine's lock.

use std::ops::Range;

use bytes::Bytes;
use ottla_wire::{
    Uuid,
    message::{
        FetchResponse,
        fetch_response::{NodeEndpoint, PartitionData},
    },
    record::{BatchHeader, Batches, RecordError},
};

/// One batch of a reply: its header and its place in the partition's records.
#[derive(Debug, Clone)]
pub struct Outlined {
    /// The header, checked for sense but not yet by its CRC.
    pub header: BatchHeader,
    /// The whole batch, header included, in the partition's records.
    pub range: Range<usize>,
}

/// A fetch's answer.
#[derive(Debug)]
pub struct FetchReply {
    pub(crate) bytes: usize,
    pub(crate) throttle_ms: i32,
    pub(crate) error: i16,
    pub(crate) partitions: Vec<FetchedPartition>,
    pub(crate) endpoints: Vec<NodeEndpoint>,
    /// Opened by whoever owns the buffer, so that queued parts keep it on our side of the ledger.
    pub account: Option<std::sync::Arc<super::ledger::Account>>,
}

#[derive(Debug)]
pub(crate) struct FetchedPartition {
    pub(crate) topic: String,
    pub(crate) topic_id: Uuid,
    pub(crate) data: PartitionData,
    pub(crate) batches: Vec<Outlined>,
    /// What is wrong behind the last good batch.
    pub(crate) damage: Option<RecordError>,
}

impl FetchReply {
    pub(crate) fn outline(response: FetchResponse, bytes: usize) -> Self {
        let count = response.responses.iter().map(|t| t.partitions.len()).sum();
        let mut partitions = Vec::with_capacity(count);
        for topic in response.responses {
            for data in topic.partitions {
                let (batches, damage) = look_through(data.records.as_ref());
                partitions.push(FetchedPartition {
                    topic: topic.topic.clone(),
                    topic_id: topic.topic_id,
                    data,
                    batches,
                    damage,
                });
            }
        }
        Self {
            bytes,
            throttle_ms: response.throttle_time_ms,
            error: response.error_code,
            partitions,
            endpoints: response.node_endpoints,
            account: None,
        }
    }
}

fn look_through(records: Option<&Bytes>) -> (Vec<Outlined>, Option<RecordError>) {
    let bytes = records.map_or(&[][..], |r| &r[..]);
    let mut batches = Vec::new();
    for found in Batches::new(bytes) {
        match found.and_then(|(header, range)| checked(bytes, header, range)) {
            Ok(batch) => batches.push(batch),
            Err(damage) => return (batches, Some(damage)),
        }
    }
    (batches, None)
}

/// The CRC is checked by who walks the batch. Control batches are walked by nobody, and a flipped bit that makes one of a
/// batch with records must not hide them.
fn checked(bytes: &[u8], header: BatchHeader, range: Range<usize>) -> Result<Outlined, RecordError> {
    if header.is_control() {
        header.check_crc(&bytes[range.clone()])?;
    }
    Ok(Outlined { header, range })
}
