//! Bytes that are not what they should be: an error that says where, and no memory on the peer's word.

use crate::allocations::largest;
use crate::random::{for_each_message, for_each_request};
use crate::shape::Shape;
use crate::source::{Random, Source, rounds};
use bytes::Bytes;
use ottla_wire::message::*;
use ottla_wire::{DecodeError, DecodeFault, Input, Output, frame};
use std::collections::BTreeSet;

/// What an error takes to say what it has to say.
const ERROR: usize = 512;

#[test]
fn a_message_cut_anywhere_is_an_error() {
    macro_rules! check {
        ($name:ident) => {
            for version in $name::VERSIONS {
                for seed in 0..rounds(8) {
                    cut_anywhere::<$name>(version, seed);
                }
            }
        };
    }
    for_each_message!(check);
}

fn cut_anywhere<M: Message + Random>(version: i16, seed: u64) {
    let bytes = written(&M::random(&mut Source::small(seed), version), version);
    for cut in 0..bytes.len() {
        match read::<M>(bytes.slice(..cut), version) {
            Ok(value) => panic!("{} v{version}, seed {seed}: {value:?} after {cut} bytes", M::NAME),
            Err(error) => {
                assert_eq!(error.message(), M::NAME);
                assert!(error.position() <= cut, "{error}");
            }
        }
    }
}

/// A huge number put over every byte in turn meets every count and every length.
#[test]
fn a_huge_count_or_length_anywhere_takes_no_memory() {
    macro_rules! check {
        ($name:ident) => {
            huge_anywhere::<$name>();
        };
    }
    for_each_message!(check);
}

fn huge_anywhere<M: Message + Random>() {
    let mut wanted = BTreeSet::new();
    let mut refused = BTreeSet::new();
    for version in M::VERSIONS {
        for seed in 0..20 {
            let value = M::random(&mut Source::small(seed), version);
            wanted.extend(Shape::of(&value).lists());
            for hostile in with_huge_numbers(&written(&value, version), M::is_flexible(version)) {
                refused.extend(refused_count(&read_in_little::<M>(&hostile, version)));
            }
        }
    }
    assert_eq!(wanted.difference(&refused).collect::<Vec<_>>(), Vec::<&String>::new(), "{}", M::NAME);
}

/// Reads bytes that ask for more memory than they have a right to.
fn read_in_little<M: Message>(bytes: &Bytes, version: i16) -> Result<M, DecodeError> {
    let (result, largest) = largest(|| read::<M>(bytes.clone(), version));
    // An element in memory may take more than its bytes on the wire, and vectors grow by doubling.
    let most = 100 * bytes.len() + ERROR;
    assert!(largest <= most, "{} v{version}: a block of {largest} for {} bytes", M::NAME, bytes.len());
    result
}

/// The path, without indices, of the array whose huge count was refused.
fn refused_count<M>(result: &Result<M, DecodeError>) -> Option<String> {
    let error = result.as_ref().err()?;
    let DecodeFault::Count { count, .. } = error.fault() else { return None };
    (*count >= i32::MAX as usize - 1).then(|| without_indices(error.field()))
}

fn without_indices(path: &str) -> String {
    path.split('.').map(|name| name.split('[').next().unwrap_or(name)).collect::<Vec<_>>().join(".")
}

/// Copies of the bytes, each with a huge number in place of what begins at one of them.
fn with_huge_numbers(bytes: &Bytes, flexible: bool) -> impl Iterator<Item = Bytes> {
    let huge: &[u8] = if flexible { &[0xff, 0xff, 0xff, 0xff, 0x0f] } else { &[0x7f, 0xff, 0xff, 0xff] };
    // A number of a flexible message has one byte as a rule, so one byte gives way.
    let replaced = if flexible { 1 } else { 4 };
    (0..bytes.len()).map(move |at| {
        let rest = bytes.get(at + replaced..).unwrap_or_default();
        [&bytes[..at], huge, rest].concat().into()
    })
}

/// In a large frame a count that the bytes left could just hold is believed only as far as elements turn up.
#[test]
fn a_plausible_count_takes_no_more_than_the_frame() {
    let mut bytes = vec![0xff; 1 << 20];
    // Throttle time, then 2^16 brokers.
    bytes[..7].copy_from_slice(&[0, 0, 0, 0, 0x81, 0x80, 0x04]);
    let bytes = Bytes::from(bytes);
    let (result, largest) = largest(|| read::<MetadataResponse>(bytes.clone(), 12));
    let error = result.unwrap_err();
    assert_eq!(error.field(), "brokers[0].host");
    assert!(largest <= bytes.len(), "{largest}");
}

#[test]
fn changed_bytes_never_panic_and_take_little_memory() {
    macro_rules! check {
        ($name:ident) => {
            for version in $name::VERSIONS {
                for seed in 0..rounds(60) {
                    changed::<$name>(version, seed);
                }
            }
        };
    }
    for_each_message!(check);
}

fn changed<M: Message + Random>(version: i16, seed: u64) {
    let mut source = Source::new(seed);
    let mut bytes = written(&M::random(&mut source, version), version).to_vec();
    for _ in 0..source.below(4) + 1 {
        if !bytes.is_empty() {
            let at = source.below(bytes.len());
            bytes[at] = source.i8() as u8;
        }
    }
    let _ = read_in_little::<M>(&bytes.into(), version);
}

