use super::super::builder::{fit, write_record};
use super::super::header::{APPEND_TIME_BIT, LENGTH_END};
use super::super::{BatchHeader, Codec, Decoder, RecordError, TimestampType};
use super::message::{Message, messages};

/// Replaces what is in `out` by the records of `batch`, and returns the header of format 2 that goes with them.
///
/// A record takes less room than its message did, so `out` grows no further than what the messages take.
pub(in super::super) fn unpack(
    header: &BatchHeader,
    batch: &[u8],
    decoder: &mut Decoder,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<BatchHeader, RecordError> {
    let (wanted, left) = (header.size(), batch.len());
    let Some(bytes) = batch.get(..wanted) else {
        return Err(RecordError::Truncated { what: "message set", at: 0, wanted, left });
    };
    match header.codec()? {
        Codec::None => unpack_row(header, bytes, out),
        codec => decoder.with_set(|decoder, set| {
            decoder.decode_wrapped(header.magic, codec, wrapped(codec, bytes)?, limit, set)?;
            unpack_wrapped(header, codec, set, out)
        }),
    }
}

fn unpack_row(header: &BatchHeader, row: &[u8], out: &mut Vec<u8>) -> Result<BatchHeader, RecordError> {
    let mut records = Records::new(header, row.len(), out);
    for message in messages(row) {
        let message = message?;
        if message.is_wrapper() {
            return Err(Codec::None.corrupt("a message in the row is compressed"));
        }
        records.push(&message)?;
    }
    records.finish(|first, _| first)
}

/// What the wrapper, the only message of `bytes`, has as its value.
fn wrapped(codec: Codec, bytes: &[u8]) -> Result<&[u8], RecordError> {
    let mut wrappers = messages(bytes);
    let wrapper = wrappers.next().ok_or_else(|| codec.corrupt("there is no message around it"))??;
    if wrappers.next().is_some() {
        return Err(codec.corrupt("there is more than one message around it"));
    }
    let (_, value) = wrapper.key_and_value()?;
    value.ok_or_else(|| codec.corrupt("the message around it has no value"))
}

fn unpack_wrapped(
    wrapper: &BatchHeader,
    codec: Codec,
    set: &[u8],
    out: &mut Vec<u8>,
) -> Result<BatchHeader, RecordError> {
    let mut records = Records::new(wrapper, set.len(), out);
    for message in messages(set) {
        let message = message?;
        if message.is_wrapper() {
            return Err(codec.corrupt("a message inside is compressed again"));
        }
        message.check_crc()?;
        records.push(&message)?;
    }
    let last = wrapper.last_offset();
    records.finish(|first, last_inside| match wrapper.magic {
        0 => first,
        // As Java has it: the last one belongs to the wrapper's offset. That fits absolute offsets, too.
        _ => last - (last_inside - first),
    })
}

/// Messages on their way to become the records of a batch.
struct Records<'a> {
    /// What was outlined.
    header: &'a BatchHeader,
    out: &'a mut Vec<u8>,
    /// Offset and timestamp of the first one.
    first: Option<(i64, i64)>,
    last_offset: i64,
    max_timestamp: i64,
    count: i32,
}

impl<'a> Records<'a> {
    fn new(header: &'a BatchHeader, size: usize, out: &'a mut Vec<u8>) -> Self {
        out.clear();
        out.reserve(size);
        Self { header, out, first: None, last_offset: -1, max_timestamp: i64::MIN, count: 0 }
    }

    fn push(&mut self, message: &Message<'_>) -> Result<(), RecordError> {
        let (offset, timestamp) = (message.offset, message.timestamp);
        let (first_offset, first_timestamp) = self.first.unwrap_or((offset, timestamp));
        self.check_offset(message, first_offset)?;
        let timestamp_delta = match self.header.timestamp_type() {
            TimestampType::Create => timestamp.wrapping_sub(first_timestamp),
            TimestampType::Append => 0,
        };
        let (key, value) = message.key_and_value()?;
        write_record(self.out, timestamp_delta, offset - first_offset, key, value, &[]);
        self.first = Some((first_offset, first_timestamp));
        self.last_offset = offset;
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.count += 1;
        Ok(())
    }

    /// Offsets go up, and no further than to what the whole says. Relative ones are no larger than true ones.
    fn check_offset(&self, message: &Message<'_>, first: i64) -> Result<(), RecordError> {
        let furthest = first.max(0).saturating_add(DELTA_MAX).min(self.header.last_offset());
        let wanted = self.last_offset.saturating_add(1)..=furthest;
        if wanted.contains(&message.offset) {
            return Ok(());
        }
        Err(RecordError::MessageOffset { at: message.at, found: message.offset, wanted })
    }

    /// The header; `base_offset` makes the true first offset out of the first and the last that were found.
    fn finish(self, base_offset: impl Fn(i64, i64) -> i64) -> Result<BatchHeader, RecordError> {
        let Some((first_offset, base_timestamp)) = self.first else {
            return Err(self.header.codec()?.corrupt("there is no message inside"));
        };
        let base_offset = base_offset(first_offset, self.last_offset);
        let last_offset = self.header.last_offset();
        let Ok(last_offset_delta) = i32::try_from(last_offset - base_offset) else {
            let wanted = last_offset.saturating_sub(DELTA_MAX)..=last_offset;
            return Err(RecordError::MessageOffset { at: 0, found: base_offset, wanted });
        };
        let max_timestamp = match self.header.timestamp_type() {
            TimestampType::Create => self.max_timestamp,
            TimestampType::Append => self.header.max_timestamp,
        };
        Ok(BatchHeader {
            base_offset,
            length: fit(BatchHeader::SIZE - LENGTH_END + self.out.len(), "size of the records")?,
            magic: 2,
            attributes: self.header.attributes & APPEND_TIME_BIT,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            count: self.count,
            ..*self.header
        })
    }
}

/// What the first offset and the last of a batch may be apart.
const DELTA_MAX: i64 = i32::MAX as i64;
