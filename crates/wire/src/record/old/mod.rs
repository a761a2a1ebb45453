//! Message sets, as they were before Kafka 0.11: message formats 0 and 1.
//!
//! There each message stands for itself, with its offset, a CRC and (in format 1) a time. Compressed messages are the
//! value of another one, the *wrapper*, which has the offset of the last of them; inside, format 1 counts offsets from
//! the first message that was written, format 0 has them as they are.
//!
//! What follows in this crate knows batches of format 2, so a row of messages is outlined like a batch ([`outline`]) and
//! unpacked into records of format 2 ([`unpack`]).

mod message;
mod outline;
mod unpack;

pub(super) use message::check_crc;
pub(super) use outline::outline;
pub(super) use unpack::unpack;
