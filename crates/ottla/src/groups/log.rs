//! What the leaders of partitions know: where logs begin and end, which offset a time means, and which time an offset has.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use ottla_core::{Fault, Start, TopicPartition};
use ottla_wire::{
    Uuid,
    code::Code,
    message::{
        FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataResponse,
        fetch_request::{FetchPartition, FetchTopic},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        metadata_response::MetadataResponseTopic,
    },
    record::{Batches, Decoder, RecordError, Records},
};

use super::{
    ResolvedOffset,
    cluster::{Cluster, Trouble, trouble},
};
use crate::error::Error;

/// By partition: what was asked for, or why it is not known.
pub(super) type Answers<T> = BTreeMap<TopicPartition, Result<T, Error>>;

/// How the protocol asks for the beginning and the end of a log.
pub(super) const EARLIEST: i64 = -2;
pub(super) const LATEST: i64 = -1;

/// What one partition may bring when only its next record is looked for. Larger batches come one a request.
const PARTITION_BYTES: i32 = 128 << 10;
const REPLY_BYTES: i32 = 8 << 20;
/// How long a leader may look for it, in ms.
const FETCH_WAIT_MS: i32 = 500;
/// From this version on a topic goes by its id.
const IDS_SINCE: i16 = 13;

/// All partitions of a topic.
pub(super) async fn partitions(cluster: &mut Cluster, topic: &str) -> Result<Vec<TopicPartition>, Error> {
    loop {
        let response = cluster.metadata(&[topic]).await?;
        let found = response.topics.iter().find(|found| found.name.as_deref() == Some(topic));
        match found.map(|found| (found, Code(found.error_code))) {
            Some((found, Code::NONE)) => {
                let mut numbers: Vec<i32> = found.partitions.iter().map(|p| p.partition_index).collect();
                numbers.sort_unstable();
                return Ok(numbers.into_iter().map(|number| TopicPartition::new(topic, number)).collect());
            }
            None | Some((_, Code::UNKNOWN_TOPIC_OR_PARTITION)) => {
                return Err(Fault::TopicMissing { topic: topic.into() }.into());
            }
            Some((_, code)) => cluster.again(trouble(&format!("topic {topic}"), code, None)).await?,
        }
    }
}

/// The offsets that `start` means, inside of the logs.
pub(super) async fn resolve(
    cluster: &mut Cluster,
    partitions: &[TopicPartition],
    start: Start,
) -> Result<Vec<ResolvedOffset>, Error> {
    let asked = |question: i64| partitions.iter().map(move |at| (at.clone(), question)).collect();
    let mut earliest = offsets(cluster, asked(EARLIEST)).await?;
    let mut latest = offsets(cluster, asked(LATEST)).await?;
    let mut times = match start {
        Start::At(time) => offsets(cluster, asked(unix_ms(time))).await?,
        _ => Answers::new(),
    };
    let mut resolved = Vec::with_capacity(partitions.len());
    for at in partitions {
        let of = |answers: &mut Answers<i64>| answers.remove(at).transpose();
        let (Some(earliest), Some(end)) = (of(&mut earliest)?, of(&mut latest)?) else { continue };
        let offset = match start {
            Start::Earliest => earliest,
            Start::Offset(offset) => offset,
            Start::Last(count) => end.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX)),
            Start::At(_) => of(&mut times)?.filter(|&offset| offset >= 0).unwrap_or(end),
            _ => end,
        };
        let offset = offset.clamp(earliest, end.max(earliest));
        resolved.push(ResolvedOffset { at: at.clone(), offset, earliest, end });
    }
    Ok(resolved)
}

