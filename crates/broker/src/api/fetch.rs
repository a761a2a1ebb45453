//! Fetch, versions 4 to 18.
//!
//! - A fetch is answered at once if it does not want to wait, an error or a diverging epoch is found, there is enough to
//!   satisfy `min_bytes`, or it asks for nothing that exists. Else it is parked until one of these is so or `max_wait`
//!   has passed. Errors of topics and partitions that do not exist do not end the wait for others.
//! - Partitions are read in the order asked for, up to `max_bytes` in all (55 MiB at most, `fetch.max.bytes`) and
//!   `partition_max_bytes` each. Reading begins with the batch that holds the offset and is cut at the byte, but a
//!   partition whose first batch does not fit gives nothing; the first partition that has anything gives its first batch
//!   whole, whatever the limits.
//! - Leader epochs (KIP-320): FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH; a last fetched epoch that diverges is told.
//!   From version 11 on a replica that does not lead serves, too (KIP-392), as long as there is a leader. Otherwise
//!   NOT_LEADER_OR_FOLLOWER; from version 16 on with the leader and its address (KIP-951).
//! - Topic ids from version 13 on: UNKNOWN_TOPIC_ID, and INCONSISTENT_TOPIC_ID when the topic was made anew meanwhile.
//! - Sessions (KIP-227) are refused as a broker refuses them whose cache is full: a full fetch gets session id 0 back, an
//!   incremental one FETCH_SESSION_ID_NOT_FOUND. They would merge into `Fetch::new`, where the partitions asked for are
//!   collected, and leave out of `answer` what has not changed.
//!
//! Not imitated: followers that replicate, a preferred replica (a fault's `rewrite` makes one), segments (a real broker
//! stops reading at the end of one), tiered storage, quotas; transactions: the last stable offset is the high watermark,
//! and no transaction was aborted.

