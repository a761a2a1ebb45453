//! How a command ends.

use std::process::ExitCode;

/// What the shell is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command did what it was asked, was interrupted, or nobody reads its output any more.
    Done = 0,
    /// It did not; standard error says why.
    Failed = 1,
    /// It was asked something that makes no sense.
    Usage = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
