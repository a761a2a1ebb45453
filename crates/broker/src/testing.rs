//! What the unit tests share.

use bytes::Bytes;
use ottla_wire::record::{BatchBuilder, Codec};

/// A batch with a record for each time, whose value is its number.
pub(crate) fn batch(codec: Codec, times: &[i64]) -> Bytes {
    let mut builder = BatchBuilder::new(codec);
    for (nth, time) in times.iter().enumerate() {
        builder.push(*time, None, Some(nth.to_string().as_bytes()), &[]);
    }
    builder.build().unwrap().into()
}