use super::{Call, leader_hint};
use crate::fault::Place;
use crate::log::Log;
use crate::store::{Node, Partition, Store};
use bytes::Bytes;
use ottla_wire::code::Code;
use ottla_wire::frame::encode_response;
use ottla_wire::message::fetch_request::{FetchPartition, FetchTopic};
use ottla_wire::message::fetch_response::{
    EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use ottla_wire::message::{FetchRequest, FetchResponse, Message};
use ottla_wire::{EncodeError, Uuid};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A fetch that is being served.
#[derive(Debug)]
pub(crate) struct Fetch {
    node: i32,
    version: i16,
    deadline: Instant,
    min_bytes: u64,
    max_bytes: usize,
    read_committed: bool,
    /// The error of the request as a whole.
    failed: Option<Code>,
    wanted: Vec<Wanted>,
    /// What did not exist when the fetch came.
    missing: Vec<Missing>,
}

/// A partition to read from.
#[derive(Debug)]
struct Wanted {
    topic: Arc<str>,
    /// The topic's id when the fetch came.
    id: Uuid,
    partition: i32,
    leader_epoch: i32,
    last_fetched_epoch: i32,
    offset: i64,
    max_bytes: usize,
    /// What it is to fail with.
    error: Option<Code>,
}

#[derive(Debug)]
struct Missing {
    topic: Arc<str>,
    id: Uuid,
    partition: i32,
    code: Code,
}

/// `fetch.max.bytes` of a broker.
const MOST_BYTES: usize = 55 << 20;

impl super::Asks for FetchRequest {
    fn has_top_level_error(version: i16) -> bool {
        version >= 7
    }

    fn asks_for(&self, store: &Store, place: &Place) -> bool {
        self.topics.iter().any(|topic| {
            let by_id = store.topic_by_id(topic.topic_id).map(|topic| topic.name.as_str());
            let name = by_id.unwrap_or(&topic.topic);
            topic.partitions.iter().any(|partition| place.has(name, partition.partition))
        })
    }
}

impl Fetch {
    pub(crate) fn new(request: &FetchRequest, store: &Store, call: &Call, now: Instant) -> Self {
        let max_bytes = usize::try_from(request.max_bytes).unwrap_or(0).min(MOST_BYTES);
        let mut fetch = Self {
            node: call.node,
            version: call.version,
            deadline: now + Duration::from_millis(request.max_wait_ms.max(0) as u64),
            min_bytes: (request.min_bytes.max(0) as u64).min(max_bytes as u64),
            max_bytes,
            read_committed: request.isolation_level == 1,
            failed: call.errors.top().or_else(|| check_session(request)),
            wanted: Vec::new(),
            missing: Vec::new(),
        };
        if fetch.failed.is_none() {
            for topic in &request.topics {
                fetch.add(topic, store, call);
            }
        }
        fetch
    }

    fn add(&mut self, asked: &FetchTopic, store: &Store, call: &Call) {
        let by_id = call.version >= 13;
        let found = if by_id { store.topic_by_id(asked.topic_id) } else { store.topic(&asked.topic) };
        let name: Arc<str> = found.map_or(asked.topic.as_str(), |topic| &topic.name).into();
        let id = found.map_or(asked.topic_id, |topic| topic.id);
        for partition in &asked.partitions {
            let code = match found {
                None if by_id => Some(Code::UNKNOWN_TOPIC_ID),
                None => Some(Code::UNKNOWN_TOPIC_OR_PARTITION),
                Some(topic) if topic.partition(partition.partition).is_none() => {
                    Some(Code::UNKNOWN_TOPIC_OR_PARTITION)
                }
                Some(_) => None,
            };
            let topic = Arc::clone(&name);
            match code {
                Some(code) => self.missing.push(Missing { topic, id, partition: partition.partition, code }),
                None => self.wanted.push(Wanted::new(topic, id, partition, call)),
            }
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether it is answered when it comes.
    pub(crate) fn is_ready_at_once(&self, store: &Store, now: Instant) -> bool {
        if self.failed.is_some() || self.wanted.is_empty() || self.deadline <= now {
            return true;
        }
        let mut bytes = 0;
        for read in self.read(store) {
            match read {
                Ok(read) if read.diverging.is_none() => bytes += read.bytes as u64,
                _ => return true,
            }
        }
        bytes >= self.min_bytes
    }

    /// Whether it is answered now that it has waited and something has changed.
    pub(crate) fn is_ready(&self, store: &Store) -> bool {
        let mut bytes = 0;
        for wanted in &self.wanted {
            match self.locate(store, wanted) {
                Ok(read) if read.diverging.is_none() => {
                    bytes += read.log.bytes_from(read.first).min(wanted.max_bytes as u64);
                }
                _ => return true,
            }
        }
        bytes >= self.min_bytes
    }

    pub(crate) fn waits_for(&self, changes: &[(Uuid, i32)]) -> bool {
        self.wanted.iter().any(|wanted| changes.contains(&(wanted.id, wanted.partition)))
    }

    /// The reply, with what is there now.
    pub(crate) fn answer<'a>(&self, store: &'a Store) -> Answer<'a> {
        let mut answer = Answer::default();
        if let Some(code) = self.failed {
            answer.response.error_code = code.0;
            return answer;
        }
        for (wanted, read) in self.wanted.iter().zip(self.read(store)) {
            let (partition, slice) = self.describe(store, wanted, read);
            answer.push(&wanted.topic, self.answered_id(wanted.id), partition);
            answer.slices.extend(slice);
        }
        for missing in &self.missing {
            let partition = failed(missing.partition, missing.code);
            answer.push(&missing.topic, self.answered_id(missing.id), partition);
        }
        answer.response.node_endpoints = endpoints(store, &answer.response);
        answer
    }

    fn answered_id(&self, id: Uuid) -> Uuid {
        if self.version >= 13 { id } else { Uuid::ZERO }
    }

    /// What each partition gives, within the limits.
    fn read<'a>(&self, store: &'a Store) -> Vec<Result<Read<'a>, Code>> {
        let mut left = self.max_bytes;
        let mut nothing_yet = true;
        let mut read = |wanted: &Wanted| {
            let mut read = self.locate(store, wanted)?;
            if read.diverging.is_none() {
                read.bytes = fitting(&read, left.min(wanted.max_bytes), nothing_yet);
            }
            nothing_yet &= read.bytes == 0;
            left = left.saturating_sub(read.bytes);
            Ok(read)
        };
        self.wanted.iter().map(&mut read).collect()
    }

    /// Where reading begins, if this node may be asked for it. Gives no bytes yet.
    fn locate<'a>(&self, store: &'a Store, wanted: &Wanted) -> Result<Read<'a>, Code> {
        if let Some(code) = wanted.error {
            return Err(code);
        }
        let partition = self.partition(store, wanted)?;
        let log = &partition.log;
        let diverging = diverging(partition, wanted)?;
        let first = match diverging {
            Some(_) => 0,
            None => log.find(wanted.offset)?,
        };
        Ok(Read { log, first, bytes: 0, diverging })
    }

    fn partition<'a>(&self, store: &'a Store, wanted: &Wanted) -> Result<&'a Partition, Code> {
        let topic = store.topic(&wanted.topic).ok_or(Code::UNKNOWN_TOPIC_OR_PARTITION)?;
        let partition = topic.partition(wanted.partition).ok_or(Code::UNKNOWN_TOPIC_OR_PARTITION)?;
        if self.version >= 13 && topic.id != wanted.id {
            return Err(Code::INCONSISTENT_TOPIC_ID);
        }
        if !partition.is_on(self.node) {
            return Err(Code::NOT_LEADER_OR_FOLLOWER);
        }
        partition.check_epoch(wanted.leader_epoch)?;
        let followers_serve = self.version >= 11 && partition.leader.is_some();
        match partition.leader == Some(self.node) || followers_serve {
            true => Ok(partition),
            false => Err(Code::NOT_LEADER_OR_FOLLOWER),
        }
    }

    fn describe<'a>(
        &self,
        store: &Store,
        wanted: &Wanted,
        read: Result<Read<'a>, Code>,
    ) -> (PartitionData, Option<Slice<'a>>) {
        match read {
            Ok(read) => {
                let slice = read.slice(wanted);
                (self.describe_read(wanted, &read), slice)
            }
            Err(code) => {
                let mut partition = failed(wanted.partition, code);
                partition.aborted_transactions = None;
                if self.version >= 16 && has_hint(code) {
                    let (leader_id, leader_epoch) =
                        leader_hint(store.partition(&wanted.topic, wanted.partition));
                    partition.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
                }
                (partition, None)
            }
        }
    }

    fn describe_read(&self, wanted: &Wanted, read: &Read<'_>) -> PartitionData {
        let mut partition = PartitionData {
            partition_index: wanted.partition,
            high_watermark: read.log.high_watermark(),
            last_stable_offset: read.log.last_stable_offset(),
            log_start_offset: read.log.start(),
            aborted_transactions: self.read_committed.then(Vec::new),
            records: Some(if read.bytes > 0 { Bytes::from_static(PLACEHOLDER) } else { Bytes::new() }),
            ..Default::default()
        };
        if let Some((epoch, end_offset)) = read.diverging {
            partition.diverging_epoch = EpochEndOffset { epoch, end_offset };
        }
        partition
    }
}

