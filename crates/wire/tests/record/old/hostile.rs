//! Message sets that nobody should write.

use ottla_wire::record::{BatchHeader, Batches, Codec, Decoder, RecordError};

use super::golden::{golden, names};
use super::read;
use super::writer::{HEADER_CHECKSUM, Message, Wrapper, kafkas_header_checksum, lz4, pack, set_crc};
use crate::LIMIT;

fn message(magic: u8, offset: i64) -> Message {
    let (key, value) = (Some(b"key".to_vec()), Some(b"value".to_vec()));
    Message { magic, attributes: 0, offset, timestamp: -1, key, value }
}

/// The message with other bytes at `at`, its CRC made right.
fn with(message: &Message, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut message = message.to_bytes();
    message[at..at + bytes.len()].copy_from_slice(bytes);
    set_crc(&mut message);
    message
}

fn fault(bytes: &[u8]) -> RecordError {
    read(bytes).unwrap_err()
}

/// What is said of a wrapper of each format around these bytes, which has to be the same.
fn fault_inside(offset: i64, set: &[u8]) -> RecordError {
    let of = |magic| fault(&Wrapper::of(magic, Codec::Gzip).around_bytes(offset, -1, set));
    assert_eq!(of(0), of(1));
    of(0)
}

fn corrupt(codec: Codec, problem: &str) -> RecordError {
    RecordError::Corrupt { codec, problem: problem.into() }
}

#[test]
fn a_message_that_cannot_be_says_why() {
    let good = message(1, 7);
    let length = |length: i32| with(&good, 8, &length.to_be_bytes());
    for wrong in [-1, i32::MIN, 0, 21] {
        assert_eq!(fault(&length(wrong)), RecordError::BatchLength { length: wrong, at: 0 });
    }
    let short = with(&message(0, 7), 8, &13_i32.to_be_bytes());
    assert_eq!(fault(&short), RecordError::BatchLength { length: 13, at: 0 });
    for offset in [-1, i64::MIN, i64::MAX] {
        let error = RecordError::BatchOffsets { base_offset: offset, last_offset_delta: 0 };
        assert_eq!(fault(&message(1, offset).to_bytes()), error);
    }
    assert_eq!(fault(&with(&good, 16, &[3])), RecordError::UnknownMagic { magic: 3, at: 0 });
    let zstd = with(&good, 17, &[Codec::Zstd.number()]);
    assert_eq!(fault(&zstd), RecordError::UnknownCodec { number: 4 });
    assert_eq!(fault(&with(&good, 17, &[7])), RecordError::UnknownCodec { number: 7 });
}

/// Behind a good row the error comes by itself, with its place.
#[test]
fn a_broken_message_does_not_hide_the_ones_before_it() {
    let row = [message(1, 0).to_bytes(), message(1, 1).to_bytes()].concat();
    let broken = [&row[..], &with(&message(1, 2), 8, &5_i32.to_be_bytes())].concat();
    let mut batches = Batches::new(&broken);
    assert_eq!(batches.next().unwrap().unwrap().1, 0..row.len());
    assert_eq!(batches.next(), Some(Err(RecordError::BatchLength { length: 5, at: row.len() })));
    assert_eq!(batches.next(), None);
}

#[test]
fn fields_are_held_to_their_message() {
    let good = message(1, 7); // key at 30, its length at 26; value at 37, its length at 33
    let key = |length: i32| fault(&with(&good, 26, &length.to_be_bytes()));
    let value = |length: i32| fault(&with(&good, 33, &length.to_be_bytes()));
    assert_eq!(key(-2), RecordError::Length { what: "key length", at: 26, found: -2 });
    assert_eq!(value(i32::MIN), RecordError::Length { what: "value length", at: 33, found: i32::MIN.into() });
    let truncated = |what, at, wanted, left| RecordError::Truncated { what, at, wanted, left };
    assert_eq!(key(100), truncated("key", 30, 100, 12));
    assert_eq!(key(i32::MAX), truncated("key", 30, i32::MAX as usize, 12));
    assert_eq!(key(9), truncated("value length", 39, 4, 3));
    assert_eq!(value(6), truncated("value", 37, 6, 5));
    assert_eq!(value(4), RecordError::Leftover { what: "message", at: 41, left: 1 });
    assert_eq!(value(-1), RecordError::Leftover { what: "message", at: 37, left: 5 });
}

