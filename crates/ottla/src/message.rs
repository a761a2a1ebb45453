//! One record, to keep or to send on.

use std::sync::Arc;

use bytes::Bytes;
use ottla_core::{Commit, Tenure, TopicPartition};
use ottla_wire::record::{Excerpt, Headers, Span, TimestampType};

use crate::{batch::Inner, error::Error};

/// One record: a handle of some 64 bytes on the batch that it came with.
///
/// It keeps the whole reply in memory for as long as it lives; for those who keep a few for long there is
/// [`detach`](Self::detach).
#[derive(Clone)]
pub struct Message {
    batch: Arc<Inner>,
    span: Span,
    /// Where the message before it ended: what lies between is not in the log.
    from: i64,
}

/// Whoever keeps millions of them pays for each byte.
const _: () = assert!(size_of::<Message>() <= 64);

/// Where it is and the beginnings of key and value.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message")
            .field("topic", &self.topic())
            .field("partition", &self.partition())
            .field("offset", &self.offset())
            .field("timestamp", &self.timestamp())
            .field("key", &self.key().map(Excerpt))
            .field("value", &self.value().map(Excerpt))
            .field("headers", &self.headers().len())
            .finish()
    }
}

impl Message {
    #[inline]
    pub(crate) fn new(batch: Arc<Inner>, span: Span, from: i64) -> Self {
        Self { batch, span, from }
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.batch.topic
    }

    /// The partition's number.
    pub fn partition(&self) -> i32 {
        self.batch.partition
    }

    /// Topic and partition, as the verbs of [`Control`](crate::Control) want them.
    pub fn topic_partition(&self) -> TopicPartition {
        TopicPartition { topic: self.batch.topic.clone(), partition: self.batch.partition }
    }

    /// Its place in the partition.
    #[inline]
    pub fn offset(&self) -> i64 {
        self.batch.header.base_offset + i64::from(self.span.offset_delta())
    }

    /// Its time in ms since 1970, -1 if it has none; [`timestamp_type`](Self::timestamp_type) says whose.
    pub fn timestamp(&self) -> i64 {
        let header = &self.batch.header;
        match header.timestamp_type() {
            TimestampType::Create => header.base_timestamp.wrapping_add(self.span.timestamp_delta()),
            TimestampType::Append => header.max_timestamp,
        }
    }

    /// Who set its time: the producer, or the broker that appended it (`message.timestamp.type`).
    pub fn timestamp_type(&self) -> TimestampType {
        self.batch.header.timestamp_type()
    }

    /// The leader epoch in which it was written (KIP-320).
    pub fn leader_epoch(&self) -> i32 {
        self.batch.header.leader_epoch
    }

    /// The end of the partition when it was fetched (the high watermark).
    pub fn high_watermark(&self) -> i64 {
        self.batch.high_watermark
    }

    /// The key; `None` if it has none, which is not the same as an empty one.
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.span.key(&self.batch.records)
    }

    /// The value; `None` if it has none (a tombstone), which is not the same as an empty one.
    #[inline]
    pub fn value(&self) -> Option<&[u8]> {
        self.span.value(&self.batch.records)
    }

    /// The headers, in their order, duplicates included; read as they are asked for.
    pub fn headers(&self) -> Headers<'_> {
        self.span.headers(&self.batch.records)
    }

    /// The key as a slice of the reply, to be sent on without a copy.
    pub fn key_bytes(&self) -> Option<Bytes> {
        self.span.key_range().map(|range| self.batch.records.slice(range))
    }

    /// The value as a slice of the reply, to be sent on without a copy.
    pub fn value_bytes(&self) -> Option<Bytes> {
        self.span.value_range().map(|range| self.batch.records.slice(range))
    }

    /// The same record copied out of its reply, which can then be used again.
    #[must_use]
    pub fn detach(&self) -> Self {
        let (range, span) = self.span.detached();
        let batch = &*self.batch;
        let records = Bytes::copy_from_slice(&batch.records[range]);
        let (topic, tenure) = (batch.topic.clone(), batch.tenure.clone());
        Self { batch: Arc::new(Inner { topic, records, tenure, ..*batch }), span, from: self.from }
    }

    pub(crate) fn from(&self) -> i64 {
        self.from
    }

    pub(crate) fn tenure(&self) -> Result<&Arc<Tenure>, Error> {
        self.batch.tenure()
    }

    #[inline]
    pub(crate) fn ack(&self) -> Result<(), Error> {
        let offset = self.offset();
        self.tenure()?.ack(self.from, offset + 1).map_err(|error| Error::commit(error.into(), offset))
    }

    pub(crate) fn ack_through(&self) -> Result<(), Error> {
        let offset = self.offset();
        self.tenure()?.ack_through(offset + 1).map_err(|error| Error::commit(error.into(), offset))
    }

    /// Commits up to it.
    pub(crate) fn through(&self) -> Result<Commit, Error> {
        Ok(Commit::Through { tenure: self.tenure()?.clone(), to: self.offset() + 1 })
    }
}
