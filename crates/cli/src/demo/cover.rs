//! Which offsets the members of the group have committed, as the broker took them in.

use std::collections::BTreeMap;

use indicatif::HumanCount;
use ottla_broker::{Cluster, Code};

use super::{GROUP, PARTITIONS, TOPIC, pair::Pair, range::Range};
use crate::tell::Failure;

/// What the commits cover.
#[derive(Debug)]
pub(super) struct Cover(Vec<Range>);

impl Cover {
    /// Goes through the commits in the order in which they came.
    ///
    /// # Errors
    ///
    /// A commit went back, or the last one is not at the end of the log.
    pub(super) fn of(cluster: &Cluster) -> Result<Self, Failure> {
        let (mut next, mut ranges) = (BTreeMap::new(), Vec::new());
        for commit in cluster.commits(GROUP).into_iter().filter(|commit| commit.refused == Code::NONE) {
            let (partition, to) = (commit.partition, commit.offset);
            let from = std::mem::replace(next.entry(partition).or_insert(0), to);
            if to < from {
                return Err(Failure(format!(
                    "partition {partition}: a commit went back from {from} to {to}"
                )));
            }
            if to > from {
                Range::extend(&mut ranges, Range { member: commit.member, partition, from, to });
            }
        }
        for partition in 0..PARTITIONS as i32 {
            let (end, covered) = (
                cluster.high_watermark(TOPIC, partition).unwrap_or_default(),
                cluster.committed(GROUP, TOPIC, partition).unwrap_or_default(),
            );
            if covered != end || next.get(&partition).copied().unwrap_or_default() != end {
                return Err(Failure(format!(
                    "partition {partition}: {covered} is committed of {end} records"
                )));
            }
        }
        Ok(Self(ranges))
    }

    /// Whether each member has committed what it has read, and nothing else.
    ///
    /// # Errors
    ///
    /// It has not.
    pub(super) fn check(&self, pair: &Pair) -> Result<(), Failure> {
        for partition in 0..PARTITIONS as i32 {
            let of_partition = |ranges: &[Range]| -> Vec<Range> {
                ranges.iter().filter(|range| range.partition == partition).cloned().collect()
            };
            let (committed, read) = (of_partition(&self.0), of_partition(&pair.read));
            if committed != read {
                return Err(Failure(format!("committed was {committed:?}, but read was {read:?}")));
            }
        }
        Ok(())
    }

    /// "first 0 to 99, second 100 to 199"
    pub(super) fn of_partition(&self, partition: usize, members: &[String; 2]) -> String {
        let ranges = self.0.iter().filter(|range| usize::try_from(range.partition) == Ok(partition));
        let told = ranges.map(|range| {
            let name = if range.member == members[0] { "first" } else { "second" };
            let (from, last) = (HumanCount(range.from as u64), HumanCount(range.to as u64 - 1));
            format!("{name} {from} to {last}")
        });
        let told: Vec<String> = told.collect();
        if told.is_empty() { "none".to_owned() } else { told.join(", ") }
    }
}
