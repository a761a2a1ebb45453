//! The log of one partition: batches as they were produced, in memory.
//!
//! What is appended is visible at once: log end, high watermark and last stable offset are the same, since neither
//! replication nor transactions are imitated. There are no segments: a fetch reads across the whole log, where a real
//! broker stops at the end of a segment.

use crate::Refused;
use crate::epochs::Epochs;
use bytes::Bytes;
use ottla_wire::code::Code;
use ottla_wire::record::{BatchHeader, Codec, Decoder, Record, RecordError, Records, set_append_time};
use std::collections::VecDeque;

/// A log. Batches are in the order of their offsets, without overlap; there may be gaps between them.
#[derive(Debug, Default)]
pub(crate) struct Log {
    batches: VecDeque<Batch>,
    start: i64,
    end: i64,
    epochs: Epochs,
    /// Bytes appended in the log's life that were not truncated: where the next batch begins.
    tail: u64,
    /// The oldest batches go when there are more bytes than this.
    max_bytes: Option<u64>,
}

/// A batch. What the broker sets in it (first offset and leader epoch, which the CRC does not cover) stands in `head`,
/// so that the bytes of the producer's frame are neither copied nor changed.
#[derive(Debug)]
struct Batch {
    header: BatchHeader,
    head: [u8; BatchHeader::SIZE],
    body: Bytes,
    /// Bytes before it in the log's life.
    position: u64,
}

/// A record that a time or a maximum was looked up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) timestamp: i64,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
}

/// What a compressed batch may unpack to when its records are looked through.
const MAX_UNPACKED: usize = 1 << 30;

impl Log {
    pub(crate) fn new(max_bytes: Option<u64>) -> Self {
        Self { max_bytes, ..Self::default() }
    }

    /// The first offset that may be read.
    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    /// The offset that the next record gets.
    pub(crate) fn end(&self) -> i64 {
        self.end
    }

    /// The end of what a reader sees.
    pub(crate) fn high_watermark(&self) -> i64 {
        self.end
    }

