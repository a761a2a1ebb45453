//! The assignors: what they promise, and that they assign as Java's do.

mod group;
mod promises;
mod speed;