/// Times before 1970 count as 1970: the protocol keeps the negative numbers for questions of its own.
fn unix_ms(time: std::time::SystemTime) -> i64 {
    let since = time.duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// One question of ListOffsets a partition; the answer to a time is -1 where no record is that late.
///
/// # Errors
///
/// No broker could be asked. What is wrong with one partition is in its answer.
pub(super) async fn offsets(
    cluster: &mut Cluster,
    mut open: BTreeMap<TopicPartition, i64>,
) -> Result<Answers<i64>, Error> {
    let mut answers = Answers::new();
    while !open.is_empty() {
        let mut trouble = None;
        for (node, partitions) in leaders(cluster, &mut open, &mut answers).await?.by_node {
            match ask_offsets(cluster, node, &partitions).await {
                Ok(response) => {
                    trouble = take_offsets(&response, &mut open, &mut answers).or(trouble);
                }
                Err(why) => trouble = Some(why),
            }
        }
        pause(cluster, trouble, &mut open, &mut answers).await;
    }
    Ok(answers)
}

async fn ask_offsets(
    cluster: &mut Cluster,
    node: i32,
    partitions: &[(TopicPartition, i64)],
) -> Result<ListOffsetsResponse, Trouble> {
    let partition = |&(ref at, timestamp): &(TopicPartition, i64)| ListOffsetsPartition {
        partition_index: at.partition,
        timestamp,
        ..ListOffsetsPartition::default()
    };
    let topics = by_topic(partitions, partition);
    let topic = |(name, partitions)| ListOffsetsTopic { name, partitions, ..ListOffsetsTopic::default() };
    let request = ListOffsetsRequest {
        topics: topics.into_iter().map(topic).collect(),
        ..ListOffsetsRequest::default()
    };
    ask_leader(cluster, node, i16::MAX, |_| request.clone()).await
}

fn take_offsets(
    response: &ListOffsetsResponse,
    open: &mut BTreeMap<TopicPartition, i64>,
    answers: &mut Answers<i64>,
) -> Option<Trouble> {
    let mut passing = None;
    for topic in &response.topics {
        for answer in &topic.partitions {
            let at = TopicPartition::new(topic.name.as_str(), answer.partition_index);
            let taken = match Code(answer.error_code) {
                Code::NONE => Ok(answer.offset),
                code => Err(trouble(&at.to_string(), code, None)),
            };
            passing = settle(at, taken, open, answers).or(passing);
        }
    }
    passing
}

/// The timestamp of the first record at the offset or behind it, in ms since 1970; none where there is no record, or it
/// has no timestamp.
///
/// # Errors
///
/// As [`offsets`].
pub(super) async fn times(
    cluster: &mut Cluster,
    mut open: BTreeMap<TopicPartition, i64>,
) -> Result<Answers<Option<i64>>, Error> {
    let (mut answers, mut search) = (Answers::new(), Search::default());
    while !open.is_empty() {
        let (before, mut trouble) = (open.clone(), None);
        let leaders = leaders(cluster, &mut open, &mut answers).await?;
        for (node, partitions) in leaders.by_node {
            match ask_records(cluster, node, &partitions, &leaders.ids).await {
                Ok(response) => {
                    trouble = search.take(response, &leaders.ids, &mut open, &mut answers).or(trouble);
                }
                Err(why) => trouble = Some(why),
            }
        }
        if trouble.is_none() && open == before {
            // The leader has been asked for as much as a batch can hold, and there is none.
            answers.extend(std::mem::take(&mut open).into_keys().map(|at| (at, Ok(None))));
        }
        if trouble.is_some() {
            pause(cluster, trouble, &mut open, &mut answers).await;
        }
    }
    Ok(answers)
}

async fn ask_records(
    cluster: &mut Cluster,
    node: i32,
    partitions: &[(TopicPartition, i64)],
    ids: &BTreeMap<String, Uuid>,
) -> Result<FetchResponse, Trouble> {
    let partition = |&(ref at, fetch_offset): &(TopicPartition, i64)| FetchPartition {
        partition: at.partition,
        fetch_offset,
        partition_max_bytes: PARTITION_BYTES,
        ..FetchPartition::default()
    };
    let topic = |(name, partitions): (String, _)| FetchTopic {
        topic_id: ids.get(&name).copied().unwrap_or_default(),
        topic: name,
        partitions,
    };
    let topics: Vec<FetchTopic> = by_topic(partitions, partition).into_iter().map(topic).collect();
    let cap = if topics.iter().any(|topic| topic.topic_id.is_zero()) { IDS_SINCE - 1 } else { i16::MAX };
    let request = FetchRequest {
        max_wait_ms: FETCH_WAIT_MS,
        min_bytes: 1,
        max_bytes: REPLY_BYTES,
        session_epoch: -1,
        topics,
        ..FetchRequest::default()
    };
    ask_leader(cluster, node, cap, |_| request.clone()).await
}

/// Looks for records in fetched batches.
#[derive(Default)]
struct Search {
    decoder: Decoder,
    unpacked: Vec<u8>,
}

/// What a row of batches shows.
#[derive(Debug, PartialEq, Eq)]
enum Sight {
    /// A record with this timestamp.
    Record(i64),
    /// Nothing up to this offset.
    Beyond(i64),
}

/// What a batch may unpack to.
const UNPACKED_BYTES: usize = 1 << 30;

impl Search {
    fn take(
        &mut self,
        response: FetchResponse,
        ids: &BTreeMap<String, Uuid>,
        open: &mut BTreeMap<TopicPartition, i64>,
        answers: &mut Answers<Option<i64>>,
    ) -> Option<Trouble> {
        let mut passing = match Code(response.error_code) {
            Code::NONE => None,
            code => Some(trouble("fetching the next record", code, None)),
        };
        for topic in response.responses {
            let Some(name) = topic_name(topic.topic, topic.topic_id, ids) else { continue };
            for part in topic.partitions {
                let at = TopicPartition::new(name.as_str(), part.partition_index);
                let Some(from) = open.get_mut(&at) else { continue };
                let taken = match Code(part.error_code) {
                    Code::NONE => match self.look(&part.records.unwrap_or_default(), *from) {
                        Ok(Sight::Record(ms)) => Ok((ms >= 0).then_some(ms)),
                        Ok(Sight::Beyond(next)) if next >= part.high_watermark => Ok(None),
                        Ok(Sight::Beyond(next)) => {
                            *from = next;
                            continue;
                        }
                        Err(error) => Err(Error::refused(format!("{at}: {error}"), None).into()),
                    },
                    // It was deleted meanwhile.
                    Code::OFFSET_OUT_OF_RANGE => Ok(None),
                    code => Err(trouble(&at.to_string(), code, None)),
                };
                passing = settle(at, taken, open, answers).or(passing);
            }
        }
        passing
    }

    fn look(&mut self, bytes: &Bytes, mut from: i64) -> Result<Sight, RecordError> {
        for batch in Batches::new(bytes) {
            let (header, range) = batch?;
            if header.next_offset() > from && !header.is_control() {
                let batch = &bytes[range];
                header.check_crc(batch)?;
                let header = self.decoder.unpack(&header, batch, UNPACKED_BYTES, &mut self.unpacked)?;
                for record in Records::new(&header, &self.unpacked) {
                    let record = record?;
                    if record.offset >= from {
                        return Ok(Sight::Record(record.timestamp));
                    }
                }
            }
            from = from.max(header.next_offset());
        }
        Ok(Sight::Beyond(from))
    }
}

fn topic_name(name: String, id: Uuid, ids: &BTreeMap<String, Uuid>) -> Option<String> {
    match name.is_empty() {
        false => Some(name),
        true => ids.iter().find(|(_, known)| **known == id).map(|(name, _)| name.clone()),
    }
}

/// Who leads the partitions that are open.
struct Leaders<T> {
    by_node: BTreeMap<i32, Vec<(TopicPartition, T)>>,
    ids: BTreeMap<String, Uuid>,
}

/// Looks up the leaders; a partition without one gets that as its answer.
async fn leaders<T: Copy, A>(
    cluster: &mut Cluster,
    open: &mut BTreeMap<TopicPartition, T>,
    answers: &mut Answers<A>,
) -> Result<Leaders<T>, Error> {
    let topics: BTreeSet<&str> = open.keys().map(|at| &*at.topic).collect();
    let response = cluster.metadata(&topics.into_iter().collect::<Vec<_>>()).await?;
    let mut leaders = Leaders { by_node: BTreeMap::new(), ids: BTreeMap::new() };
    open.retain(|at, question| match leader(&response, at) {
        Ok((node, id)) => {
            leaders.by_node.entry(node).or_insert_with(Vec::new).push((at.clone(), *question));
            leaders.ids.insert(at.topic.to_string(), id);
            true
        }
        Err(error) => {
            answers.insert(at.clone(), Err(error));
            false
        }
    });
    Ok(leaders)
}

fn leader(metadata: &MetadataResponse, at: &TopicPartition) -> Result<(i32, Uuid), Error> {
    let missing = || Error::from(Fault::TopicMissing { topic: at.topic.clone() });
    let topic = metadata.topics.iter().find(|topic| topic.name.as_deref() == Some(&*at.topic));
    let topic = topic.ok_or_else(missing)?;
    match Code(topic.error_code) {
        Code::NONE => {}
        Code::UNKNOWN_TOPIC_OR_PARTITION => return Err(missing()),
        code => return Err(Fault::Topic { topic: at.topic.clone(), code }.into()),
    }
    leader_in(topic, at).map(|node| (node, topic.topic_id))
}

fn leader_in(topic: &MetadataResponseTopic, at: &TopicPartition) -> Result<i32, Error> {
    let partition = topic.partitions.iter().find(|partition| partition.partition_index == at.partition);
    match partition {
        None => {
            let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
            Err(Fault::PartitionMissing { at: at.clone(), count }.into())
        }
        Some(partition) if partition.leader_id < 0 => {
            Err(Error::refused(format!("{at} has no leader"), Code(partition.error_code)))
        }
        Some(partition) => Ok(partition.leader_id),
    }
}

async fn ask_leader<R: ottla_wire::message::Request>(
    cluster: &mut Cluster,
    node: i32,
    cap: i16,
    request: impl Fn(i16) -> R,
) -> Result<R::Response, Trouble> {
    match cluster.nodes().get(&node).cloned() {
        Some(address) => cluster.ask(&address, cap, request).await,
        None => Err(Trouble::Passing { what: format!("broker {node} has no address"), code: None }),
    }
}

/// The partitions of each topic, as a request wants them.
fn by_topic<Q, P>(
    partitions: &[(TopicPartition, Q)],
    to: impl Fn(&(TopicPartition, Q)) -> P,
) -> Vec<(String, Vec<P>)> {
    let mut topics = BTreeMap::<String, Vec<P>>::new();
    for partition in partitions {
        topics.entry(partition.0.topic.to_string()).or_default().push(to(partition));
    }
    topics.into_iter().collect()
}

/// Files an answer, or hands back a trouble that may pass.
fn settle<Q, A>(
    at: TopicPartition,
    taken: Result<A, Trouble>,
    open: &mut BTreeMap<TopicPartition, Q>,
    answers: &mut Answers<A>,
) -> Option<Trouble> {
    if !open.contains_key(&at) {
        return None; // nobody asked
    }
    let answer = match taken {
        Ok(answer) => Ok(answer),
        Err(Trouble::Final(error)) => Err(error),
        Err(passing) => return Some(passing),
    };
    open.remove(&at);
    answers.insert(at, answer);
    None
}

/// Pauses where something is open still; if there is no time for it, that is the answer to all of it.
async fn pause<Q, A>(
    cluster: &mut Cluster,
    trouble: Option<Trouble>,
    open: &mut BTreeMap<TopicPartition, Q>,
    answers: &mut Answers<A>,
) {
    let Some(first) = open.keys().next() else { return };
    let left_out = || Trouble::Passing { what: format!("{first}: the broker left it out"), code: None };
    if let Err(error) = cluster.again(trouble.unwrap_or_else(left_out)).await {
        answers.extend(std::mem::take(open).into_keys().map(|at| (at, Err(error.clone()))));
    }
}

#[cfg(test)]
mod tests {
    use ottla_wire::record::{BatchBuilder, Codec};

    use super::*;

    /// Two batches: 10 to 12 at 1000, 1001, 1002 and 20 at 2000.
    fn batches(codec: Codec) -> Bytes {
        let mut bytes = Vec::new();
        for (base, times) in [(10, &[1000, 1001, 1002][..]), (20, &[2000])] {
            let mut batch = BatchBuilder::new(codec);
            batch.base_offset(base);
            for &time in times {
                batch.push(time, None, Some(b"value"), &[]);
            }
            bytes.extend_from_slice(&batch.build().unwrap());
        }
        bytes.into()
    }

    #[test]
    fn the_next_record_is_found_inside_of_batches_and_behind_gaps() {
        for codec in Codec::ALL {
            let bytes = batches(codec);
            for (from, sight) in [
                (10, Sight::Record(1000)),
                (12, Sight::Record(1002)),
                (13, Sight::Record(2000)),
                (20, Sight::Record(2000)),
                (21, Sight::Beyond(21)),
            ] {
                assert_eq!(Search::default().look(&bytes, from), Ok(sight), "{codec} {from}");
            }
        }
    }

    #[test]
    fn a_cut_batch_and_damage_are_told_apart() {
        let bytes = batches(Codec::None);
        let first = Batches::new(&bytes).next().unwrap().unwrap().1;
        let cut = bytes.slice(..first.end + 30);
        assert_eq!(Search::default().look(&cut, 13), Ok(Sight::Beyond(13)));
        assert_eq!(Search::default().look(&Bytes::new(), 13), Ok(Sight::Beyond(13)));
        let mut damaged = bytes.to_vec();
        damaged[first.end - 2] ^= 1;
        let error = Search::default().look(&damaged.into(), 10).unwrap_err();
        assert!(matches!(error, RecordError::Crc { .. }), "{error}");
    }
}
