use std::io::Write;

use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

use super::{Codec, RecordError, read_all};

#[derive(Default)]
pub(super) struct Decoder {}

impl Decoder {
    pub(super) fn decode(&mut self, src: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let len = read_all(&mut FrameDecoder::new(src), Codec::Lz4, 0, limit, out)?;
        out.truncate(len);
        Ok(())
    }
}

pub(super) fn encode(records: &[u8]) -> Result<Vec<u8>, RecordError> {
    let info = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(records).map_err(|error| Codec::Lz4.corrupt(error))?;
    encoder.finish().map_err(|error| Codec::Lz4.corrupt(error))
}
