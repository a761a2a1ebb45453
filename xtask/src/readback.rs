//! Reads whole topics with `ottla` and with Kafka's own Java client, and lets nothing differ: counts, offsets,
//! lengths and contents.

use crate::dataset::{Content, LETTERS, Size, Topic};
use crate::failure::{During, Result, fail};
use crate::kafka::tools::Tools;
use crate::measure;
use crate::table::thousands;
use crate::watchdog::Watchdog;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// No reading of a topic takes as long as this.
const LIMIT: Duration = Duration::from_secs(300);

/// What was read of a topic. Two readers that agree in this have read the same records, in an order that keeps
/// each partition's.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    partitions: BTreeMap<i32, Seen>,
    bytes: u64,
    /// The sum of a hash of each record with its place: it does not depend on the order among partitions.
    digest: u64,
}

#[derive(Debug, PartialEq)]
struct Seen {
    records: u64,
    last_offset: i64,
}

/// Checks topics that were filled to `size`.
pub(crate) fn check(ottla: &Path, tools: &Tools, topics: &[Topic], size: Size) -> Result<()> {
    let ends = tools.end_offsets()?;
    let none = BTreeMap::new();
    topics.iter().try_for_each(|topic| {
        check_one(ottla, tools, *topic, ends.get(topic.name).unwrap_or(&none), size.of(*topic))
    })
}

