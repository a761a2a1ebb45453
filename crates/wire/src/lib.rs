//! Apache Kafka's protocol as bytes: frames, messages and record batches.
//!
//! Bytes come in, values come out, and the other way round. There is no socket here, no clock and no state.
//!
//! - [`frame`] cuts what a connection carries: a length, a header, a message.
//! - [`message`] has the requests and replies, generated from Kafka's own schemas.
//! - [`record`] has the batches that Fetch and Produce carry.
//! - [`api`] and [`code`] name the APIs with their versions, and the errors.

pub mod api;
pub mod code;
mod error;
pub mod frame;
mod input;
pub mod message;
mod output;
pub mod record;
mod uuid;

pub use error::{DecodeError, DecodeFault, EncodeError, EncodeFault};
pub use input::Input;
pub use output::Output;
pub use uuid::Uuid;
