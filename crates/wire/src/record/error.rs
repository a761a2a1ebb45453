use std::ops::RangeInclusive;

use thiserror::Error;

use super::Codec;

/// What is wrong with a batch or a record, and where.
///
/// A position counts bytes from the start of what was given: of the reply's records in [`Batches`], of the unpacked
/// records in [`Span`], [`Records`] and [`Headers`].
///
/// All of these mean that the bytes are not what a correct producer and broker would send, with three exceptions:
/// [`OldFormat`](Self::OldFormat) is read in other ways, [`UnknownCodec`](Self::UnknownCodec) is beyond this version of
/// the crate, and [`TooLarge`](Self::TooLarge) is beyond the caller's limit.
///
/// [`Batches`]: super::Batches
/// [`Span`]: super::Span
/// [`Records`]: super::Records
/// [`Headers`]: super::Headers
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The bytes end before a field does.
    #[error("{what} at byte {at} wants {wanted} bytes, {left} are left")]
    Truncated {
        /// The field.
        what: &'static str,
        /// Where it begins.
        at: usize,
        /// How long it says it is.
        wanted: usize,
        /// How many bytes are left there.
        left: usize,
    },
    /// A message of before Kafka 0.11, where only a batch of today can be.
    #[error("at byte {at} there is a message of before Kafka 0.11 (format {magic}), not a batch")]
    OldFormat {
        /// The format, 0 or 1.
        magic: i8,
        /// Where the message begins.
        at: usize,
    },
    /// A format that no Kafka writes.
    #[error("unknown batch format {magic} at byte {at}")]
    UnknownMagic {
        /// The format.
        magic: i8,
        /// Where the batch begins.
        at: usize,
    },
    /// A batch's length cannot be: it is negative, or shorter than its own header.
    #[error("batch at byte {at} says it is {length} bytes long")]
    BatchLength {
        /// The length field, which leaves out its own and the offset's 12 bytes.
        length: i32,
        /// Where the batch begins.
        at: usize,
    },
    /// A batch's first or last offset cannot be.
    #[error("batch of base offset {base_offset} says its last offset is {last_offset_delta} further")]
    BatchOffsets {
        /// The first offset.
        base_offset: i64,
        /// The distance of the last.
        last_offset_delta: i32,
    },
    /// A batch's number of records is negative, or larger than its range of offsets.
    #[error("batch of base offset {base_offset} says it has {count} records in {room} offsets")]
    Count {
        /// The first offset.
        base_offset: i64,
        /// The number of records.
        count: i32,
        /// The number of offsets between the first and the last.
        room: i64,
    },
    /// The bytes of a batch are not those that were written.
    #[error("CRC of the batch of base offset {base_offset} is {computed:08x}, not {stored:08x} as written")]
    Crc {
        /// The first offset.
        base_offset: i64,
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A codec that this crate does not know.
    #[error("unknown compression codec {number}")]
    UnknownCodec {
        /// Its number in the attributes.
        number: u8,
    },
    /// A varint does not end within its bytes or its range.
    #[error("{what} at byte {at} is not a varint in its range")]
    Varint {
        /// The field.
        what: &'static str,
        /// Where it begins.
        at: usize,
    },
    /// A length or count that cannot be.
    #[error("{what} at byte {at} is {found}")]
    Length {
        /// The field.
        what: &'static str,
        /// Where it begins.
        at: usize,
        /// What it says.
        found: i64,
    },
    /// A record's offset is not above the one before it, or not inside its batch.
    #[error("record at byte {at} has offset delta {found}, expected {}..={}", wanted.start(), wanted.end())]
    Offset {
        /// Where the record begins.
        at: usize,
        /// Its distance from the batch's first offset.
        found: i32,
        /// Where it had to be.
        wanted: RangeInclusive<i32>,
    },
    /// A message of before Kafka 0.11 has an offset that is not above the one before it, or beyond that of its wrapper.
    #[error("message at byte {at} has offset {found}, expected {}..={}", wanted.start(), wanted.end())]
    MessageOffset {
        /// Where the message begins.
        at: usize,
        /// Its offset, as it stands there.
        found: i64,
        /// Where it had to be.
        wanted: RangeInclusive<i64>,
    },
    /// Bytes follow where nothing may.
    #[error("{left} bytes at byte {at} are left over after {what}")]
    Leftover {
        /// What is complete.
        what: &'static str,
        /// Where the bytes begin.
        at: usize,
        /// How many they are.
        left: usize,
    },
    /// Compressed bytes that do not unpack.
    #[error("{codec} data is broken: {problem}")]
    Corrupt {
        /// The codec.
        codec: Codec,
        /// What it says.
        problem: String,
    },
    /// A batch unpacks to more than the caller allows.
    #[error("batch unpacks to more than the limit of {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// A batch cannot be written: what it holds does not fit its fields.
    #[error("cannot write the batch: {what} does not fit")]
    DoesNotFit {
        /// The field.
        what: &'static str,
    },
}
