use std::fmt;

use super::{Codec, RecordError, old};

/// Who set the timestamps of a batch's records (`message.timestamp.type` of the topic).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// The producer, when it made the record.
    Create,
    /// The broker, when it took the batch in: all its records have the batch's maximum timestamp.
    Append,
}

impl fmt::Display for TimestampType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Create => "create",
            Self::Append => "append",
        })
    }
}

/// The 61 bytes before a batch's records (magic 2, Kafka 0.11 and later).
///
/// A parsed header makes sense in itself: the length is at least the header's, the first offset and the count are not
/// negative, the last offset is not before the first and has a successor. The fields are as they stand in the bytes.
///
/// Messages of before Kafka 0.11 have no such header. What [`Batches`](super::Batches) makes of a row of them, or of a
/// wrapper, has their format as its [`magic`](Self::magic) and goes by the same rules; its records are got with
/// [`Decoder::unpack`](super::Decoder::unpack), together with the header of format 2 that they go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record that was in the batch when it was written. Of a [wrapper](Self::is_wrapper) it is that
    /// of the last one.
    pub base_offset: i64,
    /// Bytes after the first 12, see [`size`](Self::size).
    pub length: i32,
    /// Epoch of the leader that appended the batch, -1 if it does not say.
    pub leader_epoch: i32,
    /// Format: 2, or 0 or 1 for messages of before Kafka 0.11.
    pub magic: i8,
    /// CRC32C of everything after this field. Old messages have a CRC32 each; this is that of the first.
    pub crc: u32,
    /// Codec (bits 0 to 2), timestamp type (3), transactional (4), control (5), delete horizon (6).
    pub attributes: i16,
    /// Distance from the first offset to the last. Compaction keeps it, so there may be no record there.
    pub last_offset_delta: i32,
    /// What the records' timestamps count from, in ms. For a compacted batch with a delete horizon (KIP-534) it is that
    /// horizon, and the records' deltas count from there.
    pub base_timestamp: i64,
    /// Latest timestamp of the batch, in ms; for [`TimestampType::Append`] the timestamp of all its records.
    pub max_timestamp: i64,
    /// The idempotent or transactional producer, -1 for none.
    pub producer_id: i64,
    /// Its epoch, -1 for none.
    pub producer_epoch: i16,
    /// Its sequence number of the first record, -1 for none.
    pub base_sequence: i32,
    /// Number of records; 0 if compaction removed them all. A [wrapper](Self::is_wrapper) counts as one.
    pub count: i32,
}

/// Where the length field ends and what it counts begins.
pub(super) const LENGTH_END: usize = 12;
pub(super) const LEADER_EPOCH: usize = 12;
pub(super) const MAGIC: usize = 16;
pub(super) const CRC: usize = 17;
/// Where the bytes that the CRC covers begin.
pub(super) const CRC_START: usize = 21;
pub(super) const MAX_TIMESTAMP: usize = 35;

pub(super) const CODEC_BITS: i16 = 0x07;
pub(super) const APPEND_TIME_BIT: i16 = 0x08;
pub(super) const TRANSACTIONAL_BIT: i16 = 0x10;
pub(super) const CONTROL_BIT: i16 = 0x20;

impl BatchHeader {
    /// Bytes of a header.
    pub const SIZE: usize = 61;

