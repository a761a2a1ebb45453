//! The messages: against another implementation, and against bytes that are not what they should be.

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
