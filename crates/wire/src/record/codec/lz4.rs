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

/// One frame of the LZ4 frame format, its blocks unpacked right behind one another into the output, where
/// `lz4_flex`'s own frame reader would unpack each into a buffer of its own and copy it from there.
///
/// Like Java's client, this ignores what follows the frame's end mark. Unlike it, this also reads linked blocks, and
/// checks the content checksum.
#[derive(Default)]
pub(super) struct Decoder {}

impl Decoder {
    pub(super) fn decode(&mut self, src: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let (frame, mut rest) = Frame::parse(src)?;
        let mut len = 0;
        while let Some(block) = frame.next_block(&mut rest)? {
            len = frame.decode_block(block, len, limit, out)?;
        }
        out.truncate(len);
        frame.check_content(rest, out)
    }
}

/// What a frame says of itself.
struct Frame {
    linked: bool,
    block_checksums: bool,
    content_checksum: bool,
    content_size: Option<u64>,
    block_max: usize,
}

#[derive(Clone, Copy)]
enum Block<'a> {
    Stored(&'a [u8]),
    Packed(&'a [u8]),
}

impl Frame {
    /// The frame's header, and what follows it.
    fn parse(src: &[u8]) -> Result<(Self, &[u8]), RecordError> {
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
        let [checksum] = take_array(&mut rest, "header")?;
        if (hash(descriptor) >> 8) as u8 != checksum {
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

    /// Unpacks a block behind the first `at` bytes of `out` and returns where it ends.
    fn decode_block(
        &self,
        block: Block<'_>,
        at: usize,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, RecordError> {
        let room = match block {
            Block::Stored(bytes) => bytes.len(),
            Block::Packed(_) => self.block_max,
        };
        let end = at + room.min(limit - at);
        grow(out, end);
        let (before, after) = out[..end].split_at_mut(at);
        let done = match block {
            Block::Stored(bytes) if bytes.len() > after.len() => Err(RecordError::TooLarge { limit }),
            Block::Stored(bytes) => {
                after.copy_from_slice(bytes);
                Ok(bytes.len())
            }
            Block::Packed(bytes) if self.linked && at > 0 => {
                let window = &before[at.saturating_sub(WINDOW)..];
                decompress_into_with_dict(bytes, after, window)
                    .map_err(|error| problem(error, end == limit, limit))
            }
            Block::Packed(bytes) => {
                decompress_into(bytes, after).map_err(|error| problem(error, end == limit, limit))
            }
        };
        Ok(at + done?)
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

/// What a block's failure means: where the room was cut to the limit, having too little of it is no fault of the data.
#[cold]
fn problem(error: DecompressError, at_limit: bool, limit: usize) -> RecordError {
    match error {
        DecompressError::OutputTooSmall { .. } if at_limit => RecordError::TooLarge { limit },
        error => Codec::Lz4.corrupt(error),
    }
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
