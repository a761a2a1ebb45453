use zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use super::{Codec, READ_STEP, RecordError};

const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// What a block holds at most.
const BLOCK_MAX: usize = 128 * 1024;
/// Room that is made at once on the word of the data: so many times its size, or one block. What is packed closer is
/// unpacked step by step, in case it lies.
const RATIO: usize = 64;

/// Into room that is large enough, zstd unpacks in one call; otherwise step by step through a window of its own, which
/// costs another copy. Java's producer does not write the size, so the room comes from the number of blocks.
#[derive(Default)]
pub(super) struct Decoder {
    context: Option<DCtx<'static>>,
}

impl Decoder {
    /// Any number of frames, and nothing behind them, as Java's client reads it.
    pub(super) fn decode(&mut self, src: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), RecordError> {
        out.clear();
        let context = self.context.get_or_insert_with(DCtx::create);
        match room(src) {
            Some(room) if room <= limit => decode_whole(context, src, room, limit, out),
            _ => decode_steps(context, src, limit, out),
        }
    }
}

fn decode_whole(
    context: &mut DCtx<'_>,
    src: &[u8],
    room: usize,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), RecordError> {
    out.reserve(room);
    match context.decompress(out, src) {
        Ok(len) if len > limit => Err(RecordError::TooLarge { limit }),
        Ok(_) => Ok(()),
        Err(code) if zstd_safe::is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) => {
            out.clear();
            decode_steps(context, src, limit, out)
        }
        Err(code) => Err(problem(code)),
    }
}

fn decode_steps(
    context: &mut DCtx<'_>,
    src: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), RecordError> {
    context.reset(ResetDirective::SessionOnly).map_err(problem)?;
    let mut input = InBuffer::around(src);
    loop {
        let len = out.len();
        if len == out.capacity() {
            out.reserve_exact(len.max(READ_STEP).min((limit - len).saturating_add(1)));
        }
        let mut output = OutBuffer::around_pos(out, len);
        let wanted = context.decompress_stream(&mut output, &mut input).map_err(problem)?;
        let at_end = input.pos() == src.len();
        if out.len() > limit {
            return Err(RecordError::TooLarge { limit });
        }
        if at_end && wanted == 0 {
            return Ok(());
        }
        if at_end && out.len() < out.capacity() {
            return Err(Codec::Zstd.corrupt("frame is cut"));
        }
    }
}

pub(super) fn encode(records: &[u8]) -> Result<Vec<u8>, RecordError> {
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(records.len()));
    zstd_safe::compress(&mut out, records, zstd_safe::CLEVEL_DEFAULT).map_err(problem)?;
    Ok(out)
}

/// Bytes that the only frame of `src` unpacks to at most, if it is the only one and that can be believed. For any other,
/// whether one call unpacks it may depend on how much room there happens to be.
fn room(src: &[u8]) -> Option<usize> {
    let most = blocks(src)?.saturating_mul(BLOCK_MAX);
    let room = match zstd_safe::get_frame_content_size(src).ok()? {
        Some(size) => usize::try_from(size).ok()?,
        None => most,
    };
    (room <= src.len().saturating_mul(RATIO).max(BLOCK_MAX)).then_some(room)
}

/// Number of blocks of the frame that `src` is, none of which is larger than may be.
fn blocks(src: &[u8]) -> Option<usize> {
    let mut rest = src.strip_prefix(&MAGIC)?;
    let (&descriptor, after) = rest.split_first()?;
    rest = after.get(header_rest(descriptor)..)?;
    let mut blocks = 0;
    loop {
        let (&[a, b, c], after) = rest.split_first_chunk()?;
        let word = u32::from_le_bytes([a, b, c, 0]);
        let (last, kind, size) = (word & 1 == 1, word >> 1 & 3, word as usize >> 3);
        const REPEATED: u32 = 1;
        rest = after.get(if kind == REPEATED { 1 } else { size }..)?;
        blocks += 1;
        if size > BLOCK_MAX {
            return None;
        }
        if last {
            let checksum = usize::from(descriptor >> 2 & 1) * 4;
            return (rest.len() == checksum).then_some(blocks);
        }
    }
}

/// Bytes of a frame's header behind its descriptor.
fn header_rest(descriptor: u8) -> usize {
    let one_segment = descriptor >> 5 & 1;
    let window = usize::from(1 - one_segment);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size = [usize::from(one_segment), 2, 4, 8][usize::from(descriptor >> 6)];
    window + dictionary + content_size
}

#[cold]
fn problem(code: zstd_safe::ErrorCode) -> RecordError {
    Codec::Zstd.corrupt(zstd_safe::get_error_name(code))
}
