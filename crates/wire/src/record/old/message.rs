use super::super::header::{APPEND_TIME_BIT, CODEC_BITS, LENGTH_END, MAGIC, crc32};
use super::super::{BatchHeader, RecordError};

/// One message, whole, its fields not yet looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) offset: i64,
    pub(super) magic: u8,
    /// In ms, -1 in format 0.
    pub(super) timestamp: i64,
    /// Where it begins.
    pub(super) at: usize,
    /// All of it.
    bytes: &'a [u8],
}

/// A key or a value, which may be null.
type Field<'a> = Option<&'a [u8]>;

/// Where the bytes that the CRC covers begin.
const CRC_START: usize = MAGIC;
const CRC: usize = LENGTH_END;
const ATTRIBUTES: usize = MAGIC + 1;
/// Where the key's length stands in format 0, and the timestamp in format 1.
const HEAD: usize = ATTRIBUTES + 1;
const TIMESTAMP: usize = 8;
/// Key and value are at least their lengths.
const FIELDS_MIN: usize = 8;
const NULL: i32 = -1;

impl<'a> Message<'a> {
    /// The message at byte `at`, `None` if it is cut.
    pub(super) fn read(bytes: &'a [u8], at: usize) -> Result<Option<Self>, RecordError> {
        let rest = &bytes[at..];
        let Some(head) = rest.first_chunk::<HEAD>() else { return Ok(None) };
        let magic = head[MAGIC];
        if magic > 1 {
            return Err(RecordError::UnknownMagic { magic: magic as i8, at });
        }
        let length = i32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        let wanted = usize::try_from(length).unwrap_or(0);
        if LENGTH_END + wanted < fields(magic) + FIELDS_MIN {
            return Err(RecordError::BatchLength { length, at });
        }
        let Some(bytes) = rest.get(..LENGTH_END + wanted) else { return Ok(None) };
        let timestamp = match magic {
            0 => -1,
            _ => i64::from_be_bytes(array(bytes, HEAD)),
        };
        Ok(Some(Self { offset: i64::from_be_bytes(array(bytes, 0)), magic, timestamp, at, bytes }))
    }

    /// Where the next one begins.
    pub(super) fn end(&self) -> usize {
        self.at + self.bytes.len()
    }

    /// The codec, and in format 1 who set the time; the other bits have no meaning.
    pub(super) fn attributes(&self) -> i16 {
        let known = if self.magic == 0 { CODEC_BITS } else { CODEC_BITS | APPEND_TIME_BIT };
        i16::from(self.bytes[ATTRIBUTES]) & known
    }

    pub(super) fn is_wrapper(&self) -> bool {
        self.attributes() & CODEC_BITS != 0
    }

    pub(super) fn stored_crc(&self) -> u32 {
        u32::from_be_bytes(array(self.bytes, CRC))
    }

    pub(super) fn check_crc(&self) -> Result<(), RecordError> {
        let (stored, computed) = (self.stored_crc(), crc32(&self.bytes[CRC_START..]));
        if stored == computed {
            return Ok(());
        }
        Err(RecordError::Crc { base_offset: self.offset, stored, computed })
    }

    /// Key and value, with nothing behind them.
    pub(super) fn key_and_value(&self) -> Result<(Field<'a>, Field<'a>), RecordError> {
        let mut at = fields(self.magic);
        let key = self.field(&mut at, "key length", "key")?;
        let value = self.field(&mut at, "value length", "value")?;
        match self.bytes.len() - at {
            0 => Ok((key, value)),
            left => Err(RecordError::Leftover { what: "message", at: self.at + at, left }),
        }
    }

    fn field(
        &self,
        at: &mut usize,
        length: &'static str,
        what: &'static str,
    ) -> Result<Field<'a>, RecordError> {
        let rest = &self.bytes[*at..];
        let Some((len, body)) = rest.split_first_chunk() else {
            let left = rest.len();
            return Err(RecordError::Truncated { what: length, at: self.at + *at, wanted: 4, left });
        };
        let found = i32::from_be_bytes(*len);
        let Ok(wanted) = usize::try_from(found) else {
            if found != NULL {
                let (at, found) = (self.at + *at, i64::from(found));
                return Err(RecordError::Length { what: length, at, found });
            }
            *at += len.len();
            return Ok(None);
        };
        *at += len.len();
        let Some(field) = body.get(..wanted) else {
            let left = body.len();
            return Err(RecordError::Truncated { what, at: self.at + *at, wanted, left });
        };
        *at += wanted;
        Ok(Some(field))
    }
}

/// Checks that the bytes of each message are those that were written.
pub(in super::super) fn check_crc(header: &BatchHeader, batch: &[u8]) -> Result<(), RecordError> {
    let (wanted, left) = (header.size(), batch.len());
    let Some(bytes) = batch.get(..wanted) else {
        return Err(RecordError::Truncated { what: "message set", at: 0, wanted, left });
    };
    messages(bytes).try_for_each(|message| message?.check_crc())
}

/// The messages that `bytes` consist of. Nothing comes behind an error.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = Result<Message<'_>, RecordError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == bytes.len() {
            return None;
        }
        let message = whole(bytes, at);
        at = message.as_ref().map_or(bytes.len(), Message::end);
        Some(message)
    })
}

/// The message at byte `at`, which must not be cut.
fn whole(bytes: &[u8], at: usize) -> Result<Message<'_>, RecordError> {
    let left = bytes.len() - at;
    Message::read(bytes, at)?.ok_or_else(|| {
        let length = bytes[at..].get(8..LENGTH_END).map_or(0, |_| i32::from_be_bytes(array(bytes, at + 8)));
        let wanted = (LENGTH_END + length.max(0) as usize).max(HEAD);
        RecordError::Truncated { what: "message", at, wanted, left }
    })
}

/// Where key and value begin in a message of this format.
fn fields(magic: u8) -> usize {
    if magic == 0 { HEAD } else { HEAD + TIMESTAMP }
}

/// `LEN` bytes at byte `at`, which are there.
fn array<const LEN: usize>(bytes: &[u8], at: usize) -> [u8; LEN] {
    let mut array = [0; LEN];
    array.copy_from_slice(&bytes[at..at + LEN]);
    array
}