    /// Reads the header that `bytes` begin with, and checks that it makes sense in itself.
    ///
    /// # Errors
    ///
    /// [`RecordError::Truncated`] with fewer than [`SIZE`](Self::SIZE) bytes, [`RecordError::OldFormat`] or
    /// [`RecordError::UnknownMagic`] for another format, and one of [`RecordError::BatchLength`],
    /// [`RecordError::BatchOffsets`] and [`RecordError::Count`] for a header that cannot be.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        Self::parse_at(bytes, 0)
    }

    /// [`parse`](Self::parse) of the header at byte `at` of `bytes`, so that errors tell that position.
    pub(super) fn parse_at(bytes: &[u8], at: usize) -> Result<Self, RecordError> {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(raw) = rest.first_chunk::<{ Self::SIZE }>() else {
            return Err(RecordError::Truncated {
                what: "batch header",
                at,
                wanted: Self::SIZE,
                left: rest.len(),
            });
        };
        let header = Self {
            base_offset: i64::from_be_bytes(field::<0, 8>(raw)),
            length: i32::from_be_bytes(field::<8, 4>(raw)),
            leader_epoch: i32::from_be_bytes(field::<LEADER_EPOCH, 4>(raw)),
            magic: raw[MAGIC] as i8,
            crc: u32::from_be_bytes(field::<CRC, 4>(raw)),
            attributes: i16::from_be_bytes(field::<CRC_START, 2>(raw)),
            last_offset_delta: i32::from_be_bytes(field::<23, 4>(raw)),
            base_timestamp: i64::from_be_bytes(field::<27, 8>(raw)),
            max_timestamp: i64::from_be_bytes(field::<MAX_TIMESTAMP, 8>(raw)),
            producer_id: i64::from_be_bytes(field::<43, 8>(raw)),
            producer_epoch: i16::from_be_bytes(field::<51, 2>(raw)),
            base_sequence: i32::from_be_bytes(field::<53, 4>(raw)),
            count: i32::from_be_bytes(field::<57, 4>(raw)),
        };
        header.check(at)?;
        Ok(header)
    }

    /// The header as bytes, whatever its fields are.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let fields: [&[u8]; 13] = [
            &self.base_offset.to_be_bytes(),
            &self.length.to_be_bytes(),
            &self.leader_epoch.to_be_bytes(),
            &self.magic.to_be_bytes(),
            &self.crc.to_be_bytes(),
            &self.attributes.to_be_bytes(),
            &self.last_offset_delta.to_be_bytes(),
            &self.base_timestamp.to_be_bytes(),
            &self.max_timestamp.to_be_bytes(),
            &self.producer_id.to_be_bytes(),
            &self.producer_epoch.to_be_bytes(),
            &self.base_sequence.to_be_bytes(),
            &self.count.to_be_bytes(),
        ];
        let mut bytes = [0; Self::SIZE];
        let mut rest = &mut bytes[..];
        for field in fields {
            let (place, after) = rest.split_at_mut(field.len());
            place.copy_from_slice(field);
            rest = after;
        }
        bytes
    }

    /// Bytes of the whole batch, header included.
    pub fn size(&self) -> usize {
        LENGTH_END + self.length.max(0) as usize
    }

    /// The last offset that was in the batch when it was written.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// The offset after the batch, which is where reading goes on whatever the batch still holds.
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// How the records are compressed.
    ///
    /// # Errors
    ///
    /// [`RecordError::UnknownCodec`] for a codec that came after this crate, or after that format.
    pub fn codec(&self) -> Result<Codec, RecordError> {
        match Codec::from_number((self.attributes & CODEC_BITS) as u8)? {
            Codec::Zstd if self.magic < 2 => Err(RecordError::UnknownCodec { number: Codec::Zstd.number() }),
            codec => Ok(codec),
        }
    }

    /// Whether this is a compressed message of before Kafka 0.11 that has others inside: how many they are, and where
    /// the first one belongs, is not known before it is unpacked.
    pub fn is_wrapper(&self) -> bool {
        self.magic < 2 && self.attributes & CODEC_BITS != 0
    }

    /// Who set the timestamps.
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & APPEND_TIME_BIT == 0 { TimestampType::Create } else { TimestampType::Append }
    }

    /// Whether the records are markers of the broker ([`Control`](super::Control)), not records for a reader.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// Whether the records belong to a transaction, which may have been aborted.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Checks that `batch`, the whole batch with its header, holds the bytes that were written.
    ///
    /// # Errors
    ///
    /// [`RecordError::Crc`] if it does not, [`RecordError::Truncated`] if `batch` is shorter than the header says.
    #[inline]
    pub fn check_crc(&self, batch: &[u8]) -> Result<(), RecordError> {
        if self.magic < 2 {
            return old::check_crc(self, batch);
        }
        let Some(covered) = batch.get(CRC_START..self.size()) else {
            return Err(RecordError::Truncated {
                what: "batch",
                at: 0,
                wanted: self.size(),
                left: batch.len(),
            });
        };
        let computed = crc(covered);
        if computed == self.crc {
            return Ok(());
        }
        Err(RecordError::Crc { base_offset: self.base_offset, stored: self.crc, computed })
    }

    /// Whether the header makes sense in itself; `at` is where it was found.
    pub(super) fn check(&self, at: usize) -> Result<(), RecordError> {
        check_magic(self.magic, at)?;
        if self.length < (Self::SIZE - LENGTH_END) as i32 {
            return Err(RecordError::BatchLength { length: self.length, at });
        }
        let Self { base_offset, last_offset_delta, count, .. } = *self;
        let next = base_offset.checked_add(i64::from(last_offset_delta)).and_then(|last| last.checked_add(1));
        if base_offset < 0 || last_offset_delta < 0 || next.is_none() {
            return Err(RecordError::BatchOffsets { base_offset, last_offset_delta });
        }
        let room = i64::from(last_offset_delta) + 1;
        if count < 0 || i64::from(count) > room {
            return Err(RecordError::Count { base_offset, count, room });
        }
        Ok(())
    }
}

/// The checksum of a batch: CRC32C, by the fastest kernel the processor has.
pub(super) fn crc(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The checksum of an old message, CRC32, likewise.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

/// Lets format 2 pass, which is all that begins with such a header.
pub(super) fn check_magic(magic: i8, at: usize) -> Result<(), RecordError> {
    match magic {
        2 => Ok(()),
        0 | 1 => Err(RecordError::OldFormat { magic, at }),
        _ => Err(RecordError::UnknownMagic { magic, at }),
    }
}

fn field<const AT: usize, const LEN: usize>(raw: &[u8; BatchHeader::SIZE]) -> [u8; LEN] {
    const { assert!(AT + LEN <= BatchHeader::SIZE) };
    let mut out = [0; LEN];
    out.copy_from_slice(&raw[AT..AT + LEN]);
    out
}
