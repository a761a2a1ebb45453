use std::hash::Hasher;
use std::io::Write;

use lz4_flex::block::{DecompressError, decompress_into, decompress_into_with_dict};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use twox_hash::XxHash32;

use super::{Codec, RecordError, grow};

const MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
/// How far back a block may refer when blocks are linked.
const WINDOW: usize = 64 * 1024;
/// In front of a block's length: it is stored as it is.
const STORED: u32 = 1 << 31;

/// Blocks of up to this size unpack straight into the output. What larger ones may need is often far more than what
/// they hold (Go's library says 4 MiB for whatever there is), and would have to be cleared for each batch.
const DIRECT_MAX: usize = 64 * 1024;
/// A byte of a block stands for no more than this many of its content.
const RATIO_MAX: usize = 255;

/// One frame of the LZ4 frame format, its blocks unpacked right behind one another into the output, where
/// `lz4_flex`'s own frame reader would unpack each into a buffer of its own and copy it from there.
///
/// Like Java's client, this ignores what follows the frame's end mark. Unlike it, this also reads linked blocks, and
/// checks the content checksum.
#[derive(Default)]
pub(super) struct Decoder {
    /// Room for blocks that do not unpack straight into the output.
    large: Vec<u8>,
}

/// How the checksum of a frame's header is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderChecksum {
    /// Over what the format says.
    Right,
    /// Or as Kafka took it for messages of format 0, over the magic number as well (KIP-57).
    OrWithMagic,
}

