//! For anything that can be written: it is read back, and what a broker changes in it is changed and nothing else.

use ottla_wire::record::{
    BatchBuilder, BatchHeader, Batches, Codec, RecordError, Span, TimestampType, set_append_time,
    set_base_offset, set_leader_epoch,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::{Batch, LIMIT, Owned, push, read, read_one};

/// A batch as it is to be read, with its bytes.
fn batch() -> impl Strategy<Value = (Vec<u8>, Vec<Owned>)> {
    (0..Codec::ALL.len()).prop_flat_map(|index| batch_in(Codec::ALL[index]))
}

fn batch_in(codec: Codec) -> impl Strategy<Value = (Vec<u8>, Vec<Owned>)> {
    let field = || option::of(prop_oneof![4 => vec(any::<u8>(), 0..20), 1 => vec(any::<u8>(), 0..5000)]);
    let header = (".{0,8}".prop_map(String::into_bytes), option::of(vec(any::<u8>(), 0..9)));
    let timestamp = prop_oneof![4 => 1_700_000_000_000..1_700_000_100_000_i64, 1 => any::<i64>()];
    let record = (0..3_u32, timestamp, field(), field(), vec(header, 0..4));
    let producer = (-1..i64::MAX, -1..i16::MAX, -1..i32::MAX);
    let base = prop_oneof![Just(0), 0..1_000_000_i64, Just(i64::MAX - 1000)];
    (base, any::<i32>(), producer, any::<[bool; 2]>(), option::of(any::<i64>()), vec(record, 0..40)).prop_map(
        move |(
            base,
            epoch,
            (id, producer_epoch, sequence),
            [transactional, control],
            append_time,
            records,
        )| {
            let mut builder = BatchBuilder::new(codec);
            builder.base_offset(base).leader_epoch(epoch).producer(id, producer_epoch, sequence);
            builder.transactional(transactional).control(control);
            if let Some(time) = append_time {
                builder.append_time(time);
            }
            let mut offset = base;
            let mut expected = Vec::new();
            for (gap, timestamp, key, value, headers) in records {
                builder.skip(gap);
                offset += i64::from(gap);
                let mut record =
                    Owned { offset, timestamp, timestamp_type: TimestampType::Create, key, value, headers };
                push(&mut builder, &record);
                if let Some(time) = append_time {
                    (record.timestamp, record.timestamp_type) = (time, TimestampType::Append);
                }
                expected.push(record);
                offset += 1;
            }
            (builder.build().unwrap(), expected)
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read((bytes, expected) in batch()) {
        let batch = read_one(&bytes);
        prop_assert_eq!(batch.header.size(), bytes.len());
        prop_assert_eq!(&batch.header.to_bytes()[..], &bytes[..BatchHeader::SIZE]);
        prop_assert_eq!(batch.records, expected);
    }

    #[test]
    fn batches_are_found_one_behind_another(parts in vec(batch(), 0..5), cut in any::<prop::sample::Index>()) {
        let bytes: Vec<u8> = parts.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let cut = cut.index(bytes.len() + 1);
        let (batches, tail) = read(&bytes[..cut], LIMIT).unwrap();
        let whole: usize = batches.iter().map(|batch| batch.header.size()).sum();
        prop_assert_eq!(whole + tail, cut);
        prop_assert!(parts.get(batches.len()).is_none_or(|(next, _)| tail < next.len()));
        for (batch, (_, expected)) in batches.iter().zip(&parts) {
            prop_assert_eq!(&batch.records, expected);
        }
    }

    #[test]
    fn a_broker_changes_what_it_says_and_nothing_else(
        (bytes, expected) in batch(),
        base in 0..i64::MAX / 2,
        epoch in any::<i32>(),
        time in any::<i64>(),
    ) {
        let before = read_one(&bytes);
        let mut bytes = bytes;
        set_base_offset(&mut bytes, base).unwrap();
        set_leader_epoch(&mut bytes, epoch).unwrap();
        let moved = read_one(&bytes);
        let shift = base - before.header.base_offset;
        let shifted = expected.iter().cloned().map(|record| Owned { offset: record.offset + shift, ..record });
        prop_assert_eq!(&moved.records, &shifted.collect::<Vec<_>>());
        prop_assert_eq!(moved.header, BatchHeader { base_offset: base, leader_epoch: epoch, ..before.header });

        set_append_time(&mut bytes, time).unwrap();
        let timed = read_one(&bytes);
        let Batch { header, records, .. } = moved;
        let kind = TimestampType::Append;
        let records = records.into_iter().map(|record| Owned { timestamp: time, timestamp_type: kind, ..record });
        prop_assert_eq!(&timed.records, &records.collect::<Vec<_>>());
        let (crc, attributes) = (timed.header.crc, header.attributes | 8);
        prop_assert_eq!(timed.header, BatchHeader { max_timestamp: time, crc, attributes, ..header });
    }

    #[test]
    fn no_changed_bit_goes_unnoticed((bytes, _) in batch(), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        // What the CRC does not cover is the offset, the length, the leader epoch, the magic.
        let mut bytes = bytes;
        let at = 17 + at.index(bytes.len() - 17);
        bytes[at] ^= 1 << bit;
        let header = BatchHeader::parse(&bytes);
        let noticed = header.and_then(|header| header.check_crc(&bytes));
        prop_assert!(noticed.is_err());
    }

    /// The CRC protects from chance, not from intent: behind a right one anything may stand.
    #[test]
    fn nothing_panics_whatever_stands_there(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Batches::new(&bytes).map(|found| found.map(|_| ())).collect::<Vec<_>>();
        let mut at = 0;
        while let Ok(span) = Span::parse(&bytes, at) {
            prop_assert!(span.next() > at && span.next() <= bytes.len());
            let (key, value) = (span.key(&bytes), span.value(&bytes));
            prop_assert!(key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) < span.next() - at);
            let headers = span.headers(&bytes);
            prop_assert!(headers.len() == span.header_count() && headers.len() <= bytes.len());
            prop_assert!(headers.count() <= span.header_count());
            at = span.next();
        }
    }

    #[test]
    fn a_span_never_looks_behind_its_record((bytes, _) in batch_in(Codec::None), more in vec(any::<u8>(), 0..20)) {
        let batch = read_one(&bytes);
        let records = &bytes[BatchHeader::SIZE..];
        let longer = [records, &more[..]].concat();
        let mut at = 0;
        for _ in 0..batch.header.count {
            let span = Span::parse(records, at).unwrap();
            prop_assert_eq!(&Span::parse(&longer, at), &Ok::<_, RecordError>(span));
            prop_assert_eq!(&Span::parse(&records[..span.next()], at), &Ok::<_, RecordError>(span));
            prop_assert!(Span::parse(&records[..span.next() - 1], at).is_err());
            at = span.next();
        }
    }
}
