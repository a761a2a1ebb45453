//! Reads what a fetch reply carries, as a reader does, whatever the CRCs say.

use ottla_wire::record::{
    BatchHeader, Batches, Control, Decoder, RecordError, Records, Span, set_append_time, set_base_offset,
    set_leader_epoch,
};

use crate::allocations::largest;
use crate::hunt::Outcome;

/// What a batch may unpack to.
const LIMIT: usize = 1 << 20;
/// Buffers double, and decoders have some of their own.
const BLOCK_MAX: usize = 2 * LIMIT + 256 * 1024;

const LENGTH_END: usize = 12;
const CRC: usize = 12;
const MAGIC: usize = 16;

/// With the same decoder and buffer for all cases, as in life.
#[derive(Default)]
pub(crate) struct Reader {
    decoder: Decoder,
    out: Vec<u8>,
}

impl Reader {
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Outcome {
        let (outcome, largest) = largest(|| self.read_all(bytes));
        assert!(largest <= BLOCK_MAX + 64 * bytes.len(), "a block of {largest} for {} bytes", bytes.len());
        outcome
    }

    /// Reads the set in a wrapper, whose format stands in front of it.
    pub(crate) fn read_wrapped(&mut self, case: &[u8]) -> Outcome {
        let Some((magic, set)) = case.split_first() else { return "short".into() };
        let mut set = set.to_vec();
        set_crcs(&mut set);
        self.read(&wrapper(magic & 1, &set))
    }

    fn read_all(&mut self, bytes: &[u8]) -> Outcome {
        let mut outcome = String::new();
        let mut batches = Batches::new(bytes);
        let mut end = 0;
        for found in batches.by_ref() {
            let read = found.and_then(|(header, range)| {
                assert_eq!((range.start, range.len()), (end, header.size()));
                end = range.end;
                self.read_batch(&header, &bytes[range])
            });
            outcome += &match read {
                Ok(records) => format!("{} records, ", if records > 1 { "many" } else { "few" }),
                Err(error) => format!("{error}, "),
            };
        }
        assert!(batches.next().is_none());
        assert_eq!(batches.tail(), bytes.len() - end);
        change(bytes);
        outcome
    }

    fn read_batch(&mut self, outlined: &BatchHeader, batch: &[u8]) -> Result<usize, RecordError> {
        assert!(outlined.base_offset >= 0 && outlined.last_offset() >= outlined.base_offset);
        assert!(outlined.next_offset() > outlined.last_offset());
        let _ = outlined.check_crc(batch);
        let header = self.decoder.unpack(outlined, batch, LIMIT, &mut self.out)?;
        assert_eq!((header.magic, header.next_offset()), (2, outlined.next_offset()));
        self.read_records(&header)
    }

    fn read_records(&self, header: &BatchHeader) -> Result<usize, RecordError> {
        let mut next = header.base_offset;
        let mut count = 0;
        for record in Records::new(header, &self.out) {
            let record = record?;
            assert!(record.offset >= next && record.offset <= header.last_offset());
            next = record.offset + 1;
            count += 1;
            let _ = (record.value(), Control::parse(record.key()));
            for header in record.headers() {
                header?.name();
            }
            detached(&record.span(), &self.out);
        }
        assert_eq!(count, header.count);
        Ok(count as usize)
    }
}

/// What is copied out of a reply is the same.
fn detached(span: &Span, records: &[u8]) {
    let (range, alone) = span.detached();
    let copy = &records[range];
    assert_eq!((alone.key(copy), alone.value(copy)), (span.key(records), span.value(records)));
    assert_eq!(alone.header_count(), span.header_count());
}

/// What a broker changes.
fn change(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let _ = set_base_offset(&mut bytes, 1 << 40);
    let _ = set_leader_epoch(&mut bytes, 7);
    if set_append_time(&mut bytes, 1000).is_ok() {
        BatchHeader::parse(&bytes).unwrap().check_crc(&bytes).unwrap();
    }
}

/// Makes a length fit: that of the last message or batch, as far as those before it can be walked.
pub(crate) fn mend(bytes: &mut [u8]) {
    let mut at = 0;
    loop {
        let left = bytes.len() - at;
        let Some(length) = bytes.get(at + 8..at + LENGTH_END) else { return };
        let length = i32::from_be_bytes(length.try_into().unwrap());
        match usize::try_from(length) {
            Ok(length) if LENGTH_END + length < left => at += LENGTH_END + length,
            _ => break,
        }
    }
    let length = (bytes.len() - at - LENGTH_END) as i32;
    bytes[at + 8..at + LENGTH_END].copy_from_slice(&length.to_be_bytes());
}

/// Makes the CRCs of a set's messages right, as far as they can be walked.
fn set_crcs(set: &mut [u8]) {
    let mut rest = set;
    while let Some(length) = rest.get(8..LENGTH_END) {
        let length = i32::from_be_bytes(length.try_into().unwrap());
        let size = LENGTH_END.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        if size < MAGIC || size > rest.len() {
            return;
        }
        let (message, after) = rest.split_at_mut(size);
        set_crc(message);
        rest = after;
    }
}

fn set_crc(message: &mut [u8]) {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, &message[MAGIC..]) as u32;
    message[CRC..MAGIC].copy_from_slice(&crc.to_be_bytes());
}

/// A wrapper around a set, in Snappy, which takes the least time.
fn wrapper(magic: u8, set: &[u8]) -> Vec<u8> {
    const SNAPPY: u8 = 2;
    const OFFSET: i64 = 1 << 30;
    let packed = snap::raw::Encoder::new().compress_vec(set).unwrap();
    let mut bytes = OFFSET.to_be_bytes().to_vec();
    bytes.extend([0; 8]);
    bytes.extend([magic, SNAPPY]);
    if magic == 1 {
        bytes.extend(1_700_000_000_000_i64.to_be_bytes());
    }
    bytes.extend((-1_i32).to_be_bytes());
    bytes.extend((packed.len() as i32).to_be_bytes());
    bytes.extend(packed);
    let length = (bytes.len() - LENGTH_END) as i32;
    bytes[8..LENGTH_END].copy_from_slice(&length.to_be_bytes());
    set_crc(&mut bytes);
    bytes
}
