use std::ops::Range;

use super::{Headers, RecordError, varint};

/// One record as positions in its (unpacked) records: what to keep where a reference cannot be kept.
///
/// All positions are checked once, by [`parse`](Self::parse): key, value and headers lie inside the buffer and behind
/// one another. The accessors take the buffer that the span was parsed from; with a shorter one they panic, as an
/// index would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    timestamp_delta: i64,
    offset_delta: i32,
    key_start: u32,
    /// Bytes of the key, [`NULL`] for none.
    key_len: i32,
    value_start: u32,
    /// Bytes of the value, [`NULL`] for none.
    value_len: i32,
    headers_start: u32,
    header_count: u32,
    next: u32,
}

/// In place of a length: there is no key or value.
const NULL: i32 = -1;

const _: () = assert!(size_of::<Span>() == 40, "spans are kept by the million");

impl Span {
    /// Reads the record at byte `at` of `records` and checks that all of it but the inside of its headers is there.
    ///
    /// # Errors
    ///
    /// What is wrong with the record, and at which byte of `records`.
    #[inline]
    pub fn parse(records: &[u8], at: usize) -> Result<Self, RecordError> {
        match parse(records, at) {
            Some(span) => Ok(span),
            None => Err(explain(records, at)),
        }
    }

    /// Where the next record begins: the byte after this one.
    #[inline]
    pub fn next(&self) -> usize {
        self.next as usize
    }

    /// Distance from the batch's first offset. Whether it is inside the batch is checked by [`Records`](super::Records).
    #[inline]
    pub fn offset_delta(&self) -> i32 {
        self.offset_delta
    }

    /// Distance from the batch's base timestamp in ms, of no meaning for [`TimestampType::Append`](super::TimestampType).
    #[inline]
    pub fn timestamp_delta(&self) -> i64 {
        self.timestamp_delta
    }

    /// The key; `None` if the record has none, which is not the same as an empty one.
    #[inline]
    pub fn key<'a>(&self, records: &'a [u8]) -> Option<&'a [u8]> {
        self.key_range().map(|range| &records[range])
    }

    /// The value; `None` if the record has none (a tombstone), which is not the same as an empty one.
    #[inline]
    pub fn value<'a>(&self, records: &'a [u8]) -> Option<&'a [u8]> {
        self.value_range().map(|range| &records[range])
    }

    /// The headers, read as they are asked for.
    #[inline]
    pub fn headers<'a>(&self, records: &'a [u8]) -> Headers<'a> {
        Headers::new(&records[..self.next()], self.headers_start as usize, self.header_count as usize)
    }

    /// Number of headers.
    #[inline]
    pub fn header_count(&self) -> usize {
        self.header_count as usize
    }

    /// Where the key lies.
    #[inline]
    pub fn key_range(&self) -> Option<Range<usize>> {
        range(self.key_start, self.key_len)
    }

    /// The part of `records` that key, value and headers lie in, and the span as it is in a copy of that part.
    pub fn detached(&self) -> (Range<usize>, Self) {
        let start = self.key_start;
        let span = Self {
            key_start: 0,
            value_start: self.value_start - start,
            headers_start: self.headers_start - start,
            next: self.next - start,
            ..*self
        };
        (start as usize..self.next(), span)
    }

    /// Where the value lies.
    #[inline]
    pub fn value_range(&self) -> Option<Range<usize>> {
        range(self.value_start, self.value_len)
    }
}

#[inline(always)]
fn range(start: u32, len: i32) -> Option<Range<usize>> {
    (len != NULL).then(|| start as usize..start as usize + len as usize)
}

/// The fast path: everything is right, or nothing is said.
#[inline(always)]
fn parse(records: &[u8], start: usize) -> Option<Span> {
    let mut at = start;
    let len = usize::try_from(varint::read_i32(records, &mut at)?).ok()?;
    let end = at.checked_add(len)?;
    let next = u32::try_from(end).ok()?;
    let record = records.get(..end)?;
    at += 1; // attributes: no bit of them has a meaning yet
    let timestamp_delta = varint::read_i64(record, &mut at)?;
    let offset_delta = varint::read_i32(record, &mut at)?;
    let (key_start, key_len) = field(record, &mut at)?;
    let (value_start, value_len) = field(record, &mut at)?;
    let header_count = varint::read_i32(record, &mut at)?;
    let room = end - at;
    if header_count == 0 {
        if room != 0 {
            return None;
        }
    } else if header_count < 0 || header_count as usize > room / Headers::MIN_SIZE {
        return None;
    }
    Some(Span {
        timestamp_delta,
        offset_delta,
        key_start,
        key_len,
        value_start,
        value_len,
        headers_start: at as u32,
        header_count: header_count as u32,
        next,
    })
}

/// A key or a value: its start and length, `at` moved behind it.
#[inline(always)]
fn field(record: &[u8], at: &mut usize) -> Option<(u32, i32)> {
    let len = varint::read_i32(record, at)?;
    let start = *at;
    if len >= 0 {
        if len as usize > record.len() - start {
            return None;
        }
        *at += len as usize;
    } else if len != NULL {
        return None;
    }
    Some((start as u32, len))
}

/// Why [`parse`] said nothing: the same steps again, each with its name.
#[cold]
#[inline(never)]
fn explain(records: &[u8], start: usize) -> RecordError {
    match walk(records, start) {
        Ok(body) => RecordError::Leftover { what: "record", at: body.start, left: body.len() },
        Err(error) => error,
    }
}

/// Returns what follows the header count, as far as the record goes.
fn walk(records: &[u8], start: usize) -> Result<Range<usize>, RecordError> {
    let mut at = start;
    let len = read(records, &mut at, "record length")?;
    let Ok(wanted) = usize::try_from(len) else {
        return Err(RecordError::Length { what: "record length", at: start, found: i64::from(len) });
    };
    let left = records.len() - at;
    if wanted > left {
        return Err(RecordError::Truncated { what: "record", at, wanted, left });
    }
    let end = at + wanted;
    if u32::try_from(end).is_err() {
        return Err(RecordError::DoesNotFit { what: "record beyond 4 GiB" });
    }
    let record = &records[..end];
    if wanted == 0 {
        return Err(RecordError::Truncated { what: "record attributes", at, wanted: 1, left: 0 });
    }
    at += 1;
    let time_at = at;
    varint::read_i64(record, &mut at).ok_or_else(|| varint::fault(record, time_at, "timestamp delta"))?;
    read(record, &mut at, "offset delta")?;
    skip(record, &mut at, "key length", "key")?;
    skip(record, &mut at, "value length", "value")?;
    let count_at = at;
    let count = read(record, &mut at, "header count")?;
    if count < 0 || count as usize > (end - at) / Headers::MIN_SIZE {
        return Err(RecordError::Length { what: "header count", at: count_at, found: i64::from(count) });
    }
    Ok(at..end)
}

fn read(record: &[u8], at: &mut usize, what: &'static str) -> Result<i32, RecordError> {
    let start = *at;
    varint::read_i32(record, at).ok_or_else(|| varint::fault(record, start, what))
}

fn skip(record: &[u8], at: &mut usize, what: &'static str, body: &'static str) -> Result<(), RecordError> {
    let start = *at;
    let len = read(record, at, what)?;
    if len < NULL {
        return Err(RecordError::Length { what, at: start, found: i64::from(len) });
    }
    let wanted = len.max(0) as usize;
    let left = record.len() - *at;
    if wanted > left {
        return Err(RecordError::Truncated { what: body, at: *at, wanted, left });
    }
    *at += wanted;
    Ok(())
}
