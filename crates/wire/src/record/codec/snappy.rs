use super::{Codec, RecordError, grow};

/// The framing of Java's snappy library (xerial): magic, version, lowest version that can read it.
const XERIAL: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
const MAGIC: usize = 8;
/// Java's chunk size.
const CHUNK: usize = 32 * 1024;
/// Snappy packs at most 64 bytes into three, so an output size beyond this multiple is a lie.
const RATIO_MAX: usize = 22;

/// A row of chunks in xerial's framing, or one block without framing as some clients write it.
#[derive(Default)]
pub(super) struct Decoder {
    raw: snap::raw::Decoder,
}

impl Decoder {
    pub(super) fn decode(&mut self, src: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let len = if src.starts_with(&XERIAL[..MAGIC]) {
            self.decode_chunks(src, limit, out)?
        } else {
            self.decode_chunk(src, 0, limit, out)?
        };
        out.truncate(len);
        Ok(())
    }

    /// Like Java's `SnappyInputStream`, this lets another framing begin where a chunk could, takes any version, and
    /// ignores up to three bytes at the end.
    fn decode_chunks(&mut self, src: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<usize, RecordError> {
        let mut rest = src;
        let mut len = 0;
        while let Some((size, after)) = rest.split_first_chunk::<4>() {
            if rest.starts_with(&XERIAL[..MAGIC]) {
                rest = rest.get(XERIAL.len()..).ok_or_else(|| Codec::Snappy.corrupt("header is cut"))?;
                continue;
            }
            let Some((chunk, after)) = after.split_at_checked(u32::from_be_bytes(*size) as usize) else {
                return Err(Codec::Snappy.corrupt("chunk is cut"));
            };
            len = self.decode_chunk(chunk, len, limit, out)?;
            rest = after;
        }
        Ok(len)
    }

    /// Unpacks one block behind the first `at` bytes of `out` and returns where it ends.
    fn decode_chunk(
        &mut self,
        block: &[u8],
        at: usize,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, RecordError> {
        let size = snap::raw::decompress_len(block).map_err(|error| Codec::Snappy.corrupt(error))?;
        if size > block.len().saturating_mul(RATIO_MAX) {
            return Err(Codec::Snappy.corrupt(format_args!("{} bytes cannot hold {size}", block.len())));
        }
        if size > limit - at {
            return Err(RecordError::TooLarge { limit });
        }
        grow(out, at + size);
        let done = self.raw.decompress(block, &mut out[at..at + size]);
        Ok(at + done.map_err(|error| Codec::Snappy.corrupt(error))?)
    }
}

pub(super) fn encode(records: &[u8]) -> Result<Vec<u8>, RecordError> {
    let mut encoder = snap::raw::Encoder::new();
    let mut out = XERIAL.to_vec();
    for chunk in records.chunks(CHUNK) {
        let packed = encoder.compress_vec(chunk).map_err(|error| Codec::Snappy.corrupt(error))?;
        out.extend_from_slice(&(packed.len() as u32).to_be_bytes());
        out.extend_from_slice(&packed);
    }
    Ok(out)
}
