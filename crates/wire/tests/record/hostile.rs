//! Bytes that nobody should write: each fault is named with its place, and nothing panics or goes on for ever.

use ottla_wire::record::{
    BatchBuilder, BatchHeader, Batches, Codec, Control, Decoder, RecordError, Records, Span, set_append_time,
    set_base_offset, set_leader_epoch,
};

use crate::golden::{golden, names};
use crate::{LIMIT, read, read_one, records, set_crc};

fn plain() -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    builder.push(1000, Some(b"key"), Some(b"value"), &[("name", Some(b"x"))]);
    builder.push(1001, None, Some(b""), &[]);
    builder.build().unwrap()
}

fn parsed(batch: &[u8]) -> BatchHeader {
    BatchHeader::parse(batch).unwrap()
}

/// The error of the first batch of `bytes`.
fn outline(bytes: &[u8]) -> Option<RecordError> {
    let mut batches = Batches::new(bytes);
    let error = batches.next().and_then(Result::err);
    if error.is_some() {
        assert!(batches.next().is_none(), "nothing can be found behind a broken header");
        assert_eq!(batches.tail(), bytes.len());
    }
    error
}

/// The last of what `Records` says, and how many records came before it.
fn walk(header: &BatchHeader, records: &[u8]) -> (usize, Option<RecordError>) {
    let mut walk = Records::new(header, records);
    let good = walk.by_ref().take_while(Result::is_ok).count();
    assert!(walk.next().is_none(), "nothing comes behind an error or the end");
    (good, Records::new(header, records).find_map(Result::err))
}

#[test]
fn cut_anywhere_a_batch_is_a_tail() {
    for name in names() {
        let bytes = golden(&name);
        let (header, first) = Batches::new(&bytes).next().unwrap().unwrap();
        let step = first.len().div_ceil(500);
        for cut in (0..first.len()).step_by(step) {
            let mut batches = Batches::new(&bytes[..cut]);
            assert_eq!(batches.next(), None, "{name} at {cut}");
            assert_eq!(batches.tail(), cut);
            assert!(header.check_crc(&bytes[..cut]).is_err());
        }
    }
}

/// The records of a batch, cut at every byte, end with an error and not before.
#[test]
fn cut_anywhere_records_end_with_an_error() {
    let batch = plain();
    let header = parsed(&batch);
    let records = &batch[BatchHeader::SIZE..];
    assert_eq!(walk(&header, records), (2, None));
    let second = Span::parse(records, 0).unwrap().next();
    for cut in 0..records.len() {
        let (good, error) = walk(&header, &records[..cut]);
        assert_eq!(good, usize::from(cut >= second), "{cut}");
        let error = error.unwrap();
        assert!(matches!(error, RecordError::Truncated { .. }), "{cut}: {error}");
    }
}

/// Compressed data cut at every byte is an error in every codec, or ends where nothing but its end is missing.
#[test]
fn cut_anywhere_compressed_data_does_not_panic() {
    let mut decoder = Decoder::new();
    let mut out = Vec::new();
    for name in names() {
        let bytes = golden(&name);
        for found in Batches::new(&bytes) {
            let (header, range) = found.unwrap();
            let codec = header.codec().unwrap();
            let packed = &bytes[range][BatchHeader::SIZE..];
            if packed.is_empty() || codec == Codec::None {
                continue;
            }
            let step = packed.len().div_ceil(50);
            for cut in (1..packed.len()).step_by(step) {
                if decoder.decode(codec, &packed[..cut], LIMIT, &mut out).is_ok() {
                    // Snappy's framing has no end, so a row of whole chunks is whole.
                    assert_eq!(codec, Codec::Snappy, "{name} cut at {cut}");
                    assert!(walk(&header, &out).1.is_some(), "{name} cut at {cut}");
                }
            }
        }
    }
}

