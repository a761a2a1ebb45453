//! Moments as people type them.

use std::{
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A moment: `2026-11-30T08:00:00Z`, `2026-11-30T08:00` (local time), `1796025600000` (ms since 1970), `-15m`, `now`,
/// `12:00`, `today`, `yesterday` or `yesterday 12:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// This one.
    At(SystemTime),
    /// So long before the command started.
    Ago(Duration),
    /// At this time of the day, where we are, so many days before the command started.
    Daily(i32, jiff::civil::Time),
}

impl Moment {
    /// The moment itself, for a command that started `now`; nothing is before 1970.
    pub(crate) fn resolve(self, now: SystemTime) -> SystemTime {
        match self {
            Self::At(time) => time,
            Self::Ago(ago) => now.checked_sub(ago).map_or(UNIX_EPOCH, |time| time.max(UNIX_EPOCH)),
            Self::Daily(days_ago, time) => daily(now, days_ago, time).unwrap_or(now),
        }
    }
}

fn daily(now: SystemTime, days_ago: i32, time: jiff::civil::Time) -> Option<SystemTime> {
    let here = jiff::tz::TimeZone::system();
    let today = here.to_datetime(jiff::Timestamp::try_from(now).ok()?).date();
    let day = today.checked_sub(jiff::Span::new().days(days_ago)).ok()?;
    day.to_datetime(time).to_zoned_datetime(here).ok()?.timestamp().try_into().ok()
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(ago) = text.strip_prefix('-') {
            return duration(ago).map(Self::Ago);
        }
        if let Some(moment) = in_words_of_today(text) {
            return Ok(moment);
        }
        let time = match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => unix_ms(text),
            false => rfc3339(text).or_else(|| local(text)),
        };
        time.map(Self::At).ok_or_else(|| {
            format!(
                "{text:?} is no time: write 2026-11-30T08:00:00Z, 2026-11-30T08:00 (local time), 2026-11-30, 08:00, \
                 today, yesterday, 'yesterday 08:00', now, 1796025600000 (ms since 1970) or -15m"
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
        (0, 0, 0) if seconds == 0 => format!("{} ms", duration.as_millis()),
        (0, 0, 0) => format!("{:.1} s", duration.as_secs_f64()),
        (0, 0, minutes) => format!("{minutes} m {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {} m", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

/// `now`, `today`, `yesterday`, each of the days with a time of the day or alone, or a time alone.
fn in_words_of_today(text: &str) -> Option<Moment> {
    let (days_ago, rest) = match (text.strip_prefix("today"), text.strip_prefix("yesterday")) {
        _ if text == "now" => return Some(Moment::Ago(Duration::ZERO)),
        (Some(rest), _) => (0, rest),
        (_, Some(rest)) => (1, rest),
        _ if text.starts_with(|first: char| first.is_ascii_digit()) && text.get(2..3) == Some(":") => {
            return text.parse().ok().map(|time| Moment::Daily(0, time));
        }
        _ => return None,
    };
    let time = match rest.strip_prefix([' ', 'T', '@']) {
        Some(time) => time.trim().parse().ok()?,
        None if rest.is_empty() => jiff::civil::Time::midnight(),
        None => return None,
    };
    Some(Moment::Daily(days_ago, time))
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
    use jiff::civil::time;

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
            ("now", Moment::Ago(Duration::ZERO)),
            ("today", Moment::Daily(0, time(0, 0, 0, 0))),
            ("yesterday", Moment::Daily(1, time(0, 0, 0, 0))),
            ("yesterday 12:30", Moment::Daily(1, time(12, 30, 0, 0))),
            ("todayT08:00:01", Moment::Daily(0, time(8, 0, 1, 0))),
            ("18:00", Moment::Daily(0, time(18, 0, 0, 0))),
        ] {
            assert_eq!(text.parse::<Moment>(), Ok(moment), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_told() {
        for text in [
            "",
            "tomorrow",
            "yesterday noon",
            "yesterday25:00",
            "today ",
            "8:00",
            "2026-13-30",
            "2026-11-30T25:00",
            "24:61",
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
            (40, "40 ms"),
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
    fn days_begin_where_we_are() {
        let now = UNIX_EPOCH + Duration::from_secs(1_796_025_600);
        let resolved = |text: &str| text.parse::<Moment>().unwrap().resolve(now);
        let (today, yesterday) = (resolved("today"), resolved("yesterday"));
        let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(86_400));
        assert!(today <= now && now.duration_since(today).unwrap() < day + hour);
        let between = today.duration_since(yesterday).unwrap();
        assert!((day - hour..=day + hour).contains(&between), "{between:?}"); // clocks may have been put forward
        assert!(resolved("yesterday 12:00") > yesterday && resolved("yesterday 12:00") < today);
        assert_eq!(resolved("00:00"), today);
        assert_eq!(resolved("now"), now);
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
