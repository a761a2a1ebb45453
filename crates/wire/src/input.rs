//! Reading values out of a frame.

use crate::Uuid;
use crate::error::{DecodeError, DecodeFault};
use crate::message::Wire;
use bytes::Bytes;

/// A frame and how far it has been read.
///
/// Every read names the field it is for, so that an error can say what was wanted and where. Byte fields come out as
/// slices of the frame. Nothing is allocated on the peer's word: a length or a count is held against the bytes left
/// before it is believed.
#[derive(Debug, Clone)]
pub struct Input {
    frame: Bytes,
    position: usize,
    end: usize,
    flexible: bool,
}

impl Input {
    /// Begins at the first byte of the frame (the one after the frame's length).
    pub fn new(frame: Bytes) -> Self {
        Self { position: 0, end: frame.len(), frame, flexible: false }
    }

    /// The bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The bytes left.
    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// That everything was read.
    ///
    /// # Errors
    /// Bytes are left over.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.fault("", DecodeFault::Leftover(left))),
        }
    }

    /// A byte that is not 0 for true.
    pub fn bool(&mut self, field: &str) -> Result<bool, DecodeError> {
        Ok(self.array_of::<1>(field, "bool")?[0] != 0)
    }

    /// A signed byte.
    pub fn i8(&mut self, field: &str) -> Result<i8, DecodeError> {
        self.array_of(field, "int8").map(i8::from_be_bytes)
    }

    /// A signed integer of two bytes.
    pub fn i16(&mut self, field: &str) -> Result<i16, DecodeError> {
        self.array_of(field, "int16").map(i16::from_be_bytes)
    }

    /// A signed integer of four bytes.
    pub fn i32(&mut self, field: &str) -> Result<i32, DecodeError> {
        self.array_of(field, "int32").map(i32::from_be_bytes)
    }

    /// A signed integer of eight bytes.
    pub fn i64(&mut self, field: &str) -> Result<i64, DecodeError> {
        self.array_of(field, "int64").map(i64::from_be_bytes)
    }

    /// An id of sixteen bytes.
    pub fn uuid(&mut self, field: &str) -> Result<Uuid, DecodeError> {
        self.array_of(field, "uuid").map(Uuid)
    }

    /// An unsigned integer of up to 32 bits, seven to a byte, the lowest first.
    pub fn varint(&mut self, field: &str) -> Result<u32, DecodeError> {
        let start = self.position;
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.array_of::<1>(field, "unsigned varint")?[0];
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 && (shift < 28 || byte < 0x10) {
                return Ok(value);
            }
        }
        let found = std::array::from_fn(|at| self.frame[start + at]);
        Err(DecodeError::new(field, start, DecodeFault::Varint(found)))
    }

    /// A string, copied.
    pub fn string(&mut self, field: &str) -> Result<String, DecodeError> {
        let start = self.position;
        self.nullable_string(field)?.ok_or_else(|| null(field, start, "string"))
    }

    /// A string, copied, or null.
    pub fn nullable_string(&mut self, field: &str) -> Result<Option<String>, DecodeError> {
        let Some(length) = self.string_length(field)? else { return Ok(None) };
        let start = self.position;
        let bytes = self.slice(field, "string", length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(error) => Err(DecodeError::new(field, start, not_utf8(bytes, error.valid_up_to()))),
        }
    }

    /// Bytes, as a slice of the frame.
    pub fn bytes(&mut self, field: &str) -> Result<Bytes, DecodeError> {
        let start = self.position;
        self.nullable_bytes(field)?.ok_or_else(|| null(field, start, "bytes"))
    }

    /// Bytes, as a slice of the frame, or null.
    pub fn nullable_bytes(&mut self, field: &str) -> Result<Option<Bytes>, DecodeError> {
        let Some(length) = self.length(field, "bytes")? else { return Ok(None) };
        let start = self.position;
        self.slice(field, "bytes", length)?;
        Ok(Some(self.frame.slice(start..self.position)))
    }

    /// An array.
    pub(crate) fn array<T: Wire>(&mut self, field: &str, version: i16) -> Result<Vec<T>, DecodeError> {
        let start = self.position;
        self.nullable_array(field, version)?.ok_or_else(|| null(field, start, "array"))
    }

    /// An array, or null.
    pub(crate) fn nullable_array<T: Wire>(
        &mut self,
        field: &str,
        version: i16,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let start = self.position;
        let Some(count) = self.length(field, "array")? else { return Ok(None) };
        let left = self.remaining();
        if count > left / T::LEAST {
            let fault = DecodeFault::Count { count, least: T::LEAST, left };
            return Err(DecodeError::new(field, start, fault));
        }
        // What is set aside beforehand stays below the bytes there are; a vector of more, larger than its wire
        // form, grows as its elements prove to be there.
        let mut elements = Vec::with_capacity(count.min(left / size_of::<T>()));
        for index in 0..count {
            elements.push(T::read(self, version).map_err(|error| error.element(field, index))?);
        }
        Ok(Some(elements))
    }

    /// A struct.
    pub(crate) fn value<T: Wire>(&mut self, field: &str, version: i16) -> Result<T, DecodeError> {
        T::read(self, version).map_err(|error| error.inside(field))
    }

    /// A struct with a byte before it that says whether it is there.
    pub(crate) fn nullable_value<T: Wire>(
        &mut self,
        field: &str,
        version: i16,
    ) -> Result<Option<T>, DecodeError> {
        let start = self.position;
        match self.i8(field)? {
            -1 => Ok(None),
            1 => self.value(field, version).map(Some),
            other => Err(DecodeError::new(field, start, DecodeFault::Marker(other))),
        }
    }

    /// The tagged fields at the end of a struct: `known` reads the ones it knows and returns true, the others are
    /// skipped. Where the message is not flexible there are none.
    pub(crate) fn tags(
        &mut self,
        mut known: impl FnMut(&mut Self, u32) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        if !self.flexible {
            return Ok(());
        }
        // No check of the count is needed: nothing is allocated for it, and each tag takes two bytes at least.
        for _ in 0..self.varint("tagged fields")? {
            self.tag(&mut known)?;
        }
        Ok(())
    }

    /// Tagged fields of which none is known.
    pub(crate) fn skip_tags(&mut self) -> Result<(), DecodeError> {
        self.tags(|_, _| Ok(false))
    }

    /// Reads `read` in the flexible or the older form.
    pub(crate) fn with_form<T>(
        &mut self,
        flexible: bool,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let outer = std::mem::replace(&mut self.flexible, flexible);
        let value = read(self);
        self.flexible = outer;
        value
    }

    /// An error about what stands here.
    #[cold]
    pub(crate) fn fault(&self, field: &str, fault: DecodeFault) -> DecodeError {
        DecodeError::new(field, self.position, fault)
    }

    /// One tagged field, within its own length.
    fn tag(
        &mut self,
        known: &mut impl FnMut(&mut Self, u32) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        let tag = self.varint("tag")?;
        let size = self.varint("length of a tagged field")? as usize;
        let outer_end = self.end;
        self.end = self.ends("tagged field", "tagged field", size)?;
        if known(self, tag)? {
            self.finish().map_err(|error| error.inside(&format!("tagged field {tag}")))?;
        }
        self.position = self.end;
        self.end = outer_end;
        Ok(())
    }

    fn string_length(&mut self, field: &str) -> Result<Option<usize>, DecodeError> {
        if self.flexible {
            return self.length(field, "string");
        }
        let start = self.position;
        let length = self.i16(field)?;
        signed_length(field, start, "string", length.into())
    }

    /// The length before bytes or an array, `None` for null.
    fn length(&mut self, field: &str, wanted: &'static str) -> Result<Option<usize>, DecodeError> {
        if self.flexible {
            return Ok(self.varint(field)?.checked_sub(1).map(|length| length as usize));
        }
        let start = self.position;
        let length = self.i32(field)?;
        signed_length(field, start, wanted, length)
    }

    fn array_of<const N: usize>(
        &mut self,
        field: &str,
        wanted: &'static str,
    ) -> Result<[u8; N], DecodeError> {
        match self.frame[self.position..self.end].first_chunk() {
            Some(bytes) => {
                self.position += N;
                Ok(*bytes)
            }
            None => Err(self.short(field, wanted, N)),
        }
    }

    fn slice(&mut self, field: &str, wanted: &'static str, length: usize) -> Result<&[u8], DecodeError> {
        let end = self.ends(field, wanted, length)?;
        let start = std::mem::replace(&mut self.position, end);
        Ok(&self.frame[start..end])
    }

    /// Where something of this length would end.
    fn ends(&self, field: &str, wanted: &'static str, length: usize) -> Result<usize, DecodeError> {
        if length > self.remaining() {
            return Err(self.short(field, wanted, length));
        }
        Ok(self.position + length)
    }

    #[cold]
    fn short(&self, field: &str, wanted: &'static str, needs: usize) -> DecodeError {
        self.fault(field, DecodeFault::Short { wanted, needs, left: self.remaining() })
    }
}

