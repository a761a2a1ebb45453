//! What is asked before anything else.

use crate::client::Kafka;
use crate::{BROKER, reread};
use bytes::Bytes;
use ottla_wire::code::Code;
use ottla_wire::frame;
use ottla_wire::message::*;

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_says_what_it_speaks() {
    let mut kafka = Kafka::of(BROKER);
    for version in kafka.versions::<ApiVersionsRequest>() {
        assert_eq!(kafka.ask("versions", &versions(version), version).error_code, 0);
    }
    let cluster_id =
        kafka.nameless(&MetadataRequest { topics: Some(Vec::new()), ..Default::default() }).cluster_id;
    for version in kafka.versions::<ApiVersionsRequest>().filter(|version| *version >= 5) {
        let known = ApiVersionsRequest { cluster_id: cluster_id.clone(), node_id: 1, ..versions(version) };
        assert_eq!(kafka.ask("versions-of-node", &known, version).error_code, 0);
        let other = ApiVersionsRequest { cluster_id: Some("another".into()), ..known };
        let reply = kafka.ask("versions-of-stranger", &other, version);
        assert_eq!(reply.error_code, Code::REBOOTSTRAP_REQUIRED.0);
    }
}

/// A client from the future gets an answer in version 0, and may ask again.
#[test]
#[ignore = "needs a real Kafka from 2.4 on, which says what it speaks instead (KIP-511): cargo xtask test"]
fn kafka_answers_a_version_that_it_does_not_speak() {
    let mut kafka = Kafka::of(BROKER);
    let mut request = frame::encode_request(&versions(3), 3, 7, "versions-too-new").unwrap();
    request[6..8].copy_from_slice(&99i16.to_be_bytes());
    kafka.say(&request);
    let reply = kafka.hear().unwrap();
    let read = reread::reply::<ApiVersionsRequest>(&reply, 0).unwrap();
    assert_eq!(read.error_code, Code::UNSUPPORTED_VERSION.0);
    assert_eq!(read.api_keys.len(), 1);
    assert_eq!(frame::decode_response::<ApiVersionsRequest>(reply, 99), Ok((7, read)));
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_wants_no_login_here() {
    let mut kafka = Kafka::of(BROKER);
    for version in kafka.versions::<SaslHandshakeRequest>() {
        let request = SaslHandshakeRequest { mechanism: "PLAIN".into() };
        let reply = kafka.ask("login", &request, version);
        assert_eq!(reply.error_code, Code::ILLEGAL_SASL_STATE.0);
    }
    for version in kafka.versions::<SaslAuthenticateRequest>() {
        let request = SaslAuthenticateRequest { auth_bytes: Bytes::from_static(b"\0franz\0kafka") };
        let reply = kafka.ask("login", &request, version);
        assert_eq!(reply.error_code, Code::ILLEGAL_SASL_STATE.0);
    }
}

fn versions(version: i16) -> ApiVersionsRequest {
    match version {
        ..3 => ApiVersionsRequest::default(),
        _ => ApiVersionsRequest {
            client_software_name: "ottla".into(),
            client_software_version: "0.1.0".into(),
            ..Default::default()
        },
    }
}
