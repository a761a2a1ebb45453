//! How far a command is, on standard error.

use std::{
    cell::Cell,
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use indicatif::{DecimalBytes, HumanCount, ProgressBar, ProgressStyle};

use crate::{tell, time};

/// How often the line changes; drawing costs more than reading a batch.
const PERIOD: Duration = Duration::from_millis(100);

/// A line that changes, or nothing.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    drawn: Cell<Instant>,
}

/// What was done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) records: u64,
    /// Of keys and values.
    pub(crate) bytes: u64,
}

impl Tally {
    #[inline]
    pub(crate) fn add(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.records += 1;
        self.bytes += (key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len)) as u64;
    }
}

impl Progress {
    /// For `read`: where the output goes to a file or a program and somebody sees standard error. On a terminal both
    /// would write over each other.
    pub(crate) fn beside_output(to_file: bool) -> Self {
        Self::new((io::stderr().is_terminal() && (to_file || !io::stdout().is_terminal())).then(spinner))
    }

    /// For `demo`: a bar up to `records`, where somebody sees it.
    pub(crate) fn towards(records: u64, verb: &'static str) -> Self {
        Self::new(io::stderr().is_terminal().then(|| bar(records, verb)))
    }

    fn new(bar: Option<ProgressBar>) -> Self {
        let now = Instant::now();
        Self { bar, started: now, drawn: Cell::new(now) }
    }

    /// Shows how far we are, if it is time; `way` is only asked then.
    #[inline]
    pub(crate) fn show(&self, tally: Tally, way: impl FnOnce() -> Way) {
        if let Some(bar) = &self.bar {
            self.draw(bar, tally, way);
        }
    }

    fn draw(&self, bar: &ProgressBar, tally: Tally, way: impl FnOnce() -> Way) {
        let now = Instant::now();
        if now - self.drawn.get() < PERIOD {
            return;
        }
        self.drawn.set(now);
        bar.set_position(tally.records);
        bar.set_message(line(tally, now - self.started, &way()));
    }

    /// Prints a note without tearing the line.
    pub(crate) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| tell::note(text)),
            None => tell::note(text),
        }
    }

    /// Takes the line away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(PERIOD);
    bar
}

fn bar(records: u64, verb: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(records).with_prefix(verb);
    match ProgressStyle::with_template("{prefix} {wide_bar:.cyan/blue} {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn line(tally: Tally, elapsed: Duration, way: &Way) -> String {
    let rate = HumanCount(per_second(tally.records, elapsed));
    let done =
        format!("{} records, {}, {rate} records/s", HumanCount(tally.records), DecimalBytes(tally.bytes));
    let place = way.place.as_ref().map(|place| format!("at {place}"));
    let left = way.left.map(|left| format!("{} to go", HumanCount(left)));
    let rest = way.rest(elapsed).map(|rest| format!("{} left", time::in_words(rest)));
    [Some(done), place, left, rest].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Where we are, and what lies ahead.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// The last record, in words.
    pub(crate) place: Option<String>,
    /// So many are ahead.
    pub(crate) left: Option<u64>,
    /// So many of the same lie behind; 0 if what is ahead is not the end, since more keeps coming.
    pub(crate) gone: u64,
}

impl Way {
    /// How long it takes, at the speed so far.
    fn rest(&self, elapsed: Duration) -> Option<Duration> {
        let left = self.left.filter(|_| self.gone > 0)?;
        Duration::try_from_secs_f64(elapsed.as_secs_f64() * left as f64 / self.gone as f64).ok()
    }
}

/// A rate as a whole number; 0 before any time has passed.
pub(crate) fn per_second(count: u64, elapsed: Duration) -> u64 {
    let nanos = elapsed.as_nanos().max(1);
    u64::try_from(u128::from(count) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_fast() {
        let tally = Tally { records: 1_234_567, bytes: 123_456_700 };
        let expected = "1,234,567 records, 123.46 MB, 617,283 records/s";
        let of = |way: Way| line(tally, Duration::from_secs(2), &way);
        assert_eq!(of(Way::default()), expected);
        let left = Some(3210);
        assert_eq!(of(Way { left, ..Way::default() }), format!("{expected}, 3,210 to go"));
        let place = Some("orders 0/7".to_owned());
        let whole = of(Way { place, left, gone: 6420 });
        assert_eq!(whole, format!("{expected}, at orders 0/7, 3,210 to go, 1.0 s left"));
    }

    #[test]
    fn rates_survive_odd_durations() {
        assert_eq!(per_second(10, Duration::from_millis(500)), 20);
        assert_eq!(per_second(0, Duration::ZERO), 0);
        assert_eq!(per_second(u64::MAX, Duration::ZERO), u64::MAX);
    }
}
