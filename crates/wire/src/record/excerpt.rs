use std::fmt;

/// Bytes as a person wants to see them in a log: text where it is text, escapes where it is not, and no more than a
/// line of it.
#[derive(Clone, Copy)]
pub struct Excerpt<'a>(pub &'a [u8]);

/// How many bytes are shown.
const SHOWN: usize = 64;

impl fmt::Debug for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(SHOWN)];
        write!(f, "\"{}\"", shown.escape_ascii())?;
        match self.0.len() - shown.len() {
            0 => Ok(()),
            more => write!(f, " and {more} bytes more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_text_and_not_all_of_them() {
        assert_eq!(format!("{:?}", Excerpt(b"two \"chairs\"\n")), r#""two \"chairs\"\n""#);
        assert_eq!(format!("{:?}", Excerpt(b"\x00\xff")), r#""\x00\xff""#);
        let long = format!("{:?}", Excerpt(&[b'x'; 1000]));
        assert!(long.ends_with("x\" and 936 bytes more") && long.len() < 100, "{long}");
    }
}
