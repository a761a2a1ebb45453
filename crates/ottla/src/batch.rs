//! A batch: what travels.

use std::sync::Arc;

use bytes::Bytes;
use ottla_core::{Commit, Fault, Tenure, TopicPartition};
use ottla_wire::record::{self, BatchHeader, Record, TimestampType};

use crate::error::Error;

/// The part of a batch that messages share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) header: BatchHeader,
    /// The records, unpacked.
    pub(crate) records: Bytes,
    /// Records before this offset were not asked for.
    pub(crate) from: i64,
    /// Nor from this offset on.
    pub(crate) until: i64,
    pub(crate) high_watermark: i64,
    /// Who may acknowledge it, in a group.
    pub(crate) tenure: Option<Arc<Tenure>>,
}

impl Inner {
    /// Where the partition stands when all that is wanted of the batch has been handed out.
    pub(crate) fn end(&self) -> i64 {
        self.header.next_offset().min(self.until)
    }

    #[inline]
    pub(crate) fn tenure(&self) -> Result<&Arc<Tenure>, Error> {
        self.tenure.as_ref().ok_or_else(|| Error::no_group(&self.topic, self.partition))
    }
}

/// The records of one batch of one partition, as the producer put them together.
///
/// Walking it costs no allocation and no reference count; it keeps the reply that it came with in memory. A batch
/// that was handed out never changes.
///
/// ```no_run
/// # async fn example(mut reader: ottla::Reader) -> Result<(), ottla::Error> {
/// while let Some(batch) = reader.next_batch().await? {
///     for record in &batch {
///         let record = record?;
///         println!("{} {:?}", record.offset, record.value());
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Batch {
    inner: Arc<Inner>,
    from: i64,
    /// Where what was handed out before it ended.
    handed: i64,
}

/// Where it is; not what is in it.
impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("topic", &self.topic())
            .field("partition", &self.partition())
            .field("base_offset", &self.base_offset())
            .field("next_offset", &self.next_offset())
            .finish_non_exhaustive()
    }
}

impl Batch {
    pub(crate) fn new(inner: Arc<Inner>, from: i64, handed: i64) -> Self {
        let from = from.max(inner.from).max(inner.header.base_offset);
        Self { inner, from, handed }
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.inner.topic
    }

    /// The partition's number.
    pub fn partition(&self) -> i32 {
        self.inner.partition
    }

    /// Topic and partition, as the verbs of [`Control`](crate::Control) want them.
    pub fn topic_partition(&self) -> TopicPartition {
        TopicPartition { topic: self.inner.topic.clone(), partition: self.inner.partition }
    }

    /// The first offset that a record of it may have: that of the batch, or where `next()` left it, or where reading
    /// began.
    pub fn base_offset(&self) -> i64 {
        self.from
    }

    /// The offset after its last one: where the partition stands when the batch is done with. Compaction may have
    /// taken the record at the last offset away.
    pub fn next_offset(&self) -> i64 {
        self.inner.end()
    }

    /// The end of the partition when the batch was fetched (the high watermark).
    pub fn high_watermark(&self) -> i64 {
        self.inner.high_watermark
    }

    /// The leader epoch in which it was written (KIP-320).
    pub fn leader_epoch(&self) -> i32 {
        self.inner.header.leader_epoch
    }

    /// Who set the records' times.
    pub fn timestamp_type(&self) -> TimestampType {
        self.inner.header.timestamp_type()
    }

    /// Walks the records.
    pub fn records(&self) -> Records<'_> {
        Records {
            records: record::Records::new(&self.inner.header, &self.inner.records),
            batch: &self.inner,
            from: self.from,
        }
    }

    pub(crate) fn ack(&self) -> Result<(), Error> {
        let end = self.inner.end();
        self.inner.tenure()?.ack(self.handed, end).map_err(|error| Error::commit(error.into(), self.from))
    }

    /// Commits up to its end.
    pub(crate) fn through(&self) -> Result<Commit, Error> {
        Ok(Commit::Through { tenure: self.inner.tenure()?.clone(), to: self.inner.end() })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.from >= self.inner.end()
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = Result<Record<'a>, Error>;
    type IntoIter = Records<'a>;

    fn into_iter(self) -> Records<'a> {
        self.records()
    }
}

/// Walks the records of a [`Batch`].
///
/// An item is an error if the batch is whole (its CRC was checked) but what is inside makes no sense, which no
/// producer and no broker lets happen; the walk then ends.
#[derive(Clone)]
pub struct Records<'a> {
    records: record::Records<'a>,
    batch: &'a Inner,
    from: i64,
}

impl std::fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("from", &self.from).finish_non_exhaustive()
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Error>;

    #[inline(always)] // a call would move each record through memory
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.records.next()? {
                Ok(record) if record.offset < self.from => {}
                Ok(record) if record.offset >= self.batch.until => return None,
                Ok(record) => return Some(Ok(record)),
                Err(error) => return Some(Err(corrupt(self.batch, &error))),
            }
        }
    }
}

#[cold]
fn corrupt(batch: &Inner, error: &record::RecordError) -> Error {
    let at = TopicPartition { topic: batch.topic.clone(), partition: batch.partition };
    Fault::Corrupt { at, offset: batch.header.base_offset, reason: error.to_string() }.into()
}
