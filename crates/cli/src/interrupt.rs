//! Ctrl-C, and a polite request to end.

use std::io;

/// Listens for SIGINT and SIGTERM from the moment it is made.
#[derive(Debug)]
pub(crate) struct Interrupt {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

#[cfg(unix)]
impl Interrupt {
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { signals: [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?] })
    }

    /// Ends when one of them comes.
    pub(crate) async fn happened(&mut self) {
        let [interrupt, terminate] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Interrupt {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Ends when Ctrl-C is pressed.
    pub(crate) async fn happened(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
