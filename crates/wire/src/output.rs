//! Writing values into a frame.

use crate::Uuid;
use crate::error::{EncodeError, EncodeFault};
use crate::message::Wire;

/// A frame being written.
#[derive(Debug, Clone, Default)]
pub struct Output {
    bytes: Vec<u8>,
    flexible: bool,
}

impl Output {
    /// An empty frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// One byte, 1 for true.
    pub fn put_bool(&mut self, value: bool) {
        self.bytes.push(value.into());
    }

    /// A signed byte.
    pub fn put_i8(&mut self, value: i8) {
        self.put(&value.to_be_bytes());
    }

    /// A signed integer of two bytes.
    pub fn put_i16(&mut self, value: i16) {
        self.put(&value.to_be_bytes());
    }

    /// A signed integer of four bytes.
    pub fn put_i32(&mut self, value: i32) {
        self.put(&value.to_be_bytes());
    }

    /// A signed integer of eight bytes.
    pub fn put_i64(&mut self, value: i64) {
        self.put(&value.to_be_bytes());
    }

    /// An id of sixteen bytes.
    pub fn put_uuid(&mut self, value: Uuid) {
        self.put(&value.0);
    }

    /// An unsigned integer of up to 32 bits, seven to a byte, the lowest first.
    pub fn put_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Bytes as they are, without a length.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A string.
    ///
    /// # Errors
    /// It is longer than its length can say.
    pub fn put_string(&mut self, field: &str, value: &str) -> Result<(), EncodeError> {
        if self.flexible {
            return self.put_bytes(field, value.as_bytes());
        }
        let length =
            i16::try_from(value.len()).map_err(|_| too_long(field, value.len(), i16::MAX as usize))?;
        self.put_i16(length);
        self.put(value.as_bytes());
        Ok(())
    }

    /// A string, or null.
    ///
    /// # Errors
    /// It is longer than its length can say.
    pub fn put_nullable_string(&mut self, field: &str, value: Option<&str>) -> Result<(), EncodeError> {
        match value {
            Some(value) => self.put_string(field, value),
            None if self.flexible => self.put_null(),
            None => {
                self.put_i16(-1);
                Ok(())
            }
        }
    }

    /// Bytes with their length before them.
    ///
    /// # Errors
    /// There are more than the length can say.
    pub fn put_bytes(&mut self, field: &str, value: &[u8]) -> Result<(), EncodeError> {
        self.put_length(field, value.len())?;
        self.put(value);
        Ok(())
    }

    /// Bytes with their length before them, or null.
    ///
    /// # Errors
    /// There are more than the length can say.
    pub fn put_nullable_bytes(&mut self, field: &str, value: Option<&[u8]>) -> Result<(), EncodeError> {
        match value {
            Some(value) => self.put_bytes(field, value),
            None => self.put_null(),
        }
    }

    /// An array.
    pub(crate) fn put_array<T: Wire>(
        &mut self,
        field: &str,
        values: &[T],
        version: i16,
    ) -> Result<(), EncodeError> {
        self.put_length(field, values.len())?;
        for (index, value) in values.iter().enumerate() {
            value.write(self, version).map_err(|error| error.element(field, index))?;
        }
        Ok(())
    }

    /// An array, or null.
    pub(crate) fn put_nullable_array<T: Wire>(
        &mut self,
        field: &str,
        values: Option<&[T]>,
        version: i16,
    ) -> Result<(), EncodeError> {
        match values {
            Some(values) => self.put_array(field, values, version),
            None => self.put_null(),
        }
    }

    /// A struct.
    pub(crate) fn put_value<T: Wire>(
        &mut self,
        field: &str,
        value: &T,
        version: i16,
    ) -> Result<(), EncodeError> {
        value.write(self, version).map_err(|error| error.inside(field))
    }

    /// A struct with a byte before it that says whether it is there.
    pub(crate) fn put_nullable_value<T: Wire>(
        &mut self,
        field: &str,
        value: Option<&T>,
        version: i16,
    ) -> Result<(), EncodeError> {
        let Some(value) = value else {
            self.put_i8(-1);
            return Ok(());
        };
        self.put_i8(1);
        self.put_value(field, value, version)
    }

    /// The tagged fields at the end of a struct, as many as `fill` adds. Where the message is not flexible there
    /// are none, and `fill` must add none.
    pub(crate) fn put_tags(
        &mut self,
        fill: impl FnOnce(&mut Tags) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        if !self.flexible {
            return Ok(());
        }
        let mut tags = Tags::default();
        fill(&mut tags)?;
        self.put_varint(tags.count);
        self.put(&tags.fields.bytes);
        Ok(())
    }

    /// No tagged fields.
    pub(crate) fn put_no_tags(&mut self) {
        if self.flexible {
            self.put_varint(0);
        }
    }

    /// Writes `write` in the flexible or the older form.
    pub(crate) fn with_form<T>(&mut self, flexible: bool, write: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.flexible, flexible);
        let value = write(self);
        self.flexible = outer;
        value
    }

    /// Puts four bytes over those at `at`.
    pub(crate) fn overwrite_i32(&mut self, at: usize, value: i32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    fn put_null(&mut self) -> Result<(), EncodeError> {
        if self.flexible {
            self.put_varint(0);
        } else {
            self.put_i32(-1);
        }
        Ok(())
    }

    /// The length before bytes or an array.
    fn put_length(&mut self, field: &str, length: usize) -> Result<(), EncodeError> {
        let said = i32::try_from(length).map_err(|_| too_long(field, length, i32::MAX as usize))?;
        if self.flexible {
            self.put_varint(said as u32 + 1);
        } else {
            self.put_i32(said);
        }
        Ok(())
    }
}

/// The tagged fields of one struct, in the order of their tags.
#[derive(Debug)]
pub(crate) struct Tags {
    count: u32,
    fields: Output,
}

impl Default for Tags {
    fn default() -> Self {
        Self { count: 0, fields: Output { flexible: true, ..Output::default() } }
    }
}

impl Tags {
    /// Adds a field; its length stands before it, so it is written aside first.
    pub(crate) fn add(
        &mut self,
        tag: u32,
        write: impl FnOnce(&mut Output) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let mut field = Output { flexible: true, ..Output::default() };
        write(&mut field)?;
        self.count += 1;
        self.fields.put_varint(tag);
        self.fields.put_varint(field.bytes.len() as u32);
        self.fields.put(&field.bytes);
        Ok(())
    }
}

#[cold]
fn too_long(field: &str, length: usize, most: usize) -> EncodeError {
    EncodeError::new(field, EncodeFault::TooLong { length, most })
}