    /// The end of what a reader sees who wants no open transactions.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.end
    }

    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.tail - self.batches.front().map_or(self.tail, |first| first.position)
    }

    /// Records carry `epoch` from the end on.
    pub(crate) fn begin_epoch(&mut self, epoch: i32) {
        self.epochs.assign(epoch, self.end);
    }

    /// Appends a batch as a leader does: it gets the next offset and the leader's epoch, and with `append_time` that
    /// time. Gives its first offset.
    pub(crate) fn append(
        &mut self,
        batch: Bytes,
        epoch: i32,
        append_time: Option<i64>,
    ) -> Result<i64, RecordError> {
        let batch = match append_time {
            Some(time) => stamped(&batch, time)?,
            None => batch,
        };
        let mut header = BatchHeader::parse(&batch)?;
        header.base_offset = self.end;
        header.leader_epoch = epoch;
        self.push(header, &batch);
        Ok(header.base_offset)
    }

    /// Appends a batch with the offsets and the epoch that stand in it, which may leave a gap, as compaction does.
    pub(crate) fn append_as_is(&mut self, batch: &Bytes) -> Result<(), Refused> {
        let header = BatchHeader::parse(batch)
            .map_err(|error| Refused::new(Code::CORRUPT_MESSAGE, error.to_string()))?;
        if header.base_offset < self.end {
            let message =
                format!("the batch begins at offset {}, the log ends at {}", header.base_offset, self.end);
            return Err(Refused::new(Code::INVALID_RECORD, message));
        }
        self.push(header, batch);
        Ok(())
    }

    fn push(&mut self, header: BatchHeader, batch: &Bytes) {
        let mut head = [0; BatchHeader::SIZE];
        head.copy_from_slice(&batch[..BatchHeader::SIZE]);
        head[..8].copy_from_slice(&header.base_offset.to_be_bytes());
        head[12..16].copy_from_slice(&header.leader_epoch.to_be_bytes());
        let body = batch.slice(BatchHeader::SIZE..header.size());
        if header.leader_epoch >= 0 {
            self.epochs.assign(header.leader_epoch, header.base_offset);
        }
        self.batches.push_back(Batch { header, head, body, position: self.tail });
        self.tail += header.size() as u64;
        self.end = header.next_offset();
        self.drop_oldest();
    }

    /// Keeps the log within its bytes; the newest batch always stays.
    fn drop_oldest(&mut self) {
        let Some(max_bytes) = self.max_bytes else { return };
        while self.bytes() > max_bytes && self.batches.len() > 1 {
            self.batches.pop_front();
            let start = self.batches.front().map_or(self.end, |first| first.header.base_offset);
            self.set_start(start);
        }
    }

    /// Removes the batches that reach to `end` or beyond, and ends the log there.
    pub(crate) fn truncate(&mut self, end: i64) {
        if end >= self.end {
            return;
        }
        while self.batches.back().is_some_and(|last| last.header.last_offset() >= end) {
            self.batches.pop_back();
        }
        self.tail = self.batches.back().map_or(0, |last| last.position + last.size() as u64);
        self.end = end;
        self.start = self.start.min(end);
        self.epochs.cut_end(end);
    }

    /// Moves the start up to `start`; the batch it falls into stays whole, as in a real log.
    ///
    /// # Errors
    /// `start` lies beyond the high watermark.
    pub(crate) fn delete_before(&mut self, start: i64) -> Result<(), Code> {
        if start < 0 || start > self.high_watermark() {
            return Err(Code::OFFSET_OUT_OF_RANGE);
        }
        if start <= self.start {
            return Ok(());
        }
        while self.batches.front().is_some_and(|first| first.header.last_offset() < start) {
            self.batches.pop_front();
        }
        self.set_start(start);
        Ok(())
    }

    fn set_start(&mut self, start: i64) {
        self.start = start;
        self.epochs.cut_start(start);
    }

    /// The batch to read from for `offset`: the first that does not end before it. `batches()` at the end of the log.
    ///
    /// # Errors
    /// The log does not reach there.
    pub(crate) fn find(&self, offset: i64) -> Result<usize, Code> {
        if offset < self.start || offset > self.end {
            return Err(Code::OFFSET_OUT_OF_RANGE);
        }
        Ok(self.batches.partition_point(|batch| batch.header.last_offset() < offset))
    }

    /// Bytes from batch `first` to the end of the log.
    pub(crate) fn bytes_from(&self, first: usize) -> u64 {
        self.batches.get(first).map_or(0, |batch| self.tail - batch.position)
    }

    /// Bytes of batch `index`; 0 at the end of the log.
    pub(crate) fn batch_size(&self, index: usize) -> usize {
        self.batches.get(index).map_or(0, Batch::size)
    }

    /// Appends to `out` the log from batch `first` on, `bytes` at most: cut at the byte.
    pub(crate) fn copy(&self, first: usize, bytes: usize, out: &mut Vec<u8>) {
        let mut left = bytes;
        for batch in self.batches.range(first.min(self.batches.len())..) {
            for part in [&batch.head[..], &batch.body[..]] {
                let taken = &part[..part.len().min(left)];
                out.extend_from_slice(taken);
                left -= taken.len();
            }
            if left == 0 {
                return;
            }
        }
    }

    /// The first record at or after the start of the log whose timestamp is not before `time`.
    pub(crate) fn by_time(&self, time: i64) -> Result<Option<Found>, RecordError> {
        let is_it = |record: &Record<'_>| record.offset >= self.start && record.timestamp >= time;
        self.first_record(|header| header.max_timestamp >= time, is_it)
    }

    /// The first record with the greatest timestamp, also one before the start, if its batch is still there.
    pub(crate) fn newest(&self) -> Result<Option<Found>, RecordError> {
        let Some(newest) = self.batches.iter().map(|batch| batch.header.max_timestamp).max() else {
            return Ok(None);
        };
        self.first_record(|header| header.max_timestamp == newest, |record| record.timestamp == newest)
    }

    fn first_record(
        &self,
        batch_may: impl Fn(&BatchHeader) -> bool,
        is_it: impl Fn(&Record<'_>) -> bool,
    ) -> Result<Option<Found>, RecordError> {
        let mut decoder = Decoder::new();
        let mut unpacked = Vec::new();
        for batch in self.batches.iter().filter(|batch| batch_may(&batch.header)) {
            for record in batch.records(&mut decoder, &mut unpacked)? {
                let record = record?;
                if is_it(&record) {
                    let leader_epoch = batch.header.leader_epoch;
                    let found = Found { timestamp: record.timestamp, offset: record.offset, leader_epoch };
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }
}

impl Batch {
    fn size(&self) -> usize {
        self.head.len() + self.body.len()
    }

    fn records<'a>(
        &'a self,
        decoder: &mut Decoder,
        unpacked: &'a mut Vec<u8>,
    ) -> Result<Records<'a>, RecordError> {
        let records = match self.header.codec()? {
            Codec::None => &self.body[..],
            codec => {
                decoder.decode(codec, &self.body, MAX_UNPACKED, unpacked)?;
                &unpacked[..]
            }
        };
        Ok(Records::new(&self.header, records))
    }
}

fn stamped(batch: &[u8], time: i64) -> Result<Bytes, RecordError> {
    let mut copy = batch.to_vec();
    set_append_time(&mut copy, time)?;
    Ok(copy.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::batch;
    use ottla_wire::record::Batches;

    /// Three batches: offsets 0-1 (times 100, 200), 2-4 (300, 250, 300), 5 (50).
    fn log() -> Log {
        let mut log = Log::new(None);
        for times in [&[100, 200][..], &[300, 250, 300], &[50]] {
            log.append(batch(Codec::Lz4, times), 7, None).unwrap();
        }
        log
    }

    fn read(log: &Log, offset: i64, bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        log.copy(log.find(offset).unwrap(), bytes, &mut out);
        out
    }

    #[test]
    fn offsets_and_epoch_are_set_and_the_crc_still_holds() {
        let bytes = read(&log(), 0, usize::MAX);
        let headers: Vec<_> = Batches::new(&bytes)
            .map(|batch| {
                let (header, range) = batch.unwrap();
                header.check_crc(&bytes[range]).unwrap();
                (header.base_offset, header.last_offset(), header.leader_epoch)
            })
            .collect();
        assert_eq!(headers, [(0, 1, 7), (2, 4, 7), (5, 5, 7)]);
    }

    #[test]
    fn reading_begins_with_the_batch_that_holds_the_offset() {
        let log = log();
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|offset| log.find(offset)), [0, 0, 1, 1, 1, 2, 3].map(Ok));
        assert_eq!([-1, 7].map(|offset| log.find(offset)), [Err(Code::OFFSET_OUT_OF_RANGE); 2]);
    }

    #[test]
    fn a_read_is_cut_at_the_byte() {
        let log = log();
        let whole = read(&log, 2, usize::MAX);
        assert_eq!(whole.len() as u64, log.bytes_from(1));
        for bytes in [0, 1, 60, 61, 62, log.batch_size(1), log.batch_size(1) + 5] {
            assert_eq!(read(&log, 2, bytes), &whole[..bytes]);
        }
    }

    #[test]
    fn times_are_looked_up_record_by_record() {
        let log = log();
        let offset = |time| log.by_time(time).unwrap().map(|found| (found.timestamp, found.offset));
        assert_eq!(offset(0), Some((100, 0)));
        assert_eq!(offset(101), Some((200, 1)));
        assert_eq!(offset(201), Some((300, 2)));
        assert_eq!(offset(301), None);
        assert_eq!(log.newest().unwrap().map(|found| (found.timestamp, found.offset)), Some((300, 2)));
        assert_eq!(Log::new(None).newest().unwrap(), None);
    }

    #[test]
    fn a_moved_start_hides_records_inside_a_batch() {
        let mut log = log();
        log.delete_before(3).unwrap();
        assert_eq!((log.start(), log.end()), (3, 6));
        assert_eq!(log.find(2), Err(Code::OFFSET_OUT_OF_RANGE));
        assert_eq!(log.find(3), Ok(0));
        assert_eq!(log.by_time(201).unwrap().map(|found| found.offset), Some(3));
        assert_eq!(log.delete_before(7), Err(Code::OFFSET_OUT_OF_RANGE));
        log.delete_before(1).unwrap();
        assert_eq!(log.start(), 3);
    }

    #[test]
    fn truncation_takes_whole_batches_and_the_next_append_goes_on_at_the_end() {
        let mut log = log();
        log.truncate(4);
        assert_eq!((log.end(), log.bytes()), (4, log.batch_size(0) as u64));
        assert_eq!(log.append(batch(Codec::None, &[1]), 8, None).unwrap(), 4);
        assert_eq!(log.find(3), Ok(1));
        assert_eq!(log.epochs().end_of(7, log.end()), Some((7, 4)));
    }

    #[test]
    fn the_oldest_batches_go_when_the_log_is_full() {
        let mut log = Log::new(Some(300));
        for _ in 0..10 {
            log.append(batch(Codec::None, &[1, 2]), 0, None).unwrap();
        }
        assert!(log.bytes() <= 300);
        assert!(log.start() > 0 && log.start() % 2 == 0);
        assert_eq!(log.end(), 20);
        assert_eq!(log.find(log.start()), Ok(0));
    }

    #[test]
    fn append_time_is_the_time_of_all_records() {
        let mut log = Log::new(None);
        log.append(batch(Codec::None, &[1, 2]), 0, Some(9_000)).unwrap();
        let bytes = read(&log, 0, usize::MAX);
        BatchHeader::parse(&bytes).unwrap().check_crc(&bytes).unwrap();
        assert_eq!(log.by_time(3).unwrap().map(|found| (found.timestamp, found.offset)), Some((9_000, 0)));
    }

    #[test]
    fn a_batch_may_be_put_where_it_says() {
        let mut log = log();
        let mut gap = batch(Codec::None, &[1]).to_vec();
        ottla_wire::record::set_base_offset(&mut gap, 20).unwrap();
        log.append_as_is(&gap.into()).unwrap();
        assert_eq!((log.end(), log.find(10)), (21, Ok(3)));
        let refused = log.append_as_is(&batch(Codec::None, &[1])).unwrap_err();
        assert_eq!(refused.code, Code::INVALID_RECORD);
    }
}
