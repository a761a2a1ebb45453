//! The task that makes connections and keeps time for the machine.

use std::{sync::Arc, time::Instant};

use tokio::{
    task::JoinSet,
    time::{sleep_until, timeout_at},
};

use crate::{connection, hooks::Hooks, shared::Shared};

/// What keeps a reader going.
///
/// Should its task end before the reader, or never begin, because the runtime has ended, the reader learns of it instead
/// of waiting for ever.
pub(crate) struct Driver(pub(crate) Arc<Shared>);

impl Driver {
    /// Runs until the reader has ended. Connections end with it, and so do hooks when closing has had its time.
    pub(crate) async fn run(self, hooks: Option<Hooks>) {
        let shared = self.0.clone();
        let mut hooked = JoinSet::new();
        if let Some(hooks) = hooks {
            hooked.spawn(hooks.run(shared.clone()));
        }
        drive(&shared).await;
        drop(self);
        if let Some(until) = shared.closing_until() {
            let _ = timeout_at(until.into(), hooked.join_next()).await;
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.note_panic();
        }
        self.0.end();
    }
}

async fn drive(shared: &Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let turn = shared.turn();
        if turn.ended {
            return;
        }
        for dial in turn.dials {
            connections.spawn(connection::run(shared.clone(), dial));
        }
        tokio::select! {
            () = shared.driver.notified() => {}
            () = until(turn.deadline) => {}
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
