//! A record on its way out, as a line of text or of JSON.

use ottla::{Record, RecordError};

use crate::{format::Format, json};

/// What all records of a batch have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) leader_epoch: i32,
}

/// What a record becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// What `-f` says.
    Text(Format),
    /// An object a line.
    Json,
}

impl Shape {
    /// Appends a record to `out`, or nothing at all if its headers cannot be read.
    #[inline]
    pub(crate) fn write(
        &self,
        place: Place<'_>,
        record: &Record<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordError> {
        let start = out.len();
        let written = match self {
            Self::Text(format) => format.write(place, record, out),
            Self::Json => json::write(place, record, out),
        };
        if written.is_err() {
            out.truncate(start);
        }
        written
    }
}

/// Appends a whole number in decimal.
#[inline]
pub(crate) fn push_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
pub(crate) mod tests {
    use ottla_wire::record::{BatchBuilder, BatchHeader, Codec, Records};

    use super::*;

    pub(crate) type Parts<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, &'a [(&'a str, Option<&'a [u8]>)]);

    pub(crate) const PLACE: Place<'static> = Place { topic: "orders", partition: 3, leader_epoch: 7 };

    /// What `shape` makes of a record of `orders` 3 at offset 42, with its time.
    pub(crate) fn written(shape: &Shape, (key, value, headers): Parts<'_>) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.base_offset(42);
        builder.push(1_796_025_600_123, key, value, headers);
        of_batch(shape, &builder.build().unwrap()).unwrap()
    }

    pub(crate) fn of_batch(shape: &Shape, batch: &[u8]) -> Result<Vec<u8>, RecordError> {
        let header = BatchHeader::parse(batch)?;
        let mut out = b"before ".to_vec();
        for record in Records::new(&header, &batch[BatchHeader::SIZE..]) {
            let result = shape.write(PLACE, &record?, &mut out);
            assert!(result.is_ok() || out == b"before ", "half a line was left: {out:?}");
            result?;
        }
        Ok(out.split_off(b"before ".len()))
    }

    #[test]
    fn a_record_with_broken_headers_leaves_nothing_behind() {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(0, None, Some(b"value"), &[("name", Some(b"x"))]);
        let mut batch = builder.build().unwrap();
        let length = batch.iter().position(|&byte| byte == b'n').unwrap() - 1;
        batch[length] = 0x7e; // a name of 63 bytes
        for shape in [Shape::Json, Shape::Text("%s %h\n".parse().unwrap())] {
            let error = of_batch(&shape, &batch).unwrap_err().to_string();
            assert!(error.contains("header key"), "{error}");
        }
        assert_eq!(of_batch(&Shape::Text("%s\n".parse().unwrap()), &batch).unwrap(), b"value\n");
    }
}
