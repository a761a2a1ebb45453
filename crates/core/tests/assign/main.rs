//! The assignors: what they promise, and that they assign as Java's do.
#![allow(clippy::unwrap_used, reason = "a table that does not read as it should fails the test")]

mod group;
mod java;
mod promises;
mod properties;
mod speed;
