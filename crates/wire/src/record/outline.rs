use std::iter::FusedIterator;
use std::ops::Range;

use super::header::{LENGTH_END, MAGIC, check_magic};
use super::{BatchHeader, RecordError, old};

/// Where the batches of a fetch reply's records lie: each whole batch's header and its range, header included.
///
/// The message sets of before Kafka 0.11 are outlined, too: a wrapper (a message that holds compressed ones) is one
/// batch, and so is a row of uncompressed messages, as far as one header can speak for them; see
/// [`BatchHeader::magic`].
///
/// The broker cuts a reply at a byte, so the last batch may be incomplete: the iterator ends before it, without an
/// error, and [`tail`](Self::tail) says how many bytes of it there are. After an error the iterator ends too, since
/// nothing behind a broken header can be found.
///
/// Nothing but the headers is read: whether a batch's bytes are right is asked of [`BatchHeader::check_crc`].
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    at: usize,
    done: bool,
}

impl<'a> Batches<'a> {
    /// The batches of `bytes`, the records of one partition in a fetch reply (or of a segment of a log).
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, done: false }
    }

    /// Bytes behind the batches handed out so far; at the end, those of the cut batch or of what could not be read.
    pub fn tail(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The batch at the current position, `None` if it is cut.
    fn outline(&self) -> Result<Option<(BatchHeader, Range<usize>)>, RecordError> {
        match self.bytes.get(self.at + MAGIC) {
            Some(0 | 1) => old::outline(self.bytes, self.at),
            _ => self.outline_batch(),
        }
    }

    /// The same of format 2.
    fn outline_batch(&self) -> Result<Option<(BatchHeader, Range<usize>)>, RecordError> {
        let Some(size) = self.size()? else { return Ok(None) };
        if self.tail() < size {
            return Ok(None);
        }
        let header = BatchHeader::parse_at(self.bytes, self.at)?;
        Ok(Some((header, self.at..self.at + size)))
    }

    /// Bytes of the batch at the current position, as far as they can be known and believed from what is there.
    fn size(&self) -> Result<Option<usize>, RecordError> {
        let rest = &self.bytes[self.at..];
        let Some(start) = rest.first_chunk::<LENGTH_END>() else { return Ok(None) };
        let length = i32::from_be_bytes([start[8], start[9], start[10], start[11]]);
        let broken = RecordError::BatchLength { length, at: self.at };
        let Ok(length_after) = usize::try_from(length) else { return Err(broken) };
        let Some(&magic) = rest.get(MAGIC) else { return Ok(None) };
        check_magic(magic as i8, self.at)?;
        let size = LENGTH_END + length_after;
        if size < BatchHeader::SIZE {
            return Err(broken);
        }
        Ok(Some(size))
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<(BatchHeader, Range<usize>), RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let found = self.outline().transpose();
        match &found {
            Some(Ok((_, range))) => self.at = range.end,
            Some(Err(_)) | None => self.done = true,
        }
        found
    }
}

impl FusedIterator for Batches<'_> {}
