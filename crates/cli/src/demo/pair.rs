//! Reading as a group of two members, the second of which joins half-way.

use std::time::{Duration, Instant};

use indicatif::HumanCount;
use ottla::{Batch, Event, Group, Reader};

use super::{GROUP, TOPIC, check::Check, cover::Range};
use crate::{
    progress::{Progress, Way},
    tell::Failure,
    watch::PATIENCE,
};

/// A member learns with its heartbeats that another one has come. By default they are 3 s apart, longer than all of this.
const HEARTBEAT: Duration = Duration::from_millis(50);

/// What two members have read.
pub(super) struct Pair {
    pub(super) check: Check,
    /// What each read, in order of arrival, with the members' ids.
    pub(super) read: Vec<Range>,
    /// The members' ids, in the order in which they joined.
    pub(super) members: [String; 2],
    /// How many records the first had read when the second joined.
    joined_at: u64,
    /// How long it took until both had their partitions.
    settled: Duration,
}

impl Pair {
    pub(super) async fn read(address: &str, records: u32, progress: &Progress) -> Result<Self, Failure> {
        let mut reading = Reading { check: Check::new(records), read: Vec::new(), progress };
        let mut first = open(address)?;
        while reading.total() < u64::from(records) / 2 {
            let batch = soon("a batch", first.next_batch()).await?;
            reading.take(&first, batch)?;
        }
        let (joined_at, joining) = (reading.total(), Instant::now());
        let mut second = open(address)?;
        soon("the second member's partitions", assigned(&second)).await?;
        let settled = joining.elapsed();
        while reading.total() < u64::from(records) {
            let next = async {
                tokio::select! {
                    batch = first.next_batch() => (true, batch),
                    batch = second.next_batch() => (false, batch),
                }
            };
            let (is_first, batch) = soon("a batch", async { Ok::<_, ottla::Error>(next.await) }).await?;
            reading.take(if is_first { &first } else { &second }, batch?)?;
        }
        let members = [member(&first)?, member(&second)?];
        tokio::try_join!(first.close(), second.close())?;
        Ok(Self { check: reading.check, read: reading.read, members, joined_at, settled })
    }

    pub(super) fn summary(&self) -> String {
        let (joined_at, settled) = (HumanCount(self.joined_at), self.settled.as_millis());
        format!(
            "The second member joined after {joined_at} records and had its partitions {settled} ms later."
        )
    }
}

fn open(address: &str) -> Result<Reader<Group>, ottla::Error> {
    Reader::builder(address).group(GROUP).topic(TOPIC).heartbeat_interval(HEARTBEAT).open()
}

fn member(reader: &Reader<Group>) -> Result<String, Failure> {
    let member = reader.control().member();
    member.map(|member| member.id).ok_or_else(|| Failure("a member is not in the group any more".to_owned()))
}

async fn assigned(reader: &Reader<Group>) -> Result<(), ottla::Error> {
    let mut events = reader.events();
    while let Some(event) = events.next().await {
        if matches!(&event, Event::Assigned { partitions, .. } if !partitions.is_empty()) {
            break;
        }
    }
    Ok(())
}

/// All is in one process: what does not come soon does not come.
async fn soon<T>(what: &str, work: impl Future<Output = Result<T, ottla::Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure(format!("{what} did not come within {} s", PATIENCE.as_secs()))),
    }
}

struct Reading<'a> {
    check: Check,
    read: Vec<Range>,
    progress: &'a Progress,
}

impl Reading<'_> {
    fn total(&self) -> u64 {
        self.check.total().records
    }

    fn take(&mut self, reader: &Reader<Group>, batch: Option<Batch>) -> Result<(), Failure> {
        let batch = batch.ok_or("the reader ended by itself")?;
        self.check.take(&batch)?;
        reader.ack_batch(&batch)?;
        Range::extend(
            &mut self.read,
            Range {
                member: member(reader)?,
                partition: batch.partition(),
                from: batch.base_offset(),
                to: batch.next_offset(),
            },
        );
        self.progress.show(self.check.total(), Way::default);
        Ok(())
    }
}
