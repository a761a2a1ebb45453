//! Frames: a length of four bytes, a header, a message.
//!
//! The header's form follows the message's: a flexible request or reply has a flexible header. The reply to
//! ApiVersions is the exception, its header is never flexible, because who asks does not know yet what is spoken.

use crate::api::ApiKey;
use crate::code::Code;
use crate::error::{DecodeError, DecodeFault, EncodeError, EncodeFault};
use crate::message::{Message, Request};
use crate::{Input, Output};
use bytes::Bytes;

/// Writes a request with its length and header.
///
/// # Errors
/// The request does not go into this version, or `client_id` is longer than 32,767 bytes.
pub fn encode_request<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: &str,
) -> Result<Vec<u8>, EncodeError> {
    let mut output = begin();
    output.put_i16(R::KEY as i16);
    output.put_i16(version);
    output.put_i32(correlation_id);
    // The client's name has the older form also in a flexible header, so that every broker can read it.
    output.put_string("client_id", client_id)?;
    output.with_form(R::is_flexible(version), Output::put_no_tags);
    request.encode(&mut output, version)?;
    end(output)
}

/// Reads the reply to a request from its frame (without the length).
///
/// A broker that does not speak the version in which ApiVersions was asked answers in version 0, with the code
/// UNSUPPORTED_VERSION; that is understood here.
///
/// # Errors
/// The frame is not the reply, or something is left over after it.
pub fn decode_response<R: Request>(frame: Bytes, version: i16) -> Result<(i32, R::Response), DecodeError> {
    let mut input = Input::new(frame);
    let correlation_id = input.i32("correlation_id")?;
    input.with_form(flexible_response_header::<R>(version), Input::skip_tags)?;
    let version = answered_in::<R>(&input, version);
    let response = R::Response::decode(&mut input, version)?;
    input.finish().map_err(|error| error.of(R::Response::NAME, version))?;
    Ok((correlation_id, response))
}

/// The number with which a reply (its frame without the length) names its request.
///
/// # Errors
/// The frame is shorter than that number.
pub fn correlation_id(frame: &[u8]) -> Result<i32, DecodeError> {
    match frame.first_chunk() {
        Some(bytes) => Ok(i32::from_be_bytes(*bytes)),
        None => {
            let fault = DecodeFault::Short { wanted: "int32", needs: 4, left: frame.len() };
            Err(DecodeError::new("correlation_id", 0, fault))
        }
    }
}

/// What stands before a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API asked.
    pub api: ApiKey,
    /// The version in which the request is written and the reply is wanted; any number the peer chose.
    pub version: i16,
    /// What the reply has to repeat.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
}

/// Reads a request's header, up to where the request begins.
///
/// # Errors
/// The API is not known, or the bytes are no header.
pub fn decode_request_header(input: &mut Input) -> Result<RequestHeader, DecodeError> {
    let api = api_key(input)?;
    let version = input.i16("version")?;
    let correlation_id = input.i32("correlation_id")?;
    let client_id = input.nullable_string("client_id")?;
    input.with_form(api.is_flexible(version), Input::skip_tags)?;
    Ok(RequestHeader { api, version, correlation_id, client_id })
}

/// Writes a reply with its length and header.
///
/// # Errors
/// The reply does not go into this version.
pub fn encode_response<R: Request>(
    response: &R::Response,
    version: i16,
    correlation_id: i32,
) -> Result<Vec<u8>, EncodeError> {
    let mut output = begin();
    output.put_i32(correlation_id);
    output.with_form(flexible_response_header::<R>(version), Output::put_no_tags);
    response.encode(&mut output, version)?;
    end(output)
}

/// The length of the frame that these four bytes announce, to be checked before anything is allocated for it.
///
/// # Errors
/// It is negative or above `max`. What other protocols say first would be read as hundreds of megabytes; where that is
/// above `max`, the error names the protocol.
pub fn length(prefix: [u8; 4], max: usize) -> Result<usize, LengthError> {
    let length = i32::from_be_bytes(prefix);
    match usize::try_from(length) {
        Err(_) => Err(LengthError::Negative { length }),
        Ok(length) if length <= max => Ok(length),
        Ok(length) => Err(too_large(prefix, length, max)),
    }
}

/// Four bytes that announce no frame we would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LengthError {
    /// The length is below zero.
    #[error("the peer announces a frame of {length} bytes: it does not speak Kafka's protocol")]
    Negative {
        /// The length announced.
        length: i32,
    },
    /// The length is above what is taken.
    #[error("the peer announces a frame of {len} bytes, more than the {max} that are allowed")]
    TooLarge {
        /// The length announced.
        len: usize,
        /// The most that is taken.
        max: usize,
    },
    /// The bytes spell `HTTP`.
    #[error("the peer answers in HTTP: this is the port of a web server, not of a Kafka broker")]
    Http,
    /// The bytes begin a TLS record.
    #[error("the peer answers in TLS: this port of the broker wants an encrypted connection")]
    Tls,
}

/// Four bytes for the length, put in by `end`.
fn begin() -> Output {
    let mut output = Output::new();
    output.put_i32(0);
    output
}

fn end(mut output: Output) -> Result<Vec<u8>, EncodeError> {
    let length = output.bytes().len() - 4;
    let fault = EncodeFault::TooLong { length, most: i32::MAX as usize };
    let said = i32::try_from(length).map_err(|_| EncodeError::new("", fault))?;
    output.overwrite_i32(0, said);
    Ok(output.into_bytes())
}

fn flexible_response_header<R: Request>(version: i16) -> bool {
    R::KEY != ApiKey::ApiVersions && R::Response::is_flexible(version)
}

/// The version of the reply. In every version the reply to ApiVersions begins with its code.
fn answered_in<R: Request>(input: &Input, version: i16) -> i16 {
    let asked_too_high =
        R::KEY == ApiKey::ApiVersions && input.clone().i16("error_code") == Ok(Code::UNSUPPORTED_VERSION.0);
    if asked_too_high { 0 } else { version }
}

fn api_key(input: &mut Input) -> Result<ApiKey, DecodeError> {
    let position = input.position();
    let key = input.i16("api")?;
    ApiKey::from_i16(key).ok_or_else(|| DecodeError::new("api", position, DecodeFault::Api(key)))
}

fn too_large(prefix: [u8; 4], len: usize, max: usize) -> LengthError {
    match prefix {
        [b'H', b'T', b'T', b'P'] => LengthError::Http,
        // Content type (change of cipher, alert, handshake, data), then version 3.0 (SSL) to 3.4.
        [0x14..=0x17, 0x03, 0x00..=0x04, _] => LengthError::Tls,
        _ => LengthError::TooLarge { len, max },
    }
}
