//! Apache Kafka's protocol as bytes: frames, messages and record batches.
//!
//! Bytes come in, values come out, and the other way round. There is no socket here, no clock and no state.

pub mod record;
