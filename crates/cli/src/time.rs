//! Moments as people type them.

use std::{
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A moment: `2026-11-30T08:00:00Z`, `2026-11-30T08:00` (local time), `1796025600000` (ms since 1970) or `-15m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// This one.
    At(SystemTime),
    /// So long before the command started.
    Ago(Duration),
}

impl Moment {
    /// The moment itself, for a command that started `now`; nothing is before 1970.
    pub(crate) fn resolve(self, now: SystemTime) -> SystemTime {
        match self {
            Self::At(time) => time,
            Self::Ago(ago) => now.checked_sub(ago).map_or(UNIX_EPOCH, |time| time.max(UNIX_EPOCH)),
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(ago) = text.strip_prefix('-') {
            return duration(ago).map(Self::Ago);
        }
        let time = match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => unix_ms(text),
            false => rfc3339(text).or_else(|| local(text)),
        };
        time.map(Self::At).ok_or_else(|| {
            format!(
                "{text:?} is no time: write 2026-11-30T08:00:00Z, 2026-11-30T08:00 (local time), 2026-11-30, \
                 1796025600000 (ms since 1970) or -15m"
            )
        })
    }
}

/// `2026-11-30T08:00:00.123Z`, from ms since 1970; the number itself where no calendar has it.
pub(crate) fn text(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}

/// Its two largest units.
pub(crate) fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) if duration.is_zero() => "0 s".to_owned(),
        (0, 0, 0) => format!("{:.1} s", duration.as_secs_f64()),
        (0, 0, minutes) => format!("{minutes} m {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {} m", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

fn unix_ms(text: &str) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(text.parse().ok()?))
}

fn rfc3339(text: &str) -> Option<SystemTime> {
    text.parse::<jiff::Timestamp>().ok()?.try_into().ok()
}

/// A date, with a time of the day or without, where we are.
fn local(text: &str) -> Option<SystemTime> {
    let civil = text.parse::<jiff::civil::DateTime>().ok()?;
    civil.to_zoned_datetime(jiff::tz::TimeZone::system()).ok()?.timestamp().try_into().ok()
}

fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at(split);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86400,
        _ => return Err(format!("-{text} is no time ago: write a number and s, m, h or d, as in -15m")),
    };
    let count: u64 = count.parse().map_err(|_| format!("-{text}: how many {unit}?"))?;
    let seconds = count.checked_mul(seconds).ok_or_else(|| format!("-{text} is too long ago"))?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::At(UNIX_EPOCH + Duration::from_millis(ms))
    }

    #[test]
    fn every_way_to_write_a_moment() {
        for (text, moment) in [
            ("0", at(0)),
            ("1796025600000", at(1_796_025_600_000)),
            ("1970-01-01T00:00:01Z", at(1000)),
            ("2026-11-30T08:00:00Z", at(1_796_025_600_000)),
            ("2026-11-30T09:00:00.25+01:00", at(1_796_025_600_250)),
            ("-0s", Moment::Ago(Duration::ZERO)),
            ("-90s", Moment::Ago(Duration::from_secs(90))),
            ("-15m", Moment::Ago(Duration::from_secs(900))),
            ("-2h", Moment::Ago(Duration::from_secs(7200))),
            ("-1d", Moment::Ago(Duration::from_secs(86400))),
        ] {
            assert_eq!(text.parse::<Moment>(), Ok(moment), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_told() {
        for text in [
            "",
            "now",
            "yesterday",
            "2026-13-30",
            "2026-11-30T25:00",
            "08:00",
            "-",
            "-m",
            "-15",
            "-15x",
            "-1.5h",
            "--15m",
            "-99999999999999999999d",
            "-18446744073709551615d",
            "99999999999999999999",
        ] {
            let error = text.parse::<Moment>().expect_err(text);
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn moments_are_written_as_they_are_read() {
        for (ms, written) in [(0, "1970-01-01T00:00:00Z"), (1_796_025_600_250, "2026-11-30T08:00:00.25Z")] {
            assert_eq!((text(ms).as_str(), written.parse()), (written, Ok(at(ms as u64))));
        }
        assert_eq!(text(i64::MAX), i64::MAX.to_string());
    }

    #[test]
    fn durations_are_told_by_their_two_largest_units() {
        for (ms, words) in [
            (0, "0 s"),
            (40, "0.0 s"),
            (1_250, "1.2 s"),
            (59_900, "59.9 s"),
            (61_000, "1 m 1 s"),
            (3_600_000, "1 h 0 m"),
            (100 * 3_600_000, "4 d 4 h"),
        ] {
            assert_eq!(in_words(Duration::from_millis(ms)), words, "{ms}");
        }
    }

    #[test]
    fn ago_counts_back_from_now_and_not_beyond_1970() {
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        assert_eq!(Moment::Ago(Duration::from_secs(900)).resolve(now), UNIX_EPOCH + Duration::from_secs(100));
        assert_eq!(Moment::Ago(Duration::from_secs(1001)).resolve(now), UNIX_EPOCH);
        assert_eq!(Moment::Ago(Duration::from_secs(u64::MAX)).resolve(now), UNIX_EPOCH);
        assert_eq!(at(5).resolve(now), UNIX_EPOCH + Duration::from_millis(5));
    }
}