#[test]
fn every_message_has_its_own_crc() {
    let row = [message(1, 3).to_bytes(), message(1, 4).to_bytes()];
    for (index, offset) in [(0, 3), (1, 4)] {
        let mut bad = row.clone();
        *bad[index].last_mut().unwrap() ^= 1;
        let error = fault(&bad.concat());
        assert!(matches!(error, RecordError::Crc { base_offset, .. } if base_offset == offset), "{error}");
    }
    // Inside of a wrapper, too.
    let mut inside = message(1, 0).to_bytes();
    inside[30] ^= 1;
    assert!(matches!(fault_inside(9, &inside), RecordError::Crc { base_offset: 0, .. }));
}

#[test]
fn a_set_is_held_to_its_wrapper() {
    let set = |offsets: &[i64]| -> Vec<u8> {
        offsets.iter().flat_map(|&offset| message(1, offset).to_bytes()).collect()
    };
    let misplaced = |at, found, wanted| RecordError::MessageOffset { at, found, wanted };
    let size = message(1, 0).to_bytes().len();
    assert_eq!(fault_inside(9, &set(&[0, 0])), misplaced(size, 0, 1..=9));
    assert_eq!(fault_inside(9, &set(&[5, 3])), misplaced(size, 3, 6..=9));
    assert_eq!(fault_inside(9, &set(&[-1])), misplaced(0, -1, 0..=9));
    assert_eq!(fault_inside(9, &set(&[0, 10])), misplaced(size, 10, 1..=9));
    assert_eq!(fault_inside(9, &set(&[i64::MIN])), misplaced(0, i64::MIN, 0..=9));
    let far = i64::from(i32::MAX) + 1;
    let most = i64::from(i32::MAX);
    assert_eq!(fault_inside(far + 1, &set(&[0, far])), misplaced(size, far, 1..=most));
    // In format 0 the first one's distance from the wrapper is what its offset says.
    let alone = Wrapper::of(0, Codec::Gzip).around_bytes(far, -1, &message(0, 0).to_bytes());
    assert_eq!(fault(&alone), misplaced(0, 0, 1..=far));
    // In format 1 it is the last one.
    let alone = Wrapper::of(1, Codec::Gzip).around_bytes(far, -1, &message(1, 0).to_bytes());
    assert_eq!(read(&alone).unwrap()[0].offset, far);
}

#[test]
fn a_set_that_does_not_fit_its_wrapper_is_an_error() {
    let good = message(1, 0).to_bytes();
    for cut in 1..good.len() {
        let error = fault_inside(9, &good[..cut]);
        assert!(matches!(error, RecordError::Truncated { what: "message", at: 0, .. }), "{cut}: {error}");
        let error = fault_inside(9, &[&good[..], &message(1, 1).to_bytes()[..cut]].concat());
        assert!(matches!(error, RecordError::Truncated { at, .. } if at == good.len()), "{cut}: {error}");
    }
    assert_eq!(fault_inside(9, &[]), corrupt(Codec::Gzip, "there is no message inside"));
    let short = with(&message(1, 0), 8, &3_i32.to_be_bytes());
    assert_eq!(fault_inside(9, &short), RecordError::BatchLength { length: 3, at: 0 });
    let new = with(&message(1, 0), 16, &[2]);
    assert_eq!(fault_inside(9, &new), RecordError::UnknownMagic { magic: 2, at: 0 });
}

#[test]
fn a_wrapper_in_a_wrapper_is_an_error() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
        let inside = Wrapper::of(1, codec).around(&[message(1, 0)]);
        let error = corrupt(Codec::Gzip, "a message inside is compressed again");
        assert_eq!(fault_inside(9, &inside), error);
    }
}

#[test]
fn a_wrapper_without_anything_to_unpack_is_an_error() {
    let with_value =
        |value| Message { attributes: Codec::Snappy.number(), value, ..message(1, 5) }.to_bytes();
    let inside = corrupt(Codec::Snappy, "there is no message inside");
    assert_eq!(fault(&with_value(Some(Vec::new()))), inside);
    assert_eq!(fault(&with_value(None)), corrupt(Codec::Snappy, "the message around it has no value"));
    let error = fault(&with_value(Some(b"no snappy".to_vec())));
    assert!(matches!(error, RecordError::Corrupt { codec: Codec::Snappy, .. }), "{error}");
}

