//! JSON, checked and laid out in one pass: so names keep their order and numbers their digits.

use std::{ops::Range, str};

/// How JSON is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Layout {
    /// Over several lines.
    pub(crate) pretty: bool,
    pub(crate) coloured: bool,
}

/// Appends JSON in this layout; nothing at all if it is none.
pub(crate) fn write(json: &[u8], layout: Layout, out: &mut Vec<u8>) -> bool {
    if str::from_utf8(json).is_err() {
        return false;
    }
    let start = out.len();
    let is_json = match layout.pretty || layout.coloured {
        true => walk(json, &mut ForEyes { json, out, layout, depth: 0, is_fresh: false }),
        false => {
            let mut packed = Packed { json, out, run: 0..0 };
            let is_json = walk(json, &mut packed);
            packed.flush();
            is_json
        }
    };
    if !is_json {
        out.truncate(start);
    }
    is_json
}

/// What JSON is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    Comma,
    Colon,
    Name,
    Text,
    Number,
    Word,
}

/// Takes tokens, each with its place.
trait Sink {
    fn take(&mut self, token: Token, at: Range<usize>);
}

/// Whether it is JSON; what is before the first fault was taken.
///
/// Takes what serde_json takes, at twice its speed, since that reads it for a second time to lay it out.
#[inline]
fn walk(json: &[u8], sink: &mut impl Sink) -> bool {
    Walk { json, at: 0, open: Vec::new(), sink }.document().is_some()
}

/// A way through JSON; each step is `None` where it is none.
struct Walk<'a, S> {
    json: &'a [u8],
    at: usize,
    /// Of each that is open, by what it is closed.
    open: Vec<u8>,
    sink: &'a mut S,
}

impl<S: Sink> Walk<'_, S> {
    #[inline]
    fn document(&mut self) -> Option<()> {
        loop {
            let mut is_whole = self.value()?;
            while is_whole {
                match self.open.last() {
                    Some(&close) => is_whole = self.behind_value(close)?,
                    None => return self.blanks().is_none().then_some(()),
                }
            }
        }
    }

    /// Whether it is whole; if not, the next value is the first inside it.
    #[inline]
    fn value(&mut self) -> Option<bool> {
        let first = self.blanks()?;
        let rest = &self.json[self.at..];
        match first {
            b'"' => self.take(Token::Text, string_length(rest))?,
            b'{' => return self.open(b'}'),
            b'[' => return self.open(b']'),
            b'-' | b'0'..=b'9' => self.take(Token::Number, number_length(rest))?,
            _ => self.take(Token::Word, word_length(rest))?,
        }
        Some(true)
    }

    #[inline]
    fn open(&mut self, close: u8) -> Option<bool> {
        self.take(Token::Open, 1)?;
        if self.blanks()? == close {
            self.take(Token::Close, 1)?;
            return Some(true);
        }
        self.open.push(close);
        self.name_in(close)?;
        Some(false)
    }

    /// Whether that was the end of a whole one again, and not a comma.
    #[inline]
    fn behind_value(&mut self, close: u8) -> Option<bool> {
        match self.blanks()? {
            b',' => {
                self.take(Token::Comma, 1)?;
                self.name_in(close)?;
                Some(false)
            }
            byte if byte == close => {
                self.open.pop();
                self.take(Token::Close, 1)?;
                Some(true)
            }
            _ => None,
        }
    }

    /// With its colon, where there has to be one.
    #[inline]
    fn name_in(&mut self, close: u8) -> Option<()> {
        if close != b'}' {
            return Some(());
        }
        self.blanks().filter(|&byte| byte == b'"')?;
        self.take(Token::Name, string_length(&self.json[self.at..]))?;
        self.blanks().filter(|&byte| byte == b':')?;
        self.take(Token::Colon, 1)
    }

    /// The first byte behind them.
    #[inline]
    fn blanks(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.json.get(self.at) {
            self.at += 1;
        }
        self.json.get(self.at).copied()
    }

    /// A token of length 0 is none.
    #[inline]
    fn take(&mut self, token: Token, length: usize) -> Option<()> {
        let start = self.at;
        self.at += length;
        self.sink.take(token, start..self.at);
        (length > 0).then_some(())
    }
}

