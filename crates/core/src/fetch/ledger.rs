//! What we hold, in bytes: counted where buffers are made and dropped, without the machine's lock.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// The account of all buffers of a reader.
///
/// A buffer is *ours* while a part of it waits to be handed out or is being walked by the reader, and *held* when
/// only values of the caller's refer to it. Idle buffers wait to be filled again.
#[derive(Default)]
pub struct Ledger {
    ours: AtomicUsize,
    held: AtomicUsize,
    idle: AtomicUsize,
    /// Somebody waits for room.
    wanted: AtomicBool,
    wake: std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What a reader holds, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Buffered {
    /// Raw replies, decoded batches and idle buffers that no value of the caller's refers to.
    pub ours: usize,
    /// Buffers that only messages and batches of the caller's keep alive.
    pub held: usize,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("buffered", &self.buffered()).finish_non_exhaustive()
    }
}

impl Ledger {
    /// What to call when there is room again and somebody waits for it; the first call decides.
    pub fn on_room(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    /// The figures for the user.
    pub fn buffered(&self) -> Buffered {
        Buffered {
            ours: self.ours.load(Ordering::Acquire) + self.idle.load(Ordering::Acquire),
            held: self.held.load(Ordering::Acquire),
        }
    }

    /// Everything that is counted.
    pub fn total(&self) -> usize {
        let buffered = self.buffered();
        buffered.ours + buffered.held
    }

    /// What waits to be handed out or is being walked, without the idle buffers.
    pub fn in_use(&self) -> usize {
        self.ours.load(Ordering::Acquire)
    }

    /// Asks to be woken when bytes are given back.
    pub fn want_room(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// Opens an account for a buffer of so many bytes, ours for now.
    pub fn open(self: &Arc<Self>, bytes: usize) -> Arc<Account> {
        self.ours.fetch_add(bytes, Ordering::AcqRel);
        Arc::new(Account {
            ledger: self.clone(),
            bytes,
            leases: AtomicUsize::new(0),
            ours: AtomicBool::new(true),
        })
    }

    /// A buffer waits to be filled again, or does no longer.
    pub fn idle(&self, added: usize, removed: usize) {
        self.idle.fetch_add(added, Ordering::AcqRel);
        self.idle.fetch_sub(removed, Ordering::AcqRel);
    }

    fn given_back(&self) {
        if self.wanted.swap(false, Ordering::AcqRel)
            && let Some(wake) = self.wake.get()
        {
            wake();
        }
    }
}

/// One buffer's place in the ledger; the buffer's owner drops it with the buffer.
#[derive(Debug)]
pub struct Account {
    ledger: Arc<Ledger>,
    bytes: usize,
    leases: AtomicUsize,
    ours: AtomicBool,
}

impl Account {
    /// Keeps the buffer ours until the lease is dropped.
    pub fn lease(self: &Arc<Self>) -> Lease {
        self.leases.fetch_add(1, Ordering::AcqRel);
        Lease(self.clone())
    }

    fn to_held(&self) {
        if self.ours.swap(false, Ordering::AcqRel) {
            self.ledger.held.fetch_add(self.bytes, Ordering::AcqRel);
            self.ledger.ours.fetch_sub(self.bytes, Ordering::AcqRel);
            self.ledger.given_back();
        }
    }

    /// The buffer is gone, or idle.
    pub fn close(&self) {
        let side =
            if self.ours.swap(false, Ordering::AcqRel) { &self.ledger.ours } else { &self.ledger.held };
        side.fetch_sub(self.bytes, Ordering::AcqRel);
        self.ledger.given_back();
    }
}

/// A part of a buffer that waits to be handed out or is being walked by the reader.
#[derive(Debug)]
pub struct Lease(Arc<Account>);

impl Drop for Lease {
    fn drop(&mut self) {
        if self.0.leases.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.to_held();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_ours_then_held_then_gone() {
        let ledger = Arc::new(Ledger::default());
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        ledger.on_room(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let account = ledger.open(100);
        let (first, second) = (account.lease(), account.lease());
        drop(first);
        assert_eq!(ledger.buffered(), Buffered { ours: 100, held: 0 });
        ledger.want_room();
        drop(second);
        assert_eq!(ledger.buffered(), Buffered { ours: 0, held: 100 });
        assert_eq!(woken.load(Ordering::Relaxed), 1, "room for others was told once");
        account.close();
        assert_eq!(ledger.total(), 0);
    }
}
