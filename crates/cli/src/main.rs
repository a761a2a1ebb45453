//! The `ottla` command.
fn main() {}
