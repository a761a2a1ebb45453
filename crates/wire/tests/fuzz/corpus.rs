//! What there is to begin with: what Java and Kafka wrote, and messages made up for every version.

use std::fs;
use std::path::PathBuf;

use ottla_wire::message::*;
use ottla_wire::record::{BatchHeader, Batches, Codec, Decoder};
use ottla_wire::{Output, frame};

use crate::frames::Kind;
use crate::golden;
use crate::random::{for_each_message, for_each_request};
use crate::source::{Random, Source};

/// Longer ones only take time.
const LEN_MAX: usize = 8 * 1024;
const LIMIT: usize = 16 << 20;

pub(crate) fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for exchange in golden::all() {
        frames.push(Kind::Request.case(&exchange.request));
        let reply =
            exchange.reply.iter().map(|reply| Kind::reply(exchange.api, exchange.version).case(reply));
        frames.extend(reply);
    }
    macro_rules! add {
        ($request:ident) => {
            add_made_up::<$request>(&mut frames);
        };
    }
    for_each_request!(add);
    for version in ConsumerProtocolSubscription::VERSIONS {
        let value = ConsumerProtocolSubscription::random(&mut Source::small(5), version);
        frames.push(Kind::Subscription(version).case(&body(&value, version)));
    }
    for version in ConsumerProtocolAssignment::VERSIONS {
        let value = ConsumerProtocolAssignment::random(&mut Source::small(5), version);
        frames.push(Kind::Assignment(version).case(&body(&value, version)));
    }
    frames
}

fn add_made_up<R: Request + Random>(frames: &mut Vec<Vec<u8>>)
where
    R::Response: Random,
{
    for version in R::VERSIONS {
        let request = R::random(&mut Source::small(3), version);
        let request = frame::encode_request(&request, version, 7, "fuzz").unwrap();
        frames.push(Kind::Request.case(&request[4..]));
        let reply = R::Response::random(&mut Source::small(4), version);
        let reply = frame::encode_response::<R>(&reply, version, 7).unwrap();
        frames.push(Kind::reply(R::KEY, version).case(&reply[4..]));
    }
}

fn body<M: Message>(message: &M, version: i16) -> Vec<u8> {
    let mut output = Output::new();
    message.encode(&mut output, version).unwrap();
    output.bytes().to_vec()
}

/// Batches of every format and codec.
pub(crate) fn batches() -> Vec<Vec<u8>> {
    let mut batches = golden_batches();
    batches.retain(|bytes| bytes.len() <= LEN_MAX);
    assert!(batches.len() >= 30, "golden batches are missing");
    batches
}

fn golden_batches() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/record/golden");
    let files = [folder.clone(), folder.join("old")].map(|folder| fs::read_dir(folder).unwrap());
    let mut paths: Vec<_> = files.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "bin"));
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

/// What wrappers of before Kafka 0.11 hold: a set of messages, behind the format of the wrapper.
pub(crate) fn sets() -> Vec<Vec<u8>> {
    let plain = |bytes: &Vec<u8>| {
        let headers = Batches::new(bytes).map(Result::unwrap);
        headers.into_iter().all(|(header, _)| header.magic < 2 && !header.is_wrapper())
    };
    let sets: Vec<_> = batches().into_iter().filter(plain).collect();
    let sets: Vec<_> =
        sets.iter().flat_map(|set| [0, 1].map(|magic| [&[magic], &set[..]].concat())).collect();
    assert!(sets.len() >= 10, "plain sets are missing");
    sets
}

/// Compressed data behind the number of its codec, from batches of today.
pub(crate) fn packed() -> Vec<Vec<u8>> {
    let mut packed = Vec::new();
    for bytes in golden_batches() {
        for (header, range) in Batches::new(&bytes).map(Result::unwrap) {
            let codec = header.codec().unwrap();
            if header.magic == 2 && codec != Codec::None {
                packed.push([&[codec.number()], &bytes[range][BatchHeader::SIZE..]].concat());
            }
        }
    }
    packed.retain(|bytes| bytes.len() <= 4 * LEN_MAX);
    let mut decoder = Decoder::new();
    for bytes in &packed {
        let codec = Codec::ALL[usize::from(bytes[0])];
        decoder.decode(codec, &bytes[1..], LIMIT, &mut Vec::new()).unwrap();
    }
    packed
}

/// The macro is for those who want all messages.
#[test]
fn every_message_is_begun_with() {
    let mut messages = 0;
    macro_rules! count {
        ($message:ident) => {
            messages += $message::VERSIONS.count();
        };
    }
    for_each_message!(count);
    assert!(frames().len() >= messages);
}