fn word_length(rest: &[u8]) -> usize {
    let is_next = |word: &&[u8]| rest.starts_with(word);
    [&b"true"[..], b"false", b"null"].iter().find(|word| is_next(word)).map_or(0, |word| word.len())
}

/// Of a string with its quotes.
#[inline]
fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    loop {
        at += plain_length(&rest[at..]);
        match rest.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => match escape_length(&rest[at + 1..]) {
                0 => return 0,
                length => at += 1 + length,
            },
            _ => return 0, // no end, or a control character
        }
    }
}

/// How many bytes come before one of a string that needs a look: a quote, a backslash or a control character.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    for (at, &word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(word);
        let found = below(word ^ each(b'"'), 1) | below(word ^ each(b'\\'), 1) | below(word, 0x20);
        if found != 0 {
            return at * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let needs_a_look = |&byte: &u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let rest = words.len() * 8;
    rest + bytes[rest..].iter().position(needs_a_look).unwrap_or(bytes.len() - rest)
}

/// The high bit of each byte that is below `limit`, up to the first such byte; those behind it may be wrong.
#[inline]
const fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(each(limit)) & !word & each(0x80)
}

const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Of what stands behind a backslash.
fn escape_length(rest: &[u8]) -> usize {
    match rest {
        [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 1,
        [b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => 5,
        _ => 0,
    }
}

/// `-0.5e+10`
#[inline]
fn number_length(rest: &[u8]) -> usize {
    let digits = |at: usize| rest[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole_at = usize::from(rest[0] == b'-');
    let whole = match rest.get(whole_at) {
        Some(b'0') => 1,
        _ => digits(whole_at),
    };
    let mut at = whole_at + whole;
    let (mut fraction, mut exponent) = (1, 1);
    if rest.get(at) == Some(&b'.') {
        fraction = digits(at + 1);
        at += 1 + fraction;
    }
    if let Some(b'e' | b'E') = rest.get(at) {
        at += 1 + usize::from(matches!(rest.get(at + 1), Some(b'+' | b'-')));
        exponent = digits(at);
        at += exponent;
    }
    if whole == 0 || fraction == 0 || exponent == 0 { 0 } else { at }
}

/// Everything on one line, without blanks: what lies together is copied together.
struct Packed<'a> {
    json: &'a [u8],
    out: &'a mut Vec<u8>,
    run: Range<usize>,
}

impl Sink for Packed<'_> {
    #[inline]
    fn take(&mut self, _: Token, at: Range<usize>) {
        if at.start == self.run.end {
            self.run.end = at.end;
        } else {
            self.flush();
            self.run = at;
        }
    }
}

impl Packed<'_> {
    #[inline]
    fn flush(&mut self) {
        self.out.extend_from_slice(&self.json[self.run.clone()]);
    }
}

const NAME: &[u8] = b"\x1b[34m";
const TEXT: &[u8] = b"\x1b[32m";
const NUMBER: &[u8] = b"\x1b[36m";
const WORD: &[u8] = b"\x1b[35m";
const PLAIN: &[u8] = b"\x1b[0m";

/// With line breaks, with colours, or with both.
struct ForEyes<'a> {
    json: &'a [u8],
    out: &'a mut Vec<u8>,
    layout: Layout,
    depth: usize,
    /// Nothing came since the last one was opened: if it is closed now, it is empty.
    is_fresh: bool,
}

impl Sink for ForEyes<'_> {
    fn take(&mut self, token: Token, at: Range<usize>) {
        let was_fresh = std::mem::replace(&mut self.is_fresh, token == Token::Open);
        match token {
            Token::Close => {
                self.depth -= 1;
                self.break_line(!was_fresh);
            }
            _ => self.break_line(was_fresh),
        }
        match token {
            Token::Open => self.depth += 1,
            Token::Name => return self.push(at, NAME),
            Token::Text => return self.push(at, TEXT),
            Token::Number => return self.push(at, NUMBER),
            Token::Word => return self.push(at, WORD),
            Token::Close | Token::Comma | Token::Colon => {}
        }
        self.out.extend_from_slice(&self.json[at]);
        match token {
            Token::Comma => self.break_line(true),
            Token::Colon if self.layout.pretty => self.out.push(b' '),
            _ => {}
        }
    }
}