/// Checks one topic into which `expected` records were produced, so that its partitions end at `ends`.
fn check_one(
    ottla: &Path,
    tools: &Tools,
    topic: Topic,
    ends: &BTreeMap<i32, u64>,
    expected: u64,
) -> Result<()> {
    let start = Instant::now();
    let truth = read_by_java(tools, topic, expected)?;
    truth.matches_ends(ends, expected).during(|| format!("{}, read by Java", topic.name))?;
    truth.matches_lengths(topic, expected).during(|| format!("{}, read by Java", topic.name))?;

    let ours = read_by_ottla(ottla, tools, topic)?;
    ours.matches_ends(ends, expected).during(|| format!("{}, ottla read", topic.name))?;
    ours.matches_java(&truth).during(|| format!("{}, ottla read", topic.name))?;
    for api in ["batch", "message"] {
        bench_agrees(ottla, tools, topic, api, &truth).during(|| format!("{}, ottla bench", topic.name))?;
    }
    eprintln!(
        "  {:8} {:>9} records, {:>11} bytes: ottla read, both ways of ottla bench, and Java agree ({:.1} s)",
        topic.name,
        thousands(truth.records()),
        thousands(truth.bytes),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

impl Tally {
    /// Counts a record; offsets of a partition have to rise.
    fn take(&mut self, partition: i32, offset: i64, value: &[u8]) -> Result<()> {
        let seen = self.partitions.entry(partition).or_insert(Seen { records: 0, last_offset: -1 });
        if offset <= seen.last_offset {
            let last = seen.last_offset;
            return fail(format!("partition {partition} gave offset {offset} after offset {last}"));
        }
        seen.last_offset = offset;
        seen.records += 1;
        self.bytes += value.len() as u64;
        self.digest = self.digest.wrapping_add(hash(partition, offset, value));
        Ok(())
    }

    fn records(&self) -> u64 {
        self.partitions.values().map(|seen| seen.records).sum()
    }

    /// Nothing was deleted and nothing is transactional here: a partition holds as many records as its end says.
    fn matches_ends(&self, ends: &BTreeMap<i32, u64>, expected: u64) -> Result<()> {
        for (partition, end) in ends {
            let records = self.partitions.get(partition).map_or(0, |seen| seen.records);
            if records != *end {
                return fail(format!("partition {partition} gave {records} records, but its end is {end}"));
            }
        }
        match self.records() {
            records if records == expected => Ok(()),
            records => fail(format!("{records} records were read, but {expected} were produced")),
        }
    }

    fn matches_lengths(&self, topic: Topic, expected: u64) -> Result<()> {
        match topic.content {
            Content::Letters if self.bytes != expected * u64::from(LETTERS) => {
                fail(format!("{} bytes, but {expected} records of {LETTERS} were produced", self.bytes))
            }
            _ => Ok(()),
        }
    }

    fn matches_java(&self, truth: &Self) -> Result<()> {
        if self.bytes != truth.bytes {
            return fail(format!("{} bytes of values, but Java read {}", self.bytes, truth.bytes));
        }
        if self != truth {
            return fail("counts and lengths are as Java read them, but some contents or offsets differ");
        }
        Ok(())
    }
}

fn hash(partition: i32, offset: i64, value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_i32(partition);
    hasher.write_i64(offset);
    hasher.write(value);
    hasher.finish()
}

fn read_by_java(tools: &Tools, topic: Topic, expected: u64) -> Result<Tally> {
    let mut tally = Tally::default();
    tools.consume(topic.name, expected, |partition, offset, value| tally.take(partition, offset, value))?;
    Ok(tally)
}

fn read_by_ottla(ottla: &Path, tools: &Tools, topic: Topic) -> Result<Tally> {
    let mut read = Command::new(ottla);
    read.args(["read", topic.name, "--until", "end", "-f", r"%p\t%o\t%K\t%S\t%s\n"]);
    read.env("KAFKA_BROKERS", tools.bootstrap()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = read.spawn().during(|| format!("starting {}", ottla.display()))?;
    let watchdog = Watchdog::set(child.id(), LIMIT);
    let Some(stdout) = child.stdout.take() else { return fail("ottla has no output") };
    let mut tally = Tally::default();
    let taken = BufReader::with_capacity(1 << 20, stdout)
        .split(b'\n')
        .try_for_each(|line| take_line(&mut tally, &line.during(|| "reading from ottla".into())?));
    if taken.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().during(|| "waiting for ottla".into())?;
    match watchdog.call_off() {
        true => fail(format!("ottla read {} did not end within {} s", topic.name, LIMIT.as_secs())),
        false if taken.is_ok() && !status.success() => fail(format!("ottla read {}: {status}", topic.name)),
        false => taken.map(|()| tally),
    }
}

/// A line of partition, offset, length of the key (-1, as there are none), length of the value, value.
fn take_line(tally: &mut Tally, line: &[u8]) -> Result<()> {
    let mut parts = line.splitn(5, |&byte| byte == b'\t');
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<i64>().ok();
    let (partition, offset, key, length) = (number(), number(), number(), number());
    let told = || format!("ottla read printed `{}`", String::from_utf8_lossy(line));
    let (Some(partition), Some(offset), Some(key), Some(length), Some(value)) =
        (partition, offset, key, length, parts.next())
    else {
        return fail(told());
    };
    if key != -1 || length != value.len() as i64 {
        return fail(format!("{}, but the key is null and the value {} bytes long", told(), value.len()));
    }
    tally.take(partition as i32, offset, value)
}

fn bench_agrees(ottla: &Path, tools: &Tools, topic: Topic, api: &str, truth: &Tally) -> Result<()> {
    let mut bench = measure::ottla_bench(ottla, topic, truth.records(), api);
    let sample = measure::run(bench.env("KAFKA_BROKERS", tools.bootstrap()), LIMIT)?;
    if (sample.records, sample.bytes) != (truth.records(), truth.bytes) {
        let (records, bytes) = (truth.records(), truth.bytes);
        return fail(format!(
            "--api {api} read {} records of {} bytes, but there are {records} of {bytes}",
            sample.records, sample.bytes
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(records: &[(i32, i64, &str)]) -> Tally {
        let mut tally = Tally::default();
        for (partition, offset, value) in records {
            tally.take(*partition, *offset, value.as_bytes()).unwrap();
        }
        tally
    }

    #[test]
    fn the_order_among_partitions_does_not_matter() {
        let one = tally(&[(0, 0, "a"), (0, 1, "b"), (1, 0, "c")]);
        let other = tally(&[(1, 0, "c"), (0, 0, "a"), (0, 1, "b")]);
        other.matches_java(&one).unwrap();
        assert_eq!((one.records(), one.bytes), (3, 3));
    }

    #[test]
    fn an_offset_that_comes_again_or_goes_back_is_found() {
        for offset in [4, 5] {
            let mut tally = tally(&[(0, 5, "a")]);
            let error = tally.take(0, offset, b"b").unwrap_err().to_string();
            assert_eq!(error, format!("partition 0 gave offset {offset} after offset 5"));
        }
    }

    #[test]
    fn a_missing_record_is_found() {
        let read = tally(&[(0, 0, "a"), (0, 2, "c")]);
        assert!(read.matches_ends(&BTreeMap::from([(0, 3)]), 3).is_err());
        assert!(read.matches_ends(&BTreeMap::from([(0, 2), (1, 1)]), 3).is_err());
        read.matches_ends(&BTreeMap::from([(0, 2), (1, 0)]), 2).unwrap();
    }

    #[test]
    fn swapped_contents_are_found() {
        let truth = tally(&[(0, 0, "a"), (0, 1, "b")]);
        let error = tally(&[(0, 0, "b"), (0, 1, "a")]).matches_java(&truth).unwrap_err();
        assert!(error.to_string().contains("contents"));
    }

    #[test]
    fn letters_have_their_length() {
        let topic = crate::dataset::TOPICS[0];
        assert!(tally(&[(0, 0, "short")]).matches_lengths(topic, 1).is_err());
        tally(&[(0, 0, &"x".repeat(100))]).matches_lengths(topic, 1).unwrap();
    }

    #[test]
    fn lines_of_ottla_are_taken_and_wrong_ones_refused() {
        let mut tally = Tally::default();
        take_line(&mut tally, b"2\t7\t-1\t3\ta\tb").unwrap();
        assert_eq!(tally.partitions[&2], Seen { records: 1, last_offset: 7 });
        assert!(take_line(&mut tally, b"2\t8\t-1\t4\ta\tb").is_err());
        assert!(take_line(&mut tally, b"2\t8\t0\t3\ta\tb").is_err());
        assert!(take_line(&mut tally, b"2\t8").is_err());
    }
}
