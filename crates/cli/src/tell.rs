//! What goes to standard error.

use std::{
    fmt::Display,
    io::{self, Write},
};

use ottla::{Error, ErrorKind};
use serde::Serialize;

use crate::escape;

/// Why a command failed, as a sentence.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Of a topic that does not exist; names are easily misspelt.
pub(crate) fn missing(why: impl Display) -> Failure {
    Failure(format!("{why}; ottla topics lists what there is"))
}

/// Of a pattern; a name that is missing has been told.
pub(crate) fn unmatched() -> Failure {
    missing("there is no topic whose whole name matches")
}

/// What a fault of the whole reader becomes.
pub(crate) fn whole(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Missing if error.partition().is_none() => missing(error),
        _ => error.into(),
    }
}

/// Prints a note. Where standard error is closed nobody is there to read it, and that is no failure.
pub(crate) fn note(text: impl Display) {
    let lines = text.to_string();
    let shown: Vec<_> = lines.split('\n').map(escape::shown).collect();
    let _ = writeln!(io::stderr(), "ottla: {}", shown.join("\n"));
}

/// Prints a line on standard output; that nobody reads it any more is no failure.
pub(crate) fn line(text: impl Display) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Prints an object on a line of standard output.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    Ok(line(serde_json::to_string(value)?)?)
}

/// The same on standard error, for programs that have records on standard output.
pub(crate) fn json_beside(value: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(value)?;
    let _ = writeln!(io::stderr(), "{line}"); // as with notes
    Ok(())
}

/// Prints lines that end with a newline on standard output.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    match text.strip_suffix('\n') {
        Some(lines) => Ok(line(lines)?),
        None => Ok(()),
    }
}

/// "1 partition", "2 partitions".
pub(crate) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