impl ForEyes<'_> {
    fn push(&mut self, at: Range<usize>, colour: &[u8]) {
        let (before, behind) = if self.layout.coloured { (colour, PLAIN) } else { (&b""[..], &b""[..]) };
        self.out.extend_from_slice(before);
        self.out.extend_from_slice(&self.json[at]);
        self.out.extend_from_slice(behind);
    }

    fn break_line(&mut self, breaks: bool) {
        if breaks && self.layout.pretty {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + 2 * self.depth, b' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::*;

    fn packed(json: &str) -> Option<String> {
        let mut out = b"before".to_vec();
        let is_json = write(json.as_bytes(), Layout::default(), &mut out);
        let text = String::from_utf8(out.split_off(6)).unwrap();
        assert!(is_json || text.is_empty(), "{json}: something was left: {text}");
        is_json.then_some(text)
    }

    #[test]
    fn json_is_packed() {
        for (json, expected) in [
            (" {\"b\" : [1.50, null ] } ", "{\"b\":[1.50,null]}"),
            ("[ ]", "[]"),
            ("\t-0.5e+10\n", "-0.5e+10"),
            (r#"[ "a \" b" , "\u00e9\\" ]"#, r#"["a \" b","\u00e9\\"]"#),
            ("{ \"a\" : { } , \"a\" : true }", "{\"a\":{},\"a\":true}"),
        ] {
            assert_eq!(packed(json).as_deref(), Some(expected));
        }
    }

    /// What serde_json takes is taken, and nothing else: of sound documents and of all that one change makes of them.
    #[test]
    fn it_is_json_where_serde_json_says_so() {
        const DOCUMENTS: [&str; 10] = [
            "[\"0123456789abcdef \u{e9}\u{1f4da} 0123456789\\nabcdefghi\"]",
            r#"{"a":[1,-2.5e+3,{"b":null}],"c":"x\n\u12aF\"","d":{}}"#,
            "[[],[0],[\"\"],{}]",
            "-0.0E-0",
            "10",
            "true",
            "\"\u{e9}\\/\u{1f4da}\"",
            " [ false , { \"a\" : \"b\" } ] ",
            "nul",
            "",
        ];
        const BYTES: &[u8] = b"{}[],:\"\\ \n\x01\x7f0159-+.eEutrnlfasx/";
        let mut sound = 0;
        for document in DOCUMENTS {
            let bytes = document.as_bytes();
            let mut all = vec![bytes.to_vec()];
            for at in 0..=bytes.len() {
                all.push(bytes[..at].to_vec());
                all.extend(BYTES.iter().map(|&byte| [&bytes[..at], &[byte], &bytes[at..]].concat()));
                if at < bytes.len() {
                    all.push([&bytes[..at], &bytes[at + 1..]].concat());
                    all.extend(BYTES.iter().map(|&byte| [&bytes[..at], &[byte], &bytes[at + 1..]].concat()));
                }
            }
            for json in all {
                let Ok(text) = String::from_utf8(json) else { continue };
                let expected = serde_json::from_str::<IgnoredAny>(&text).is_ok();
                assert_eq!(packed(&text).is_some(), expected, "{text:?}");
                sound += u32::from(expected);
            }
        }
        assert!(sound > 500, "{sound}");
    }

    #[test]
    fn what_is_packed_means_the_same() {
        let json = r#" { "a" : [ 1 , "b  c" , { "d" : -1.5e3 } ] , "e" : { } , "f" : [ ] } "#;
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&packed(json).unwrap()), value(json));
        let mut pretty = Vec::new();
        assert!(write(json.as_bytes(), Layout { pretty: true, coloured: false }, &mut pretty));
        let expected = serde_json::to_string_pretty(&value(json)).unwrap().replace("-1500.0", "-1.5e3");
        assert_eq!(str::from_utf8(&pretty).unwrap(), expected);
    }

    #[test]
    fn depth_is_no_trouble() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(packed(&deep), Some(deep));
        assert_eq!(packed(&"[".repeat(100_000)), None);
    }
}