/// A wrapper may hold messages of the other format: Java reads them, so somebody wrote them.
#[test]
fn a_wrapper_may_hold_both_formats() {
    let timed = Message { timestamp: 1000, ..message(1, 1) };
    let set = [message(0, 0).to_bytes(), timed.to_bytes()].concat();
    for magic in 0..2 {
        let records = read(&Wrapper::of(magic, Codec::Gzip).around_bytes(1, 1000, &set)).unwrap();
        let times: Vec<_> = records.iter().map(|record| (record.offset, record.timestamp)).collect();
        assert_eq!(times, [(0, -1), (1, 1000)]);
    }
}

/// KIP-57: what Kafka wrote for format 0 is accepted there and nowhere else.
#[test]
fn kafkas_lz4_header_checksum_is_accepted_in_format_0_only() {
    let set = message(1, 0).to_bytes();
    let right = lz4(&set);
    let mut kafkas = right.clone();
    kafkas[HEADER_CHECKSUM] = kafkas_header_checksum(&right);
    let mut wrong = right.clone();
    wrong[HEADER_CHECKSUM] = !right[HEADER_CHECKSUM];
    assert!(kafkas != right && kafkas != wrong);
    assert_eq!(pack(Codec::Lz4, 0, &set), kafkas);
    let read = |magic, frame: &[u8]| {
        let wrapper =
            Message { attributes: Codec::Lz4.number(), value: Some(frame.to_vec()), ..message(magic, 0) };
        read(&wrapper.to_bytes()).map(|records| records.len())
    };
    let error = Err(corrupt(Codec::Lz4, "header checksum is wrong"));
    assert_eq!([read(0, &right), read(0, &kafkas), read(0, &wrong)], [Ok(1), Ok(1), error.clone()]);
    assert_eq!([read(1, &right), read(1, &kafkas), read(1, &wrong)], [Ok(1), error.clone(), error.clone()]);
    let mut out = Vec::new();
    assert_eq!(Decoder::new().decode(Codec::Lz4, &kafkas, LIMIT, &mut out).err(), error.err());
}

/// As some clients wrote it, without Java's framing.
#[test]
fn raw_snappy_is_read() {
    let raw = snap::raw::Encoder::new().compress_vec(&message(1, 0).to_bytes()).unwrap();
    let wrapper = Message { attributes: Codec::Snappy.number(), value: Some(raw), ..message(1, 33) };
    assert_eq!(read(&wrapper.to_bytes()).unwrap()[0].offset, 33);
}

/// A few KB that unpack to far more than is allowed.
#[test]
fn a_wrapper_is_held_to_the_limit() {
    let zeros = Message { value: Some(vec![0; 8 << 20]), ..message(1, 0) };
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
        let bomb = Wrapper::of(1, codec).around(std::slice::from_ref(&zeros));
        let (header, range) = Batches::new(&bomb).next().unwrap().unwrap();
        let (limit, mut out) = (1 << 20, Vec::new());
        let found = Decoder::new().unpack(&header, &bomb[range], limit, &mut out);
        assert_eq!(found, Err(RecordError::TooLarge { limit }), "{codec}");
        assert_eq!(out.capacity(), 0);
    }
}

#[test]
fn less_than_the_header_says_is_an_error() {
    for name in names() {
        let bytes = golden(&name);
        let (header, range) = Batches::new(&bytes).next().unwrap().unwrap();
        let batch = &bytes[range];
        let mut decoder = Decoder::new();
        for cut in (0..batch.len()).step_by(batch.len().div_ceil(200)) {
            header.check_crc(&batch[..cut]).unwrap_err();
            decoder.unpack(&header, &batch[..cut], LIMIT, &mut Vec::new()).unwrap_err();
        }
    }
}

/// What is outlined of one and unpacked of another, as after a fault of the caller.
#[test]
fn a_header_of_other_bytes_does_not_panic() {
    let all: Vec<_> = names().iter().map(|name| golden(name)).collect();
    let outlined: Vec<BatchHeader> =
        all.iter().map(|bytes| Batches::new(bytes).next().unwrap().unwrap().0).collect();
    let mut decoder = Decoder::new();
    let mut wrong = 0;
    for header in &outlined {
        for bytes in &all {
            wrong += usize::from(decoder.unpack(header, bytes, LIMIT, &mut Vec::new()).is_err());
        }
    }
    assert!(wrong > all.len());
}
