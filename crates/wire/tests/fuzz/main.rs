//! Fuzzing on stable Rust: what a Kafka wrote, changed at random, goes through all that reads. Nothing may panic, hang, or
//! take memory on the word of the bytes; what is read has to stand being written and read again.
//!
//! Each target takes `OTTLA_FUZZ_SECONDS` (2 unless told) and begins with `OTTLA_FUZZ_SEED` (the same one every time unless
//! told, or one at random where the seconds are given). What fails is kept in `found/`, and tried in every run from then on.
#![allow(clippy::unwrap_used, reason = "a check may stop where it fails")]

#[path = "../messages/allocations.rs"]
mod allocations;
mod batches;
mod codecs;
mod corpus;
mod frames;
#[path = "../golden/frames.rs"]
#[allow(dead_code, reason = "who asked what does not matter here")]
mod golden;
mod hunt;
mod mutate;
#[path = "../messages/random.rs"]
mod random;
#[path = "../messages/source.rs"]
#[allow(dead_code, reason = "how many rounds there are is our own choice")]
mod source;

use hunt::Hunt;

#[global_allocator]
static ALLOCATOR: allocations::Watched = allocations::Watched;

/// Requests and replies of every API and version.
#[test]
fn frames() {
    Hunt::new("frames", corpus::frames()).run(frames::read);
}

/// Batches of every format and codec, as they stand in a fetch reply.
#[test]
fn batches() {
    let mut reader = batches::Reader::default();
    Hunt::new("batches", corpus::batches()).mended_by(batches::mend).run(|bytes| reader.read(bytes));
}

/// What is inside of a wrapper of before Kafka 0.11.
#[test]
fn wrapped() {
    let mut reader = batches::Reader::default();
    Hunt::new("wrapped", corpus::sets()).mended_by(batches::mend).run(|set| reader.read_wrapped(set));
}

/// Compressed data.
#[test]
fn codecs() {
    let mut reader = codecs::Reader::default();
    Hunt::new("codecs", corpus::packed()).run(|bytes| reader.read(bytes));
}
