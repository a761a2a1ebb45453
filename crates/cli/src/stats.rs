//! What it took, told at the end.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use indicatif::{DecimalBytes, HumanCount};
use ottla::Event;
use serde::Serialize;

use crate::{
    progress::{Tally, per_second},
    tell::counted,
    time::in_words,
};

/// What a reader went through.
#[derive(Debug)]
pub(crate) struct Stats {
    started: Instant,
    connections: Cell<usize>,
    lost: Cell<usize>,
    refused: Cell<usize>,
    leaders: Cell<usize>,
    moved: Cell<usize>,
}

/// How long was waited for what.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waits {
    /// With nothing to print.
    pub(crate) brokers: Duration,
    /// For whoever takes our output.
    pub(crate) output: Duration,
}

/// Adds the time until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    started: Instant,
    sum: &'a mut Duration,
}

impl<'a> Watch<'a> {
    pub(crate) fn start(sum: &'a mut Duration) -> Self {
        Self { started: Instant::now(), sum }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        *self.sum += self.started.elapsed();
    }
}

impl Stats {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            connections: Cell::default(),
            lost: Cell::default(),
            refused: Cell::default(),
            leaders: Cell::default(),
            moved: Cell::default(),
        }
    }

    pub(crate) fn see(&self, event: &Event) {
        let counter = match event {
            Event::Connected { .. } => &self.connections,
            Event::Retrying { .. } => &self.lost,
            Event::Refused { .. } | Event::Misbehaved { .. } | Event::GroupRefused { .. } => &self.refused,
            Event::LeaderChanged { .. } => &self.leaders,
            Event::OffsetReset { .. } | Event::Truncated { .. } => &self.moved,
            _ => return,
        };
        counter.set(counter.get() + 1);
    }

    pub(crate) fn summary(&self, read: &Read) -> Summary {
        let since_start = |at: Instant| at.saturating_duration_since(self.started).as_secs_f64();
        Summary {
            n: read.tally.records,
            bytes: read.tally.bytes,
            printed: read.printed,
            partitions: read.partitions,
            secs: self.started.elapsed().as_secs_f64(),
            first: read.first.map(since_start),
            waited_for_brokers: read.waits.brokers.as_secs_f64(),
            waited_for_output: read.waits.output.as_secs_f64(),
            connections: self.connections.get(),
            lost: self.lost.get(),
            refused: self.refused.get(),
            leaders_moved: self.leaders.get(),
            offsets_moved: self.moved.get(),
        }
    }
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) tally: Tally,
    pub(crate) printed: u64,
    pub(crate) partitions: usize,
    /// When the first records came.
    pub(crate) first: Option<Instant>,
    pub(crate) waits: Waits,
}

/// All of it; durations are in seconds. The first fields are named as those of `ottla bench`.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    n: u64,
    bytes: u64,
    secs: f64,
    /// From the start to the first record.
    first: Option<f64>,
    printed: u64,
    partitions: usize,
    waited_for_brokers: f64,
    waited_for_output: f64,
    connections: usize,
    lost: usize,
    refused: usize,
    leaders_moved: usize,
    offsets_moved: usize,
}

impl Summary {
    /// Three lines.
    pub(crate) fn lines(&self) -> [String; 3] {
        let seconds = |secs: f64| in_words(Duration::from_secs_f64(secs));
        [
            format!(
                "read {} records, {} of keys and values, from {} in {} ({} records/s); printed {}",
                HumanCount(self.n),
                DecimalBytes(self.bytes),
                counted(self.partitions, "partition"),
                seconds(self.secs),
                HumanCount(per_second(self.n, Duration::from_secs_f64(self.secs))),
                HumanCount(self.printed)
            ),
            format!(
                "waited {} for brokers and {} for the output",
                seconds(self.waited_for_brokers),
                seconds(self.waited_for_output)
            ),
            format!(
                "{} made, {} lost or refused; {} tried again, {} moved, {} not in the log",
                counted(self.connections, "connection"),
                self.lost,
                counted(self.refused, "refused request"),
                counted(self.leaders_moved, "leader"),
                counted(self.offsets_moved, "offset")
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use ottla::{Code, TopicPartition};

    use super::*;

    #[test]
    fn events_are_counted() {
        let stats = Stats::new();
        let at = TopicPartition::new("orders", 0);
        for _ in 0..2 {
            stats.see(&Event::Refused { at: at.clone(), code: Code::NOT_LEADER_OR_FOLLOWER });
        }
        stats.see(&Event::LeaderChanged { at: at.clone(), leader: 2 });
        stats.see(&Event::Reachable);
        let tally = Tally { records: 1500, bytes: 3000 };
        let lines = stats.summary(&Read { tally, printed: 7, partitions: 2, ..Read::default() }).lines();
        assert!(
            lines[0].starts_with("read 1,500 records, 3.00 kB of keys and values, from 2 partitions in ")
        );
        assert!(lines[0].ends_with("; printed 7"));
        let told = "0 connections made, 0 lost or refused; 2 refused requests tried again, 1 leader moved, 0 offsets";
        assert!(lines[2].starts_with(told), "{}", lines[2]);
    }
}
