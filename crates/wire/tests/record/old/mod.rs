//! Message sets of before Kafka 0.11 (formats 0 and 1): against what Java wrote, for all that can be written, and for
//! what nobody should write.

mod golden;
mod hostile;
mod properties;
mod rows;
mod writer;

use ottla_wire::record::{BatchHeader, Batches, Decoder, RecordError};

use crate::{LIMIT, Owned, records};

/// Every record of `bytes`, checked as a reader has to.
fn read(bytes: &[u8]) -> Result<Vec<Owned>, RecordError> {
    let batches = read_batches(bytes)?;
    Ok(batches.into_iter().flat_map(|(_, records)| records).collect())
}

/// Every batch with the header that its records go by.
fn read_batches(bytes: &[u8]) -> Result<Vec<(BatchHeader, Vec<Owned>)>, RecordError> {
    let mut decoder = Decoder::new();
    let mut buffer = Vec::new();
    let mut read = Vec::new();
    for found in Batches::new(bytes) {
        let (outlined, range) = found?;
        let batch = &bytes[range];
        outlined.check_crc(batch)?;
        let header = decoder.unpack(&outlined, batch, LIMIT, &mut buffer)?;
        assert_eq!(header.magic, 2);
        assert_eq!(header.next_offset(), outlined.next_offset());
        assert_eq!(header.timestamp_type(), outlined.timestamp_type());
        read.push((header, records(&header, &buffer)?));
    }
    Ok(read)
}