/// Behind a right CRC: every byte of every golden batch, flipped.
#[test]
fn a_flipped_byte_does_not_panic() {
    let mut read_anyway = 0;
    for name in names() {
        let bytes = golden(&name);
        let step = bytes.len().div_ceil(if bytes.len() < 10_000 { 60 } else { 10 });
        for at in (0..bytes.len()).step_by(step) {
            for mask in [0x01, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= mask;
                let whole: Vec<_> =
                    Batches::new(&bytes).filter_map(Result::ok).map(|(_, range)| range).collect();
                for range in whole {
                    set_crc(&mut bytes[range]);
                }
                read_anyway += usize::from(read(&bytes, LIMIT).is_ok());
            }
        }
    }
    assert!(read_anyway > 100, "the CRCs were set right: a flipped value is a value");
}

#[test]
fn a_header_that_cannot_be_is_an_error() {
    let batch = plain();
    let with = |change: fn(&mut BatchHeader)| {
        let mut header = parsed(&batch);
        change(&mut header);
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend_from_slice(&batch[BatchHeader::SIZE..]);
        bytes.resize(1000, 0);
        let error = outline(&bytes);
        assert_eq!(BatchHeader::parse(&bytes).err(), error);
        error
    };
    let length = |length| Some(RecordError::BatchLength { length, at: 0 });
    assert_eq!(with(|_| ()), None);
    assert_eq!(with(|header| header.length = -1), length(-1));
    assert_eq!(with(|header| header.length = i32::MIN), length(i32::MIN));
    assert_eq!(with(|header| header.length = 0), length(0));
    assert_eq!(with(|header| header.length = 48), length(48));
    assert_eq!(with(|header| header.magic = 3), Some(RecordError::UnknownMagic { magic: 3, at: 0 }));
    assert_eq!(with(|header| header.magic = -1), Some(RecordError::UnknownMagic { magic: -1, at: 0 }));
    let offsets =
        |base_offset, last_offset_delta| Some(RecordError::BatchOffsets { base_offset, last_offset_delta });
    assert_eq!(with(|header| header.base_offset = -1), offsets(-1, 1));
    assert_eq!(with(|header| header.base_offset = i64::MIN), offsets(i64::MIN, 1));
    assert_eq!(with(|header| header.last_offset_delta = -1), offsets(0, -1));
    assert_eq!(with(|header| header.base_offset = i64::MAX), offsets(i64::MAX, 1));
    assert_eq!(with(|header| header.base_offset = i64::MAX - 1), offsets(i64::MAX - 1, 1));
    assert_eq!(with(|header| header.base_offset = i64::MAX - 2), None);
    let count = |count| Some(RecordError::Count { base_offset: 0, count, room: 2 });
    assert_eq!(with(|header| header.count = -1), count(-1));
    assert_eq!(with(|header| header.count = 3), count(3));
    assert_eq!(with(|header| header.count = i32::MAX), count(i32::MAX));
}

#[test]
fn an_error_says_where_its_batch_begins() {
    let good = plain();
    let mut bad = good.clone();
    bad[16] = 9;
    let both = [&good[..], &bad].concat();
    let errors: Vec<_> = Batches::new(&both).filter_map(Result::err).collect();
    assert_eq!(errors, [RecordError::UnknownMagic { magic: 9, at: good.len() }]);
}

/// Their messages are outlined, but do not begin with such a header.
#[test]
fn old_formats_have_no_header() {
    for magic in [0, 1] {
        let mut bytes = plain();
        bytes[16] = magic;
        let error = RecordError::OldFormat { magic: magic as i8, at: 0 };
        assert_eq!(BatchHeader::parse(&bytes), Err(error));
    }
}

#[test]
fn an_unknown_codec_is_told_when_asked_for() {
    let mut batch = plain();
    batch[22] |= 6;
    set_crc(&mut batch);
    let (header, _) = Batches::new(&batch).next().unwrap().unwrap();
    assert_eq!(header.codec(), Err(RecordError::UnknownCodec { number: 6 }));
    assert_eq!(header.next_offset(), 2);
}

