use flate2::{Decompress, FlushDecompress, Status};

use super::super::header::crc32;
use super::{Codec, READ_STEP, RecordError, grow};

/// A member is at least its header and its trailer.
const MEMBER_MIN: usize = 18;
const HEADER: usize = 10;
const TRAILER: usize = 8;
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// Deflate packs at most 258 bytes into two bits, so an output size beyond this multiple is a lie.
const RATIO_MAX: usize = 1032;

/// One member whose trailer tells its size, which is what producers write, goes through libdeflate in one call. All
/// else (several members, bytes behind them, a size that is not the size) takes the slower way, member by member.
#[derive(Default)]
pub(super) struct Decoder {
    whole: Option<libdeflater::Decompressor>,
    steps: Option<Decompress>,
}

impl Decoder {
    pub(super) fn decode(&mut self, src: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let size = claimed_size(src).filter(|&size| size <= limit && !has_second_member(src));
        let fast = size.and_then(|size| self.decode_whole(src, size, out));
        let len = match fast {
            Some(len) => len,
            None => self.decode_members(src, limit, out)?,
        };
        out.truncate(len);
        Ok(())
    }

    /// The only member of `src`, if it unpacks to no more than `size` bytes. Why not is left to the slower way.
    fn decode_whole(&mut self, src: &[u8], size: usize, out: &mut Vec<u8>) -> Option<usize> {
        grow(out, size);
        let decompressor = self.whole.get_or_insert_with(libdeflater::Decompressor::new);
        decompressor.gzip_decompress(src, &mut out[..size]).ok()
    }

    /// Like Java's `GZIPInputStream`, this ignores what follows a member and is not another one.
    fn decode_members(&mut self, src: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<usize, RecordError> {
        let mut len = 0;
        let mut body = body(src).ok_or_else(|| Codec::Gzip.corrupt("there is no gzip header"))?;
        loop {
            let rest = self.decode_member(body, &mut len, limit, out)?;
            match self::body(rest) {
                Some(next) if rest.len() > MEMBER_MIN => body = next,
                _ => return Ok(len),
            }
        }
    }

    /// Unpacks a member, given without its header, behind the first `len` bytes of `out`, and returns what follows it.
    fn decode_member<'a>(
        &mut self,
        body: &'a [u8],
        len: &mut usize,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], RecordError> {
        let start = *len;
        let rest = self.inflate(body, len, limit, out)?;
        let Some((trailer, rest)) = rest.split_first_chunk::<TRAILER>() else {
            return Err(Codec::Gzip.corrupt("trailer is cut"));
        };
        let [a, b, c, d, e, f, g, h] = *trailer;
        let content = &out[start..*len];
        if u32::from_le_bytes([a, b, c, d]) != crc32(content) {
            return Err(Codec::Gzip.corrupt("CRC is wrong"));
        }
        if u32::from_le_bytes([e, f, g, h]) != content.len() as u32 {
            return Err(Codec::Gzip.corrupt("size in the trailer is wrong"));
        }
        Ok(rest)
    }

    fn inflate<'a>(
        &mut self,
        src: &'a [u8],
        len: &mut usize,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], RecordError> {
        let inflate = self.steps.get_or_insert_with(|| Decompress::new(false));
        inflate.reset(false);
        let start = *len;
        loop {
            if *len == out.len() {
                grow(out, (*len * 2).max(READ_STEP).min(limit.saturating_add(1)));
            }
            let rest = &src[inflate.total_in() as usize..];
            let status = inflate.decompress(rest, &mut out[*len..], FlushDecompress::None);
            let status = status.map_err(|error| Codec::Gzip.corrupt(error))?;
            *len = start + inflate.total_out() as usize;
            let consumed = inflate.total_in() as usize;
            if *len > limit {
                return Err(RecordError::TooLarge { limit });
            }
            if status == Status::StreamEnd {
                return Ok(&src[consumed..]);
            }
            if *len < out.len() && consumed == src.len() {
                return Err(Codec::Gzip.corrupt("data is cut"));
            }
        }
    }
}

pub(super) fn encode(records: &[u8]) -> Result<Vec<u8>, RecordError> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.gzip_compress_bound(records.len())];
    let len = compressor.gzip_compress(records, &mut out).map_err(|error| Codec::Gzip.corrupt(error))?;
    out.truncate(len);
    Ok(out)
}

/// The size of the output as the last four bytes tell it, if that can be.
fn claimed_size(src: &[u8]) -> Option<usize> {
    let size = u32::from_le_bytes(*src.last_chunk()?) as usize;
    (src.len() >= MEMBER_MIN && size <= src.len().saturating_mul(RATIO_MAX)).then_some(size)
}

/// Whether another member may begin inside `src`: libdeflate stops after the first one and does not say where, so the
/// others would be lost. By chance this is true once in a few hundred batches of 64 KB, which costs time and no more.
fn has_second_member(src: &[u8]) -> bool {
    let Some(first) = src.get(MEMBER_MIN..) else { return false };
    let (second, third) = (first.get(1..).unwrap_or_default(), first.get(2..).unwrap_or_default());
    // No way out at the first find, so that the compiler compares sixteen or more positions at once.
    let positions = first.iter().zip(second).zip(third);
    positions
        .fold(false, |found, ((&a, &b), &c)| found | ((a ^ MAGIC[0]) | (b ^ MAGIC[1]) | (c ^ MAGIC[2]) == 0))
}

/// What follows the header of the member that `src` begins with, if it begins with one.
fn body(src: &[u8]) -> Option<&[u8]> {
    const HEADER_CRC: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    if !src.starts_with(&MAGIC) {
        return None;
    }
    let (header, mut rest) = src.split_at_checked(HEADER)?;
    let flags = header[MAGIC.len()];
    if flags & EXTRA != 0 {
        let (len, after) = rest.split_first_chunk()?;
        rest = after.get(usize::from(u16::from_le_bytes(*len))..)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|&byte| byte == 0)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & HEADER_CRC != 0 {
        rest = rest.get(2..)?;
    }
    Some(rest)
}
