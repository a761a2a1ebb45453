use flate2::bufread::GzDecoder;

use super::{Codec, RecordError, grow, read_all};

/// A gzip member is at least its header and its trailer.
const MEMBER_MIN: usize = 18;
/// Deflate packs at most 258 bytes into two bits, so an output size beyond this multiple is a lie.
const RATIO_MAX: usize = 1032;

/// One member whose trailer tells its size, which is what producers write, goes through libdeflate in one call. All
/// else (several members, bytes behind them, a size that is not the size) takes the slower way.
#[derive(Default)]
pub(super) struct Decoder {
    fast: Option<libdeflater::Decompressor>,
}

impl Decoder {
    pub(super) fn decode(&mut self, src: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), RecordError> {
        match size_hint(src) {
            Some(size) if size <= limit && !has_second_member(src) => {}
            _ => return decode_members(src, limit, out),
        }
        let size = size_hint(src).unwrap_or_default();
        grow(out, size);
        let fast = self.fast.get_or_insert_with(libdeflater::Decompressor::new);
        match fast.gzip_decompress(src, &mut out[..size]) {
            Ok(len) => {
                out.truncate(len);
                Ok(())
            }
            Err(_) => decode_members(src, limit, out),
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
fn size_hint(src: &[u8]) -> Option<usize> {
    let size = u32::from_le_bytes(*src.last_chunk::<4>()?) as usize;
    (src.len() >= MEMBER_MIN && size <= src.len().saturating_mul(RATIO_MAX)).then_some(size)
}

/// Whether another member may begin inside `src`. libdeflate stops after the first and does not say where, so the
/// others would be lost. By chance this is true once in a few hundred batches, which costs only time.
fn has_second_member(src: &[u8]) -> bool {
    let Some(rest) = src.get(MEMBER_MIN..) else { return false };
    let (second, third) = (rest.get(1..).unwrap_or_default(), rest.get(2..).unwrap_or_default());
    let starts = rest.iter().zip(second).zip(third);
    // No early end: so the compiler compares sixteen and more at once.
    starts.fold(false, |found, ((&a, &b), &c)| found | ((a ^ 0x1f) | (b ^ 0x8b) | (c ^ 8) == 0))
}

/// Member by member. Java's `GZIPInputStream` ignores what follows a member and does not begin like another.
fn decode_members(src: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), RecordError> {
    let mut rest = src;
    let mut len = 0;
    loop {
        let mut member = GzDecoder::new(rest);
        len = read_all(&mut member, Codec::Gzip, len, limit, out)?;
        rest = member.into_inner();
        if GzDecoder::new(rest).header().is_none() {
            break;
        }
    }
    out.truncate(len);
    Ok(())
}
