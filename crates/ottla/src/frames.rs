//! Cuts the byte stream of a connection into frames.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use ottla_core::{Account, Lane, Peer};
use ottla_wire::frame::{self, LengthError};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{pool::Pool, shared::Shared};

/// Reads frames; what was read of one survives when the future that reads it is dropped.
#[derive(Debug)]
pub(crate) struct Frames {
    prefix: [u8; 4],
    prefix_bytes: usize,
    /// The frame that is being read, once its length is known.
    body: Option<Body>,
}

#[derive(Debug)]
struct Body {
    bytes: usize,
    buffer: Vec<u8>,
    last_told: Instant,
}

/// Whoever has to agree before a frame takes up memory, and wants to know that it is coming.
pub(crate) struct Gate<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) peer: Peer,
    pub(crate) lane: Lane,
}

/// Why no whole frame came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the broker closed the connection")]
    Closed,
    #[error("the broker closed the connection after {got} of the 4 bytes of a frame's length")]
    CutLength { got: usize },
    #[error("the broker closed the connection after {got} of a frame's {all} bytes")]
    CutBody { got: usize, all: usize },
    #[error("{}{}", .0, knob(.0))]
    Length(#[from] LengthError),
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
}

/// What to turn, should it be a broker all the same.
fn knob(error: &LengthError) -> &'static str {
    match error {
        LengthError::TooLarge { .. } => " (max_frame_bytes)",
        _ => "",
    }
}

/// Smaller frames need no permission.
const SMALL: usize = 64 << 10;

/// How often a frame that takes long is reported to be still coming.
const REPORT: std::time::Duration = std::time::Duration::from_secs(1);

impl Frames {
    pub(crate) fn new() -> Self {
        Self { prefix: [0; 4], prefix_bytes: 0, body: None }
    }

    /// The next frame, without its length.
    ///
    /// # Errors
    ///
    /// Why none came; the connection is of no use then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn next(
        &mut self,
        socket: &mut (impl AsyncRead + Unpin),
        pool: &Arc<Pool>,
        max_bytes: usize,
        gate: Option<&Gate<'_>>,
    ) -> Result<(Bytes, Arc<Account>), Broken> {
        while self.prefix_bytes < self.prefix.len() {
            let read = socket.read(&mut self.prefix[self.prefix_bytes..]).await?;
            if read == 0 {
                return Err(match self.prefix_bytes {
                    0 => Broken::Closed,
                    got => Broken::CutLength { got },
                });
            }
            self.prefix_bytes += read;
        }
        if self.body.is_none() {
            let bytes = frame::length(self.prefix, max_bytes)?;
            if let Some(gate) = gate.filter(|gate| bytes > SMALL && gate.bounds()) {
                gate.pass(bytes).await;
            }
            self.body = Some(Body { bytes, buffer: pool.take(bytes), last_told: Instant::now() });
        }
        let body = self.body.as_mut().expect("set above");
        body.fill(socket, gate).await?;
        let body = self.body.take().expect("set above");
        self.prefix_bytes = 0;
        Ok(pool.share(body.buffer))
    }
}

impl Body {
    async fn fill(
        &mut self,
        socket: &mut (impl AsyncRead + Unpin),
        gate: Option<&Gate<'_>>,
    ) -> Result<(), Broken> {
        while self.buffer.len() < self.bytes {
            let missing = (self.bytes - self.buffer.len()) as u64;
            if (&mut *socket).take(missing).read_buf(&mut self.buffer).await? == 0 {
                return Err(Broken::CutBody { got: self.buffer.len(), all: self.bytes });
            }
            if let Some(gate) = gate
                && self.last_told.elapsed() >= REPORT
            {
                self.last_told = Instant::now();
                gate.report();
            }
        }
        Ok(())
    }
}

impl Gate<'_> {
    /// Only records have to wait for room: a heartbeat or a leader's name never waits for a caller who holds them all.
    fn bounds(&self) -> bool {
        matches!(self.lane, Lane::Long | Lane::Express)
    }

    /// Waits until so many bytes may be held. Meanwhile TCP holds them, and no deadline runs.
    async fn pass(&self, bytes: usize) {
        while !self.is_open(bytes) {
            let room = self.shared.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if self.is_open(bytes) {
                return;
            }
            let _ = tokio::time::timeout(REPORT, room).await;
            self.report();
        }
    }

    fn is_open(&self, bytes: usize) -> bool {
        let ledger = &self.shared.ledger;
        let fits = || ledger.total() + bytes <= self.shared.budget;
        if fits() {
            return true;
        }
        self.shared.pool.clear();
        if !fits() {
            self.shared.update(|machine, _| machine.give_up_paused());
        }
        ledger.want_room();
        fits() || self.shared.look(ottla_core::Machine::reader_starves)
    }

    fn report(&self) {
        self.shared.update(|machine, now| machine.handle_progress(now, self.peer, self.lane));
    }
}