#[test]
fn unknown_tags_are_skipped() {
    macro_rules! check {
        ($name:ident) => {
            for version in $name::VERSIONS.filter(|version| $name::is_flexible(*version)) {
                unknown_tag_at_the_end::<$name>(version);
            }
        };
    }
    for_each_message!(check);
}

/// These have tagged fields of their own, so that one cannot tell which byte of theirs counts them.
const TAGGED: [&str; 4] = ["ApiVersionsResponse", "FetchRequest", "FetchResponse", "ProduceResponse"];

/// The number of tagged fields of the message itself, none, is its last byte.
fn unknown_tag_at_the_end<M: Message + Random>(version: i16) {
    if TAGGED.contains(&M::NAME) {
        return;
    }
    for seed in 0..10 {
        let value = M::random(&mut Source::new(seed), version);
        let bytes = written(&value, version);
        let (0, rest) = bytes.split_last().unwrap() else { panic!("{} has tagged fields", M::NAME) };
        let tagged = [rest, &[2, 99, 3, 1, 2, 3, 0xff, 1, 0]].concat();
        assert_eq!(read::<M>(tagged.into(), version), Ok(value), "{} v{version}, seed {seed}", M::NAME);
    }
}

#[test]
fn unknown_tags_are_skipped_between_known_ones_and_inside_of_structs() {
    #[rustfmt::skip]
    let bytes: &'static [u8] = &[
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0,   // throttle time, code, session
        2, 2, b't', 2,                  // one topic, its name, one partition
        0, 0, 0, 5, 0, 0,               // partition 5
        0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7, // offsets
        0, 0xff, 0xff, 0xff, 0xff, 0,   // no aborted transactions, no preferred replica, no records
        3,                              // three tagged fields of the partition:
        0, 17, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 1, 50, 2, 1, 2,  // an epoch with an unknown one in it,
        9, 1, 0xff,                     // an unknown one,
        1, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0, // the leader
        1, 7, 0,                        // an empty unknown one of the topic
        1, 0, 1, 0xff,                  // that of the reply which came with version 16
    ];
    let response = read::<FetchResponse>(Bytes::from_static(bytes), 12).unwrap();
    let partition = &response.responses[0].partitions[0];
    assert_eq!(partition.partition_index, 5);
    assert_eq!((partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset), (3, 4));
    assert_eq!((partition.current_leader.leader_id, partition.current_leader.leader_epoch), (1, 2));
    assert_eq!(response.node_endpoints, []);
}

#[test]
fn a_tagged_field_keeps_to_its_length() {
    // An empty reply with the leaders' endpoints tagged: the array is said to be shorter than it is, then longer.
    for (bytes, said) in [
        (
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 2, 1, 0][..],
            "tagged field 0 at byte 15: end wanted, 1 bytes left over",
        ),
        (
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 3, 1, 0][..],
            "tagged field at byte 14: tagged field of 3 bytes wanted, 2 left",
        ),
    ] {
        let error = read::<FetchResponse>(Bytes::from_static(bytes), 16).unwrap_err();
        assert_eq!(error.to_string(), format!("FetchResponse v16: {said}"));
    }
}

#[test]
fn bytes_after_a_reply_are_an_error() {
    macro_rules! check {
        ($name:ident) => {
            for version in $name::VERSIONS {
                left_over::<$name>(version);
            }
        };
    }
    for_each_request!(check);
}

fn left_over<R: Request>(version: i16)
where
    R::Response: Random,
{
    let response = R::Response::random(&mut Source::new(3), version);
    let mut bytes = frame::encode_response::<R>(&response, version, 1).unwrap().split_off(4);
    bytes.push(0);
    let end = bytes.len() - 1;
    let error = frame::decode_response::<R>(bytes.into(), version).unwrap_err();
    assert_eq!(error.fault(), &DecodeFault::Leftover(1), "{error}");
    assert_eq!((error.message(), error.position()), (R::Response::NAME, end));
}

#[test]
fn an_error_says_what_and_where() {
    let mut response = FetchResponse::default();
    response.responses.push(Default::default());
    response.responses[0].partitions = vec![Default::default(), Default::default()];
    let bytes = written(&response, 4);
    // The records of the second partition, the last four bytes, get a length.
    let end = bytes.len() - 4;
    let longer: Bytes = [&bytes[..end], &[0, 0, 16, 0, 1, 2]].concat().into();
    assert_eq!(
        read::<FetchResponse>(longer, 4).unwrap_err().to_string(),
        format!(
            "FetchResponse v4: responses[0].partitions[1].records at byte {}: bytes of 4096 bytes wanted, 2 left",
            end + 4
        )
    );
}

fn read<M: Message>(bytes: Bytes, version: i16) -> Result<M, DecodeError> {
    M::decode(&mut Input::new(bytes), version)
}

fn written<M: Message>(value: &M, version: i16) -> Bytes {
    let mut output = Output::new();
    value.encode(&mut output, version).unwrap_or_else(|error| panic!("{error}"));
    output.into_bytes().into()
}
