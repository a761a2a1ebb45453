//! `ottla read --tail`: the last records of all partitions together, in the order of their times.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use ottla::{Batch, Builder, ErrorKind, Start, TopicPartition, Until};

use crate::{
    exit::Exit,
    interrupt::Interrupt,
    look::client::{BEGIN, Client, END},
    output::{self, Lost, Output},
    plan::ReadPlan,
    progress::{Progress, Tally, Way},
    row::Place,
    tell::{self, Failure},
    watch::watch,
};

/// How much further back it is looked where the records did not suffice: gaps (compaction, transactions) and filters
/// leave fewer than there are offsets. What is read again then is a seventh of the whole.
const FURTHER: u64 = 8;

/// `builder` makes a reader's, from so many offsets before the end.
pub(crate) async fn run(
    plan: &ReadPlan,
    count: u64,
    builder: impl Fn(Start, Until) -> Builder,
    mut interrupt: Interrupt,
) -> Result<Exit, Failure> {
    let mut output = Output::to(plan.file.as_ref())?;
    let progress = Progress::beside_output(plan.file.is_some());
    let end = tokio::select! {
        biased;
        () = interrupt.happened() => Ok(Exit::Done),
        () = output::nobody_reads(), if plan.file.is_none() => Ok(Exit::Done),
        end = look_back(plan, count, builder, &progress) => match end {
            Ok(tail) => tail.print(&mut output).await,
            Err(failure) => Err(failure),
        },
    };
    progress.finish();
    end
}

async fn look_back(
    plan: &ReadPlan,
    count: u64,
    builder: impl Fn(Start, Until) -> Builder,
    progress: &Progress,
) -> Result<Tail, Failure> {
    let mut window = count;
    loop {
        let mut tail = Tail::new(count);
        let mut reader = builder(Start::Last(window), Until::End).open()?;
        let events = reader.events();
        tokio::select! {
            biased;
            failure = watch(events, &plan.brokers, |note| progress.note(note)) => return Err(failure),
            end = tail.fill(plan, &mut reader, progress) => end?,
        }
        let mut open = reader.control().partitions();
        if open.is_empty() {
            return Err(tell::unmatched());
        }
        open.retain(|at| !tail.has_enough_of(at));
        if open.is_empty() || window >= longest(plan, &open).await? {
            return Ok(tail);
        }
        window = window.saturating_mul(FURTHER);
    }
}

/// The number of offsets in the longest of the logs.
async fn longest(plan: &ReadPlan, partitions: &[TopicPartition]) -> Result<u64, Failure> {
    let mut client = Client::new(&plan.brokers);
    let mut begins = client.offsets(partitions, BEGIN).await?;
    let ends = client.offsets(partitions, END).await?;
    let mut longest = 0;
    for (at, end) in ends {
        let begin = begins.remove(&at).unwrap_or_else(|| Err(format!("{at}: its beginning is not known")))?;
        longest = longest.max(u64::try_from(end?.offset - begin.offset).unwrap_or(0));
    }
    Ok(longest)
}

/// The newest records that were seen.
struct Tail {
    count: usize,
    /// The oldest on top.
    newest: BinaryHeap<Reverse<Line>>,
    partitions: BTreeMap<TopicPartition, Seen>,
    tally: Tally,
    failed: bool,
}

/// What was seen of a partition.
#[derive(Default)]
struct Seen {
    /// The timestamp of the first record, wanted or not.
    first: Option<i64>,
    wanted: usize,
    /// The greatest timestamp so far. Records are sorted by this instead of their own time, so that those of one partition
    /// keep their order, whatever clocks their producers had.
    time: Option<i64>,
}

/// A record, ready to be printed; sorted by time, then place.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    time: i64,
    at: TopicPartition,
    offset: i64,
    text: Vec<u8>,
}

impl Tail {
    fn new(count: u64) -> Self {
        Self {
            count: usize::try_from(count).unwrap_or(usize::MAX),
            newest: BinaryHeap::new(),
            partitions: BTreeMap::new(),
            tally: Tally::default(),
            failed: false,
        }
    }

    async fn fill(
        &mut self,
        plan: &ReadPlan,
        reader: &mut ottla::Reader,
        progress: &Progress,
    ) -> Result<(), Failure> {
        loop {
            let taken = match reader.next_batch().await {
                Ok(None) => return Ok(()),
                Ok(Some(batch)) => self.take(plan, &batch),
                Err(error) if error.partition().is_some() && error.kind() != ErrorKind::Missing => {
                    Err(error.into())
                }
                Err(error) => return Err(tell::whole(error)),
            };
            if let Err(Failure(why)) = taken {
                progress.note(&why);
                self.failed = true;
            }
            progress.show(self.tally, Way::default);
        }
    }

