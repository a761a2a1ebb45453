//! Which partition, and how several are named in a sentence.

use std::{fmt, sync::Arc};

/// A topic and a partition number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
}

impl TopicPartition {
    /// Names a partition.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }

    /// Several of them for a sentence, in order: "orders 0-3,7; refunds 0".
    pub fn ranges(partitions: &[Self]) -> String {
        let mut sorted: Vec<&Self> = partitions.iter().collect();
        sorted.sort_unstable();
        let topics: Vec<String> =
            sorted.chunk_by(|one, next| one.topic == next.topic).map(of_topic).collect();
        topics.join("; ")
    }
}

/// Of one topic, in order.
fn of_topic(partitions: &[&TopicPartition]) -> String {
    let runs = partitions.chunk_by(|one, next| one.partition.checked_add(1) == Some(next.partition));
    let run = |run: &[&TopicPartition]| match run {
        [first, .., last] => format!("{}-{}", first.partition, last.partition),
        one => one.iter().map(|at| at.partition.to_string()).collect(),
    };
    let runs: Vec<String> = runs.map(run).collect();
    format!("{} {}", partitions[0].topic, runs.join(","))
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} partition {}", self.topic, self.partition)
    }
}