impl Wanted {
    fn new(topic: Arc<str>, id: Uuid, asked: &FetchPartition, call: &Call) -> Self {
        let error = call.errors.at(&topic, asked.partition);
        Self {
            topic,
            id,
            partition: asked.partition,
            leader_epoch: asked.current_leader_epoch,
            last_fetched_epoch: asked.last_fetched_epoch,
            offset: asked.fetch_offset,
            max_bytes: usize::try_from(asked.partition_max_bytes).unwrap_or(0),
            error,
        }
    }
}

/// Without sessions, only what needs none is served: a first fetch (epoch 0) or one outside any (-1).
fn check_session(request: &FetchRequest) -> Option<Code> {
    (!matches!(request.session_epoch, 0 | -1)).then_some(Code::FETCH_SESSION_ID_NOT_FOUND)
}

/// What a partition gives: `bytes` of its log from batch `first` on.
struct Read<'a> {
    log: &'a Log,
    first: usize,
    bytes: usize,
    /// The epoch up to which the reader's log and this one agree, and where it ends here.
    diverging: Option<(i32, i64)>,
}

impl<'a> Read<'a> {
    fn slice(&self, wanted: &Wanted) -> Option<Slice<'a>> {
        let (log, first, bytes) = (self.log, self.first, self.bytes);
        let (topic, partition) = (Arc::clone(&wanted.topic), wanted.partition);
        (bytes > 0).then_some(Slice { topic, partition, log, first, bytes })
    }
}

