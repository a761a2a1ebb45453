//! `ottla bench`.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use ottla::{
    Batch, Builder, Code, Control, Error, Group, Groups, Message, MissingTopic, Reader, Start, Until,
};

use crate::{
    args::Api,
    exit::Exit,
    interrupt::Interrupt,
    plan::BenchPlan,
    progress::Tally,
    tell::{self, Failure},
    watch::{PATIENCE, watch},
};

pub(crate) async fn run(plan: BenchPlan, mut interrupt: Interrupt) -> Result<Exit, Failure> {
    tokio::select! {
        biased;
        () = interrupt.happened() => Ok(Exit::Done),
        end = measure(&plan) => end.map(|()| Exit::Done),
    }
}

async fn measure(plan: &BenchPlan) -> Result<(), Failure> {
    let sample = match &plan.group {
        // The end is looked up, which costs one small request, so that a topic with too few records is an error and not
        // an endless wait.
        None => {
            let started = Instant::now();
            let builder = builder(plan).until(Until::End);
            let mut reader = match plan.partition {
                Some(partition) => builder.partition(partition).open()?,
                None => builder.open()?,
            };
            sample(plan, &mut reader, None, started).await?
        }
        Some(group) => {
            let available = available(plan, group).await?;
            if available < plan.count {
                return Err(plan.too_few(available));
            }
            let started = Instant::now();
            let mut reader = builder(plan).group(group).open()?;
            let control = reader.control();
            let sample = sample(plan, &mut reader, Some(control), started).await?;
            reader.close().await?;
            sample
        }
    };
    Ok(tell::line(sample.to_json(plan.api))?)
}

fn builder(plan: &BenchPlan) -> Builder {
    let builder = Reader::builder(plan.bootstrap()).client_id("ottla-bench").topic(&plan.topic);
    builder.missing_topic(MissingTopic::Fail)
}

/// How many offsets lie before the group.
async fn available(plan: &BenchPlan, group: &str) -> Result<u64, Error> {
    let mut groups = Groups::new(&plan.bootstrap())?.client_id("ottla-bench").timeout(PATIENCE);
    let partitions = groups.partitions(&plan.topic).await?;
    let committed = match groups.describe(group).await {
        Ok(group) => groups.lag(&group).await?,
        Err(error) if error.code() == Some(Code::GROUP_ID_NOT_FOUND) => Vec::new(),
        Err(error) => return Err(error),
    };
    let logs = groups.resolve(&partitions, Start::Earliest).await?;
    let left = logs.iter().map(|log| {
        let row = committed.iter().find(|row| row.at == log.at);
        let next = row.and_then(|row| row.committed).unwrap_or(log.earliest).max(log.earliest);
        u64::try_from(log.end - next).unwrap_or(0)
    });
    Ok(left.sum())
}

struct Sample {
    tally: Tally,
    /// From the start of connecting to the last record.
    total: Duration,
    /// And to the first.
    first: Duration,
}

impl Sample {
    fn to_json(&self, api: Api) -> String {
        let api = match api {
            Api::Batch => "batch",
            Api::Message => "message",
        };
        let (Tally { records, bytes }, secs, first) =
            (self.tally, self.total.as_secs_f64(), self.first.as_secs_f64());
        format!(
            r#"{{"client":"ottla-{api}","n":{records},"bytes":{bytes},"secs":{secs:.6},"first":{first:.6}}}"#
        )
    }
}

async fn sample<K>(
    plan: &BenchPlan,
    reader: &mut Reader<K>,
    control: Option<Control<Group>>,
    started: Instant,
) -> Result<Sample, Failure> {
    let events = reader.events();
    let mut reading = Reading { count: plan.count, tally: Tally::default(), first: None, started, control };
    tokio::select! {
        biased;
        failure = watch(events, &plan.brokers, |note| tell::note(note)) => return Err(failure),
        end = reading.run(plan.api, reader) => end?,
    }
    let (tally, total) = (reading.tally, started.elapsed());
    match reading.first {
        Some(first) if tally.records == plan.count => Ok(Sample { tally, total, first }),
        _ => Err(plan.too_few(tally.records)),
    }
}

impl BenchPlan {
    fn bootstrap(&self) -> String {
        self.brokers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    fn too_few(&self, found: u64) -> Failure {
        let wanted = self.count;
        Failure(match (&self.group, self.partition) {
            (Some(group), _) => {
                format!(
                    "topic {} holds {found} records that group {group} has not read, not {wanted}",
                    self.topic
                )
            }
            (None, Some(partition)) => {
                format!("{} partition {partition} holds {found} records, not {wanted}", self.topic)
            }
            (None, None) => format!("topic {} holds {found} records, not {wanted}", self.topic),
        })
    }
}

struct Reading {
    count: u64,
    tally: Tally,
    first: Option<Duration>,
    started: Instant,
    /// Acknowledges what was read, in a group.
    control: Option<Control<Group>>,
}

impl Reading {
    async fn run<K>(&mut self, api: Api, reader: &mut Reader<K>) -> Result<(), Error> {
        match api {
            Api::Batch => self.batches(reader).await,
            Api::Message => self.messages(reader).await,
        }
    }

    async fn batches<K>(&mut self, reader: &mut Reader<K>) -> Result<(), Error> {
        while self.tally.records < self.count
            && let Some(batch) = reader.next_batch().await?
        {
            self.note_first();
            let is_whole = self.walk(&batch)?;
            if let Some(control) = self.control.as_ref().filter(|_| is_whole) {
                control.ack_batch(&batch)?;
            }
        }
        Ok(())
    }

    /// Whether nothing of it is left.
    fn walk(&mut self, batch: &Batch) -> Result<bool, Error> {
        for record in batch {
            if self.tally.records == self.count {
                return Ok(false);
            }
            let record = record?;
            self.tally.add(black_box(record.key()), black_box(record.value()));
        }
        Ok(true)
    }

    async fn messages<K>(&mut self, reader: &mut Reader<K>) -> Result<(), Error> {
        while self.tally.records < self.count
            && let Some(message) = reader.next().await?
        {
            self.note_first();
            self.tally.add(black_box(message.key()), black_box(message.value()));
            self.acknowledge(&message)?;
        }
        Ok(())
    }

    #[inline]
    fn acknowledge(&self, message: &Message) -> Result<(), Error> {
        match &self.control {
            Some(control) => control.ack(message),
            None => Ok(()),
        }
    }

    #[inline]
    fn note_first(&mut self) {
        if self.first.is_none() {
            self.first = Some(self.started.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_its_fields() {
        let tally = Tally { records: 5, bytes: 500 };
        let sample = Sample { tally, total: Duration::from_millis(250), first: Duration::from_micros(1500) };
        let expected = r#"{"client":"ottla-message","n":5,"bytes":500,"secs":0.250000,"first":0.001500}"#;
        assert_eq!(sample.to_json(Api::Message), expected);
        assert!(sample.to_json(Api::Batch).contains(r#""client":"ottla-batch""#));
    }
}
