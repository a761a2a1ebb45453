//! `ottla topics`.

use super::{
    client::Client,
    number,
    topic::{self, Partition, Topic},
};
use crate::{
    exit::Exit,
    plan::TopicsPlan,
    table::{Side, Table},
    tell::{self, Failure, counted},
};

pub(super) async fn run(plan: &TopicsPlan) -> Result<Exit, Failure> {
    let mut client = Client::new(&plan.brokers);
    let topics = look(&mut client, plan).await?;
    match (plan.json, plan.names.is_empty()) {
        (true, _) => topics.iter().try_for_each(tell::json)?,
        (false, true) => tell::text(&list(&topics))?,
        (false, false) => tell::text(&topics.iter().map(details).collect::<Vec<_>>().join("\n"))?,
    }
    let is_whole = topics.iter().all(|topic| faults(topic).next().is_none());
    Ok(if is_whole { Exit::Done } else { Exit::Failed })
}

async fn look(client: &mut Client, plan: &TopicsPlan) -> Result<Vec<Topic>, Failure> {
    let mut topics = match &plan.pattern {
        None if plan.names.is_empty() => topic::topics(client, None).await?,
        None => topic::topics(client, Some(&plan.names)).await?,
        Some(pattern) => {
            let mut all = topic::topics(client, None).await?;
            all.retain(|topic| plan.names.contains(&topic.topic) || pattern.is_match(&topic.topic));
            all
        }
    };
    topic::measure(client, &mut topics).await?;
    Ok(topics)
}

/// A line for each topic.
fn list(topics: &[Topic]) -> String {
    let (left, right) = (Side::Left, Side::Right);
    let mut table = Table::new(&[
        ("TOPIC", left),
        ("PARTITIONS", right),
        ("REPLICAS", right),
        ("IN-SYNC", right),
        ("RECORDS", right),
    ]);
    for topic in topics {
        let partitions = &topic.partitions;
        let replicas = partitions.iter().map(|partition| partition.replicas.len()).max();
        let in_sync = partitions.iter().map(|partition| partition.in_sync.len()).min();
        table.push([
            topic.topic.clone(),
            partitions.len().to_string(),
            replicas.map(|count| count.to_string()).unwrap_or_default(),
            in_sync.map(|count| count.to_string()).unwrap_or_default(),
            number(records(topic)),
        ]);
    }
    table.text() + &topics.iter().flat_map(faults).collect::<String>()
}

/// A line for each partition.
fn details(topic: &Topic) -> String {
    let (left, right) = (Side::Left, Side::Right);
    let mut table = Table::new(&[
        ("PARTITION", right),
        ("LEADER", right),
        ("REPLICAS", left),
        ("IN-SYNC", left),
        ("BEGIN", right),
        ("END", right),
        ("RECORDS", right),
    ]);
    for partition in &topic.partitions {
        table.push([
            partition.partition.to_string(),
            number(partition.leader),
            ids(&partition.replicas),
            ids(&partition.in_sync),
            number(partition.begin),
            number(partition.end),
            number(partition.records),
        ]);
    }
    format!("{}\n{}{}", headline(topic), table.text(), faults(topic).collect::<String>())
}

fn headline(topic: &Topic) -> String {
    let records = records(topic).map(|count| counted(usize::try_from(count).unwrap_or(0), "record"));
    let records = records.unwrap_or_else(|| "records unknown".to_owned());
    let internal = if topic.internal { " (internal)" } else { "" };
    format!("topic {}{internal}: {}, {records}\n", topic.topic, counted(topic.partitions.len(), "partition"))
}

/// Unknown if one partition's are.
fn records(topic: &Topic) -> Option<i64> {
    topic.partitions.iter().map(|partition| partition.records).sum()
}

fn ids(nodes: &[i32]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn faults(topic: &Topic) -> impl Iterator<Item = String> {
    let of = |partition: &Partition| partition.fault.clone();
    topic.fault.clone().into_iter().chain(topic.partitions.iter().filter_map(of)).map(|fault| fault + "\n")
}
