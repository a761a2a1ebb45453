//! An object a line.

use std::str;

use ottla::{Record, RecordError, TimestampType};

use crate::{
    kind::{Kind, push_base64, push_number},
    row::{Kinds, Place},
};

/// Appends a record. Null is null; bytes that are not UTF-8 become `{"base64": "..."}`.
///
/// Written by hand because a value tree would cost several allocations a record; only strings are serde_json's.
pub(crate) fn write(
    kinds: &Kinds,
    place: Place<'_>,
    record: &Record<'_>,
    out: &mut Vec<u8>,
) -> Result<(), RecordError> {
    out.extend_from_slice(b"{\"topic\":");
    push_string(out, place.topic);
    out.extend_from_slice(b",\"partition\":");
    push_number(out, place.partition);
    out.extend_from_slice(b",\"offset\":");
    push_number(out, record.offset);
    out.extend_from_slice(b",\"timestamp\":");
    push_number(out, record.timestamp);
    out.extend_from_slice(match record.timestamp_type {
        TimestampType::Append => b",\"timestamp_type\":\"append\",\"leader_epoch\":",
        TimestampType::Create => b",\"timestamp_type\":\"create\",\"leader_epoch\":",
    });
    push_number(out, place.leader_epoch);
    out.extend_from_slice(b",\"key\":");
    push_field(out, record.key(), kinds.key);
    out.extend_from_slice(b",\"value\":");
    push_field(out, record.value(), kinds.value);
    push_headers(out, record)?;
    out.extend_from_slice(b"}\n");
    Ok(())
}

fn push_headers(out: &mut Vec<u8>, record: &Record<'_>) -> Result<(), RecordError> {
    out.extend_from_slice(b",\"headers\":[");
    for (at, header) in record.headers().enumerate() {
        let header = header?;
        out.extend_from_slice(if at > 0 { b",[" } else { b"[" });
        push_bytes(out, Some(header.key));
        out.push(b',');
        push_bytes(out, header.value);
        out.push(b']');
    }
    out.push(b']');
    Ok(())
}

fn push_field(out: &mut Vec<u8>, field: Option<&[u8]>, kind: Kind) {
    if !field.is_some_and(|bytes| kind.write_json(bytes, out)) {
        push_bytes(out, field);
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes.map(|bytes| (bytes, str::from_utf8(bytes))) {
        None => out.extend_from_slice(b"null"),
        Some((_, Ok(text))) => push_string(out, text),
        Some((bytes, Err(_))) => {
            out.extend_from_slice(b"{\"base64\":\"");
            push_base64(out, bytes);
            out.extend_from_slice(b"\"}");
        }
    }
}

fn push_string(out: &mut Vec<u8>, text: &str) {
    // Neither a string nor a Vec can fail.
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
mod tests {
    use ottla_wire::record::{BatchBuilder, Codec};
    use serde_json::{Value, json};

    use super::*;
    use crate::shape::{
        Shape,
        tests::{Parts, of_batch, written},
    };

    fn object(parts: Parts<'_>) -> Value {
        let line = written(&Shape::Json(Kinds::default()), parts);
        assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1, "one line");
        assert_eq!(line.last(), Some(&b'\n'));
        serde_json::from_slice(&line).unwrap()
    }

    #[test]
    fn the_object_has_its_fields_in_order() {
        let line = written(&Shape::Json(Kinds::default()), (Some(b"k"), Some(b"v"), &[("h", Some(b"1"))]));
        let expected = concat!(
            r#"{"topic":"orders","partition":3,"offset":42,"timestamp":1796025600123,"timestamp_type":"create","#,
            r#""leader_epoch":7,"key":"k","value":"v","headers":[["h","1"]]}"#,
            "\n"
        );
        assert_eq!(str::from_utf8(&line).unwrap(), expected);
    }

    #[test]
    fn null_and_empty_stay_different() {
        let null = object((None, None, &[("n", None)]));
        assert_eq!((&null["key"], &null["value"]), (&Value::Null, &Value::Null));
        assert_eq!(null["headers"], json!([["n", null]]));
        let empty = object((Some(b""), Some(b""), &[("", Some(b""))]));
        assert_eq!((&empty["key"], &empty["value"]), (&json!(""), &json!("")));
        assert_eq!(empty["headers"], json!([["", ""]]));
    }

    #[test]
    fn bytes_that_are_no_text_become_base64() {
        let odd = object((Some(b"\xff\0"), Some(b"ok \xc3"), &[("h", Some(b"\x80"))]));
        assert_eq!(odd["key"], json!({"base64": "/wA="}));
        assert_eq!(odd["value"], json!({"base64": "b2sgww=="}));
        assert_eq!(odd["headers"], json!([["h", {"base64": "gA=="}]]));
    }

    #[test]
    fn text_survives_with_all_its_characters() {
        let text: String =
            (0..0x250).filter_map(char::from_u32).chain("\u{2028}\u{1f4da}\"\\/".chars()).collect();
        assert_eq!(object((Some(text.as_bytes()), Some(b"\r\n\t"), &[]))["key"], json!(text));
    }

    #[test]
    fn headers_keep_their_order_and_their_duplicates() {
        let object = object((None, None, &[("b", Some(b"1")), ("a", Some(b"2")), ("b", Some(b"3"))]));
        assert_eq!(object["headers"], json!([["b", "1"], ["a", "2"], ["b", "3"]]));
    }

    #[test]
    fn append_time_is_told() {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.append_time(99).push(5, None, None, &[]);
        let line = of_batch(&Shape::Json(Kinds::default()), &builder.build().unwrap()).unwrap();
        let object: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&object["timestamp"], &object["timestamp_type"]), (&json!(99), &json!("append")));
    }
}
