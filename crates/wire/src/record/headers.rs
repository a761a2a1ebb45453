use std::borrow::Cow;
use std::iter::FusedIterator;

use super::{RecordError, varint};

/// One header of a record. A record may have several with the same key; they stay in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The key's bytes, UTF-8 if the producer keeps to the protocol.
    pub key: &'a [u8],
    /// The value; `None` if it has none, which is not the same as an empty one.
    pub value: Option<&'a [u8]>,
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
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    /// The records up to the end of this one.
    bytes: &'a [u8],
    at: usize,
    left: usize,
}

impl<'a> Headers<'a> {
    /// Bytes of the smallest header: the lengths of an empty key and of no value.
    pub(super) const MIN_SIZE: usize = 2;

    #[inline]
    pub(super) fn new(bytes: &'a [u8], at: usize, count: usize) -> Self {
        Self { bytes, at, left: count }
    }

    fn read(&mut self) -> Result<Header<'a>, RecordError> {
        let key_at = self.at;
        let key = self.field("header key")?;
        let key = key.ok_or(RecordError::Length { what: "header key length", at: key_at, found: -1 })?;
        let value = self.field("header value")?;
        if self.left == 0 && self.at != self.bytes.len() {
            let left = self.bytes.len() - self.at;
            return Err(RecordError::Leftover { what: "the last header", at: self.at, left });
        }
        Ok(Header { key, value })
    }

    fn field(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, RecordError> {
        let at = self.at;
        let len = varint::read_i32(self.bytes, &mut self.at).ok_or(RecordError::Varint { what, at })?;
        if len == -1 {
            return Ok(None);
        }
        let Ok(wanted) = usize::try_from(len) else {
            return Err(RecordError::Length { what, at, found: i64::from(len) });
        };
        let rest = &self.bytes[self.at..];
        let Some(field) = rest.get(..wanted) else {
            return Err(RecordError::Truncated { what, at: self.at, wanted, left: rest.len() });
        };
        self.at += wanted;
        Ok(Some(field))
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Result<Header<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let header = self.read();
        if header.is_err() {
            self.left = 0;
        }
        Some(header)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Headers<'_> {}
impl FusedIterator for Headers<'_> {}
