//! What a broker changes in a batch that it takes in, in place.

use super::header::{APPEND_TIME_BIT, CRC, CRC_START, LEADER_EPOCH, MAX_TIMESTAMP, crc};
use super::{BatchHeader, RecordError};

/// Sets the first offset of `batch`. The CRC does not cover it.
///
/// # Errors
///
/// [`RecordError`] if `batch` is not one whole batch, or does not fit between that offset and the last there is; it is
/// unchanged then.
pub fn set_base_offset(batch: &mut [u8], base_offset: i64) -> Result<(), RecordError> {
    let header = whole(batch)?;
    BatchHeader { base_offset, ..header }.check(0)?;
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    Ok(())
}

/// Sets the leader epoch of `batch`. The CRC does not cover it.
///
/// # Errors
///
/// [`RecordError`] if `batch` is not one whole batch; it is unchanged then.
pub fn set_leader_epoch(batch: &mut [u8], leader_epoch: i32) -> Result<(), RecordError> {
    whole(batch)?;
    batch[LEADER_EPOCH..LEADER_EPOCH + 4].copy_from_slice(&leader_epoch.to_be_bytes());
    Ok(())
}

/// Makes `timestamp` the time of all records of `batch`, as a topic with `message.timestamp.type=LogAppendTime` does:
/// sets the attribute and the maximum timestamp, and the CRC anew.
///
/// # Errors
///
/// [`RecordError`] if `batch` is not one whole batch; it is unchanged then.
pub fn set_append_time(batch: &mut [u8], timestamp: i64) -> Result<(), RecordError> {
    let header = whole(batch)?;
    let attributes = header.attributes | APPEND_TIME_BIT;
    batch[CRC_START..CRC_START + 2].copy_from_slice(&attributes.to_be_bytes());
    batch[MAX_TIMESTAMP..MAX_TIMESTAMP + 8].copy_from_slice(&timestamp.to_be_bytes());
    let crc = crc(&batch[CRC_START..]);
    batch[CRC..CRC + 4].copy_from_slice(&crc.to_be_bytes());
    Ok(())
}

/// The header of `batch`, which is one batch and nothing else.
fn whole(batch: &[u8]) -> Result<BatchHeader, RecordError> {
    let header = BatchHeader::parse(batch)?;
    let size = header.size();
    if batch.len() < size {
        return Err(RecordError::Truncated { what: "batch", at: 0, wanted: size, left: batch.len() });
    }
    if batch.len() > size {
        return Err(RecordError::Leftover { what: "batch", at: size, left: batch.len() - size });
    }
    Ok(header)
}
