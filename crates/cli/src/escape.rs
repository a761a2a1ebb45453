//! Characters that a shell makes hard to type, and those that a terminal would obey.

use std::borrow::Cow;

/// Replaces `\n`, `\t`, `\r`, `\\` and `\xNN` by the bytes they stand for.
pub(crate) fn resolve(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let letter = behind.chars().next().ok_or("a \\ at the end; write \\\\ for a backslash")?;
        let (byte, used) = match letter {
            'n' => (b'\n', 1),
            't' => (b'\t', 1),
            'r' => (b'\r', 1),
            '\\' => (b'\\', 1),
            'x' => (hex(behind)?, 3),
            _ => return Err(format!("\\{letter} means nothing; there are \\n \\t \\r \\\\ and \\xNN")),
        };
        bytes.push(byte);
        rest = &behind[used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

fn hex(behind: &str) -> Result<u8, String> {
    let digits = behind.get(1..3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    digits
        .and_then(|digits| u8::from_str_radix(digits, 16).ok())
        .ok_or_else(|| "\\x needs two hexadecimal digits, as in \\x00".to_owned())
}

/// What somebody else chose, for a terminal: a group or a member may have any name, such as one that clears the screen.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_drives_the_terminal() {
        assert_eq!(shown("evil\x1b[31m\nred \u{9b}1m ä"), "evil\\u{1b}[31m\\nred \\u{9b}1m ä");
        assert!(matches!(shown("orders ä"), Cow::Borrowed("orders ä")));
    }

    #[test]
    fn escapes_become_bytes() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("plain", b"plain"),
            (r"a\nb\tc\rd\\e", b"a\nb\tc\rd\\e"),
            (r"\x00\xfF\x7e!", b"\0\xff~!"),
            (r"\\n", b"\\n"),
        ] {
            assert_eq!(resolve(text).as_deref(), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_escape_is_told() {
        for (text, told) in [
            ("a\\", "at the end"),
            (r"\z", r"\z"),
            (r"\x", "two"),
            (r"\x0", "two"),
            (r"\x+1", "two"),
            ("\\x1\u{fc}", "two"),
        ] {
            let error = resolve(text).expect_err(text);
            assert!(error.contains(told), "{error}");
        }
    }
}
