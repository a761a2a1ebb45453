//! Topics as they are at a moment.

use std::collections::BTreeMap;

use ottla::{Code, TopicPartition};
use ottla_wire::message::{
    MetadataResponse,
    metadata_response::{MetadataResponsePartition, MetadataResponseTopic},
};
use serde::Serialize;

use super::client::{Answers, BEGIN, Client, END};
use crate::tell::{self, Failure};

/// A topic, as `--json` has it too.
#[derive(Debug, Serialize)]
pub(super) struct Topic {
    pub(super) topic: String,
    pub(super) internal: bool,
    pub(super) partitions: Vec<Partition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fault: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Partition {
    pub(super) partition: i32,
    pub(super) leader: Option<i32>,
    pub(super) replicas: Vec<i32>,
    pub(super) in_sync: Vec<i32>,
    pub(super) begin: Option<i64>,
    pub(super) end: Option<i64>,
    /// The offsets between them, some of which may hold no record any more.
    pub(super) records: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fault: Option<String>,
}

/// What there is of these topics, by name; `None` means all.
///
/// # Errors
///
/// No broker is reached, or a topic that is named does not exist.
pub(super) async fn topics(client: &mut Client, names: Option<&[String]>) -> Result<Vec<Topic>, Failure> {
    let metadata = client.metadata(names).await?;
    let mut topics = named(&metadata)?;
    topics.sort_by(|a, b| a.topic.cmp(&b.topic));
    Ok(topics)
}

/// Asks where the logs begin and end.
pub(super) async fn measure(client: &mut Client, topics: &mut [Topic]) -> Result<(), Failure> {
    let of = partitions(topics);
    if of.is_empty() {
        return Ok(());
    }
    let (mut begins, mut ends) = (client.offsets(&of, BEGIN).await?, client.offsets(&of, END).await?);
    for (at, partition) in each(topics) {
        let (begin, why) = taken(&mut begins, &at);
        let (end, other) = taken(&mut ends, &at);
        partition.records = begin.zip(end).map(|(begin, end)| (end - begin).max(0));
        (partition.begin, partition.end, partition.fault) = (begin, end, why.or(other));
    }
    Ok(())
}

/// All partitions of the topics, in order.
pub(super) fn partitions(topics: &[Topic]) -> Vec<TopicPartition> {
    let of = |topic: &Topic| {
        let name: std::sync::Arc<str> = topic.topic.as_str().into();
        let numbers: Vec<i32> = topic.partitions.iter().map(|partition| partition.partition).collect();
        numbers.into_iter().map(move |number| TopicPartition::new(name.clone(), number))
    };
    topics.iter().flat_map(of).collect()
}

/// All partitions of the topics, in order, to be changed.
fn each(topics: &mut [Topic]) -> impl Iterator<Item = (TopicPartition, &mut Partition)> {
    topics.iter_mut().flat_map(|topic| {
        let name = topic.topic.as_str();
        topic.partitions.iter_mut().map(move |p| (TopicPartition::new(name, p.partition), p))
    })
}

fn taken(answers: &mut Answers, at: &TopicPartition) -> (Option<i64>, Option<String>) {
    match answers.remove(at) {
        Some(Ok(found)) => (Some(found.offset), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    }
}

fn named(metadata: &MetadataResponse) -> Result<Vec<Topic>, Failure> {
    // Brokers may name one twice.
    let mut topics = BTreeMap::new();
    for found in &metadata.topics {
        let name = found.name.clone().unwrap_or_default();
        match Code(found.error_code) {
            Code::UNKNOWN_TOPIC_OR_PARTITION => {
                return Err(tell::missing(format!("topic {name} does not exist")));
            }
            code => {
                topics.insert(name.clone(), topic(name, found, code));
            }
        }
    }
    Ok(topics.into_values().collect())
}

fn topic(name: String, found: &MetadataResponseTopic, code: Code) -> Topic {
    let mut partitions: Vec<Partition> = found.partitions.iter().map(partition).collect();
    partitions.sort_unstable_by_key(|partition| partition.partition);
    let fault = (code != Code::NONE).then(|| format!("topic {name}: the broker answered {code}"));
    Topic { topic: name, internal: found.is_internal, partitions, fault }
}

fn partition(found: &MetadataResponsePartition) -> Partition {
    Partition {
        partition: found.partition_index,
        leader: (found.leader_id >= 0).then_some(found.leader_id),
        replicas: found.replica_nodes.clone(),
        in_sync: found.isr_nodes.clone(),
        begin: None,
        end: None,
        records: None,
        fault: None,
    }
}
