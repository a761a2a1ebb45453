use zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use super::{Codec, READ_STEP, RecordError, grow};

#[derive(Default)]
pub(super) struct Decoder {
    context: Option<DCtx<'static>>,
}

impl Decoder {
    pub(super) fn decode(&mut self, src: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let context = self.context.get_or_insert_with(DCtx::create);
        context.reset(ResetDirective::SessionOnly).map_err(problem)?;
        let mut input = InBuffer::around(src);
        let mut at = 0;
        loop {
            if at == out.len() {
                grow(out, (at * 2).max(READ_STEP).min(limit.saturating_add(1)));
            }
            let mut output = OutBuffer::around_pos(&mut out[..], at);
            let hint = context.decompress_stream(&mut output, &mut input).map_err(problem)?;
            at = output.pos();
            if at > limit {
                return Err(RecordError::TooLarge { limit });
            }
            if input.pos() == src.len() && at < out.len() {
                if hint != 0 {
                    return Err(Codec::Zstd.corrupt("frame is cut"));
                }
                break;
            }
        }
        out.truncate(at);
        Ok(())
    }
}

pub(super) fn encode(records: &[u8]) -> Result<Vec<u8>, RecordError> {
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(records.len()));
    zstd_safe::compress(&mut out, records, zstd_safe::CLEVEL_DEFAULT).map_err(problem)?;
    Ok(out)
}

fn problem(code: zstd_safe::ErrorCode) -> RecordError {
    Codec::Zstd.corrupt(zstd_safe::get_error_name(code))
}
