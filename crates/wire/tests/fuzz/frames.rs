//! Reads frames. A case says in front what the frame is, since a reply does not say it itself.

use std::fmt::Display;

use bytes::Bytes;
use ottla_wire::api::ApiKey;
use ottla_wire::code::Code;
use ottla_wire::message::*;
use ottla_wire::{DecodeError, Input, Output, frame};

use crate::allocations::largest;
use crate::hunt::Outcome;
use crate::random::for_each_request;

/// What an error takes to say what it has to say.
const ERROR: usize = 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Request,
    Reply(i16, i16),
    Subscription(i16),
    Assignment(i16),
}

const FRONT: usize = 5;

impl Kind {
    pub(crate) fn reply(api: ApiKey, version: i16) -> Self {
        Self::Reply(api as i16, version)
    }

    pub(crate) fn case(self, frame: &[u8]) -> Vec<u8> {
        let (kind, api, version) = match self {
            Self::Request => (0, 0, 0),
            Self::Reply(api, version) => (1, api, version),
            Self::Subscription(version) => (2, 0, version),
            Self::Assignment(version) => (3, 0, version),
        };
        let [a, b] = i16::to_be_bytes(api);
        let [c, d] = i16::to_be_bytes(version);
        [&[kind, a, b, c, d], frame].concat()
    }

    fn of(case: &[u8]) -> Option<(Self, Bytes)> {
        let (&[kind, a, b, c, d], frame) = case.split_first_chunk::<FRONT>()?;
        let (api, version) = (i16::from_be_bytes([a, b]), i16::from_be_bytes([c, d]));
        let kind = match kind % 4 {
            0 => Self::Request,
            1 => Self::Reply(api, version),
            2 => Self::Subscription(version),
            _ => Self::Assignment(version),
        };
        Some((kind, Bytes::copy_from_slice(frame)))
    }
}

pub(crate) fn read(case: &[u8]) -> Outcome {
    let Some((kind, frame)) = Kind::of(case) else { return "short".into() };
    let _ = frame::correlation_id(&frame);
    match kind {
        Kind::Request => read_request(&frame),
        Kind::Reply(api, version) => read_reply(api, version, &frame),
        Kind::Subscription(version) => {
            outcome("s", version, read_body::<ConsumerProtocolSubscription>(&frame, version))
        }
        Kind::Assignment(version) => {
            outcome("a", version, read_body::<ConsumerProtocolAssignment>(&frame, version))
        }
    }
}

fn read_request(frame: &Bytes) -> Outcome {
    let mut input = Input::new(frame.clone());
    let header = match in_little(input.remaining(), || frame::decode_request_header(&mut input)) {
        Ok(header) => header,
        Err(error) => return error.to_string(),
    };
    macro_rules! read_as_one_of {
        ($request:ident) => {
            if header.api == $request::KEY {
                let read = in_little(input.remaining(), || whole::<$request>(&mut input, header.version));
                return outcome(
                    $request::NAME,
                    header.version,
                    read.inspect(|value| stands::<$request>(value, header.version)),
                );
            }
        };
    }
    for_each_request!(read_as_one_of);
    panic!("{:?} is in no list", header.api);
}

fn read_reply(api: i16, version: i16, frame: &Bytes) -> Outcome {
    macro_rules! read_as_one_of {
        ($request:ident) => {
            if api == $request::KEY as i16 {
                let read =
                    in_little(frame.len(), || frame::decode_response::<$request>(frame.clone(), version));
                let read = read.map(|(_, reply)| reply);
                let answered = answered_in(frame, $request::KEY, version);
                let read = read.inspect(|reply| stands_as_reply::<$request>(reply, answered));
                return outcome(concat!(stringify!($request), "'s reply"), version, read);
            }
        };
    }
    for_each_request!(read_as_one_of);
    "no such API".into()
}

fn read_body<M: Message + PartialEq + std::fmt::Debug>(
    bytes: &Bytes,
    version: i16,
) -> Result<M, DecodeError> {
    let read = in_little(bytes.len(), || whole::<M>(&mut Input::new(bytes.clone()), version));
    read.inspect(|value| stands::<M>(value, version))
}

fn whole<M: Message>(input: &mut Input, version: i16) -> Result<M, DecodeError> {
    let value = M::decode(input, version)?;
    input.finish()?;
    Ok(value)
}

/// Reads bytes that may ask for more memory than they have a right to.
fn in_little<T>(len: usize, read: impl FnOnce() -> T) -> T {
    let (read, largest) = largest(read);
    // An element in memory may take more than its bytes on the wire, and vectors grow by doubling.
    assert!(largest <= 100 * len + ERROR, "a block of {largest} for {len} bytes");
    read
}

/// What was read is written and read again.
fn stands<M: Message + PartialEq + std::fmt::Debug>(value: &M, version: i16) {
    let mut output = Output::new();
    value.encode(&mut output, version).unwrap();
    let mut input = Input::new(Bytes::copy_from_slice(output.bytes()));
    assert_eq!(&whole::<M>(&mut input, version).unwrap(), value);
}

fn stands_as_reply<R: Request>(reply: &R::Response, version: i16)
where
    R::Response: PartialEq + std::fmt::Debug,
{
    let written = frame::encode_response::<R>(reply, version, 7).unwrap();
    let read = frame::decode_response::<R>(Bytes::from(written).slice(4..), version).unwrap();
    assert_eq!(read, (7, reply.clone()));
}

/// A broker that does not speak the version in which ApiVersions was asked answers in version 0.
fn answered_in(frame: &Bytes, api: ApiKey, version: i16) -> i16 {
    let code = frame.get(4..6).map(|code| Code(i16::from_be_bytes([code[0], code[1]])));
    let asked_too_high = api == ApiKey::ApiVersions && code == Some(Code::UNSUPPORTED_VERSION);
    if asked_too_high { 0 } else { version }
}

fn outcome<T>(name: &str, version: i16, read: Result<T, impl Display>) -> Outcome {
    // Versions count, so they are letters.
    let version = "+".repeat(version.clamp(0, 40) as usize);
    match read {
        Ok(_) => format!("{name} {version} read"),
        Err(error) => format!("{name} {version} {error}"),
    }
}
