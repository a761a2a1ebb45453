//! Record batches: against bytes that Kafka's own code wrote and reads, for all that can be written, and for bytes that
//! nobody should write.
#![allow(clippy::unwrap_used, reason = "a check may stop where it fails")]

mod codecs;
mod dump;
mod golden;
mod hostile;
mod java;
mod old;
mod properties;

use ottla_wire::record::{
    BatchBuilder, BatchHeader, Batches, Codec, Decoder, RecordError, Records, TimestampType,
};

/// Enough for every batch that is meant to be read.
const LIMIT: usize = 16 << 20;

/// A batch that was read, with all that is in it.
#[derive(Debug, Clone, PartialEq)]
struct Batch {
    header: BatchHeader,
    codec: Codec,
    records: Vec<Owned>,
}

/// A record with copies of all that it has.
#[derive(Debug, Clone, PartialEq)]
struct Owned {
    offset: i64,
    timestamp: i64,
    timestamp_type: TimestampType,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Everything in `bytes`, checked as a reader has to, and how many bytes are left of a cut batch.
fn read(bytes: &[u8], limit: usize) -> Result<(Vec<Batch>, usize), RecordError> {
    let mut batches = Batches::new(bytes);
    let mut decoder = Decoder::new();
    let mut buffer = Vec::new();
    let mut read = Vec::new();
    for found in &mut batches {
        let (header, range) = found?;
        let batch = &bytes[range];
        header.check_crc(batch)?;
        let codec = header.codec()?;
        decoder.decode(codec, &batch[BatchHeader::SIZE..], limit, &mut buffer)?;
        read.push(Batch { header, codec, records: records(&header, &buffer)? });
    }
    Ok((read, batches.tail()))
}

fn records(header: &BatchHeader, records: &[u8]) -> Result<Vec<Owned>, RecordError> {
    Records::new(header, records)
        .map(|record| {
            let record = record?;
            let headers = record.headers().map(|header| {
                let header = header?;
                Ok((header.key.to_vec(), header.value.map(<[u8]>::to_vec)))
            });
            Ok(Owned {
                offset: record.offset,
                timestamp: record.timestamp,
                timestamp_type: record.timestamp_type,
                key: record.key().map(<[u8]>::to_vec),
                value: record.value().map(<[u8]>::to_vec),
                headers: headers.collect::<Result<_, RecordError>>()?,
            })
        })
        .collect()
}

/// The one batch that `bytes` are.
fn read_one(bytes: &[u8]) -> Batch {
    let (mut batches, tail) = read(bytes, LIMIT).unwrap();
    assert_eq!((batches.len(), tail), (1, 0));
    batches.remove(0)
}

/// Adds a record that was read to a batch that is written.
fn push(builder: &mut BatchBuilder, record: &Owned) {
    let headers: Vec<_> =
        record.headers.iter().map(|(key, value)| (str::from_utf8(key).unwrap(), value.as_deref())).collect();
    builder.push(record.timestamp, record.key.as_deref(), record.value.as_deref(), &headers);
}

/// Makes the CRC of a batch right again.
fn set_crc(batch: &mut [u8]) {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &batch[21..]) as u32;
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}
