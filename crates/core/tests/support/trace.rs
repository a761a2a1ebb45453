//! What happened, line by line, for the run that explains a failure. Off unless wanted: it costs more than the rest.

use std::{cell::RefCell, collections::VecDeque, fmt::Arguments, time::Duration};

thread_local! {
    static LINES: RefCell<Option<VecDeque<String>>> = const { RefCell::new(None) };
}

/// More lines say less.
const KEPT: usize = 4000;

/// Runs `work` with the trace on; gives the last lines, too.
pub fn tracing<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    LINES.with_borrow_mut(|lines| *lines = Some(VecDeque::new()));
    let result = work();
    let lines = LINES.with_borrow_mut(Option::take).unwrap_or_default();
    (result, lines.into())
}

/// Notes what happened so long after the beginning.
pub fn trace(after: Duration, what: Arguments<'_>) {
    LINES.with_borrow_mut(|lines| {
        if let Some(lines) = lines {
            if lines.len() == KEPT {
                lines.pop_front();
            }
            lines.push_back(format!("{:>12.6} {what}", after.as_secs_f64()));
        }
    });
}
