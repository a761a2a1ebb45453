//! For any messages: what is written is read, whole and cut.

use ottla_wire::record::{BatchHeader, Batches, Codec, TimestampType};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::writer::{APPEND, Message, Wrapper};
use super::{read, read_batches};
use crate::Owned;

/// A part of a log, as it is written and as it is to be read.
#[derive(Debug, Clone)]
struct Part {
    bytes: Vec<u8>,
    records: Vec<Owned>,
}

fn part(base: i64) -> impl Strategy<Value = Part> {
    let codec = prop_oneof![2 => Just(Codec::None), 1 => Just(Codec::Gzip), 1 => Just(Codec::Snappy), 1 => Just(Codec::Lz4)];
    let field = || option::of(prop_oneof![4 => vec(any::<u8>(), 0..20), 1 => vec(any::<u8>(), 0..5000)]);
    let timestamp = prop_oneof![4 => 1_700_000_000_000..1_700_000_100_000_i64, 1 => any::<i64>()];
    let messages = vec((1..4_i64, timestamp, field(), field()), 1..20);
    (0..2_u8, codec, any::<bool>(), option::of(0..i64::MAX), messages).prop_map(
        move |(magic, codec, relative, append_time, messages)| {
            let append_time = append_time.filter(|_| magic == 1);
            let mut offset = base;
            let messages: Vec<_> = messages
                .into_iter()
                .map(|(step, timestamp, key, value)| {
                    offset += step;
                    let timestamp = if magic == 0 { -1 } else { timestamp };
                    Message { magic, attributes: 0, offset, timestamp, key, value }
                })
                .collect();
            write(Wrapper { magic, codec, relative: relative && magic == 1, append_time }, &messages)
        },
    )
}

fn write(wrapper: Wrapper, messages: &[Message]) -> Part {
    let timed = |message: &Message| match wrapper.append_time {
        Some(timestamp) => Message { attributes: APPEND, timestamp, ..message.clone() },
        None => message.clone(),
    };
    let bytes = match wrapper.codec {
        Codec::None => messages.iter().flat_map(|message| timed(message).to_bytes()).collect(),
        // The broker's time stands in the wrapper only.
        _ => wrapper.around(messages),
    };
    let record = |message: &Message| Owned {
        offset: message.offset,
        timestamp: timed(message).timestamp,
        timestamp_type: wrapper.append_time.map_or(TimestampType::Create, |_| TimestampType::Append),
        key: message.key.clone(),
        value: message.value.clone(),
        headers: Vec::new(),
    };
    Part { bytes, records: messages.iter().map(record).collect() }
}

fn size(magic: u8, record: &Owned) -> usize {
    Message::new(magic, record).to_bytes().len()
}

fn log() -> impl Strategy<Value = Vec<Part>> {
    (0..1_000_000_i64, 1..4_usize).prop_flat_map(|(base, count)| {
        (0..count).map(|index| part(base + 1000 * index as i64)).collect::<Vec<_>>()
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(log in log()) {
        let bytes: Vec<u8> = log.iter().flat_map(|part| part.bytes.clone()).collect();
        let expected: Vec<_> = log.iter().flat_map(|part| part.records.clone()).collect();
        prop_assert_eq!(read(&bytes), Ok(expected));
        // What is unpacked takes no more room than the messages did.
        for part in log {
            let written: usize = part.records.iter().map(|record| size(part.bytes[16], record)).sum();
            let unpacked = read_batches(&part.bytes).unwrap().into_iter().map(|(header, _)| header.size());
            prop_assert!(unpacked.map(|size| size - BatchHeader::SIZE).sum::<usize>() <= written);
        }
    }

    /// A reply is cut at a byte: what is whole is read.
    #[test]
    fn cut_anywhere_it_ends_before_its_tail(log in log(), cut in any::<prop::sample::Index>()) {
        let bytes: Vec<u8> = log.iter().flat_map(|part| part.bytes.clone()).collect();
        let cut = cut.index(bytes.len() + 1);
        let mut batches = Batches::new(&bytes[..cut]);
        let whole: usize = batches.by_ref().map(|found| found.unwrap().1.len()).sum();
        prop_assert_eq!(whole + batches.tail(), cut);
        let expected: Vec<_> = log.into_iter().flat_map(|part| part.records).collect();
        let read = read(&bytes[..cut]).unwrap();
        prop_assert_eq!(&read[..], &expected[..read.len()]);
        // Nothing whole is in the tail.
        let rest = &bytes[whole..];
        let next = Batches::new(rest).next().map(|found| found.unwrap().1.len());
        prop_assert!(next.is_none_or(|next| batches.tail() < next));
    }
}
