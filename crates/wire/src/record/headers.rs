use std::borrow::Cow;
use std::fmt;
use std::iter::FusedIterator;

use super::{Excerpt, RecordError, varint};

/// One header of a record. A record may have several with the same key; they stay in their order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The key's bytes, UTF-8 if the producer keeps to the protocol.
    pub key: &'a [u8],
    /// The value; `None` if it has none, which is not the same as an empty one.
    pub value: Option<&'a [u8]>,
}

impl fmt::Debug for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header")
            .field("key", &Excerpt(self.key))
            .field("value", &self.value.map(Excerpt))
            .finish()
    }
}

impl<'a> Header<'a> {
    /// The key as text; what is not UTF-8 becomes U+FFFD, as in Java's client.
    pub fn name(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.key)
    }
}

/// The headers of a record, read as they are asked for.
///
/// After an error the iterator ends. [`ExactSizeIterator::len`] is the number that the record says.
#[derive(Clone)]
pub struct Headers<'a> {
    /// The records up to the end of this one.
    bytes: &'a [u8],
    at: usize,
    left: usize,
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl<'a> Headers<'a> {
    /// Bytes of the smallest header: the lengths of an empty key and of no value.
    pub(super) const MIN_SIZE: usize = 2;

    #[inline]
    pub(super) fn new(bytes: &'a [u8], at: usize, count: usize) -> Self {
        Self { bytes, at, left: count }
    }

    /// The next header and where it ends, or nothing.
    #[inline(always)]
    fn read(&self) -> Option<(Header<'a>, usize)> {
        let mut at = self.at;
        let key = field(self.bytes, &mut at)??;
        let value = field(self.bytes, &mut at)?;
        let last = self.left == 1;
        (!last || at == self.bytes.len()).then_some((Header { key, value }, at))
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Result<Header<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        match self.read() {
            Some((header, end)) => {
                self.left -= 1;
                self.at = end;
                Some(Ok(header))
            }
            None => {
                self.left = 0;
                Some(Err(explain(self.bytes, self.at)))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Headers<'_> {}
impl FusedIterator for Headers<'_> {}

/// A key or value, `at` moved behind it; `Some(None)` if it says that there is none.
#[inline(always)]
fn field<'a>(bytes: &'a [u8], at: &mut usize) -> Option<Option<&'a [u8]>> {
    let len = varint::read_i32(bytes, at)?;
    if len == -1 {
        return Some(None);
    }
    let field = bytes.get(*at..)?.get(..usize::try_from(len).ok()?)?;
    *at += field.len();
    Some(Some(field))
}

/// Why nothing could be read: the same steps again, each with its name.
#[cold]
#[inline(never)]
fn explain(bytes: &[u8], start: usize) -> RecordError {
    match walk(bytes, start) {
        Ok(at) => RecordError::Leftover { what: "the last header", at, left: bytes.len() - at },
        Err(error) => error,
    }
}

fn walk(bytes: &[u8], start: usize) -> Result<usize, RecordError> {
    let mut at = start;
    let key_len = skip(bytes, &mut at, "header key")?;
    if key_len < 0 {
        return Err(RecordError::Length { what: "header key length", at: start, found: i64::from(key_len) });
    }
    skip(bytes, &mut at, "header value")?;
    Ok(at)
}

fn skip(bytes: &[u8], at: &mut usize, what: &'static str) -> Result<i32, RecordError> {
    let start = *at;
    let len = varint::read_i32(bytes, at).ok_or_else(|| varint::fault(bytes, start, what))?;
    if len < -1 {
        return Err(RecordError::Length { what, at: start, found: i64::from(len) });
    }
    let (wanted, left) = (len.max(0) as usize, bytes.len() - *at);
    if wanted > left {
        return Err(RecordError::Truncated { what, at: *at, wanted, left });
    }
    *at += wanted;
    Ok(len)
}