impl Decoder {
    pub(super) fn decode(
        &mut self,
        src: &[u8],
        checksum: HeaderChecksum,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordError> {
        let (frame, mut rest) = Frame::parse(src, checksum)?;
        let mut len = 0;
        while let Some(block) = frame.next_block(&mut rest)? {
            len += match block {
                Block::Stored(bytes) => store(bytes, len, limit, out)?,
                Block::Packed(bytes) => self.unpack(&frame, bytes, len, limit, out)?,
            };
        }
        out.truncate(len);
        frame.check_content(rest, out)
    }

    /// Unpacks a block behind the first `at` bytes of `out` and returns its size.
    fn unpack(
        &mut self,
        frame: &Frame,
        block: &[u8],
        at: usize,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, RecordError> {
        let most = frame.block_max.min(block.len() * RATIO_MAX);
        let room = most.min(limit - at);
        let direct = room <= DIRECT_MAX || at + room <= out.len();
        if direct {
            grow(out, at + room);
        } else {
            grow(&mut self.large, room);
        }
        let (before, after) = out.split_at_mut(at);
        let place = if direct { &mut after[..room] } else { &mut self.large[..room] };
        let window = if frame.linked { &before[at.saturating_sub(WINDOW)..] } else { &[] };
        let done = match window {
            [] => decompress_into(block, place),
            window => decompress_into_with_dict(block, place, window),
        };
        let size = done.map_err(|error| match error {
            DecompressError::OutputTooSmall { .. } if room < most => RecordError::TooLarge { limit },
            error => Codec::Lz4.corrupt(error),
        })?;
        if !direct {
            out.truncate(at);
            out.extend_from_slice(&self.large[..size]);
        }
        Ok(size)
    }
}

/// Copies a block that is stored as it is behind the first `at` bytes of `out` and returns its size.
fn store(block: &[u8], at: usize, limit: usize, out: &mut Vec<u8>) -> Result<usize, RecordError> {
    if block.len() > limit - at {
        return Err(RecordError::TooLarge { limit });
    }
    grow(out, at + block.len());
    out[at..at + block.len()].copy_from_slice(block);
    Ok(block.len())
}

/// What a frame says of itself.
struct Frame {
    linked: bool,
    block_checksums: bool,
    content_checksum: bool,
    content_size: Option<u64>,
    block_max: usize,
}

enum Block<'a> {
    Stored(&'a [u8]),
    Packed(&'a [u8]),
}

impl Frame {
    /// The frame's header, and what follows it.
    fn parse(src: &[u8], checked: HeaderChecksum) -> Result<(Self, &[u8]), RecordError> {
        let mut rest = src;
        if take(&mut rest, MAGIC.len(), "header")? != MAGIC {
            return Err(Codec::Lz4.corrupt("there is no frame header"));
        }
        let descriptor = rest;
        let [flags, sizes] = take_array(&mut rest, "header")?;
        if flags & 0b1100_0011 != 0b0100_0000 || sizes & 0b1000_1111 != 0 {
            let problem =
                format_args!("frame header {flags:02x} {sizes:02x} is of another version or with dictionary");
            return Err(Codec::Lz4.corrupt(problem));
        }
        let content_size = match flags & 0b1000 {
            0 => None,
            _ => Some(u64::from_le_bytes(take_array(&mut rest, "header")?)),
        };
        let descriptor = &descriptor[..descriptor.len() - rest.len()];
        let with_magic = &src[..MAGIC.len() + descriptor.len()];
        let [checksum] = take_array(&mut rest, "header")?;
        let is_of = |bytes: &[u8]| (hash(bytes) >> 8) as u8 == checksum;
        let is_kafkas = || checked == HeaderChecksum::OrWithMagic && is_of(with_magic);
        if !is_of(descriptor) && !is_kafkas() {
            return Err(Codec::Lz4.corrupt("header checksum is wrong"));
        }
        let block_max = match sizes >> 4 {
            size @ 4..=7 => 1 << (2 * size + 8),
            size => return Err(Codec::Lz4.corrupt(format_args!("unknown block size {size}"))),
        };
        let frame = Self {
            linked: flags & 0b10_0000 == 0,
            block_checksums: flags & 0b1_0000 != 0,
            content_checksum: flags & 0b100 != 0,
            content_size,
            block_max,
        };
        Ok((frame, rest))
    }

    /// Takes the next block from `rest`; `None` at the end mark.
    fn next_block<'a>(&self, rest: &mut &'a [u8]) -> Result<Option<Block<'a>>, RecordError> {
        let word = u32::from_le_bytes(take_array(rest, "block length")?);
        if word == 0 {
            return Ok(None);
        }
        let len = (word & !STORED) as usize;
        if len > self.block_max {
            let problem = format_args!("block of {len} bytes is larger than the frame's {}", self.block_max);
            return Err(Codec::Lz4.corrupt(problem));
        }
        let block = take(rest, len, "block")?;
        if self.block_checksums && u32::from_le_bytes(take_array(rest, "block checksum")?) != hash(block) {
            return Err(Codec::Lz4.corrupt("block checksum is wrong"));
        }
        Ok(Some(if word & STORED == 0 { Block::Packed(block) } else { Block::Stored(block) }))
    }

    /// Holds the content to what the frame says of it; `rest` is what follows the end mark.
    fn check_content(&self, mut rest: &[u8], content: &[u8]) -> Result<(), RecordError> {
        if let Some(size) = self.content_size.filter(|&size| size != content.len() as u64) {
            return Err(Codec::Lz4.corrupt(format_args!("frame says {size} bytes, holds {}", content.len())));
        }
        if self.content_checksum && u32::from_le_bytes(take_array(&mut rest, "checksum")?) != hash(content) {
            return Err(Codec::Lz4.corrupt("content checksum is wrong"));
        }
        Ok(())
    }
}

pub(super) fn encode(records: &[u8]) -> Result<Vec<u8>, RecordError> {
    // As Java's client writes: it does not read linked blocks.
    let info = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(records).map_err(|error| Codec::Lz4.corrupt(error))?;
    encoder.finish().map_err(|error| Codec::Lz4.corrupt(error))
}

fn take<'a>(rest: &mut &'a [u8], len: usize, what: &str) -> Result<&'a [u8], RecordError> {
    let Some((taken, after)) = rest.split_at_checked(len) else {
        return Err(Codec::Lz4.corrupt(format_args!("{what} is cut")));
    };
    *rest = after;
    Ok(taken)
}

fn take_array<const LEN: usize>(rest: &mut &[u8], what: &str) -> Result<[u8; LEN], RecordError> {
    let mut array = [0; LEN];
    array.copy_from_slice(take(rest, LEN, what)?);
    Ok(array)
}

fn hash(bytes: &[u8]) -> u32 {
    let mut hasher = XxHash32::with_seed(0);
    hasher.write(bytes);
    hasher.finish() as u32
}
