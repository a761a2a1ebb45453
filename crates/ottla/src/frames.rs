//! Cuts the byte stream of a connection into frames.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use ottla_core::{Account, Lane, Peer};
use ottla_wire::frame;
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
    /// What happened, as a sentence without its subject.
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
    ) -> Result<(Bytes, Arc<Account>), String> {
        while self.prefix_bytes < self.prefix.len() {
            let read = socket.read(&mut self.prefix[self.prefix_bytes..]).await.map_err(read_failed)?;
            if read == 0 {
                return Err(match self.prefix_bytes {
                    0 => "the broker closed the connection".to_owned(),
                    some => format!("the broker closed the connection {some} bytes into a frame's length"),
                });
            }
            self.prefix_bytes += read;
        }
        if self.body.is_none() {
            let bytes = frame::length(self.prefix, max_bytes).map_err(|error| error.to_string())?;
            if let Some(gate) = gate.filter(|_| bytes > SMALL) {
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
    ) -> Result<(), String> {
        while self.buffer.len() < self.bytes {
            let missing = (self.bytes - self.buffer.len()) as u64;
            if (&mut *socket).take(missing).read_buf(&mut self.buffer).await.map_err(read_failed)? == 0 {
                let (got, all) = (self.buffer.len(), self.bytes);
                return Err(format!("the broker closed the connection after {got} of a frame's {all} bytes"));
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

fn read_failed(error: std::io::Error) -> String {
    format!("reading failed: {error}")
}

impl Gate<'_> {
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