/// How many bytes fit into `limit`. A first batch that does not fit is not begun, unless it is to come `whole` at any
/// rate.
fn fitting(read: &Read<'_>, limit: usize, whole: bool) -> usize {
    let first = read.log.batch_size(read.first);
    let limit = if whole { limit.max(first) } else { limit };
    let available = usize::try_from(read.log.bytes_from(read.first)).unwrap_or(usize::MAX);
    if limit < first { 0 } else { limit.min(available) }
}

/// Whether the log that the reader read from went another way than this one.
fn diverging(partition: &Partition, wanted: &Wanted) -> Result<Option<(i32, i64)>, Code> {
    if wanted.last_fetched_epoch < 0 {
        return Ok(None);
    }
    let log = &partition.log;
    let known = log.epochs().end_of(wanted.last_fetched_epoch, log.end());
    let (epoch, end) = known.ok_or(Code::OFFSET_OUT_OF_RANGE)?;
    if wanted.offset < log.start() {
        return Err(Code::OFFSET_OUT_OF_RANGE);
    }
    let diverges = epoch < wanted.last_fetched_epoch || end < wanted.offset;
    Ok(diverges.then_some((epoch, end)))
}

fn failed(partition_index: i32, code: Code) -> PartitionData {
    PartitionData {
        partition_index,
        error_code: code.0,
        high_watermark: -1,
        records: Some(Bytes::new()),
        ..Default::default()
    }
}

fn has_hint(code: Code) -> bool {
    matches!(code, Code::NOT_LEADER_OR_FOLLOWER | Code::FENCED_LEADER_EPOCH)
}

/// The addresses of the leaders hinted at.
fn endpoints(store: &Store, response: &FetchResponse) -> Vec<NodeEndpoint> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
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

/// A reply whose records are still in the logs: partitions that have any hold a placeholder, and a slice each, in the
/// same order.
#[derive(Debug, Default)]
pub(crate) struct Answer<'a> {
    response: FetchResponse,
    slices: Vec<Slice<'a>>,
}

#[derive(Debug)]
struct Slice<'a> {
    topic: Arc<str>,
    partition: i32,
    log: &'a Log,
    first: usize,
    bytes: usize,
}

/// Sixteen bytes that stand nowhere else in a reply without records: 0xff is in no name, and no number is so long.
const PLACEHOLDER: &[u8; 16] = b"\xffottla-records\xff\xff";

