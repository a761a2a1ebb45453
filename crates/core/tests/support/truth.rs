//! What the logs held, and when: kept beside the cluster, so that it cannot be wrong together with it.

use std::collections::BTreeMap;

use bytes::Bytes;
use ottla_wire::record::{BatchBuilder, Codec};

/// What to append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produce {
    /// What the batch looks like.
    pub shape: Shape,
    /// How it is packed.
    pub codec: Codec,
    /// Bytes of each value, at least; small ones have what names the record only.
    pub value: usize,
}

/// What a batch looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// So many records.
    Plain(u32),
    /// So many records, with a gap behind each: compacted.
    Gaps(u32),
    /// One record, then so many offsets without: its tail was compacted away.
    Tail(u32),
    /// So many offsets and no record: all compacted away.
    Empty(u32),
    /// A marker of the broker's.
    Control,
}

/// The logs' history.
#[derive(Debug, Default)]
pub struct Truth {
    topics: BTreeMap<String, usize>,
    /// Each time a topic was made.
    lives: Vec<Vec<Log>>,
    records: Vec<Produced>,
}

/// Where a record was put; its number is its place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produced {
    pub life: usize,
    pub partition: i32,
    pub offset: i64,
}

/// A partition's log. A new version begins with each truncation; within one only the ends move.
#[derive(Debug, Clone)]
struct Log {
    versions: Vec<Version>,
}

#[derive(Debug, Clone, Default)]
struct Version {
    /// Record numbers by offset.
    records: BTreeMap<i64, usize>,
    /// Where each batch begins, and the offset after it.
    batches: BTreeMap<i64, i64>,
    start: i64,
    end: i64,
}

/// What stands in a record. The value begins with its number, and all else follows from that.
#[derive(Debug, PartialEq, Eq)]
pub struct Content {
    pub key: Option<Vec<u8>>,
    pub value: Vec<u8>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub timestamp: i64,
}

impl Truth {
    pub fn create(&mut self, topic: &str, partitions: i32) {
        self.topics.insert(topic.to_owned(), self.lives.len());
        self.lives.push((0..partitions).map(|_| Log::new()).collect());
    }

    pub fn grow(&mut self, topic: &str, partitions: i32) {
        let life = self.topics[topic];
        self.lives[life].resize_with(partitions as usize, Log::new);
    }

    pub fn delete(&mut self, topic: &str) {
        self.topics.remove(topic);
    }

    /// The batch, and the records in it as offsets after its first one.
    pub fn batch(&self, produce: Produce) -> (Bytes, Vec<i64>) {
        let mut builder = BatchBuilder::new(produce.codec);
        let mut deltas = Vec::new();
        let mut next = 0;
        let mut push = |builder: &mut BatchBuilder, skip: u32| {
            let content = Content::new(self.records.len() + deltas.len(), produce.value);
            let headers: Vec<_> = content.headers.iter().map(|(k, v)| (k.as_str(), v.as_deref())).collect();
            builder.push(content.timestamp, content.key.as_deref(), Some(&content.value), &headers);
            builder.skip(skip);
            deltas.push(next);
            next += 1 + i64::from(skip);
        };
        match produce.shape {
            Shape::Plain(count) => (0..count).for_each(|_| push(&mut builder, 0)),
            Shape::Gaps(count) => (0..count).for_each(|nth| push(&mut builder, 1 + nth % 3)),
            Shape::Tail(skipped) => push(&mut builder, skipped),
            Shape::Empty(skipped) => {
                builder.skip(skipped);
            }
            Shape::Control => {
                builder.control(true).push(0, Some(&[0, 0, 0, 1]), Some(&[0; 6]), &[]);
            }
        }
        (builder.build().expect("a batch").into(), deltas)
    }

    /// The batch was appended at `first` and the log ends at `end`.
    pub fn appended(&mut self, topic: &str, partition: i32, first: i64, deltas: &[i64], end: i64) {
        let life = self.topics[topic];
        let numbers = self.records.len()..;
        let version = self.lives[life][partition as usize].current_mut();
        for (number, delta) in numbers.zip(deltas) {
            let offset = first + delta;
            version.records.insert(offset, number);
            self.records.push(Produced { life, partition, offset });
        }
        version.batches.insert(first, end);
        version.end = end;
    }

