//! Buffers that are filled, shared as slices, and filled again.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ottla_core::{Account, Ledger};

/// Idle buffers, and the ledger that all of them stand in.
#[derive(Debug)]
pub(crate) struct Pool {
    ledger: Arc<Ledger>,
    /// No more than so many idle bytes are kept.
    keep: usize,
    idle: Mutex<Vec<Vec<u8>>>,
}

/// Smaller ones are not worth keeping.
const SMALLEST: usize = 16 << 10;

/// Capacities are multiples of this, so that replies of nearly the same size share buffers.
const STEP: usize = 64 << 10;

impl Pool {
    pub(crate) fn new(ledger: Arc<Ledger>, keep: usize) -> Self {
        Self { ledger, keep, idle: Mutex::default() }
    }

    /// An empty buffer with room for so many bytes.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.take_used(bytes);
        buffer.clear();
        buffer
    }

    /// A buffer with room for so many bytes, as it was left: what it still holds need not be zeroed again by who
    /// writes over it.
    pub(crate) fn take_used(&self, bytes: usize) -> Vec<u8> {
        if bytes < SMALLEST {
            return Vec::with_capacity(bytes);
        }
        let mut idle = self.lock();
        let fits = |buffer: &Vec<u8>| buffer.capacity() >= bytes && buffer.capacity() <= 4 * bytes + STEP;
        let best = (0..idle.len()).filter(|&i| fits(&idle[i])).min_by_key(|&i| idle[i].capacity());
        if let Some(best) = best {
            let buffer = idle.swap_remove(best);
            self.ledger.idle(0, buffer.capacity());
            return buffer;
        }
        drop(idle);
        Vec::with_capacity(bytes.next_multiple_of(STEP))
    }

    /// Takes a buffer back, unless enough are idle.
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if capacity < SMALLEST {
            return;
        }
        let mut idle = self.lock();
        let kept: usize = idle.iter().map(Vec::capacity).sum();
        if kept + capacity <= self.keep {
            self.ledger.idle(capacity, 0);
            idle.push(buffer);
        }
    }

    /// Gives all idle buffers up.
    pub(crate) fn clear(&self) {
        let idle = std::mem::take(&mut *self.lock());
        self.ledger.idle(0, idle.iter().map(Vec::capacity).sum());
    }

    /// Makes a filled buffer shareable; it comes back when the last slice of it is dropped.
    pub(crate) fn share(self: &Arc<Self>, buffer: Vec<u8>) -> (Bytes, Arc<Account>) {
        let account = self.ledger.open(buffer.capacity());
        let frame = Frame { buffer, account: account.clone(), pool: self.clone() };
        (Bytes::from_owner(frame), account)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A filled buffer.
struct Frame {
    buffer: Vec<u8>,
    account: Arc<Account>,
    pool: Arc<Pool>,
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.buffer));
        self.account.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_and_is_counted_at_every_step() {
        let ledger = Arc::new(Ledger::default());
        let pool = Arc::new(Pool::new(ledger.clone(), 1 << 20));
        let mut buffer = pool.take(100_000);
        buffer.extend_from_slice(&[7; 100_000]);
        let (bytes, account) = pool.share(buffer);
        let lease = account.lease();
        let slice = bytes.slice(10..20);
        drop(bytes);
        assert_eq!((ledger.buffered().ours, ledger.buffered().held), (131_072, 0));
        drop(lease);
        assert_eq!((ledger.buffered().ours, ledger.buffered().held), (0, 131_072));
        drop(slice);
        assert_eq!((ledger.buffered().ours, ledger.buffered().held), (131_072, 0), "idle, kept by us");
        assert_eq!(pool.take(100_000).capacity(), 131_072, "the same buffer");
        assert_eq!(ledger.total(), 0);
    }

    #[test]
    fn idle_buffers_are_bounded() {
        let ledger = Arc::new(Ledger::default());
        let pool = Pool::new(ledger.clone(), 200_000);
        for _ in 0..10 {
            pool.give(Vec::with_capacity(65_536));
        }
        assert_eq!(ledger.buffered().ours, 3 * 65_536);
        pool.clear();
        assert_eq!(ledger.total(), 0);
    }
}
