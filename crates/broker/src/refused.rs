//! Why something was not done.

use ottla_wire::code::Code;
use std::fmt;

/// What was asked of the cluster was not done, for the reason that a real broker would give.
///
/// The caller is at fault, unless he wanted just this answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The code with which the same request would be answered over the wire.
    pub code: Code,
    /// What was wrong, in one sentence.
    pub message: String,
}

impl Refused {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code.name(), self.code.0, self.message)
    }
}

impl std::error::Error for Refused {}
