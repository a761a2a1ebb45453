//! What connections need to know.

use std::{fmt, sync::Arc, time::Duration};

use crate::{connect::Connect, sockets::Tcp};

/// How to connect.
#[derive(Debug, Clone)]
pub struct Options {
    /// Named in every request.
    pub client_id: String,
    /// Makes connections.
    pub connector: Connector,
    /// How long a connection may take, over all addresses of a name.
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
            connector: Connector::default(),
            connect_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
            max_frame_bytes: 256 << 20,
            max_batch_bytes: 1 << 30,
        }
    }
}

/// What makes connections, of whichever type.
#[derive(Clone)]
pub struct Connector(pub(crate) Arc<dyn Connect>);

impl Default for Connector {
    fn default() -> Self {
        Self(Arc::new(Tcp::new()))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
