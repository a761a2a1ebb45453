//! Against `golden/old/`: message sets that Kafka 2.8.2's own code wrote, each with what that code reads in it. How to
//! write them anew stands in `golden/old/Sets.java`.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use ottla_wire::record::{Batches, RecordError};

use super::read;
use super::writer::Message;
use crate::Owned;
use crate::dump::field;

const CASES: usize = 33;
/// A set of more records than this tells its lines as one field.
const RECORDS_SHOWN: usize = 100;

fn directory() -> PathBuf {
    crate::golden::directory().join("old")
}

/// The names of all cases.
pub(super) fn names() -> Vec<String> {
    let files = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let cases = files.filter(|path| path.extension().is_some_and(|extension| extension == "bin"));
    let names: Vec<_> = cases.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(names.len(), CASES, "{names:?}");
    names
}

pub(super) fn golden(name: &str) -> Vec<u8> {
    fs::read(directory().join(name).with_extension("bin")).unwrap()
}

#[test]
fn what_kafka_wrote_reads_as_kafka_reads_it() {
    for name in names() {
        let expected = fs::read_to_string(directory().join(&name).with_extension("txt")).unwrap();
        let read = dump(&golden(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read == expected, "{name}:\n{read}instead of\n{expected}");
    }
}

fn dump(bytes: &[u8]) -> Result<String, RecordError> {
    let records = read(bytes)?;
    let lines: String = records.iter().map(line).collect();
    Ok(if records.len() > RECORDS_SHOWN { field(Some(lines.as_bytes())) + "\n" } else { lines })
}

fn line(record: &Owned) -> String {
    assert!(record.headers.is_empty());
    let (key, value) = (field(record.key.as_deref()), field(record.value.as_deref()));
    let mut line = String::new();
    writeln!(line, "{} {} {} {key} {value}", record.offset, record.timestamp, record.timestamp_type).unwrap();
    line
}

/// So that what is tested with sets of our own making is tested with what Kafka would have made.
#[test]
fn what_is_not_compressed_is_written_as_kafka_writes_it() {
    for name in ["mixed-0-none", "mixed-1-none", "append-1-none", "gaps-0-none", "gaps-1-none"] {
        let bytes = golden(name);
        let magic = bytes[16];
        let messages = read(&bytes).unwrap().into_iter().map(|record| Message::new(magic, &record));
        assert!(messages.flat_map(|message| message.to_bytes()).collect::<Vec<u8>>() == bytes, "{name}");
    }
}

#[test]
fn a_cut_log_of_several_formats_ends_before_its_tail() {
    let bytes = golden("formats");
    let mut batches = Batches::new(&bytes);
    let formats: Vec<_> = batches.by_ref().map(|found| found.unwrap().0.magic).collect();
    assert_eq!(formats, [0, 0, 1, 1, 2, 2, 1]);
    assert_eq!(batches.tail(), 34 + 8 + 3 - 10 + 1 - 1);
    assert_eq!(read(&bytes).unwrap().last().unwrap().offset, 29);
}
