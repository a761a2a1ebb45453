//! What it took, told at the end.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use indicatif::{DecimalBytes, HumanCount};
use ottla::Event;

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

    /// Three lines.
    pub(crate) fn lines(&self, tally: Tally, printed: u64, partitions: usize, waits: Waits) -> [String; 3] {
        let took = self.started.elapsed();
        [
            format!(
                "read {} records, {} of keys and values, from {} in {} ({} records/s); printed {}",
                HumanCount(tally.records),
                DecimalBytes(tally.bytes),
                counted(partitions, "partition"),
                in_words(took),
                HumanCount(per_second(tally.records, took)),
                HumanCount(printed)
            ),
            format!(
                "waited {} for brokers and {} for the output",
                in_words(waits.brokers),
                in_words(waits.output)
            ),
            format!(
                "{} made, {} lost or refused; {} tried again, {} moved, {} not in the log",
                counted(self.connections.get(), "connection"),
                self.lost.get(),
                counted(self.refused.get(), "refused request"),
                counted(self.leaders.get(), "leader"),
                counted(self.moved.get(), "offset")
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
        let lines = stats.lines(Tally { records: 1500, bytes: 3000 }, 7, 2, Waits::default());
        assert!(
            lines[0].starts_with("read 1,500 records, 3.00 kB of keys and values, from 2 partitions in ")
        );
        assert!(lines[0].ends_with("; printed 7"));
        let told = "0 connections made, 0 lost or refused; 2 refused requests tried again, 1 leader moved, 0 offsets";
        assert!(lines[2].starts_with(told), "{}", lines[2]);
    }
}
