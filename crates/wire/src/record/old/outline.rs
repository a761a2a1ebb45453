use std::ops::Range;

use super::super::header::{APPEND_TIME_BIT, LENGTH_END};
use super::super::{BatchHeader, RecordError};
use super::message::Message;

/// A row of messages becomes no larger than this, so that what is unpacked of it is still in the processor's cache when
/// it is read. A message that is larger is a row of its own.
const ROW_MAX: usize = 64 * 1024;

/// The wrapper at byte `at`, or the row of messages that begins there and can go by one header; `None` if not even the
/// first message is whole.
pub(in super::super) fn outline(
    bytes: &[u8],
    at: usize,
) -> Result<Option<(BatchHeader, Range<usize>)>, RecordError> {
    let Some(first) = Message::read(bytes, at)? else { return Ok(None) };
    let mut row = Row::new(&first)?;
    // What is wrong with a message is told when it is its turn to be the first.
    while let Ok(Some(next)) = Message::read(bytes, row.end)
        && row.takes(&next)
    {
        row.add(&next);
    }
    Ok(Some((row.header(&first), at..row.end)))
}

struct Row {
    /// Where it begins and ends.
    at: usize,
    end: usize,
    magic: u8,
    attributes: i16,
    base_offset: i64,
    last_offset: i64,
    base_timestamp: i64,
    max_timestamp: i64,
    count: i32,
}

impl Row {
    fn new(first: &Message<'_>) -> Result<Self, RecordError> {
        let Message { offset, magic, timestamp, at, .. } = *first;
        if offset < 0 || offset == i64::MAX {
            return Err(RecordError::BatchOffsets { base_offset: offset, last_offset_delta: 0 });
        }
        Ok(Self {
            at,
            end: first.end(),
            magic,
            attributes: first.attributes(),
            base_offset: offset,
            last_offset: offset,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            count: 1,
        })
    }

    fn takes(&self, next: &Message<'_>) -> bool {
        const DELTA_MAX: i64 = i32::MAX as i64;
        let is_plain = self.attributes & !APPEND_TIME_BIT == 0;
        is_plain
            && (next.magic, next.attributes()) == (self.magic, self.attributes)
            // For append time a header has one time for all.
            && (self.attributes == 0 || next.timestamp == self.max_timestamp)
            && next.offset > self.last_offset
            && next.offset - self.base_offset <= DELTA_MAX
            && next.offset != i64::MAX
            && next.end() - self.at <= ROW_MAX
    }

    fn add(&mut self, next: &Message<'_>) {
        self.end = next.end();
        self.last_offset = next.offset;
        self.max_timestamp = self.max_timestamp.max(next.timestamp);
        self.count += 1;
    }

    fn header(&self, first: &Message<'_>) -> BatchHeader {
        BatchHeader {
            base_offset: self.base_offset,
            // A row of more than one message is small, and a message has such a length itself.
            length: (self.end - self.at - LENGTH_END) as i32,
            leader_epoch: -1,
            magic: self.magic as i8,
            crc: first.stored_crc(),
            attributes: self.attributes,
            last_offset_delta: (self.last_offset - self.base_offset) as i32,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            count: self.count,
        }
    }
}
