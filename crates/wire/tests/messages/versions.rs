//! What a version carries, and what it refuses.

use crate::random::for_each_message;
use crate::source::{Random, Source, rounds};
use bytes::Bytes;
use ottla_wire::api::ApiKey;
use ottla_wire::message::fetch_response::{FetchableTopicResponse, PartitionData};
use ottla_wire::message::*;
use ottla_wire::{DecodeFault, EncodeFault, Input, Output};

#[test]
fn every_version_reads_what_it_wrote() {
    macro_rules! check {
        ($name:ident) => {
            for version in $name::VERSIONS {
                for seed in 0..rounds(40) {
                    let value = $name::random(&mut Source::new(seed), version);
                    let read = read::<$name>(written(&value, version).unwrap(), version);
                    assert_eq!(read, value, "v{version}, seed {seed}");
                }
            }
        };
    }
    for_each_message!(check);
}

/// Written in another version than it was made for, a value either loses only what may be left out, or is refused
/// because of one field.
#[test]
fn a_field_without_a_place_is_refused_or_may_be_left_out() {
    macro_rules! check {
        ($name:ident) => {
            for made_for in $name::VERSIONS {
                for version in $name::VERSIONS {
                    in_another_version(&$name::random(&mut Source::new(7), made_for), version);
                }
            }
        };
    }
    for_each_message!(check);
}

fn in_another_version<M: Message>(value: &M, version: i16) {
    match written(value, version) {
        Ok(bytes) => {
            let carried = read::<M>(bytes.clone(), version);
            assert_eq!(written(&carried, version), Ok(bytes), "{} v{version}", M::NAME);
        }
        Err(error) => {
            assert!(matches!(error.fault(), EncodeFault::Unsupported | EncodeFault::Null), "{error}");
            assert_eq!(error.message(), M::NAME);
            assert_ne!(error.field(), "");
        }
    }
}

#[test]
fn a_set_field_that_the_version_does_not_know_is_named() {
    let mut response = FetchResponse { session_id: 5, ..Default::default() };
    let refused = |response: &FetchResponse, version| written(response, version).unwrap_err().to_string();
    assert_eq!(
        refused(&response, 6),
        "FetchResponse v6: session_id: is set, but this version cannot carry it"
    );
    written(&response, 7).unwrap();
    let partitions =
        vec![PartitionData::default(), PartitionData { preferred_read_replica: 3, ..Default::default() }];
    response.responses = vec![FetchableTopicResponse { partitions, ..Default::default() }];
    assert_eq!(
        refused(&response, 10),
        "FetchResponse v10: responses[0].partitions[1].preferred_read_replica: is set, but this version cannot carry it"
    );
    written(&response, 11).unwrap();
}

#[test]
fn a_set_field_that_may_be_left_out_is_left_out() {
    let request = FetchRequest { session_id: 5, ..Default::default() };
    assert_eq!(read::<FetchRequest>(written(&request, 6).unwrap(), 6).session_id, 0);
    assert_eq!(read::<FetchRequest>(written(&request, 7).unwrap(), 7).session_id, 5);
}

#[test]
fn null_is_refused_where_the_version_has_none() {
    let every_topic = MetadataRequest { topics: None, ..Default::default() };
    let error = written(&every_topic, 0).unwrap_err();
    assert_eq!(error.to_string(), "MetadataRequest v0: topics: is null, but this version has no null for it");
    assert_eq!(read::<MetadataRequest>(written(&every_topic, 1).unwrap(), 1).topics, None);
}

#[test]
fn a_string_too_long_for_its_length_is_refused() {
    let topic = |length: usize| HeartbeatRequest { group_id: "g".repeat(length), ..Default::default() };
    written(&topic(32_767), 3).unwrap();
    let error = written(&topic(32_768), 3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "HeartbeatRequest v3: group_id: has the length 32768, at most 32767 can be said"
    );
    written(&topic(32_768), 4).unwrap();
}

#[test]
fn a_version_that_is_not_spoken_is_refused() {
    for version in [3, 19, -1, i16::MIN, i16::MAX] {
        let error = FetchRequest::default().encode(&mut Output::new(), version).unwrap_err();
        assert_eq!(error.fault(), &EncodeFault::Version { known: 4..=18, found: version });
        let error = FetchRequest::decode(&mut Input::new(Bytes::new()), version).unwrap_err();
        assert_eq!(error.fault(), &DecodeFault::Version { known: 4..=18, found: version });
    }
}

/// Kafka 4.4 has a sixth version of InitProducerId that is not stable yet; the reply's schema does not say so.
#[test]
fn an_unstable_version_is_not_spoken() {
    assert_eq!(InitProducerIdRequest::VERSIONS, 0..=5);
    assert_eq!(InitProducerIdResponse::VERSIONS, 0..=5);
    assert_eq!(ListOffsetsRequest::VERSIONS, 1..=11);
}

#[test]
fn the_table_of_keys_says_what_the_requests_say() {
    macro_rules! check {
        ($name:ident) => {
            let key = <$name as Request>::KEY;
            assert_eq!(format!("{key}Request"), $name::NAME);
            assert_eq!(key.versions(), $name::VERSIONS);
            assert_eq!(<<$name as Request>::Response as Message>::VERSIONS, $name::VERSIONS);
            assert_eq!(ApiKey::from_i16(key as i16), Some(key));
            for version in -1..=i16::from($name::VERSIONS.end() + 3) {
                assert_eq!(key.is_flexible(version), $name::is_flexible(version));
            }
        };
    }
    crate::random::for_each_request!(check);
    assert_eq!(ApiKey::ALL.len(), 27);
    assert_eq!(ApiKey::from_i16(-1), None);
    assert_eq!(ApiKey::from_i16(7), None);
}

#[test]
fn records_are_a_slice_of_the_frame() {
    let partition = PartitionData { records: Some(Bytes::from_static(b"a batch")), ..Default::default() };
    let topic = FetchableTopicResponse { partitions: vec![partition], ..Default::default() };
    let response = FetchResponse { responses: vec![topic], ..Default::default() };
    for version in FetchResponse::VERSIONS {
        let bytes = written(&response, version).unwrap();
        let read = read::<FetchResponse>(bytes.clone(), version);
        let records = read.responses[0].partitions[0].records.clone().unwrap();
        assert_eq!(records, "a batch");
        assert!(bytes.as_ptr_range().contains(&records.as_ptr()), "v{version}");
    }
}

#[test]
fn null_and_empty_stay_different() {
    for version in FetchResponse::VERSIONS {
        for records in [None, Some(Bytes::new())] {
            let partition = PartitionData { records: records.clone(), ..Default::default() };
            let topic = FetchableTopicResponse { partitions: vec![partition], ..Default::default() };
            let response = FetchResponse { responses: vec![topic], ..Default::default() };
            let read = read::<FetchResponse>(written(&response, version).unwrap(), version);
            assert_eq!(read.responses[0].partitions[0].records, records, "v{version}");
        }
    }
}

fn read<M: Message>(bytes: Bytes, version: i16) -> M {
    let mut input = Input::new(bytes);
    let value = M::decode(&mut input, version).unwrap_or_else(|error| panic!("{error}"));
    input.finish().unwrap();
    value
}

fn written<M: Message>(value: &M, version: i16) -> Result<Bytes, ottla_wire::EncodeError> {
    let mut output = Output::new();
    value.encode(&mut output, version)?;
    Ok(output.into_bytes().into())
}
