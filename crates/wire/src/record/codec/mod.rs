mod gzip;
mod lz4;
mod snappy;
mod zstd;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use lz4::HeaderChecksum;

use super::{BatchHeader, RecordError, old};

/// How the records of a batch are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// Snappy in the framing of Java's snappy library (xerial); read also without it.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// Zstandard, since Kafka 2.1.
    Zstd,
}

impl Codec {
    /// All codecs, by their numbers.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The number in a batch's attributes.
    pub fn number(self) -> u8 {
        self as u8
    }

    pub(super) fn from_number(number: u8) -> Result<Self, RecordError> {
        Self::ALL.get(usize::from(number)).copied().ok_or(RecordError::UnknownCodec { number })
    }

    pub(super) fn corrupt(self, problem: impl fmt::Display) -> RecordError {
        RecordError::Corrupt { codec: self, problem: problem.to_string() }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

impl FromStr for Codec {
    type Err = UnknownCodecName;

    fn from_str(name: &str) -> Result<Self, UnknownCodecName> {
        let found = Self::ALL.into_iter().find(|codec| codec.to_string() == name);
        found.ok_or_else(|| UnknownCodecName { name: name.to_owned() })
    }
}

/// A name that is not that of a codec.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown codec {name:?}: expected none, gzip, snappy, lz4 or zstd")]
pub struct UnknownCodecName {
    /// What was given.
    pub name: String,
}

/// Unpacks records, with contexts that are made once and used for every batch.
#[derive(Default)]
pub struct Decoder {
    gzip: gzip::Decoder,
    snappy: snappy::Decoder,
    lz4: lz4::Decoder,
    zstd: zstd::Decoder,
    /// What the last wrapper of before Kafka 0.11 held.
    set: Vec<u8>,
}

/// A larger set is not kept, lest one large wrapper costs memory for ever.
const SET_KEPT: usize = 4 << 20;

impl Decoder {
    /// A decoder without contexts: each is made when it is first needed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces what is in `out` by the records of `batch`, a whole batch of any format whose header was found by
    /// [`Batches`](super::Batches), and returns the header that they go by.
    ///
    /// For a batch of format 2 this is [`decode`](Self::decode) of what follows the header, which is returned as it is.
    /// Messages of before Kafka 0.11 become records of format 2: the header that is returned has their true first
    /// offset, their number and their times (-1 where they have none), and is of format 2, too, without a CRC. The
    /// [next offset](BatchHeader::next_offset) is the same in both.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and for old messages all that is wrong with them. Those in a wrapper have CRCs of
    /// their own, which are checked.
    pub fn unpack(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<BatchHeader, RecordError> {
        if header.magic < 2 {
            return old::unpack(header, batch, self, limit, out);
        }
        let (wanted, left) = (header.size(), batch.len());
        let Some(packed) = batch.get(BatchHeader::SIZE..wanted) else {
            return Err(RecordError::Truncated { what: "batch", at: 0, wanted, left });
        };
        self.decode(header.codec()?, packed, limit, out)?;
        Ok(*header)
    }

    /// Replaces what is in `out` by what `src`, the bytes behind a batch's header, unpacks to.
    ///
    /// `out` is best handed over as the last call left it: what it holds is memory that need not be cleared again. What
    /// `src` claims makes it grow no further than `limit`, nor than `src` could fill. Nothing unpacks to nothing, as a
    /// batch without records may have no compressed data either.
    ///
    /// Bytes that follow the compressed data are treated as Java's client treats them: ignored for gzip and lz4, and
    /// for snappy up to three; otherwise an error. Several gzip members, zstd frames or snappy streams behind one
    /// another are read as one.
    ///
    /// # Errors
    ///
    /// [`RecordError::TooLarge`] beyond `limit` bytes, [`RecordError::Corrupt`] for what is not of that codec; `out` is
    /// then of no meaning.
    pub fn decode(
        &mut self,
        codec: Codec,
        src: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordError> {
        if src.is_empty() {
            out.clear();
            return Ok(());
        }
        match codec {
            Codec::None => copy(src, limit, out),
            Codec::Gzip => self.gzip.decode(src, limit, out),
            Codec::Snappy => self.snappy.decode(src, limit, out),
            Codec::Lz4 => self.lz4.decode(src, HeaderChecksum::Right, limit, out),
            Codec::Zstd => self.zstd.decode(src, limit, out),
        }
    }

    /// [`decode`](Self::decode) of the value of a wrapper of that format.
    pub(super) fn decode_wrapped(
        &mut self,
        magic: i8,
        codec: Codec,
        src: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordError> {
        match (magic, codec) {
            (0, Codec::Lz4) => self.lz4.decode(src, HeaderChecksum::OrWithMagic, limit, out),
            _ => self.decode(codec, src, limit, out),
        }
    }

    /// Lends out the buffer for what wrappers hold.
    pub(super) fn with_set<T>(&mut self, work: impl FnOnce(&mut Self, &mut Vec<u8>) -> T) -> T {
        let mut set = std::mem::take(&mut self.set);
        let done = work(self, &mut set);
        if set.capacity() <= SET_KEPT {
            self.set = set;
        }
        done
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

/// Packs records.
pub(super) fn encode(codec: Codec, records: &[u8]) -> Result<Vec<u8>, RecordError> {
    match codec {
        Codec::None => Ok(records.to_vec()),
        Codec::Gzip => gzip::encode(records),
        Codec::Snappy => snappy::encode(records),
        Codec::Lz4 => lz4::encode(records),
        Codec::Zstd => zstd::encode(records),
    }
}

fn copy(src: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), RecordError> {
    if src.len() > limit {
        return Err(RecordError::TooLarge { limit });
    }
    out.clear();
    out.extend_from_slice(src);
    Ok(())
}

/// Makes `out` at least `len` bytes long, clearing only what it did not have.
fn grow(out: &mut Vec<u8>, len: usize) {
    if out.len() < len {
        out.resize(len, 0);
    }
}

/// How far the output grows at first where its size cannot be known; then it doubles.
const READ_STEP: usize = 64 * 1024;
