//! Which messages are outlined together.

use ottla_wire::record::{BatchHeader, Batches, Codec};

use super::read_batches;
use super::writer::{APPEND, Message, Wrapper};

const ROW_MAX: usize = 64 * 1024;

fn message(magic: u8, offset: i64) -> Message {
    let timestamp = if magic == 0 { -1 } else { 1_700_000_000_000 + offset };
    Message { magic, attributes: 0, offset, timestamp, key: None, value: Some(b"value".to_vec()) }
}

fn bytes(messages: &[Message]) -> Vec<u8> {
    messages.iter().flat_map(Message::to_bytes).collect()
}

fn outline(bytes: &[u8]) -> Vec<BatchHeader> {
    Batches::new(bytes).map(|found| found.unwrap().0).collect()
}

/// First and last offset of each batch, and how many messages it has.
fn rows(messages: &[Message]) -> Vec<(i64, i64, i32)> {
    let bytes = bytes(messages);
    let headers = outline(&bytes);
    let records: usize = read_batches(&bytes).unwrap().iter().map(|(_, records)| records.len()).sum();
    assert_eq!(records, messages.len());
    headers.iter().map(|header| (header.base_offset, header.last_offset(), header.count)).collect()
}

#[test]
fn a_row_has_one_header() {
    let messages: Vec<_> = [7, 8, 20].map(|offset| message(1, offset)).into();
    let bytes = bytes(&messages);
    let header = outline(&bytes)[0];
    let expected = BatchHeader {
        base_offset: 7,
        length: bytes.len() as i32 - 12,
        leader_epoch: -1,
        magic: 1,
        crc: u32::from_be_bytes(bytes[12..16].try_into().unwrap()),
        attributes: 0,
        last_offset_delta: 13,
        base_timestamp: 1_700_000_000_007,
        max_timestamp: 1_700_000_000_020,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        count: 3,
    };
    assert_eq!(header, expected);
    assert_eq!((header.size(), header.is_wrapper()), (bytes.len(), false));
    let (unpacked, _) = read_batches(&bytes).unwrap().remove(0);
    let records = unpacked.length;
    assert_eq!(unpacked, BatchHeader { magic: 2, length: records, ..expected });
}

#[test]
fn a_wrapper_has_the_offset_of_its_last_one() {
    for (magic, codec) in [(0, Codec::Snappy), (1, Codec::Lz4)] {
        let messages = [7, 8, 20].map(|offset| message(magic, offset));
        let bytes = Wrapper::of(magic, codec).around(&messages);
        let outlined = outline(&[&bytes[..], &bytes[..40]].concat());
        let [header] = outlined[..] else { panic!("{outlined:?}") };
        assert!(header.is_wrapper());
        assert_eq!((header.base_offset, header.last_offset_delta, header.count), (20, 0, 1));
        assert_eq!((header.codec(), header.size()), (Ok(codec), bytes.len()));
        let (header, records) = read_batches(&bytes).unwrap().remove(0);
        assert!(!header.is_wrapper());
        assert_eq!((header.base_offset, header.last_offset_delta, header.count), (7, 13, 3));
        assert_eq!((header.codec(), records.len()), (Ok(Codec::None), 3));
    }
}

#[test]
fn a_row_ends_where_one_header_does_not_fit() {
    let of = |magic, offsets: std::ops::Range<i64>| offsets.map(move |offset| message(magic, offset));
    // Another format.
    let formats: Vec<_> = of(0, 0..3).chain(of(1, 3..5)).chain(of(0, 5..6)).collect();
    assert_eq!(rows(&formats), [(0, 2, 3), (3, 4, 2), (5, 5, 1)]);
    // The broker's time instead of the producer's, and another one of those.
    let append = |offset, timestamp| Message { attributes: APPEND, timestamp, ..message(1, offset) };
    let times: Vec<_> = of(1, 0..2).chain([append(2, 5), append(3, 5), append(4, 6)]).collect();
    assert_eq!(rows(&times), [(0, 1, 2), (2, 3, 2), (4, 4, 1)]);
    // An offset that does not go up.
    let again: Vec<_> = of(1, 3..6).chain(of(1, 5..7)).collect();
    assert_eq!(rows(&again), [(3, 5, 3), (5, 6, 2)]);
    // One that is too far away.
    let far = i64::from(i32::MAX) + 3;
    let gap: Vec<_> = of(1, 3..4).chain(of(1, far..far + 2)).collect();
    assert_eq!(rows(&gap), [(3, far, 2), (far + 1, far + 1, 1)]);
}

#[test]
fn a_row_stays_small() {
    let size = message(0, 0).to_bytes().len();
    let messages: Vec<_> = (0..10_000).map(|offset| message(0, offset)).collect();
    let found = rows(&messages);
    let whole = (ROW_MAX / size) as i32;
    assert!(found.iter().rev().skip(1).all(|&(_, _, count)| count == whole), "{found:?}");
    // What is larger stands alone.
    let large = |offset| Message { value: Some(vec![b'x'; 2 * ROW_MAX]), ..message(0, offset) };
    let mixed = [message(0, 0), large(1), large(2), message(0, 3), message(0, 4)];
    assert_eq!(rows(&mixed), [(0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 4, 2)]);
}

/// In format 0 the bit of append time has no meaning yet.
#[test]
fn bits_without_meaning_are_ignored() {
    let odd = |magic, attributes| Message { attributes, ..message(magic, 4) };
    let bytes = bytes(&[message(0, 3), odd(0, 0xf8), message(0, 5)]);
    assert_eq!(outline(&bytes).len(), 1);
    let header = outline(&odd(1, 0xf0).to_bytes())[0];
    assert!(!header.is_control() && !header.is_transactional() && header.attributes == 0);
}
