//! Frames: lengths, headers, and the reply to ApiVersions.

use crate::random::for_each_request;
use crate::source::{Random, Source};
use bytes::Bytes;
use ottla_wire::api::ApiKey;
use ottla_wire::code::Code;
use ottla_wire::frame::{self, LengthError, RequestHeader};
use ottla_wire::message::api_versions_response::ApiVersion;
use ottla_wire::message::*;
use ottla_wire::{DecodeFault, Input};

#[test]
fn requests_and_replies_come_through() {
    macro_rules! check {
        ($name:ident) => {
            for version in $name::VERSIONS {
                request_comes_through::<$name>(version);
                response_comes_through::<$name>(version);
            }
        };
    }
    for_each_request!(check);
}

fn request_comes_through<R: Request + Random>(version: i16) {
    let request = R::random(&mut Source::new(5), version);
    let frame = Bytes::from(frame::encode_request(&request, version, -3, "client").unwrap());
    assert_eq!(frame::length(*frame.first_chunk().unwrap(), 1 << 20), Ok(frame.len() - 4));
    let mut input = Input::new(frame.slice(4..));
    let client_id = Some("client".to_owned());
    let header = RequestHeader { api: R::KEY, version, correlation_id: -3, client_id };
    assert_eq!(frame::decode_request_header(&mut input), Ok(header));
    assert_eq!(R::decode(&mut input, version), Ok(request));
    input.finish().unwrap();
}

fn response_comes_through<R: Request>(version: i16)
where
    R::Response: Random,
{
    let response = R::Response::random(&mut Source::new(5), version);
    let frame = Bytes::from(frame::encode_response::<R>(&response, version, -3).unwrap());
    assert_eq!(frame::correlation_id(&frame[4..]), Ok(-3));
    assert_eq!(frame::decode_response::<R>(frame.slice(4..), version), Ok((-3, response)));
}

#[test]
fn a_length_is_checked_before_it_is_believed() {
    let max = 256 << 20;
    for (prefix, length) in [
        ([0, 0, 0, 0], Ok(0)),
        ([0, 0, 1, 2], Ok(258)),
        ([0x10, 0, 0, 0], Ok(max)),
        ([0x10, 0, 0, 1], Err(LengthError::TooLarge { len: max + 1, max })),
        ([0x7f, 0xff, 0xff, 0xff], Err(LengthError::TooLarge { len: i32::MAX as usize, max })),
        ([0x80, 0, 0, 0], Err(LengthError::Negative { length: i32::MIN })),
        ([0xff; 4], Err(LengthError::Negative { length: -1 })),
        (*b"HTTP", Err(LengthError::Http)),
        (*b"HTTQ", Err(LengthError::TooLarge { len: 0x4854_5451, max })),
        ([0x15, 3, 1, 0], Err(LengthError::Tls)),
        ([0x16, 3, 3, 0], Err(LengthError::Tls)),
        ([0x14, 3, 0, 9], Err(LengthError::Tls)),
        ([0x17, 3, 4, 0], Err(LengthError::Tls)),
        ([0x18, 3, 3, 0], Err(LengthError::TooLarge { len: 0x1803_0300, max })),
        ([0x16, 3, 5, 0], Err(LengthError::TooLarge { len: 0x1603_0500, max })),
    ] {
        assert_eq!(frame::length(prefix, max), length, "{prefix:02x?}");
    }
}

#[test]
fn what_is_allowed_is_never_taken_for_another_protocol() {
    assert_eq!(frame::length(*b"HTTP", usize::MAX), Ok(0x4854_5450));
    assert_eq!(frame::length([0x16, 3, 1, 0], usize::MAX), Ok(0x1603_0100));
}

/// A broker that does not speak the version answers in version 0, and names the versions that it speaks.
#[test]
fn the_reply_of_a_broker_that_is_older_than_the_question_is_read() {
    let api_keys = vec![ApiVersion { api_key: ApiKey::ApiVersions as i16, min_version: 0, max_version: 2 }];
    let error_code = Code::UNSUPPORTED_VERSION.0;
    let response = ApiVersionsResponse { error_code, api_keys, ..Default::default() };
    let frame = frame::encode_response::<ApiVersionsRequest>(&response, 0, 9).unwrap().split_off(4);
    for asked in ApiVersionsRequest::VERSIONS {
        let read = frame::decode_response::<ApiVersionsRequest>(frame.clone().into(), asked);
        assert_eq!(read, Ok((9, response.clone())), "v{asked}");
    }
}

/// Its header stays as it was in the first version, however flexible the reply is.
#[test]
fn the_reply_to_api_versions_has_the_old_header() {
    let response = ApiVersionsResponse::default();
    let frame = frame::encode_response::<ApiVersionsRequest>(&response, 3, 9).unwrap();
    assert_eq!(frame[4..], [0, 0, 0, 9, /* no code */ 0, 0, /* no keys */ 1, 0, 0, 0, 0, /* no tags */ 0]);
}

#[test]
fn a_request_of_an_unknown_api_is_an_error() {
    let mut input = Input::new(Bytes::from_static(&[0x30, 0x39, 0, 0, 0, 0, 0, 1, 0xff, 0xff]));
    let error = frame::decode_request_header(&mut input).unwrap_err();
    assert_eq!(error.fault(), &DecodeFault::Api(0x3039));
    assert_eq!(error.to_string(), "api at byte 0: the key of an API wanted, found 12345");
}

/// A client newer than we are asks ApiVersions in a version of its own; its header is read all the same.
#[test]
fn the_header_of_a_newer_version_is_read() {
    let mut input = Input::new(Bytes::from_static(&[0, 18, 0, 99, 0, 0, 0, 1, 0, 1, b'c', 0, 42]));
    let header = frame::decode_request_header(&mut input).unwrap();
    assert_eq!((header.api, header.version), (ApiKey::ApiVersions, 99));
    assert_eq!(input.remaining(), 1);
}

#[test]
fn a_client_may_be_nameless() {
    let mut input = Input::new(Bytes::from_static(&[0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff]));
    assert_eq!(frame::decode_request_header(&mut input).unwrap().client_id, None);
}

#[test]
fn a_frame_too_short_for_its_number_is_an_error() {
    let error = frame::correlation_id(&[0, 0, 1]).unwrap_err();
    assert_eq!(error.to_string(), "correlation_id at byte 0: int32 of 4 bytes wanted, 3 left");
}