impl Answer<'_> {
    fn push(&mut self, topic: &str, topic_id: Uuid, partition: PartitionData) {
        let topics = &mut self.response.responses;
        match topics.last_mut() {
            Some(last) if last.topic == topic && last.topic_id == topic_id => last.partitions.push(partition),
            _ => topics.push(FetchableTopicResponse {
                topic: topic.into(),
                topic_id,
                partitions: vec![partition],
            }),
        }
    }

    /// The reply's frame. The records are copied once, from the logs to their place.
    pub(crate) fn frame(&self, version: i16, correlation_id: i32) -> Result<Vec<u8>, EncodeError> {
        let skeleton = encode_response::<FetchRequest>(&self.response, version, correlation_id)?;
        let records: usize = self.slices.iter().map(|slice| slice.bytes).sum();
        let mut frame = Vec::with_capacity(skeleton.len() + records);
        let mut rest = &skeleton[..];
        for slice in &self.slices {
            let (before, after) = split_at_placeholder(rest, version);
            frame.extend_from_slice(before);
            put_length(&mut frame, slice.bytes, version);
            slice.log.copy(slice.first, slice.bytes, &mut frame);
            rest = after;
        }
        frame.extend_from_slice(rest);
        let length = (frame.len() - 4) as i32;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        Ok(frame)
    }

    /// The reply as a message, with a byte flipped for each place of `corrupt`.
    pub(crate) fn into_response(self, corrupt: &[(Place, usize)]) -> FetchResponse {
        let mut response = self.response;
        let partitions = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
        let with_records =
            partitions.filter(|partition| partition.records.as_ref().is_some_and(|bytes| !bytes.is_empty()));
        for (partition, slice) in with_records.zip(&self.slices) {
            partition.records = Some(slice.records(corrupt).into());
        }
        response
    }
}

impl Slice<'_> {
    fn records(&self, corrupt: &[(Place, usize)]) -> Vec<u8> {
        let mut records = Vec::with_capacity(self.bytes);
        self.log.copy(self.first, self.bytes, &mut records);
        for (place, at) in corrupt {
            if place.has(&self.topic, self.partition) {
                let at = (*at).min(records.len() - 1);
                records[at] ^= 0xff;
            }
        }
        records
    }
}

/// What stands before the length of the first placeholder, and what after the placeholder.
fn split_at_placeholder(skeleton: &[u8], version: i16) -> (&[u8], &[u8]) {
    let at = skeleton.windows(PLACEHOLDER.len()).position(|window| window == PLACEHOLDER);
    let at = at.unwrap_or(skeleton.len());
    let length = if is_flexible(version) { 1 } else { 4 };
    (&skeleton[..at.saturating_sub(length)], skeleton.get(at + PLACEHOLDER.len()..).unwrap_or_default())
}

fn put_length(frame: &mut Vec<u8>, length: usize, version: i16) {
    if !is_flexible(version) {
        frame.extend_from_slice(&(length as i32).to_be_bytes());
        return;
    }
    let mut left = length as u32 + 1;
    while left >= 0x80 {
        frame.push(left as u8 | 0x80);
        left >>= 7;
    }
    frame.push(left as u8);
}

fn is_flexible(version: i16) -> bool {
    FetchResponse::is_flexible(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::batch;
    use ottla_wire::record::Codec;

    /// The frame that is put together here and the one that the codec writes must be the same, in every version.
    #[test]
    fn the_records_stand_where_the_codec_puts_them() {
        let mut log = Log::new(None);
        for size in [1, 10, 3000] {
            log.append(batch(Codec::None, &vec![5; size]), 3, None).unwrap();
        }
        for version in 4..=18 {
            for sizes in [&[][..], &[0], &[61], &[100, 0, 127, 128, 5000], &[0, 0, 16_384]] {
                let by_hand = answer(&log, sizes).frame(version, 77).unwrap();
                let response = answer(&log, sizes).into_response(&[]);
                let by_codec = encode_response::<FetchRequest>(&response, version, 77).unwrap();
                assert!(by_hand == by_codec, "version {version}, records of {sizes:?} bytes");
            }
        }
    }

    fn answer<'a>(log: &'a Log, sizes: &[usize]) -> Answer<'a> {
        let mut answer = Answer::default();
        for (&bytes, partition) in sizes.iter().zip(0..) {
            let mut data = failed(partition, Code::NONE);
            if bytes > 0 {
                data.records = Some(Bytes::from_static(PLACEHOLDER));
                answer.slices.push(Slice { topic: "letters".into(), partition, log, first: 0, bytes });
            }
            answer.push("letters", Uuid::ZERO, data);
        }
        answer
    }
}
