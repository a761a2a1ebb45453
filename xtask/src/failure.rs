//! Why a command of xtask ended early, as a sentence for a person.

use std::fmt;

pub(crate) type Result<T> = std::result::Result<T, Failure>;

#[derive(Debug, PartialEq)]
pub(crate) struct Failure {
    message: String,
    exit_code: u8,
}

/// Something did not work: exit code 1.
pub(crate) fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(Failure::new(message))
}

/// The command line makes no sense: exit code 2.
pub(crate) fn misuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Failure { message: message.into(), exit_code: 2 })
}

/// Says what was being done when a lower layer failed: `fs::write(..).during(|| format!("writing {path}"))`.
pub(crate) trait During<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T> {
        self.or_else(|error| fail(format!("{}: {error}", what())))
    }
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit_code: 1 }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.exit_code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
