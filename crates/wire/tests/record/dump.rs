//! What was read as text, line by line as `golden/Batches.java` prints it.

use std::fmt::Write;

use ottla_wire::record::RecordError;

use crate::{Batch, LIMIT, Owned, read};

/// A batch of more records than this tells its record lines as one field.
const RECORDS_SHOWN: usize = 100;
/// A longer field tells its length and CRC32C.
const FIELD_SHOWN: usize = 64;

pub(crate) fn dump(bytes: &[u8]) -> Result<String, RecordError> {
    let (batches, _) = read(bytes, LIMIT)?;
    let mut text = String::new();
    for batch in &batches {
        text += &batch_line(batch);
        let lines: String = batch.records.iter().map(record_line).collect();
        if batch.records.len() > RECORDS_SHOWN {
            writeln!(text, "records {}", field(Some(lines.as_bytes()))).unwrap();
        } else {
            text += &lines;
        }
    }
    Ok(text)
}

fn batch_line(batch: &Batch) -> String {
    let header = &batch.header;
    format!(
        "batch {}..={} size {} epoch {} codec {} time {}{}{} producer {} {} {} base {} max {} count {}\n",
        header.base_offset,
        header.last_offset(),
        header.size(),
        header.leader_epoch,
        batch.codec,
        header.timestamp_type(),
        if header.is_transactional() { " transactional" } else { "" },
        if header.is_control() { " control" } else { "" },
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.base_timestamp,
        header.max_timestamp,
        header.count,
    )
}

fn record_line(record: &Owned) -> String {
    let (key, value) = (field(record.key.as_deref()), field(record.value.as_deref()));
    let mut line = format!("record {} {} {key} {value}", record.offset, record.timestamp);
    for (key, value) in &record.headers {
        write!(line, " {}={}", field(Some(key)), field(value.as_deref())).unwrap();
    }
    line + "\n"
}

pub(crate) fn field(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "null".to_owned(),
        Some(bytes) if bytes.len() > FIELD_SHOWN => {
            let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes);
            format!("#{}:{crc:08x}", bytes.len())
        }
        Some(bytes) => bytes.iter().fold("x".to_owned(), |text, byte| text + &format!("{byte:02x}")),
    }
}
