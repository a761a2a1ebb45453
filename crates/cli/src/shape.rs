//! A record on its way out, as a line of text or of JSON.

use ottla::{Record, RecordError};

use crate::{
    format::Format,
    json,
    pretty::Layout,
    row::{Kinds, Place},
};

/// What a record becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// What `-f` says.
    Text(Format, Kinds),
    /// An object a line.
    Json(Kinds),
    /// Key and value, each behind its length.
    Raw,
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
            Self::Text(format, kinds) => format.write(kinds, place, record, out),
            Self::Json(kinds) => json::write(kinds, place, record, out),
            Self::Raw => {
                push_behind_length(out, record.key());
                push_behind_length(out, record.value());
                Ok(())
            }
        };
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    /// Lays JSON out for somebody who looks at it.
    pub(crate) fn for_eyes(&mut self, coloured: bool) {
        if let Self::Text(_, kinds) = self {
            kinds.layout = Layout { pretty: true, coloured };
        }
    }
}

/// The length is that of the wire: 4 bytes, the highest first, -1 for null.
fn push_behind_length(out: &mut Vec<u8>, field: Option<&[u8]>) {
    // What came in a frame is shorter than 2 GiB.
    let length = field.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap_or(i32::MAX));
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(field.unwrap_or_default());
}

#[cfg(test)]
pub(crate) mod tests {
    use ottla_wire::record::{BatchBuilder, BatchHeader, Codec, Records};

    use super::*;
    use crate::kind::Kind;

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
        let text = |format: &str| Shape::Text(format.parse().unwrap(), Kinds::default());
        for shape in [Shape::Json(Kinds::default()), text("%s %h\n")] {
            let error = of_batch(&shape, &batch).unwrap_err().to_string();
            assert!(error.contains("header key"), "{error}");
        }
        assert_eq!(of_batch(&text("%s\n"), &batch).unwrap(), b"value\n");
    }

    #[test]
    fn raw_is_lengths_and_bytes() {
        assert_eq!(written(&Shape::Raw, (Some(b"k"), None, &[])), b"\0\0\0\x01k\xff\xff\xff\xff");
        assert_eq!(written(&Shape::Raw, (None, Some(b""), &[])), b"\xff\xff\xff\xff\0\0\0\0");
    }

    #[test]
    fn keys_and_values_are_what_they_are_said_to_be() {
        let kinds = Kinds { key: Kind::Int, value: Kind::Json, ..Kinds::default() };
        let parts: Parts<'_> = (Some(&[0, 0, 1, 0]), Some(b"{\"b\": [1, 2]}"), &[]);
        let mut text = Shape::Text("%k %s\n".parse().unwrap(), kinds);
        assert_eq!(written(&text, parts), b"256 {\"b\":[1,2]}\n");
        text.for_eyes(false);
        assert_eq!(written(&text, parts), b"256 {\n  \"b\": [\n    1,\n    2\n  ]\n}\n");
        let line = String::from_utf8(written(&Shape::Json(kinds), parts)).unwrap();
        assert!(line.contains(r#""key":256,"value":{"b":[1,2]},"headers""#), "{line}");
    }
}
