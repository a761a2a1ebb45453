//! What connections need to know.

use std::time::Duration;

/// How to connect.
#[derive(Debug, Clone)]
pub struct Options {
    /// Named in every request.
    pub client_id: String,
    /// How long a TCP connection may take, over all addresses of a name.
    pub connect_timeout: Duration,
    /// How long the exchange of versions may take.
    pub handshake_timeout: Duration,
    /// How long a single call of [`raw::Connection`](crate::raw::Connection) may take.
    pub request_timeout: Duration,
    /// How long a group may be left, with all that is to be committed before.
    pub close_timeout: Duration,
    /// No frame may be longer.
    pub max_frame_bytes: usize,
    /// No batch may unpack to more.
    pub max_batch_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            client_id: "ottla".to_owned(),
            connect_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
            max_frame_bytes: 256 << 20,
            max_batch_bytes: 1 << 30,
        }
    }
}
