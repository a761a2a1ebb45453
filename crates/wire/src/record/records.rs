use std::fmt;
use std::iter::FusedIterator;

use super::{BatchHeader, Excerpt, Headers, RecordError, Span, TimestampType};

/// One record of a batch, borrowed from its (unpacked) records.
#[derive(Clone, Copy)]
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

/// Where it is and the beginnings of key and value.
impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("offset", &self.offset)
            .field("timestamp", &self.timestamp)
            .field("key", &self.key().map(Excerpt))
            .field("value", &self.value().map(Excerpt))
            .field("headers", &self.headers().len())
            .finish()
    }
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
    #[doc(hidden)]
    #[inline]
    pub fn span(&self) -> Span {
        self.span
    }
}

/// A place in the records of a batch that does not borrow them: for those who own the records and go on later.
/// [`Records`] is the same with the records in hand.
///
/// What a batch says of itself is held to: its number of records, with nothing left over behind them, and offsets that
/// go up and stay inside the batch. After an error nothing more comes.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    at: usize,
    /// Records still to come.
    left: i32,
    /// Offset delta of the record before, -1 at first.
    last: i32,
    last_offset_delta: i32,
}

impl Walk {
    /// The beginning of the batch with this header.
    #[inline]
    pub fn new(header: &BatchHeader) -> Self {
        Self { at: 0, left: header.count, last: -1, last_offset_delta: header.last_offset_delta }
    }

    /// The lowest distance from the batch's first offset that the next record may have.
    #[inline]
    pub fn next_offset_delta(&self) -> i32 {
        self.last.saturating_add(1)
    }

    /// The next record. `records` must be the same each time.
    // What is rare gets and gives values: a call with `self` or with the item would keep both in memory, which costs
    // as much as reading the record.
    #[inline(always)]
    pub fn next(&mut self, records: &[u8]) -> Option<Result<Span, RecordError>> {
        if self.left <= 0 {
            if self.at == records.len() {
                return None;
            }
            let error = leftover(self.at, records.len());
            self.stop(records);
            return Some(Err(error));
        }
        match self.read(records) {
            Ok(span) => {
                self.left -= 1;
                self.at = span.next();
                self.last = span.offset_delta();
                Some(Ok(span))
            }
            Err(error) => {
                self.stop(records);
                Some(Err(error))
            }
        }
    }

    #[inline(always)]
    fn read(&self, records: &[u8]) -> Result<Span, RecordError> {
        let span = Span::parse(records, self.at)?;
        let delta = span.offset_delta();
        if delta <= self.last || delta > self.last_offset_delta {
            return Err(misplaced(self.at, delta, self.last, self.last_offset_delta));
        }
        Ok(span)
    }

    #[inline(always)]
    fn stop(&mut self, records: &[u8]) {
        self.left = 0;
        self.at = records.len();
    }
}

/// The records of one batch, in order; see [`Walk`] for what is checked.
#[derive(Clone)]
pub struct Records<'a> {
    records: &'a [u8],
    walk: Walk,
    base_offset: i64,
    /// What timestamp deltas count from; for append time what every timestamp is.
    timestamp: i64,
    timestamp_type: TimestampType,
}

impl fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("walk", &self.walk).finish_non_exhaustive()
    }
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
        let walk = Walk::new(header);
        Self { records, walk, base_offset: header.base_offset, timestamp, timestamp_type }
    }

    /// A delta that overflows wraps, as in Java: a timestamp only informs.
    #[inline(always)]
    fn time(&self, span: &Span) -> i64 {
        match self.timestamp_type {
            TimestampType::Create => self.timestamp.wrapping_add(span.timestamp_delta()),
            TimestampType::Append => self.timestamp,
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.walk.next(self.records)? {
            Ok(span) => Ok(Record {
                offset: self.base_offset.wrapping_add(i64::from(span.offset_delta())),
                timestamp: self.time(&span),
                timestamp_type: self.timestamp_type,
                span,
                records: self.records,
            }),
            Err(error) => Err(error),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An error may stand for the rest, and the number is the producer's word, so nothing is promised.
        (0, Some(self.walk.left.max(0) as usize + 1))
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
