//! What was fetched and waits to be handed out.

use std::sync::Arc;

use bytes::Bytes;

use super::{cursor::Cursor, ledger::Lease, reply::Outlined, turn::Turn};
use crate::fault::Fault;

/// One partition's share of one reply.
#[derive(Debug)]
pub struct Part {
    /// The partition's place in the machine.
    pub(crate) cursor: usize,
    /// The turn it belongs to.
    pub turn: Arc<Turn>,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// The partition's records as they came.
    pub records: Bytes,
    /// The batches in it, without control batches, in the order of their offsets.
    pub batches: Vec<Outlined>,
    /// The first offset that is wanted; a batch may begin before it.
    pub from: i64,
    /// The first offset that is not wanted any more.
    pub until: i64,
    /// Where the partition stands once this part has been handed out.
    pub next: i64,
    /// The end of the log when the reply was made (the high watermark).
    pub high_watermark: i64,
    /// Keeps the buffer on our side of the ledger.
    pub lease: Option<Lease>,
}

impl Part {
    /// No records, only the way from an offset to where the cursor stands.
    pub(crate) fn step(index: usize, cursor: &Cursor, from: i64) -> Self {
        Self {
            cursor: index,
            turn: cursor.turn.clone(),
            topic: cursor.at.topic.clone(),
            partition: cursor.at.partition,
            records: Bytes::new(),
            batches: Vec::new(),
            from,
            until: cursor.until.unwrap_or(i64::MAX),
            next: cursor.next,
            high_watermark: cursor.high_watermark,
            lease: None,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.records.len()
    }
}

/// What a partition has for the reader, in order.
#[derive(Debug)]
pub(crate) enum Entry {
    Part(Part),
    Fault(Fault),
}

/// What the reader gets when it asks.
#[derive(Debug)]
pub enum Take {
    /// Records, or at least a step forward.
    Part(Part),
    /// A fault of one partition, told once; or of the whole reader, told every time.
    Fault(Fault),
    /// The end that was asked for with `until` is reached everywhere.
    Ended,
    /// Nothing yet: the machine says [`Machine::poll_ready`](crate::Machine::poll_ready) when there is.
    Waiting,
}