    fn take(&mut self, plan: &ReadPlan, batch: &Batch) -> Result<(), Failure> {
        let at = batch.topic_partition();
        let place =
            Place { topic: batch.topic(), partition: batch.partition(), leader_epoch: batch.leader_epoch() };
        for record in batch.records() {
            let record = record?;
            self.tally.add(record.key(), record.value());
            let seen = self.partitions.entry(at.clone()).or_default();
            seen.first.get_or_insert(record.timestamp);
            if !plan.filter.wants(&record)? {
                continue;
            }
            seen.wanted += 1;
            let time = seen.time.map_or(record.timestamp, |before| before.max(record.timestamp));
            seen.time = Some(time);
            if self.is_among_the_newest(time) {
                let mut text = Vec::new();
                plan.shape.write(place, &record, &mut text)?;
                self.keep(Line { time, at: at.clone(), offset: record.offset, text });
            }
        }
        Ok(())
    }

    fn is_among_the_newest(&self, time: i64) -> bool {
        self.newest.len() < self.count || self.newest.peek().is_some_and(|oldest| oldest.0.time <= time)
    }

    fn keep(&mut self, line: Line) {
        self.newest.push(Reverse(line));
        if self.newest.len() > self.count {
            self.newest.pop();
        }
    }

    /// Whether nothing further back in this partition can be newer than what is here.
    fn has_enough_of(&self, at: &TopicPartition) -> bool {
        let Some(seen) = self.partitions.get(at) else { return false };
        let oldest = self.newest.peek().filter(|_| self.newest.len() >= self.count);
        let is_older = |oldest: &Reverse<Line>| seen.first.is_some_and(|first| first < oldest.0.time);
        seen.wanted >= self.count || oldest.is_some_and(is_older)
    }

    async fn print(self, output: &mut Output) -> Result<Exit, Failure> {
        let exit = if self.failed { Exit::Failed } else { Exit::Done };
        for Reverse(line) in self.newest.into_sorted_vec().into_iter().rev() {
            output.block().extend_from_slice(&line.text);
            if output.is_full()
                && let Err(lost) = output.flush().await
            {
                return ended(lost, exit);
            }
        }
        match output.finish().await {
            Ok(()) => Ok(exit),
            Err(lost) => ended(lost, exit),
        }
    }
}

fn ended(lost: Lost, exit: Exit) -> Result<Exit, Failure> {
    match lost {
        Lost::Closed => Ok(exit),
        Lost::Failed(error) => Err(Failure(format!("cannot write the output: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(time: i64, partition: i32, offset: i64) -> Line {
        Line { time, at: TopicPartition::new("orders", partition), offset, text: Vec::new() }
    }

    /// It is not looked further back where enough was found, or where only older ones can be.
    #[test]
    fn partitions_are_left_when_they_have_nothing_newer() {
        let at = |partition| TopicPartition::new("orders", partition);
        let mut tail = Tail::new(2);
        let seen = |first, wanted| Seen { first: Some(first), wanted, time: None };
        tail.partitions = [(at(0), seen(50, 2)), (at(1), seen(10, 0)), (at(2), seen(60, 0))].into();
        tail.keep(line(50, 0, 0));
        let enough = |tail: &Tail| [0, 1, 2, 3].map(|partition| tail.has_enough_of(&at(partition)));
        assert_eq!(enough(&tail), [true, false, false, false]);
        tail.keep(line(55, 0, 1));
        assert_eq!(enough(&tail), [true, true, false, false]);
    }

    #[test]
    fn the_newest_are_kept_in_order_of_time_and_place() {
        let mut tail = Tail::new(3);
        for (time, partition, offset) in [(5, 0, 0), (9, 0, 1), (7, 1, 0), (9, 1, 1), (1, 2, 0)] {
            if tail.is_among_the_newest(time) {
                tail.keep(line(time, partition, offset));
            }
        }
        let kept = tail.newest.into_sorted_vec().into_iter().rev();
        let kept: Vec<_> = kept.map(|Reverse(line)| (line.time, line.at.partition)).collect();
        assert_eq!(kept, [(7, 1), (9, 0), (9, 1)]);
    }
}
