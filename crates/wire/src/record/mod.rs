//! Record batches: where they begin and end, whether they arrived whole, and the records inside.
//!
//! A fetch reply carries a partition's records as a row of batches, cut at a byte by the broker. Reading goes in
//! four steps, each of which can stop or be skipped:
//!
//! 1. [`Batches`] walks the row: headers and ranges, nothing else is touched.
//! 2. [`BatchHeader::check_crc`] says whether the bytes are those that were written.
//! 3. [`Decoder::unpack`] unpacks a batch into a buffer that is used again and again. What is not compressed can stay
//!    where it is, except for messages of before Kafka 0.11, which become records of today.
//! 4. [`Records`] (or [`Walk`], for those who keep positions instead of references) walks the records. Nothing
//!    is copied and nothing is allocated; headers are read when asked for.
//!
//! [`BatchBuilder`] goes the other way, and the `set_` functions change in place what a broker changes in the batches
//! that it takes in.
//!
//! Nothing here trusts a byte: lengths and counts are checked against what is there before they are used, what a
//! batch unpacks to is limited by the caller, and every fault is a [`RecordError`] that says what was found where.

mod builder;
mod codec;
mod control;
mod error;
mod excerpt;
mod header;
mod headers;
mod old;
mod outline;
mod records;
mod rewrite;
mod span;
mod varint;

pub use builder::BatchBuilder;
pub use codec::{Codec, Decoder, UnknownCodecName};
pub use control::Control;
pub use error::RecordError;
#[doc(hidden)]
pub use excerpt::Excerpt;
pub use header::{BatchHeader, TimestampType};
pub use headers::{Header, Headers};
pub use outline::Batches;
pub use records::{Record, Records, Walk};
pub use rewrite::{set_append_time, set_base_offset, set_leader_epoch};
pub use span::Span;
