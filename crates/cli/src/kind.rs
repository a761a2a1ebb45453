//! What the bytes of a key or a value are, and how that is printed.

use base64::{Engine, engine::general_purpose::STANDARD};
use clap::ValueEnum;

use crate::pretty::{self, Layout};

/// How bytes are understood. What is not of the kind is printed as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Kind {
    /// As they are.
    #[default]
    String,
    /// Hexadecimal digits.
    Hex,
    /// Base64.
    Base64,
    /// A whole number of 4 bytes, the highest first (Java's IntegerSerializer).
    Int,
    /// A whole number of 8 bytes, the highest first (Java's LongSerializer).
    Long,
    /// JSON: on a terminal over several lines, else on one.
    Json,
}

impl Kind {
    /// Appends bytes as text.
    #[inline]
    pub(crate) fn write(self, bytes: &[u8], layout: Layout, out: &mut Vec<u8>) {
        match self {
            Self::String => out.extend_from_slice(bytes),
            Self::Hex => push_hex(out, bytes),
            Self::Base64 => push_base64(out, bytes),
            Self::Int | Self::Long => match self.number(bytes) {
                Some(number) => push_number(out, number),
                None => out.extend_from_slice(bytes),
            },
            Self::Json if pretty::write(bytes, layout, out) => {}
            Self::Json => out.extend_from_slice(bytes),
        }
    }

    /// Appends bytes as a JSON value, if there is a better one for this kind than a string of them.
    pub(crate) fn write_json(self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            Self::String => return false,
            Self::Hex | Self::Base64 => {
                out.push(b'"');
                self.write(bytes, Layout::default(), out);
                out.push(b'"');
            }
            Self::Int | Self::Long => match self.number(bytes) {
                Some(number) => push_number(out, number),
                None => return false,
            },
            Self::Json => return pretty::write(bytes, Layout::default(), out),
        }
        true
    }

    fn number(self, bytes: &[u8]) -> Option<i64> {
        match self {
            Self::Int => bytes.try_into().ok().map(i32::from_be_bytes).map(i64::from),
            _ => bytes.try_into().ok().map(i64::from_be_bytes),
        }
    }
}

fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const PAIRS: [[u8; 2]; 256] = pairs();
    out.extend(bytes.iter().flat_map(|&byte| PAIRS[usize::from(byte)]));
}

const fn pairs() -> [[u8; 2]; 256] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
}

/// Appends base64 with its padding.
pub(crate) fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, b'=');
    let _ = STANDARD.encode_slice(bytes, &mut out[start..]); // the room is exactly what it needs
}

/// Appends a whole number in decimal.
#[inline]
pub(crate) fn push_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: Kind, bytes: &[u8], layout: Layout) -> String {
        let mut out = Vec::new();
        kind.write(bytes, layout, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn plain(kind: Kind, bytes: &[u8]) -> String {
        text(kind, bytes, Layout::default())
    }

    #[test]
    fn each_kind_is_printed_in_its_way() {
        assert_eq!(plain(Kind::String, b"a b"), "a b");
        assert_eq!(plain(Kind::Hex, b"\x00\xffA"), "00ff41");
        assert_eq!(plain(Kind::Base64, b"\xff\0"), "/wA=");
        assert_eq!(plain(Kind::Int, &(-2_i32).to_be_bytes()), "-2");
        assert_eq!(plain(Kind::Long, &i64::MIN.to_be_bytes()), i64::MIN.to_string());
        assert_eq!(plain(Kind::Json, b" {\"b\" : [1.50, null ] } "), "{\"b\":[1.50,null]}");
    }

    #[test]
    fn what_is_of_another_kind_is_printed_as_it_is() {
        for (kind, bytes) in
            [(Kind::Int, "abc"), (Kind::Long, "abcd"), (Kind::Json, "{\"a\":"), (Kind::Json, "")]
        {
            assert_eq!(plain(kind, bytes.as_bytes()), bytes);
            let mut out = Vec::new();
            assert!(!kind.write_json(bytes.as_bytes(), &mut out) && out.is_empty());
        }
    }

    #[test]
    fn json_is_laid_out_over_lines() {
        let json = br#"{"b":{},"a":[1,{"x\"}":"y,z"}],"c":[ ]}"#;
        let pretty = Layout { pretty: true, coloured: false };
        let expected = "{\n  \"b\": {},\n  \"a\": [\n    1,\n    {\n      \"x\\\"}\": \"y,z\"\n    }\n  ],\n  \"c\": []\n}";
        assert_eq!(text(Kind::Json, json, pretty), expected);
        assert_eq!(plain(Kind::Json, expected.as_bytes()), r#"{"b":{},"a":[1,{"x\"}":"y,z"}],"c":[]}"#);
    }

    #[test]
    fn colours_go_around_tokens() {
        let coloured = Layout { pretty: false, coloured: true };
        let expected = "{\x1b[34m\"a\"\x1b[0m:\x1b[36m1\x1b[0m}";
        assert_eq!(text(Kind::Json, br#"{"a":1}"#, coloured), expected);
    }

    #[test]
    fn json_of_each_kind() {
        let json = |kind: Kind, bytes: &[u8]| {
            let mut out = Vec::new();
            assert!(kind.write_json(bytes, &mut out));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(json(Kind::Hex, b"\xff"), "\"ff\"");
        assert_eq!(json(Kind::Int, &7_i32.to_be_bytes()), "7");
        assert_eq!(json(Kind::Json, b"[1, 2]"), "[1,2]");
    }
}
