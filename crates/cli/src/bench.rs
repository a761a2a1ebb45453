//! `ottla bench`.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use ottla::{Batch, Error, MissingTopic, Reader, Until};

use crate::{
    args::Api,
    exit::Exit,
    interrupt::Interrupt,
    plan::BenchPlan,
    progress::Tally,
    tell::{self, Failure},
    watch::watch,
};

pub(crate) async fn run(plan: BenchPlan, mut interrupt: Interrupt) -> Result<Exit, Failure> {
    let started = Instant::now();
    let mut reader = open(&plan)?;
    let events = reader.events();
    let sample = tokio::select! {
        biased;
        () = interrupt.happened() => return Ok(Exit::Done),
        failure = watch(events, &plan.brokers, |note| tell::note(note)) => return Err(failure),
        sample = read(&plan, &mut reader, started) => sample?,
    };
    tell::line(sample.to_json(plan.api))?;
    Ok(Exit::Done)
}

/// The end is looked up, which costs one small request, so that a topic with too few records is an error and not an
/// endless wait.
fn open(plan: &BenchPlan) -> Result<Reader, Error> {
    let brokers: Vec<String> = plan.brokers.iter().map(ToString::to_string).collect();
    let builder = Reader::builder(brokers.join(",")).client_id("ottla-bench").topic(&plan.topic);
    let builder = builder.missing_topic(MissingTopic::Fail).until(Until::End);
    match plan.partition {
        Some(partition) => builder.partition(partition).open(),
        None => builder.open(),
    }
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

async fn read(plan: &BenchPlan, reader: &mut Reader, started: Instant) -> Result<Sample, Failure> {
    let mut reading = Reading { count: plan.count, tally: Tally::default(), first: None, started };
    match plan.api {
        Api::Batch => reading.batches(reader).await?,
        Api::Message => reading.messages(reader).await?,
    }
    let (tally, total) = (reading.tally, started.elapsed());
    match reading.first {
        Some(first) if tally.records == plan.count => Ok(Sample { tally, total, first }),
        _ => Err(Failure(format!("{} holds {} records, not {}", plan.what(), tally.records, plan.count))),
    }
}

impl BenchPlan {
    fn what(&self) -> String {
        match self.partition {
            Some(partition) => format!("{} partition {partition}", self.topic),
            None => format!("topic {}", self.topic),
        }
    }
}

struct Reading {
    count: u64,
    tally: Tally,
    first: Option<Duration>,
    started: Instant,
}

impl Reading {
    async fn batches(&mut self, reader: &mut Reader) -> Result<(), Error> {
        while self.tally.records < self.count
            && let Some(batch) = reader.next_batch().await?
        {
            self.note_first();
            self.walk(&batch)?;
        }
        Ok(())
    }

    fn walk(&mut self, batch: &Batch) -> Result<(), Error> {
        let left = usize::try_from(self.count - self.tally.records).unwrap_or(usize::MAX);
        for record in batch.records().take(left) {
            let record = record?;
            self.tally.add(black_box(record.key()), black_box(record.value()));
        }
        Ok(())
    }

    async fn messages(&mut self, reader: &mut Reader) -> Result<(), Error> {
        while self.tally.records < self.count
            && let Some(message) = reader.next().await?
        {
            self.note_first();
            self.tally.add(black_box(message.key()), black_box(message.value()));
        }
        Ok(())
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
