use super::{Codec, RecordError, grow};

/// The framing of Java's snappy library: magic, version, lowest version that can read it.
const XERIAL: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
const MAGIC: usize = 8;
/// Java's chunk size.
const CHUNK: usize = 32 * 1024;

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

    fn decode_chunks(&mut self, src: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<usize, RecordError> {
        let mut rest = src.get(XERIAL.len()..).ok_or_else(|| Codec::Snappy.corrupt("header is cut"))?;
        let mut len = 0;
        while !rest.is_empty() {
            let Some((size, after)) = rest.split_first_chunk::<4>() else {
                return Err(Codec::Snappy.corrupt("chunk length is cut"));
            };
            let size = u32::from_be_bytes(*size) as usize;
            let Some((chunk, after)) = after.split_at_checked(size) else {
                return Err(Codec::Snappy.corrupt("chunk is cut"));
            };
            len = self.decode_chunk(chunk, len, limit, out)?;
            rest = after;
        }
        Ok(len)
    }

    /// Unpacks one chunk behind the first `at` bytes of `out` and returns where it ends.
    fn decode_chunk(
        &mut self,
        chunk: &[u8],
        at: usize,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, RecordError> {
        let size = snap::raw::decompress_len(chunk).map_err(|error| Codec::Snappy.corrupt(error))?;
        if size > limit - at {
            return Err(RecordError::TooLarge { limit });
        }
        grow(out, at + size);
        let done = self.raw.decompress(chunk, &mut out[at..at + size]);
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
