//! What goes to standard error.

use std::{
    fmt::Display,
    io::{self, Write},
};

/// Why a command failed, as a sentence.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Prints a note. Where standard error is closed nobody is there to read it, and that is no failure.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "ottla: {text}");
}

/// Prints a line on standard output; that nobody reads it any more is no failure.
pub(crate) fn line(text: impl Display) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
