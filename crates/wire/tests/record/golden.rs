//! Against `golden/`: batches that Kafka 4.4.0's own code wrote, each with what that code reads in it. How to write
//! them anew stands in `golden/Batches.java`.

use std::fs;
use std::path::PathBuf;

use ottla_wire::record::{BatchBuilder, Batches, Codec, Control, TimestampType};

use crate::dump::dump;
use crate::{Batch, LIMIT, push, read};

pub(crate) fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/record/golden")
}

pub(crate) fn golden(name: &str) -> Vec<u8> {
    fs::read(directory().join(name).with_extension("bin")).unwrap()
}

/// The names of all cases.
pub(crate) fn names() -> Vec<String> {
    let files = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let cases = files.filter(|path| path.extension().is_some_and(|extension| extension == "bin"));
    let names: Vec<_> = cases.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert!(names.len() >= 21, "golden files are missing: {names:?}");
    names
}

#[test]
fn what_kafka_wrote_reads_as_kafka_reads_it() {
    for name in names() {
        let expected = fs::read_to_string(directory().join(&name).with_extension("txt")).unwrap();
        let read = dump(&golden(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read == expected, "{name}:\n{read}instead of\n{expected}");
    }
}

/// Byte for byte: the same records under the same header fields give the same batch.
#[test]
fn what_is_not_compressed_is_written_as_kafka_writes_it() {
    let mut seen = 0;
    for name in names() {
        let bytes = golden(&name);
        let (batches, _) = read(&bytes, LIMIT).unwrap();
        for (batch, found) in batches.iter().zip(Batches::new(&bytes)) {
            let (_, range) = found.unwrap();
            // What is lost in reading: the producer's times under append time, the latest time that an emptied batch had.
            let kept = batch.header.timestamp_type() == TimestampType::Create && !batch.records.is_empty();
            if batch.codec == Codec::None && kept {
                assert!(rewrite(batch).build().unwrap() == bytes[range], "{name}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 7);
}

#[test]
fn a_cut_reply_ends_before_its_tail() {
    let bytes = golden("cut");
    let (batches, tail) = read(&bytes, LIMIT).unwrap();
    assert_eq!(batches.len(), 1);
    assert_eq!(tail, bytes.len() - batches[0].header.size());
    assert_eq!(tail, 77);
}

#[test]
fn transactions_end_with_their_markers() {
    let (batches, _) = read(&golden("transaction"), LIMIT).unwrap();
    let marker = |batch: &Batch| {
        assert!(batch.header.is_control() && batch.header.is_transactional());
        let record = &batch.records[0];
        (Control::parse(record.key.as_deref()).unwrap(), record.value.clone().unwrap())
    };
    assert!(!batches[0].header.is_control() && batches[0].header.is_transactional());
    assert_eq!(marker(&batches[2]), (Control::Commit, Control::value(9).to_vec()));
    assert_eq!(marker(&batches[3]), (Control::Abort, Control::value(i32::MAX).to_vec()));
}

#[test]
fn reading_goes_on_behind_what_compaction_left() {
    let (batches, _) = read(&golden("emptied"), LIMIT).unwrap();
    let next: Vec<_> = batches.iter().map(|batch| batch.header.next_offset()).collect();
    assert_eq!(next, [20, 21, 22, 31]);
    let counts: Vec<_> = batches.iter().map(|batch| batch.records.len()).collect();
    assert_eq!(counts, [0, 0, 1, 0]);
}

/// The batch anew, by what was read of it.
pub(crate) fn rewrite(batch: &Batch) -> BatchBuilder {
    let header = &batch.header;
    let mut builder = BatchBuilder::new(batch.codec);
    builder
        .base_offset(header.base_offset)
        .leader_epoch(header.leader_epoch)
        .producer(header.producer_id, header.producer_epoch, header.base_sequence)
        .transactional(header.is_transactional())
        .control(header.is_control());
    if header.timestamp_type() == TimestampType::Append {
        builder.append_time(header.max_timestamp);
    }
    let mut next = header.base_offset;
    for record in &batch.records {
        builder.skip((record.offset - next) as u32);
        push(&mut builder, record);
        next = record.offset + 1;
    }
    builder.skip((header.next_offset() - next) as u32);
    builder
}
