//! Reading as a group of two members, the second of which joins half-way.

use std::time::{Duration, Instant};

use indicatif::HumanCount;
use ottla::{Batch, Event, Group, Reader};

use super::{GROUP, TOPIC, check::Check, range::Range};
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
        let mut first = Side::open(address)?;
        soon("the first member's partitions", first.assigned()).await?;
        while reading.total() < u64::from(records) / 2 {
            let batch = soon("a batch", first.reader.next_batch()).await?;
            reading.take(&first, batch)?;
        }
        let (joined_at, joining) = (reading.total(), Instant::now());
        let mut second = Side::open(address)?;
        soon("the second member's partitions", second.assigned()).await?;
        let settled = joining.elapsed();
        while reading.total() < u64::from(records) {
            let next = async {
                tokio::select! {
                    batch = first.reader.next_batch() => (true, batch),
                    batch = second.reader.next_batch() => (false, batch),
                }
            };
            let (is_first, batch) = soon("a batch", async { Ok::<_, ottla::Error>(next.await) }).await?;
            reading.take(if is_first { &first } else { &second }, batch?)?;
        }
        let members = [first.id, second.id];
        tokio::try_join!(first.reader.close(), second.reader.close())?;
        Ok(Self { check: reading.check, read: reading.read, members, joined_at, settled })
    }

    pub(super) fn summary(&self) -> String {
        let (joined_at, settled) = (HumanCount(self.joined_at), self.settled.as_millis());
        format!(
            "The second member joined after {joined_at} records and had its partitions {settled} ms later."
        )
    }
}

/// One of the two.
struct Side {
    reader: Reader<Group>,
    /// Given by the coordinator, for as long as it is a member.
    id: String,
}

impl Side {
    fn open(address: &str) -> Result<Self, ottla::Error> {
        let builder = Reader::builder(address).group(GROUP).topic(TOPIC).heartbeat_interval(HEARTBEAT);
        Ok(Self { reader: builder.open()?, id: String::new() })
    }

    /// Waits until it is a member that has partitions.
    async fn assigned(&mut self) -> Result<(), ottla::Error> {
        let mut events = self.reader.events();
        while let Some(event) = events.next().await {
            if let Event::Assigned { member, partitions, .. } = event
                && !partitions.is_empty()
            {
                self.id = member;
                break;
            }
        }
        Ok(())
    }
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

    fn take(&mut self, side: &Side, batch: Option<Batch>) -> Result<(), Failure> {
        let batch = batch.ok_or("the reader ended by itself")?;
        self.check.take(&batch)?;
        side.reader.ack_batch(&batch)?;
        Range::extend(
            &mut self.read,
            Range {
                member: side.id.clone(),
                partition: batch.partition(),
                from: batch.base_offset(),
                to: batch.next_offset(),
            },
        );
        self.progress.show(self.check.total(), Way::default);
        Ok(())
    }
}