#[test]
fn a_wrong_crc_says_both() {
    let mut batch = plain();
    let header = parsed(&batch);
    batch[70] ^= 1;
    let error = header.check_crc(&batch).unwrap_err();
    assert!(
        matches!(error, RecordError::Crc { base_offset: 0, stored, computed } if stored == header.crc && computed != stored)
    );
}

/// The bytes of one record of these fields, each as it is given.
fn record(fields: &[&[u8]]) -> Vec<u8> {
    let body = fields.concat();
    let mut bytes = varint(body.len() as i64);
    bytes.extend(body);
    bytes
}

fn varint(value: i64) -> Vec<u8> {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    let mut bytes = Vec::new();
    while raw >= 0x80 {
        bytes.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    bytes.push(raw as u8);
    bytes
}

fn fault(bytes: &[u8]) -> RecordError {
    Span::parse(bytes, 0).unwrap_err()
}

#[test]
fn a_record_that_cannot_be_says_why() {
    let none = &varint(-1)[..];
    let zero = &[0][..];
    let start = &[0, 0, 0][..]; // attributes, timestamp delta, offset delta
    let good = record(&[start, none, none, zero]);
    let span = Span::parse(&good, 0).unwrap();
    assert_eq!((span.key_range(), span.value_range(), span.next()), (None, None, good.len()));

    let length = |what, at, found| RecordError::Length { what, at, found };
    assert_eq!(fault(&varint(-1)), length("record length", 0, -1));
    assert_eq!(fault(&varint(i64::from(i32::MIN))), length("record length", 0, i64::from(i32::MIN)));
    assert_eq!(fault(&varint(i64::from(i32::MAX) + 1)), RecordError::Varint { what: "record length", at: 0 });
    assert_eq!(fault(&[0xff; 20]), RecordError::Varint { what: "record length", at: 0 });
    assert_eq!(
        fault(&[0xff; 3]),
        RecordError::Truncated { what: "record length", at: 0, wanted: 4, left: 3 }
    );
    assert_eq!(fault(&[]), RecordError::Truncated { what: "record length", at: 0, wanted: 1, left: 0 });
    assert_eq!(
        Span::parse(&good, 99).unwrap_err(),
        RecordError::Truncated { what: "record length", at: 99, wanted: 1, left: 0 }
    );
    let huge = varint(i64::from(i32::MAX));
    let wanted = i32::MAX as usize;
    assert_eq!(fault(&huge), RecordError::Truncated { what: "record", at: 5, wanted, left: 0 });
    assert_eq!(
        fault(&[0, 1, 1]),
        RecordError::Truncated { what: "record attributes", at: 1, wanted: 1, left: 0 }
    );

    let long = &[0xff; 9][..];
    let too_long = &[&[0xff; 9][..], &[2]].concat()[..];
    assert_eq!(fault(&record(&[zero, too_long])), RecordError::Varint { what: "timestamp delta", at: 2 });
    assert!(matches!(fault(&record(&[zero, long])), RecordError::Truncated { what: "timestamp delta", .. }));
    assert_eq!(fault(&record(&[zero, zero, too_long])), RecordError::Varint { what: "offset delta", at: 3 });

    assert_eq!(fault(&record(&[start, &varint(-2), none, zero])), length("key length", 4, -2));
    assert_eq!(fault(&record(&[start, none, &varint(-2), zero])), length("value length", 5, -2));
    assert_eq!(
        fault(&record(&[start, &huge, none, zero])),
        RecordError::Truncated { what: "key", at: 9, wanted, left: 2 }
    );
    assert_eq!(
        fault(&record(&[start, none, &huge, zero])),
        RecordError::Truncated { what: "value", at: 10, wanted, left: 1 }
    );

    assert_eq!(fault(&record(&[start, none, none, &varint(-1)])), length("header count", 6, -1));
    assert_eq!(fault(&record(&[start, none, none, &varint(1)])), length("header count", 6, 1));
    assert_eq!(fault(&record(&[start, none, none, &huge])), length("header count", 6, i64::from(i32::MAX)));
    assert_eq!(
        fault(&record(&[start, none, none, zero, b"xy"])),
        RecordError::Leftover { what: "record", at: 7, left: 2 }
    );
}

#[test]
fn a_header_of_a_record_that_cannot_be_says_why() {
    let faults = |count: i64, headers: &[u8]| {
        let bytes = record(&[&[0, 0, 0, 1, 1], &varint(count), headers]);
        let mut found = Span::parse(&bytes, 0).unwrap().headers(&bytes);
        assert_eq!(found.len(), count as usize);
        let errors: Vec<_> = found.by_ref().filter_map(Result::err).collect();
        assert_eq!(found.len(), 0);
        errors
    };
    let length = |what, at, found| RecordError::Length { what, at, found };
    assert_eq!(faults(1, &[2, b'k', 2, b'v']), []);
    assert_eq!(faults(1, &[0, 1]), []);
    assert_eq!(faults(1, &[1, 1]), [length("header key length", 7, -1)]);
    assert_eq!(faults(1, &[3, 1]), [length("header key", 7, -2)]);
    assert_eq!(faults(1, &[0, 3]), [length("header value", 8, -2)]);
    assert_eq!(
        faults(1, &[8, b'k']),
        [RecordError::Truncated { what: "header key", at: 8, wanted: 4, left: 1 }]
    );
    assert_eq!(
        faults(1, &[0, 8]),
        [RecordError::Truncated { what: "header value", at: 9, wanted: 4, left: 0 }]
    );
    assert_eq!(
        faults(1, &[2, b'k']),
        [RecordError::Truncated { what: "header value", at: 9, wanted: 1, left: 0 }]
    );
    assert_eq!(faults(1, &[0, 1, 7, 7]), [RecordError::Leftover { what: "the last header", at: 9, left: 2 }]);
    assert_eq!(
        faults(2, &[0, 2, b'v', 0x80]),
        [RecordError::Truncated { what: "header key", at: 10, wanted: 2, left: 1 }]
    );
}

#[test]
fn header_keys_that_are_not_text_are_still_keys() {
    let bytes = record(&[&[0, 0, 0, 1, 1, 2], &[6, b'a', 0xff, b'b', 1]]);
    let header = Span::parse(&bytes, 0).unwrap().headers(&bytes).next().unwrap().unwrap();
    assert_eq!(header.key, b"a\xffb");
    assert_eq!(header.name(), "a\u{fffd}b");
}

#[test]
fn a_batch_is_held_to_its_number_of_records() {
    let batch = plain();
    let records = &batch[BatchHeader::SIZE..];
    let header = parsed(&batch);
    let second = Span::parse(records, 0).unwrap().next();
    let left = records.len() - second;
    let leftover = |at, left| Some(RecordError::Leftover { what: "the last record", at, left });
    assert_eq!(walk(&BatchHeader { count: 0, ..header }, records), (0, leftover(0, records.len())));
    assert_eq!(walk(&BatchHeader { count: 1, ..header }, records), (1, leftover(second, left)));
    let missing = RecordError::Truncated { what: "record length", at: records.len(), wanted: 1, left: 0 };
    let three = BatchHeader { count: 3, last_offset_delta: 5, ..header };
    assert_eq!(walk(&three, records), (2, Some(missing.clone())));
    // Fields that no parsed header has.
    assert_eq!(walk(&BatchHeader { count: i32::MAX, ..header }, records), (2, Some(missing)));
    assert_eq!(walk(&BatchHeader { count: -5, ..header }, &[]), (0, None));
}

#[test]
fn offsets_go_up_inside_the_batch() {
    let header = parsed(&plain());
    let of = |deltas: &[i64]| -> Vec<u8> {
        deltas.iter().flat_map(|&delta| record(&[&[0, 0], &varint(delta), &[1, 1, 0]])).collect()
    };
    let walk_of = |last_offset_delta, deltas: &[i64]| {
        let count = deltas.len() as i32;
        walk(&BatchHeader { count, last_offset_delta, ..header }, &of(deltas))
    };
    let misplaced = |at, found, wanted| Some(RecordError::Offset { at, found, wanted });
    assert_eq!(walk_of(9, &[0, 5, 9]), (3, None));
    assert_eq!(walk_of(9, &[0, 0]), (1, misplaced(7, 0, 1..=9)));
    assert_eq!(walk_of(9, &[3, 2]), (1, misplaced(7, 2, 4..=9)));
    assert_eq!(walk_of(9, &[-1]), (0, misplaced(0, -1, 0..=9)));
    assert_eq!(walk_of(9, &[10]), (0, misplaced(0, 10, 0..=9)));
    let max = i64::from(i32::MAX);
    assert_eq!(walk_of(i32::MAX, &[max]), (1, None));
    assert_eq!(walk_of(i32::MAX, &[max, max]).0, 1);
    assert_eq!(walk_of(i32::MAX, &[max, 0]).0, 1);
}

#[test]
fn the_highest_offsets_are_read() {
    let (batches, _) = read(&golden("high-offsets"), LIMIT).unwrap();
    assert_eq!(batches[0].header.next_offset(), i64::MAX);
    assert_eq!(batches[0].records[2].offset, i64::MAX - 1);
}

#[test]
fn timestamps_that_overflow_wrap() {
    let header = BatchHeader { base_timestamp: i64::MAX, count: 1, ..parsed(&plain()) };
    let record = record(&[&[0], &varint(1), &[0, 1, 1, 0]]);
    assert_eq!(records(&header, &record).unwrap()[0].timestamp, i64::MIN);
}

#[test]
fn what_is_not_one_batch_is_not_changed() {
    let good = plain();
    let mut longer = good.clone();
    longer.push(0);
    let mut old = good.clone();
    old[16] = 1;
    for bytes in [&good[..good.len() - 1], &good[..60], &[], &longer, &old] {
        let mut changed = bytes.to_vec();
        set_base_offset(&mut changed, 7).unwrap_err();
        set_leader_epoch(&mut changed, 7).unwrap_err();
        set_append_time(&mut changed, 7).unwrap_err();
        assert_eq!(changed, bytes);
    }
    let mut changed = good.clone();
    set_base_offset(&mut changed, -1).unwrap_err();
    set_base_offset(&mut changed, i64::MAX - 1).unwrap_err();
    assert_eq!(changed, good);
    set_base_offset(&mut changed, i64::MAX - 2).unwrap();
    assert_eq!(read_one(&changed).header.next_offset(), i64::MAX);
}

#[test]
fn what_does_not_fit_is_not_written() {
    let mut builder = BatchBuilder::new(Codec::None);
    builder.skip(u32::MAX).push(0, None, None, &[]);
    assert_eq!(builder.build(), Err(RecordError::DoesNotFit { what: "last offset" }));
    let mut builder = BatchBuilder::new(Codec::None);
    builder.base_offset(i64::MAX).push(0, None, None, &[]);
    assert!(matches!(builder.build(), Err(RecordError::BatchOffsets { .. })));
}

#[test]
fn a_control_key_is_read_or_refused() {
    assert_eq!(Control::parse(Some(&[0, 0, 0, 0])), Ok(Control::Abort));
    assert_eq!(Control::parse(Some(&[0, 9, 0, 1, 7])), Ok(Control::Commit));
    assert_eq!(Control::parse(Some(&Control::Other(5).key())), Ok(Control::Other(5)));
    let short = |left| Err(RecordError::Truncated { what: "control record key", at: 0, wanted: 4, left });
    assert_eq!(Control::parse(Some(&[0, 0, 0])), short(3));
    assert_eq!(Control::parse(None), short(0));
}
