//! What everything that a Kafka wrote has to stand: it is read, nothing is left over, and written anew it is the same.

use bytes::Bytes;
use ottla_wire::frame::{self, RequestHeader};
use ottla_wire::message::{Message, Request};
use ottla_wire::{DecodeError, Input};

/// The header and the request in a frame (without its length).
pub(crate) fn request<R: Request>(frame: &Bytes) -> Result<(RequestHeader, R), String> {
    let (header, request) = read_request::<R>(frame).map_err(|error| error.to_string())?;
    let client_id = header.client_id.as_deref().ok_or("a client without name cannot be written here")?;
    let written = frame::encode_request(&request, header.version, header.correlation_id, client_id);
    same(&written.map_err(|error| error.to_string())?, frame)?;
    Ok((header, request))
}

/// The reply in a frame (without its length), to a request of that version.
pub(crate) fn reply<R: Request>(frame: &Bytes, version: i16) -> Result<R::Response, String> {
    let read = frame::decode_response::<R>(frame.clone(), version);
    let (correlation_id, reply) = read.map_err(|error| error.to_string())?;
    let written = frame::encode_response::<R>(&reply, version, correlation_id);
    same(&written.map_err(|error| error.to_string())?, frame)?;
    Ok(reply)
}

/// A message without a header.
#[allow(dead_code, reason = "the tests that record have none")]
pub(crate) fn message<M: Message>(bytes: &Bytes, version: i16) -> Result<M, String> {
    let mut input = Input::new(bytes.clone());
    let message = M::decode(&mut input, version).map_err(|error| error.to_string())?;
    input.finish().map_err(|error| error.to_string())?;
    let mut output = ottla_wire::Output::new();
    message.encode(&mut output, version).map_err(|error| error.to_string())?;
    same_bytes(output.bytes(), bytes)?;
    Ok(message)
}

fn read_request<R: Request>(frame: &Bytes) -> Result<(RequestHeader, R), DecodeError> {
    let mut input = Input::new(frame.clone());
    let header = frame::decode_request_header(&mut input)?;
    let request = R::decode(&mut input, header.version)?;
    input.finish()?;
    Ok((header, request))
}

/// `written` has its length in front.
fn same(written: &[u8], frame: &[u8]) -> Result<(), String> {
    let length = (frame.len() as u32).to_be_bytes();
    same_bytes(written, &[&length, frame].concat())
}

fn same_bytes(written: &[u8], read: &[u8]) -> Result<(), String> {
    if written == read {
        return Ok(());
    }
    let same = written.iter().zip(read).take_while(|(written, read)| written == read).count();
    Err(format!("written anew it differs at byte {same}: read {read:02x?}, written {written:02x?}"))
}
