//! The messages: against another implementation, and against bytes that are not what they should be.
#![allow(clippy::unwrap_used, reason = "what a test cannot go on without")]

mod agree;
mod allocations;
mod frames;
mod hostile;
mod random;
mod shape;
mod source;
mod versions;

#[global_allocator]
static ALLOCATOR: allocations::Watched = allocations::Watched;