fn signed_length(
    field: &str,
    start: usize,
    wanted: &'static str,
    length: i32,
) -> Result<Option<usize>, DecodeError> {
    match length {
        -1 => Ok(None),
        0.. => Ok(Some(length as usize)),
        _ => Err(DecodeError::new(field, start, DecodeFault::Negative { wanted, length })),
    }
}

#[cold]
fn null(field: &str, position: usize, wanted: &'static str) -> DecodeError {
    DecodeError::new(field, position, DecodeFault::Null { wanted })
}

#[cold]
fn not_utf8(bytes: &[u8], valid: usize) -> DecodeFault {
    DecodeFault::NotUtf8 { valid, found: bytes[valid..].iter().take(3).copied().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EncodeError, Output};
    use proptest::prelude::*;

    /// Writes in one form and reads in the same.
    fn through<T>(
        flexible: bool,
        write: impl FnOnce(&mut Output) -> Result<(), EncodeError>,
        read: impl FnOnce(&mut Input) -> Result<T, DecodeError>,
    ) -> T {
        let mut output = Output::new();
        output.with_form(flexible, write).unwrap();
        let mut input = Input::new(output.into_bytes().into());
        let value = input.with_form(flexible, read).unwrap();
        input.finish().unwrap();
        value
    }

    fn input(bytes: &[u8]) -> Input {
        Input::new(Bytes::copy_from_slice(bytes))
    }

    proptest! {
        #[test]
        fn numbers_come_through(a: bool, b: i8, c: i16, d: i32, e: i64, f: u32, g: [u8; 16]) {
            let write = |output: &mut Output| {
                output.put_bool(a);
                output.put_i8(b);
                output.put_i16(c);
                output.put_i32(d);
                output.put_i64(e);
                output.put_varint(f);
                output.put_uuid(Uuid(g));
                Ok(())
            };
            let read = |input: &mut Input| Ok((
                input.bool("a")?, input.i8("b")?, input.i16("c")?, input.i32("d")?, input.i64("e")?,
                input.varint("f")?, input.uuid("g")?,
            ));
            prop_assert_eq!(through(false, write, read), (a, b, c, d, e, f, Uuid(g)));
        }

        #[test]
        fn strings_and_bytes_come_through(flexible: bool, text: Option<String>, bytes: Option<Vec<u8>>) {
            let write = |output: &mut Output| {
                output.put_nullable_string("text", text.as_deref())?;
                output.put_nullable_bytes("bytes", bytes.as_deref())
            };
            let read =
                |input: &mut Input| Ok((input.nullable_string("text")?, input.nullable_bytes("bytes")?));
            let expected = (text.clone(), bytes.clone().map(Bytes::from));
            prop_assert_eq!(through(flexible, write, read), expected);
        }

        #[test]
        fn arrays_come_through(flexible: bool, numbers: Option<Vec<i32>>, texts: Vec<String>) {
            let write = |output: &mut Output| {
                output.put_nullable_array("numbers", numbers.as_deref(), 0)?;
                output.put_array("texts", &texts, 0)
            };
            let read = |input: &mut Input| Ok((input.nullable_array("numbers", 0)?, input.array("texts", 0)?));
            prop_assert_eq!(through(flexible, write, read), (numbers.clone(), texts.clone()));
        }

        #[test]
        fn any_bytes_are_a_value_or_an_error(flexible: bool, bytes: Vec<u8>) {
            let read = |read: fn(&mut Input) -> Result<(), DecodeError>| {
                let mut input = input(&bytes);
                if input.with_form(flexible, read).is_ok() {
                    assert!(input.position() > 0);
                }
            };
            read(|input| input.varint("").map(drop));
            read(|input| input.nullable_string("").map(drop));
            read(|input| input.nullable_bytes("").map(drop));
            read(|input| input.nullable_array::<i64>("", 0).map(drop));
            read(|input| input.nullable_array::<String>("", 0).map(drop));
        }
    }

    #[test]
    fn varints_are_as_long_as_they_need() {
        for (value, bytes) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x80, 1]),
            (16_383, &[0xff, 0x7f]),
            (16_384, &[0x80, 0x80, 1]),
            (u32::MAX, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            let mut output = Output::new();
            output.put_varint(value);
            assert_eq!(output.bytes(), bytes);
            assert_eq!(input(bytes).varint("count"), Ok(value));
        }
    }

    #[test]
    fn a_varint_of_more_than_32_bits_is_an_error() {
        for bytes in [[0xff, 0xff, 0xff, 0xff, 0x10], [0x80, 0x80, 0x80, 0x80, 0x80]] {
            let error = input(&bytes).varint("count").unwrap_err();
            assert_eq!(error.fault(), &DecodeFault::Varint(bytes));
        }
    }

    #[test]
    fn lengths_that_make_no_sense_are_named() {
        type Read = fn(&mut Input) -> Result<(), DecodeError>;
        let string: Read = |input| input.string("name").map(drop);
        let bytes: Read = |input| input.bytes("name").map(drop);
        let array: Read = |input| input.array::<i32>("name", 0).map(drop);
        for (found, flexible, read, told) in [
            (&[0xff, 0xff][..], false, string, "name at byte 0: string wanted, found null"),
            (&[0], true, string, "name at byte 0: string wanted, found null"),
            (&[0xff, 0xfe], false, string, "name at byte 0: string wanted, found the length -2"),
            (&[0, 3, b'a'], false, string, "name at byte 2: string of 3 bytes wanted, 1 left"),
            (&[4, b'a'], true, string, "name at byte 1: string of 3 bytes wanted, 1 left"),
            (&[0], false, string, "name at byte 0: int16 of 2 bytes wanted, 1 left"),
            (&[0x80], true, string, "name at byte 1: unsigned varint of 1 bytes wanted, 0 left"),
            (
                &[3, b'a', 0xff],
                true,
                string,
                "name at byte 1: string wanted, found bytes that are not UTF-8 after the first 1: [ff]",
            ),
            (&[0xff; 4], false, bytes, "name at byte 0: bytes wanted, found null"),
            (&[0x80, 0, 0, 0], false, bytes, "name at byte 0: bytes wanted, found the length -2147483648"),
            (
                &[0x7f, 0xff, 0xff, 0xff, 1],
                false,
                bytes,
                "name at byte 4: bytes of 2147483647 bytes wanted, 1 left",
            ),
            (&[0xff; 4], false, array, "name at byte 0: array wanted, found null"),
            (&[0xff, 0xff, 0xff, 0xfe], false, array, "name at byte 0: array wanted, found the length -2"),
            (
                &[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0],
                false,
                array,
                "name at byte 0: array of 2 elements of at least 4 bytes each wanted, 7 bytes left",
            ),
            (
                &[0xff, 0xff, 0xff, 0xff, 0x0f, 1],
                true,
                array,
                "name at byte 0: array of 4294967294 elements of at least 4 bytes each wanted, 1 bytes left",
            ),
        ] {
            let error = input(found).with_form(flexible, read).unwrap_err();
            assert_eq!(error.to_string(), told);
        }
    }

    #[test]
    fn a_struct_that_may_be_null_has_a_marker() {
        let read = |bytes: &[u8]| input(bytes).nullable_value::<i16>("leader", 0);
        assert_eq!(read(&[0xff]), Ok(None));
        assert_eq!(read(&[1, 0, 7]), Ok(Some(7)));
        assert_eq!(read(&[2, 0, 7]).unwrap_err().fault(), &DecodeFault::Marker(2));
    }

    #[test]
    fn bytes_left_over_are_named() {
        let mut input = input(&[0, 1, 2]);
        input.i8("first").unwrap();
        assert_eq!(input.finish().unwrap_err().to_string(), "frame at byte 1: end wanted, 2 bytes left over");
    }
}
