//! Lines as the user draws them, in kcat's letters.

use std::str::FromStr;

use ottla::{Record, RecordError};

use crate::{
    escape,
    kind::{Kind, push_number},
    row::{Kinds, Place},
};

/// A line, taken apart once so that writing it is a walk over its pieces. Bytes are written as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Format(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Timestamp,
    Key,
    KeyLength,
    Value,
    ValueLength,
    Headers,
}

impl Default for Format {
    /// The value and a newline.
    fn default() -> Self {
        Self(vec![Piece::Value, Piece::Literal(b"\n".to_vec())])
    }
}

impl Format {
    #[inline]
    pub(crate) fn write(
        &self,
        kinds: &Kinds,
        place: Place<'_>,
        record: &Record<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordError> {
        for piece in &self.0 {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Topic => out.extend_from_slice(place.topic.as_bytes()),
                Piece::Partition => push_number(out, place.partition),
                Piece::Offset => push_number(out, record.offset),
                Piece::Timestamp => push_number(out, record.timestamp),
                Piece::Key => push_field(out, record.key(), kinds.key, kinds),
                Piece::KeyLength => push_length(out, record.key()),
                Piece::Value => push_field(out, record.value(), kinds.value, kinds),
                Piece::ValueLength => push_length(out, record.value()),
                Piece::Headers => push_headers(out, record)?,
            }
        }
        Ok(())
    }
}

#[inline]
fn push_field(out: &mut Vec<u8>, field: Option<&[u8]>, kind: Kind, kinds: &Kinds) {
    if let Some(bytes) = field {
        kind.write(bytes, kinds.layout, out);
    }
}

fn push_length(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        Some(bytes) => push_number(out, bytes.len()),
        None => out.extend_from_slice(b"-1"),
    }
}

/// As kcat writes them: `name=value,name=value`, and NULL for a value that is not there.
fn push_headers(out: &mut Vec<u8>, record: &Record<'_>) -> Result<(), RecordError> {
    for (at, header) in record.headers().enumerate() {
        let header = header?;
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(header.key);
        out.push(b'=');
        out.extend_from_slice(header.value.unwrap_or(b"NULL"));
    }
    Ok(())
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "json" {
            return Err("to print JSON write --json".to_owned());
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if next == '%' {
                let letter = rest[1..].chars().next();
                pieces.push(letter.and_then(piece).ok_or_else(|| unknown(text, rest, letter))?);
                rest = &rest[1 + letter.map_or(0, char::len_utf8)..];
            } else {
                let end = rest.find('%').unwrap_or(rest.len());
                pieces.push(Piece::Literal(escape::resolve(&rest[..end])?));
                rest = &rest[end..];
            }
        }
        Ok(Self(pieces))
    }
}

fn piece(letter: char) -> Option<Piece> {
    Some(match letter {
        't' => Piece::Topic,
        'p' => Piece::Partition,
        'o' => Piece::Offset,
        'T' => Piece::Timestamp,
        'k' => Piece::Key,
        'K' => Piece::KeyLength,
        's' => Piece::Value,
        'S' => Piece::ValueLength,
        'h' => Piece::Headers,
        '%' => Piece::Literal(b"%".to_vec()),
        _ => return None,
    })
}

fn unknown(text: &str, rest: &str, letter: Option<char>) -> String {
    let at = text.len() - rest.len();
    let letter = letter.map_or_else(|| "nothing behind it".to_owned(), |letter| format!("{letter:?}"));
    format!("the % at byte {at} has {letter}; there are %t %p %o %T %k %K %s %S %h and %%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{
        Shape,
        tests::{Parts, written},
    };

    fn line(format: &str, parts: Parts<'_>) -> Vec<u8> {
        written(&Shape::Text(format.parse().unwrap(), Kinds::default()), parts)
    }

    const FULL: Parts<'static> =
        (Some(b"key"), Some(b"a value"), &[("a", Some(b"1")), ("b", None), ("a", Some(b""))]);
    const NULL: Parts<'static> = (None, None, &[]);
    const EMPTY: Parts<'static> = (Some(b""), Some(b""), &[]);

    #[test]
    fn every_letter() {
        let all = r"%t %p %o %T %k %K %s %S %h %%\n";
        assert_eq!(line(all, FULL), b"orders 3 42 1796025600123 key 3 a value 7 a=1,b=NULL,a= %\n");
        assert_eq!(line(all, NULL), b"orders 3 42 1796025600123  -1  -1  %\n");
        assert_eq!(line(all, EMPTY), b"orders 3 42 1796025600123  0  0  %\n");
    }

    #[test]
    fn the_default_is_the_value_and_a_newline() {
        assert_eq!(Format::default(), r"%s\n".parse().unwrap());
        assert_eq!(written(&Shape::Text(Format::default(), Kinds::default()), FULL), b"a value\n");
    }

    #[test]
    fn bytes_are_written_as_they_are() {
        assert_eq!(line("%k|%s", (Some(b"\0\xff\n"), Some(b"\xc3\x28"), &[])), b"\0\xff\n|\xc3\x28");
    }

    #[test]
    fn literals_and_escapes() {
        assert_eq!(line(r"", FULL), b"");
        assert_eq!(line(r"\t%o\t\\%%o\x00\n\n", FULL), b"\t42\t\\%o\0\n\n");
        assert_eq!(line("gr\u{fc}n %p", FULL), "gr\u{fc}n 3".as_bytes());
    }

    #[test]
    fn what_is_no_format_is_told() {
        for (text, told) in [
            ("%", "the % at byte 0 has nothing behind it"),
            ("a %o %x", "the % at byte 5 has 'x'"),
            ("%\u{fc}", "has '\u{fc}'"),
            (r"%s\", r"a \ at the end"),
            (r"\q", r"\q"),
            ("json", "--json"),
        ] {
            let error = text.parse::<Format>().expect_err(text);
            assert!(error.contains(told), "{error}");
        }
    }
}
