//! The `kafka-protocol` crate and ours say the same about every message and version that both know.

use crate::random::{for_each_message, for_each_request};
use crate::shape::Shape;
use crate::source::{Random, Source, rounds};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Message as TheirMessage};
use ottla_wire::api::ApiKey;
use ottla_wire::frame;
use ottla_wire::message as ours;
use ottla_wire::message::{Message, Request};
use ottla_wire::{Input, Output};
use std::fmt::Debug;

#[test]
fn random_messages_go_both_ways() {
    macro_rules! check {
        ($name:ident) => {
            for version in versions_of_both::<ours::$name, theirs::$name>() {
                for seed in 0..rounds(16) {
                    both_ways::<ours::$name, theirs::$name>(version, seed);
                }
            }
        };
    }
    for_each_message!(check);
}

/// Ours written, read by them, has the same values in the fields of the same names; they write the same bytes; and
/// those read by us are what we began with.
fn both_ways<O: Message + Random, T: Decodable + Encodable + Debug>(version: i16, seed: u64) {
    let place = format!("{} v{version}, seed {seed}", O::NAME);
    let value = O::random(&mut Source::new(seed), version);
    let bytes = written(&value, version);
    let mut rest = bytes.clone();
    let their_value = T::decode(&mut rest, version).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert!(rest.is_empty(), "{place}: they leave bytes over");
    assert_same_shape(&value, &their_value, &place);
    let mut their_bytes = BytesMut::new();
    their_value.encode(&mut their_bytes, version).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(their_bytes, bytes, "{place}");
    let mut input = Input::new(their_bytes.freeze());
    assert_eq!(O::decode(&mut input, version).as_ref(), Ok(&value), "{place}");
    input.finish().unwrap();
}

#[test]
fn defaults_are_the_same() {
    macro_rules! check {
        ($name:ident) => {
            assert_same_shape(&ours::$name::default(), &theirs::$name::default(), stringify!($name));
        };
    }
    for_each_message!(check);
}

#[test]
fn headers_are_the_same() {
    macro_rules! check {
        ($name:ident) => {
            for version in versions_of_both::<ours::$name, theirs::$name>() {
                request_header::<ours::$name, theirs::$name>(version);
                response_header::<ours::$name>(version);
            }
        };
    }
    for_each_request!(check);
}

fn request_header<R: Request + Random, T: HeaderVersion>(version: i16) {
    let request = R::random(&mut Source::new(1), version);
    let frame = frame::encode_request(&request, version, 77, "läuft").unwrap();
    let header = theirs::RequestHeader::default()
        .with_request_api_key(R::KEY as i16)
        .with_request_api_version(version)
        .with_correlation_id(77)
        .with_client_id(Some("läuft".to_owned().into()));
    let mut expected = BytesMut::new();
    header.encode(&mut expected, T::header_version(version)).unwrap();
    expected.extend_from_slice(&written(&request, version));
    assert_eq!(frame[..4], (expected.len() as i32).to_be_bytes(), "{} v{version}", R::NAME);
    assert_eq!(frame[4..], expected, "{} v{version}", R::NAME);
}

fn response_header<R: Request>(version: i16)
where
    R::Response: Random,
{
    let response = R::Response::random(&mut Source::new(1), version);
    let frame = frame::encode_response::<R>(&response, version, 77).unwrap();
    let key = theirs::ApiKey::try_from(R::KEY as i16).unwrap();
    let mut expected = BytesMut::new();
    let header = theirs::ResponseHeader::default().with_correlation_id(77);
    header.encode(&mut expected, key.response_header_version(version)).unwrap();
    expected.extend_from_slice(&written(&response, version));
    assert_eq!(frame[4..], expected, "{} v{version}", R::NAME);
}

/// They know Kafka 4.1; whatever they know of the APIs spoken here has to be compared.
#[test]
fn every_message_is_compared_in_most_versions() {
    let mut compared = 0;
    let mut spoken = 0;
    macro_rules! check {
        ($name:ident) => {
            let both = versions_of_both::<ours::$name, theirs::$name>().count();
            assert!(both > 0, "{} is not compared", stringify!($name));
            compared += both;
            spoken += ours::$name::VERSIONS.count();
        };
    }
    for_each_message!(check);
    assert!(compared * 10 >= spoken * 9, "{compared} of {spoken} versions are compared");
}

#[test]
fn keys_have_the_same_names() {
    for key in ApiKey::ALL {
        let their_key = theirs::ApiKey::try_from(*key as i16).unwrap();
        assert_eq!(format!("{their_key:?}"), key.name());
    }
}

fn versions_of_both<O: Message, T: TheirMessage>() -> impl Iterator<Item = i16> {
    O::VERSIONS.filter(|version| (T::VERSIONS.min..=T::VERSIONS.max).contains(version))
}

fn written<M: Message>(value: &M, version: i16) -> Bytes {
    let mut output = Output::new();
    value.encode(&mut output, version).unwrap_or_else(|error| panic!("{error}"));
    output.into_bytes().into()
}

/// Fields of a version of InitProducerId that is not stable yet: they speak it, we do not.
const UNSTABLE: [&str; 4] =
    ["enable_2_pc", "keep_prepared_txn", "ongoing_txn_producer_id", "ongoing_txn_producer_epoch"];

/// All their fields are ours, with the same values. Fields that only we know came with a later Kafka, in a version
/// that they do not speak.
fn assert_same_shape(ours: &impl Debug, theirs: &impl Debug, place: &str) {
    compare(&Shape::of(ours), &Shape::of(theirs), place);
}

fn compare(ours: &Shape, theirs: &Shape, place: &str) {
    match (ours, theirs) {
        (Shape::Struct(ours), Shape::Struct(theirs)) => {
            for (name, theirs) in theirs.iter().filter(|(name, _)| is_compared(name)) {
                let ours = ours.get(name).unwrap_or_else(|| panic!("{place}: we have no {name}"));
                compare(ours, theirs, &format!("{place}, {name}"));
            }
        }
        (Shape::List(ours), Shape::List(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{place}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                compare(ours, theirs, place);
            }
        }
        _ => assert_eq!(ours, theirs, "{place}"),
    }
}

fn is_compared(field: &str) -> bool {
    field != "unknown_tagged_fields" && !UNSTABLE.contains(&field)
}
