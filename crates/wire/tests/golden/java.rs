//! What Kafka's own code reads in the frames (`content-KAFKA.jsonl.gz`, written by `Frames.java`) is what is read here, field
//! by field: what our encoder and our decoder would agree on to confuse shows here.

use crate::frames::{self, Exchange};
use crate::is_exception;
use crate::read;
use crate::shape::Shape;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::fs::File;
use std::io::Read;

#[test]
fn kafka_reads_in_them_what_is_read_here() {
    for kafka in frames::KAFKAS {
        let compared = compared(kafka);
        assert!(compared > 600, "{compared} frames with {kafka}");
    }
}

/// How many frames with this Kafka were compared.
fn compared(kafka: &'static str) -> usize {
    let content = content(kafka);
    let mut lines = content.lines();
    let mut compared = 0;
    for exchange in frames::with(kafka) {
        let mut next =
            || serde_json::from_str::<Value>(lines.next().expect("a line for each frame")).unwrap();
        if is_exception(&exchange) {
            // Of this only the reply could be read.
            assert_eq!(next()["errorCode"], 35);
            continue;
        }
        let read = read::read(&exchange).unwrap();
        compare(&exchange, "request", &read.request, &next());
        compared += 1;
        if let Some(reply) = &read.reply {
            compare(&exchange, "reply", reply, &next());
            compared += 1;
        }
    }
    assert_eq!(lines.next(), None);
    compared
}

/// That a difference would be seen.
#[test]
fn a_difference_is_found() {
    #[derive(Debug)]
    #[allow(dead_code, reason = "read through Debug")]
    struct Here {
        error_code: i16,
        name: Option<&'static str>,
        topic_ids: Vec<ottla_wire::Uuid>,
        records: Bytes,
    }
    let here = Shape::of(&Here {
        error_code: 3,
        name: None,
        topic_ids: vec![ottla_wire::Uuid::ZERO],
        records: Bytes::from_static(b"\0\"\x01"),
    });
    let same = r#"{"errorCode":3,"name":null,"topicIds":["AAAAAAAAAAAAAAAAAAAAAA"],"records":"ACIB"}"#;
    let differs = |json: &str| difference(&here, &serde_json::from_str(json).unwrap(), "").is_some();
    assert!(!differs(same));
    for (from, to) in [
        ("3", "4"),
        ("null", "\"\""),
        ("AAAAAAAAAAAAAAAAAAAAAA", "BAAAAAAAAAAAAAAAAAAAAA"),
        ("ACIB", "ACIC"),
        ("errorCode", "code"),
        ("[\"AAAAAAAAAAAAAAAAAAAAAA\"]", "[]"),
    ] {
        assert!(differs(&same.replacen(from, to, 1)), "{from} {to}");
    }
}

fn content(kafka: &str) -> String {
    let file = File::open(frames::folder().join(format!("content-{kafka}.jsonl.gz"))).unwrap();
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

fn compare(exchange: &Exchange, which: &str, here: &Shape, kafka: &Value) {
    if let Some(difference) = difference(here, kafka, "") {
        panic!("{exchange}, the {which}: {difference}");
    }
}

/// Where the two differ, in the fields that Kafka names: those of the version.
fn difference(here: &Shape, kafka: &Value, path: &str) -> Option<String> {
    match (here, kafka) {
        (Shape::Struct(fields), Value::Object(named)) => named.iter().find_map(|(name, kafka)| {
            let path = format!("{path}.{name}");
            match fields.iter().find(|(field, _)| plain(field) == plain(name)) {
                Some((_, here)) => difference(here, kafka, &path),
                None => Some(format!("{path} is not there")),
            }
        }),
        (Shape::List(here), Value::Array(kafka)) if here.len() == kafka.len() => {
            let mut pairs = here.iter().zip(kafka).enumerate();
            pairs.find_map(|(at, (here, kafka))| difference(here, kafka, &format!("{path}[{at}]")))
        }
        (Shape::Leaf(leaf), kafka) if is_same(leaf, kafka, path) => None,
        (here, kafka) => Some(format!("{path} is {here:?} here and {kafka} to Kafka")),
    }
}

/// Names without regard to how words are told apart.
fn plain(name: &str) -> String {
    name.replace('_', "").to_ascii_lowercase()
}

fn is_same(leaf: &str, kafka: &Value, path: &str) -> bool {
    match kafka {
        Value::Null => leaf == "None",
        // Kafka's own program leaves out what is in records.
        Value::String(empty) if path.ends_with(".records") && empty.is_empty() => leaf.starts_with("b\""),
        Value::String(text) if leaf.starts_with('"') => Shape::of(text) == Shape::Leaf(leaf.into()),
        Value::String(base64) if leaf.starts_with("b\"") => {
            let bytes = BASE64_STANDARD.decode(base64).map(Bytes::from);
            bytes.is_ok_and(|bytes| Shape::of(&bytes) == Shape::Leaf(leaf.into()))
        }
        Value::String(uuid) => leaf == uuid,
        number_or_bool => {
            let text = number_or_bool.to_string();
            text == leaf
        }
    }
}
