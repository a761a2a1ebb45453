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
    /// The lowest offset delta that the next record may have.
    floor: i32,
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
            floor: 0,
            last_offset_delta: header.last_offset_delta,
            base_offset: header.base_offset,
            timestamp,
            timestamp_type,
        }
    }

    #[inline(always)]
    fn read(&mut self) -> Result<Record<'a>, RecordError> {
        let span = Span::parse(self.records, self.at)?;
        let delta = span.offset_delta();
        if delta < self.floor || delta > self.last_offset_delta {
            return Err(self.misplaced(delta));
        }
        self.floor = delta.saturating_add(1);
        self.at = span.next();
        self.left -= 1;
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

    #[cold]
    fn misplaced(&self, found: i32) -> RecordError {
        RecordError::Offset { at: self.at, found, wanted: self.floor..=self.last_offset_delta }
    }

    /// All records are out: nothing may be left.
    #[cold]
    fn finish(&mut self) -> Option<Result<Record<'a>, RecordError>> {
        let left = self.records.len() - self.at;
        if left == 0 {
            return None;
        }
        let error = RecordError::Leftover { what: "the last record", at: self.at, left };
        self.at = self.records.len();
        Some(Err(error))
    }

    #[cold]
    fn stop(&mut self) {
        self.left = 0;
        self.at = self.records.len();
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            return self.finish();
        }
        let record = self.read();
        if record.is_err() {
            self.stop();
        }
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An error may stand for the rest, and the number is the producer's word, so nothing is promised.
        (0, Some(self.left.max(0) as usize + 1))
    }
}

impl FusedIterator for Records<'_> {}
