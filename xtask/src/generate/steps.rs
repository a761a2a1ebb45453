//! Code that depends on the version.

use super::versions::{Test, Versions};

/// What is done one after the other, each step in some versions; neighbours in the same versions stand together.
pub(super) struct Steps {
    among: Versions,
    steps: Vec<Step>,
}

struct Step {
    versions: Versions,
    code: String,
    /// What is done in the other versions instead.
    other: String,
}

impl Steps {
    pub(super) fn among(among: Versions) -> Self {
        Self { among, steps: Vec::new() }
    }

    pub(super) fn add(&mut self, versions: Versions, code: String, other: String) {
        match self.steps.last_mut() {
            Some(last) if last.versions == versions => {
                last.code += &code;
                last.other += &other;
            }
            _ => self.steps.push(Step { versions, code, other }),
        }
    }

    pub(super) fn code(&self) -> String {
        self.steps.iter().map(|step| step.rust(self.among)).collect()
    }
}

impl Step {
    fn rust(&self, among: Versions) -> String {
        let Self { versions, code, other } = self;
        match (versions.test(among), code.as_str(), other.as_str()) {
            (Test::Always, code, _) => code.into(),
            (Test::Never, _, other) => other.into(),
            (Test::If(_), "", "") => String::new(),
            (Test::If(test), code, "") => format!("if {test} {{ {code} }}\n"),
            (Test::If(test), "", other) => when_not(&test, other),
            (Test::If(test), code, other) => {
                format!("if {test} {{ {code} }} else {}\n", alternative(other.trim_end()))
            }
        }
    }
}

/// `else if` reads better than an `if` alone inside of `else`.
fn alternative(code: &str) -> String {
    if code.lines().count() == 1 { code.into() } else { format!("{{ {code} }}") }
}

fn when_not(test: &str, code: &str) -> String {
    let never = negated(test);
    match code.strip_prefix("if ") {
        Some(rest) if code.lines().count() == 1 => format!("if {never} && {rest}"),
        _ => format!("if {never} {{ {code} }}\n"),
    }
}

/// `version < 7` for `version >= 7`.
pub(super) fn negated(test: &str) -> String {
    match test.split_once(' ') {
        Some(("version", rest)) if rest.starts_with(">= ") => test.replace(">=", "<"),
        Some(("version", rest)) if rest.starts_with("<= ") => test.replace("<=", ">"),
        Some(("version", rest)) if rest.starts_with("== ") => test.replace("==", "!="),
        _ => format!("!{test}"),
    }
}
