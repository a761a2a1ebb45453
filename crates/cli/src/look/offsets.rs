//! `ottla offsets`.

use std::time::{SystemTime, UNIX_EPOCH};

use ottla::TopicPartition;
use serde::Serialize;

use super::{
    client::{Answers, Client, Found},
    number,
    topic::{self, Partition, Topic},
};
use crate::{
    exit::Exit,
    plan::OffsetsPlan,
    table::{Side, Table},
    tell::{self, Failure},
    time,
};

pub(super) async fn run(plan: &OffsetsPlan) -> Result<Exit, Failure> {
    let rows = look(&mut Client::new(&plan.brokers), plan).await?;
    match plan.json {
        true => rows.iter().try_for_each(tell::json)?,
        false => tell::text(&text(&rows, plan.at.is_some()))?,
    }
    let is_whole = rows.iter().all(|row| row.fault.is_none());
    Ok(if is_whole { Exit::Done } else { Exit::Failed })
}

/// A partition, as `--json` has it too.
#[derive(Debug, Serialize)]
struct Row {
    topic: String,
    partition: i32,
    begin: Option<i64>,
    end: Option<i64>,
    /// With a time: those from there on.
    records: Option<i64>,
    #[serde(flatten)]
    at: Option<At>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

/// What is there at the time that was asked for.
#[derive(Debug, Serialize)]
struct At {
    /// The end, if no record is that late.
    offset: Option<i64>,
    /// Of the record there, in ms since 1970.
    timestamp: Option<i64>,
}

async fn look(client: &mut Client, plan: &OffsetsPlan) -> Result<Vec<Row>, Failure> {
    let mut topics = topic::topics(client, Some(&plan.topics())).await?;
    plan.narrow(&mut topics)?;
    topic::measure(client, &mut topics).await?;
    let mut found = match plan.at {
        Some(time) => Some(client.offsets(&topic::partitions(&topics), unix_ms(time)).await?),
        None => None,
    };
    let mut rows = Vec::new();
    for topic in topics {
        let Topic { topic, partitions, fault, .. } = topic;
        if partitions.is_empty() {
            return Err(Failure(fault.unwrap_or_else(|| format!("topic {topic} has no partitions"))));
        }
        rows.extend(partitions.into_iter().map(|partition| row(&topic, partition, found.as_mut())));
    }
    Ok(rows)
}

fn row(topic: &str, partition: Partition, found: Option<&mut Answers>) -> Row {
    let Partition { partition, begin, end, records, fault, .. } = partition;
    let mut row = Row { topic: topic.to_owned(), partition, begin, end, records, at: None, fault };
    if let Some(answers) = found {
        match answers.remove(&TopicPartition::new(topic, partition)) {
            Some(Ok(found)) => row.find(found),
            Some(Err(why)) => row.find_nothing(Some(why)),
            None => row.find_nothing(None),
        }
    }
    row
}

impl Row {
    /// Where the time is could not be found out.
    fn find_nothing(&mut self, why: Option<String>) {
        self.fault = self.fault.take().or(why);
        self.records = None;
        self.at = Some(At { offset: None, timestamp: None });
    }

    fn find(&mut self, found: Found) {
        let offset = if found.offset >= 0 { Some(found.offset) } else { self.end };
        self.records = offset.zip(self.end).map(|(offset, end)| (end - offset).max(0));
        self.at = Some(At { offset, timestamp: (found.timestamp >= 0).then_some(found.timestamp) });
    }
}

impl OffsetsPlan {
    /// Each once.
    fn topics(&self) -> Vec<String> {
        let mut names: Vec<String> = self.targets.iter().map(|target| target.topic.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Leaves what was asked for.
    fn narrow(&self, topics: &mut [Topic]) -> Result<(), Failure> {
        for target in &self.targets {
            let (Some(topic), Some(number)) =
                (topics.iter().find(|topic| topic.topic == target.topic), target.partition)
            else {
                continue;
            };
            let count = topic.partitions.len();
            if topic.partitions.iter().all(|partition| partition.partition != number) {
                let (name, last) = (&target.topic, count.saturating_sub(1));
                return Err(Failure(format!(
                    "topic {name} has no partition {number}; it has {count} (0 to {last})"
                )));
            }
        }
        for topic in topics {
            let of = || self.targets.iter().filter(|target| target.topic == topic.topic);
            let wanted = |number| of().any(|target| target.partition.is_none_or(|wanted| wanted == number));
            topic.partitions.retain(|partition| wanted(partition.partition));
        }
        Ok(())
    }
}

fn text(rows: &[Row], at: bool) -> String {
    let (left, right) = (Side::Left, Side::Right);
    let mut columns = vec![("TOPIC", left), ("PARTITION", right), ("BEGIN", right)];
    if at {
        columns.extend([("OFFSET", right), ("TIME", left)]);
    }
    columns.extend([("END", right), (if at { "RECORDS FROM THERE" } else { "RECORDS" }, right)]);
    let mut table = Table::new(&columns);
    for row in rows {
        let mut cells = vec![row.topic.clone(), row.partition.to_string(), number(row.begin)];
        if let Some(at) = &row.at {
            cells.extend([number(at.offset), at.timestamp.map(time::text).unwrap_or_default()]);
        }
        cells.extend([number(row.end), number(row.records)]);
        table.push(cells);
    }
    let faults = rows.iter().filter_map(|row| row.fault.as_ref()).map(|fault| format!("{fault}\n"));
    table.text() + &faults.collect::<String>()
}

fn unix_ms(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_times_is_not_counted_from_its_beginning() {
        let mut row = Row {
            topic: "orders".to_owned(),
            partition: 0,
            begin: Some(0),
            end: Some(12),
            records: Some(12),
            at: None,
            fault: None,
        };
        row.find_nothing(Some("its records have no times".to_owned()));
        let line = text(&[row], true)
            .lines()
            .nth(1)
            .expect("a row")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(line, "orders 0 0 - - 12 -");
    }
}
