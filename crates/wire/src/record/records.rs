use std::iter::FusedIterator;

use super::{BatchHeader, Headers, RecordError, Span, TimestampType};

/// One record of a batch, borrowed from its (unpacked) records.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Its place in the partition.
    pub offset: i64,
    /// Its time in ms since 1970, -1 if it has none.
    pub timestamp: i64,
    /// Who set that time.
    pub timestamp_type: TimestampType,
    span: Span,
    records: &'a [u8],
}

impl<'a> Record<'a> {
    /// The key; `None` if the record has none, which is not the same as an empty one.
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.span.key(self.records)
    }

    /// The value; `None` if the record has none (a tombstone), which is not the same as an empty one.
    #[inline]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.span.value(self.records)
    }

    /// The headers, read as they are asked for.
    #[inline]
    pub fn headers(&self) -> Headers<'a> {
        self.span.headers(self.records)
    }

    /// The record as positions in its records.
    #[inline]
    pub fn span(&self) -> Span {
        self.span
    }
}

/// The records of one batch, in order.
///
/// What a batch says of itself is held to: its number of records, with nothing left over behind them, and offsets that
/// go up and stay inside the batch. After an error the iterator ends.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    records: &'a [u8],
    at: usize,
    /// Records still to come.
    left: i32,
    /// Offset delta of the record before, -1 at first.
    last: i32,
    last_offset_delta: i32,
    base_offset: i64,
    /// What timestamp deltas count from; for append time what every timestamp is.
    timestamp: i64,
    timestamp_type: TimestampType,
}

impl<'a> Records<'a> {
    /// The records of the batch with this header: `records` is what follows the header, unpacked if the batch is
    /// compressed.
    pub fn new(header: &BatchHeader, records: &'a [u8]) -> Self {
        let timestamp_type = header.timestamp_type();
        let timestamp = match timestamp_type {
            TimestampType::Create => header.base_timestamp,
            TimestampType::Append => header.max_timestamp,
        };
        Self {
            records,
            at: 0,
            left: header.count,
            last: -1,
            last_offset_delta: header.last_offset_delta,
            base_offset: header.base_offset,
            timestamp,
            timestamp_type,
        }
    }

    #[inline(always)]
    fn read(&self) -> Result<Record<'a>, RecordError> {
        let span = Span::parse(self.records, self.at)?;
        let delta = span.offset_delta();
        if delta <= self.last || delta > self.last_offset_delta {
            return Err(misplaced(self.at, delta, self.last, self.last_offset_delta));
        }
        Ok(Record {
            offset: self.base_offset.wrapping_add(i64::from(delta)),
            timestamp: self.time(&span),
            timestamp_type: self.timestamp_type,
            span,
            records: self.records,
        })
    }

    /// A delta that overflows wraps, as in Java: a timestamp only informs.
    #[inline(always)]
    fn time(&self, span: &Span) -> i64 {
        match self.timestamp_type {
            TimestampType::Create => self.timestamp.wrapping_add(span.timestamp_delta()),
            TimestampType::Append => self.timestamp,
        }
    }

    #[inline(always)]
    fn stop(&mut self) {
        self.left = 0;
        self.at = self.records.len();
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    // What is rare gets and gives values: a call with `self` or with the item would keep both in memory, which costs
    // as much as reading the record.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            if self.at == self.records.len() {
                return None;
            }
            let error = leftover(self.at, self.records.len());
            self.stop();
            return Some(Err(error));
        }
        match self.read() {
            Ok(record) => {
                self.left -= 1;
                self.at = record.span.next();
                self.last = record.span.offset_delta();
                Some(Ok(record))
            }
            Err(error) => {
                self.stop();
                Some(Err(error))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An error may stand for the rest, and the number is the producer's word, so nothing is promised.
        (0, Some(self.left.max(0) as usize + 1))
    }
}

impl FusedIterator for Records<'_> {}

#[cold]
#[inline(never)]
fn misplaced(at: usize, found: i32, before: i32, last: i32) -> RecordError {
    RecordError::Offset { at, found, wanted: before.saturating_add(1)..=last }
}

#[cold]
#[inline(never)]
fn leftover(at: usize, end: usize) -> RecordError {
    RecordError::Leftover { what: "the last record", at, left: end - at }
}
