//! The messages against what Java's clients and a real Apache Kafka wrote: see `README.md`.
#![allow(clippy::unwrap_used, reason = "a check may stop where it fails")]

mod content;
mod coverage;
mod frames;
mod java;
mod read;
mod reread;
#[path = "../messages/shape.rs"]
#[allow(dead_code, reason = "which lists there are is asked elsewhere")]
mod shape;

use frames::Exchange;
use ottla_wire::Input;
use ottla_wire::api::ApiKey;
use ottla_wire::code::Code;
use ottla_wire::frame;
use ottla_wire::message::ApiVersionsRequest;

/// What cannot be read and written anew, and why; all else has to be.
const EXCEPTIONS: [(ApiKey, i16, &str); 1] =
    // A version that nobody knows: the header is read, and the reply, which is in version 0.
    [(ApiKey::ApiVersions, 99, "versions-too-new")];

#[test]
fn what_java_and_kafka_wrote_is_read_and_written_anew_to_the_same_bytes() {
    let exchanges = frames::all();
    let failed: Vec<_> = exchanges
        .iter()
        .filter(|exchange| !is_exception(exchange))
        .filter_map(|exchange| Some(format!("{exchange}: {}", read::read(exchange).err()?)))
        .collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), exchanges.len(), failed.join("\n"));
}

fn is_exception(exchange: &Exchange) -> bool {
    EXCEPTIONS.contains(&(exchange.api, exchange.version, &*exchange.client))
}

#[test]
fn the_answer_to_a_version_that_kafka_does_not_speak_is_read() {
    let exchanges: Vec<_> = frames::all().into_iter().filter(is_exception).collect();
    assert_eq!(exchanges.len(), EXCEPTIONS.len() * frames::KAFKAS.len());
    for exchange in exchanges {
        let header = frame::decode_request_header(&mut Input::new(exchange.request.clone())).unwrap();
        assert_eq!((header.api, header.version), (ApiKey::ApiVersions, 99));
        let reply = exchange.reply.clone().unwrap();
        let written_anew = reread::reply::<ApiVersionsRequest>(&reply, 0).unwrap();
        assert_eq!(Code(written_anew.error_code), Code::UNSUPPORTED_VERSION, "{exchange}");
        let read = frame::decode_response::<ApiVersionsRequest>(reply, 99).unwrap();
        assert_eq!(read, (header.correlation_id, written_anew), "{exchange}");
    }
}
