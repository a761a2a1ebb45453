//! Ranges of versions, and how Rust asks whether one is in it.

use crate::failure::{Result, fail};

/// The versions from `min` to `max`; none where `min` is above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) min: i16,
    pub(super) max: i16,
}

/// What to ask about a version to know whether it is in a range.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Test {
    Always,
    Never,
    If(String),
}

impl Versions {
    pub(super) const NONE: Self = Self { min: i16::MAX, max: i16::MIN };

    /// `3`, `3-7`, `3+` or `none`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let number = |text: &str| text.trim().parse::<i16>().ok();
        let range = if text == "none" {
            Some(Self::NONE)
        } else if let Some(min) = text.strip_suffix('+') {
            number(min).map(|min| Self { min, max: i16::MAX })
        } else if let Some((min, max)) = text.split_once('-') {
            number(min).zip(number(max)).map(|(min, max)| Self { min, max })
        } else {
            number(text).map(|only| Self { min: only, max: only })
        };
        range.map_or_else(|| fail(format!("`{text}` is no range of versions")), Ok)
    }

    pub(super) fn is_empty(self) -> bool {
        self.min > self.max
    }

    pub(super) fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self { min: self.min.max(other.min), max: self.max.min(other.max) }
    }

    /// The range that covers both.
    pub(super) fn cover(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// How to tell these versions from the others of `among`.
    pub(super) fn test(self, among: Self) -> Test {
        let inside = self.and(among);
        if inside.is_empty() {
            return Test::Never;
        }
        match (inside.min > among.min, inside.max < among.max) {
            (false, false) => Test::Always,
            (true, false) => Test::If(format!("version >= {}", inside.min)),
            (false, true) => Test::If(format!("version <= {}", inside.max)),
            (true, true) if inside.min == inside.max => Test::If(format!("version == {}", inside.min)),
            (true, true) => Test::If(format!("({}..={}).contains(&version)", inside.min, inside.max)),
        }
    }

    /// `versions 4 to 18`.
    pub(super) fn shown(self) -> String {
        if self.min == self.max {
            format!("version {}", self.min)
        } else {
            format!("versions {} to {}", self.min, self.max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kafkas_ranges_are_read() {
        let range = |min, max| Versions { min, max };
        assert_eq!(Versions::parse("3").unwrap(), range(3, 3));
        assert_eq!(Versions::parse("3-7").unwrap(), range(3, 7));
        assert_eq!(Versions::parse("3+").unwrap(), range(3, i16::MAX));
        assert!(Versions::parse("none").unwrap().is_empty());
        assert!(Versions::parse("3..7").is_err());
    }

    #[test]
    fn a_test_asks_only_what_is_open() {
        let among = Versions { min: 4, max: 18 };
        for (text, test) in [
            ("0+", Test::Always),
            ("4-18", Test::Always),
            ("7+", Test::If("version >= 7".into())),
            ("0-12", Test::If("version <= 12".into())),
            ("5", Test::If("version == 5".into())),
            ("5-7", Test::If("(5..=7).contains(&version)".into())),
            ("0-3", Test::Never),
            ("19+", Test::Never),
            ("none", Test::Never),
        ] {
            assert_eq!(Versions::parse(text).unwrap().test(among), test, "{text}");
        }
    }
}
