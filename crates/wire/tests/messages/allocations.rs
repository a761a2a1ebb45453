//! An allocator that remembers, for each thread, the largest block that was asked of it.
#![allow(unsafe_code, reason = "an allocator cannot be written without; this one hands everything on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

pub(crate) struct Watched;

/// What `work` gives, and the largest block it asked for.
pub(crate) fn largest<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.set(0);
    let value = work();
    (value, LARGEST.get())
}

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(size: usize) {
    LARGEST.set(LARGEST.get().max(size));
}

// SAFETY: everything goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        unsafe { System.realloc(block, layout, size) }
    }
}

#[test]
fn the_largest_block_is_seen() {
    let (bytes, largest) = largest(|| vec![0u8; 12_345]);
    assert!(largest >= bytes.len());
}