    /// Batches that reach beyond the cut go as a whole.
    pub fn truncated(&mut self, topic: &str, partition: i32, end: i64) {
        let life = self.topics[topic];
        let log = &mut self.lives[life][partition as usize];
        let mut version = log.current().clone();
        let gone = version.batches.iter().find(|(_, next)| **next > end).map(|(first, _)| *first);
        if let Some(gone) = gone {
            version.records.split_off(&gone);
            version.batches.split_off(&gone);
        }
        version.end = version.end.min(end);
        version.start = version.start.min(end);
        log.versions.push(version);
    }

    pub fn started(&mut self, topic: &str, partition: i32, start: i64) {
        let life = self.topics[topic];
        self.lives[life][partition as usize].current_mut().start = start;
    }

    /// The topic as it is now; each making of it has another number.
    pub fn life(&self, topic: &str) -> Option<usize> {
        self.topics.get(topic).copied()
    }

    pub fn partitions(&self, topic: &str) -> i32 {
        self.life(topic).map_or(0, |life| self.lives[life].len() as i32)
    }

    pub fn end(&self, topic: &str, partition: i32) -> i64 {
        self.log(topic, partition).end
    }

    pub fn start(&self, topic: &str, partition: i32) -> i64 {
        self.log(topic, partition).start
    }

    pub fn record(&self, number: usize) -> Option<Produced> {
        self.records.get(number).copied()
    }

    /// An offset of the range that every version of the log that reached so far held a record at.
    pub fn always_there(&self, life: usize, partition: i32, from: i64, to: i64) -> Option<i64> {
        let log = self.lives.get(life)?.get(partition as usize)?;
        let absent = |&offset: &i64| {
            log.versions.iter().any(|version| offset < version.end && !version.records.contains_key(&offset))
        };
        let known = log.versions.iter().flat_map(|version| version.records.range(from..to.max(from)));
        known.map(|(offset, _)| *offset).find(|offset| !absent(offset))
    }

    /// The records that the log holds now, from an offset on.
    pub fn live(&self, topic: &str, partition: i32, from: i64) -> impl Iterator<Item = (i64, usize)> {
        let version = self.log(topic, partition);
        version.records.range(from.max(version.start)..).map(|(offset, number)| (*offset, *number))
    }

    fn log(&self, topic: &str, partition: i32) -> &Version {
        self.lives[self.topics[topic]][partition as usize].current()
    }
}

impl Log {
    fn new() -> Self {
        Self { versions: vec![Version::default()] }
    }

    fn current(&self) -> &Version {
        self.versions.last().expect("there is one from the beginning")
    }

    fn current_mut(&mut self) -> &mut Version {
        self.versions.last_mut().expect("there is one from the beginning")
    }
}

impl Content {
    /// Keys, headers and sizes are of all kinds, null and empty among them.
    pub fn new(number: usize, size: usize) -> Self {
        let mut value = format!("{number}/{size}/").into_bytes();
        let named = value.len();
        value.resize(named.max(size), 0);
        fastrand::Rng::with_seed(number as u64).fill(&mut value[named..]); // no codec makes it smaller
        let text = |kind: usize| match kind {
            0 => None,
            1 => Some(Vec::new()),
            _ => Some(format!("k{number}").into_bytes()),
        };
        let headers = (0..number % 3).map(|nth| ("same".to_owned(), text((number + nth) % 4))).collect();
        Self { key: text(number % 5), value, headers, timestamp: 1_000_000 + number as i64 }
    }

    /// The number that a value begins with, and the size it was made with.
    pub fn number(value: &[u8]) -> Option<(usize, usize)> {
        let text = &value[..value.len().min(40)];
        let mut parts =
            text.split(|&byte| byte == b'/').map(|part| std::str::from_utf8(part).ok()?.parse().ok());
        Some((parts.next()??, parts.next()??))
    }
}

impl Produce {
    /// So many small records.
    pub fn plain(count: u32) -> Self {
        Self { shape: Shape::Plain(count), codec: Codec::None, value: 0 }
    }
}
