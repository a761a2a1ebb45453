//! Which records are wanted: by their bytes, before any formatting.

use std::str::FromStr;

use memchr::memmem::Finder;
use ottla::{Record, RecordError};
use regex::bytes::Regex;

/// What is looked for in bytes: `TEXT`, or `/REGEX/`.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// These bytes, anywhere.
    Substring(Box<Finder<'static>>),
    /// A match, anywhere.
    Regex(Regex),
}

impl Pattern {
    /// What is not there (null) holds nothing.
    #[inline]
    fn is_in(&self, field: Option<&[u8]>) -> bool {
        let Some(bytes) = field else { return false };
        match self {
            Self::Substring(text) => text.find(bytes).is_some(),
            Self::Regex(regex) => regex.is_match(bytes),
        }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix('/').and_then(|text| text.strip_suffix('/')) {
            Some(pattern) => {
                let no_regex = |error| format!("/{pattern}/ is no regular expression: {error}");
                Regex::new(pattern).map(Self::Regex).map_err(no_regex)
            }
            None => Ok(Self::Substring(Box::new(Finder::new(text.as_bytes()).into_owned()))),
        }
    }
}

/// `NAME`, or `NAME=VALUE` where the value is a [`Pattern`]; the name ends at the first `=`.
#[derive(Debug, Clone)]
pub(crate) struct HeaderPattern {
    name: Vec<u8>,
    value: Option<Pattern>,
}

impl HeaderPattern {
    /// Whether any header of that name has it.
    fn is_in(&self, record: &Record<'_>) -> Result<bool, RecordError> {
        for header in record.headers() {
            let header = header?;
            let has_value = || self.value.as_ref().is_none_or(|value| value.is_in(header.value));
            if header.key == self.name && has_value() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl FromStr for HeaderPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.parse()?)),
            None => (text, None),
        };
        match name {
            "" => Err("write NAME, NAME=TEXT or NAME=/REGEX/".to_owned()),
            name => Ok(Self { name: name.as_bytes().to_vec(), value }),
        }
    }
}

/// All that a record has to have.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) keys: Vec<Pattern>,
    pub(crate) values: Vec<Pattern>,
    pub(crate) headers: Vec<HeaderPattern>,
}

impl Filter {
    /// # Errors
    ///
    /// Its headers cannot be read, and were asked for.
    #[inline]
    pub(crate) fn wants(&self, record: &Record<'_>) -> Result<bool, RecordError> {
        let has_fields = self.keys.iter().all(|pattern| pattern.is_in(record.key()))
            && self.values.iter().all(|pattern| pattern.is_in(record.value()));
        Ok(has_fields && self.has_headers(record)?)
    }

    fn has_headers(&self, record: &Record<'_>) -> Result<bool, RecordError> {
        for pattern in &self.headers {
            if !pattern.is_in(record)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What is left out of the records that a filter wants: the first ones, and all but one of each so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thinning {
    pub(crate) skip: u64,
    /// One at least.
    pub(crate) one_of: u64,
}

impl Default for Thinning {
    fn default() -> Self {
        Self { skip: 0, one_of: 1 }
    }
}

impl Thinning {
    /// Whether the record is printed that the filter wants and before which it wanted so many.
    #[inline]
    pub(crate) fn keeps(&self, before: u64) -> bool {
        before >= self.skip && (before - self.skip).is_multiple_of(self.one_of)
    }
}

#[cfg(test)]
mod tests {
    use ottla_wire::record::{BatchBuilder, BatchHeader, Codec, Records};

    use super::*;
    use crate::shape::tests::Parts;

    const FULL: Parts<'static> =
        (Some(b"key 7"), Some(b"{\"a\": 1}\xff"), &[("a", Some(b"1")), ("b", None), ("a", Some(b"22"))]);
    const NULL: Parts<'static> = (None, None, &[]);

    fn wants(filter: &Filter, (key, value, headers): Parts<'_>) -> bool {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(0, key, value, headers);
        let batch = builder.build().unwrap();
        let header = BatchHeader::parse(&batch).unwrap();
        let record = Records::new(&header, &batch[BatchHeader::SIZE..]).next().unwrap().unwrap();
        filter.wants(&record).unwrap()
    }

    fn patterns<P: FromStr<Err = String>>(texts: &[&str]) -> Vec<P> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn keys_and_values_are_looked_into() {
        for (key, value, wanted) in [
            (&[][..], &[][..], true),
            (&["y 7"], &[], true),
            (&["Y 7"], &[], false),
            (&["/^key [0-9]$/"], &[], true),
            (&["/(?i)KEY/"], &[], true),
            (&["/^7/"], &[], false),
            (&[], &["\"a\": 1"], true),
            (&[], &[r"/(?-u:\xff)$/"], true),
            (&["key"], &["b"], false),
            (&["key", "8"], &[], false),
        ] {
            let filter = Filter { keys: patterns(key), values: patterns(value), ..Filter::default() };
            assert_eq!(wants(&filter, FULL), wanted, "{key:?} {value:?}");
            assert_eq!(wants(&filter, NULL), key.is_empty() && value.is_empty(), "{key:?} {value:?}");
        }
    }

    #[test]
    fn headers_are_looked_for_by_name_and_value() {
        for (headers, wanted) in [
            (&["a"][..], true),
            (&["b"], true),
            (&["c"], false),
            (&["a=2"], true),
            (&["a=3"], false),
            (&["a=/^.$/"], true),
            (&["b="], false),
            (&["a=1", "a=22"], true),
            (&["a", "c"], false),
        ] {
            let filter = Filter { headers: patterns(headers), ..Filter::default() };
            assert_eq!(wants(&filter, FULL), wanted, "{headers:?}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_told() {
        assert!("/(/".parse::<Pattern>().unwrap_err().contains("/(/ is no regular expression"));
        assert!("a=/(/".parse::<HeaderPattern>().unwrap_err().contains("no regular expression"));
        assert!("=a".parse::<HeaderPattern>().is_err());
        assert!(matches!("/a".parse::<Pattern>(), Ok(Pattern::Substring(_))));
    }

    #[test]
    fn thinning_leaves_out_the_first_and_then_all_but_one_of_each_few() {
        let kept = |skip, one_of| {
            let thinning = Thinning { skip, one_of };
            (0..10).filter(move |&before| thinning.keeps(before)).collect::<Vec<_>>()
        };
        assert_eq!(kept(0, 1), (0..10).collect::<Vec<_>>());
        assert_eq!(kept(7, 1), [7, 8, 9]);
        assert_eq!(kept(1, 4), [1, 5, 9]);
    }
}
