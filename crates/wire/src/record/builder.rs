use super::header::{APPEND_TIME_BIT, CONTROL_BIT, CRC, CRC_START, LENGTH_END, TRANSACTIONAL_BIT, crc};
use super::{BatchHeader, Codec, RecordError, codec, varint};

/// Writes a batch of format 2.
///
/// Records get the offsets 0, 1, 2, .. from the base offset. Where there have to be gaps, as after compaction, say so
/// with [`skip`](Self::skip).
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    codec: Codec,
    base_offset: i64,
    leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    transactional: bool,
    control: bool,
    append_time: Option<i64>,
    /// Timestamp of the first record and the latest one, if there is a record.
    times: Option<(i64, i64)>,
    count: usize,
    /// Offset delta of the next record.
    next_delta: usize,
    records: Vec<u8>,
}

impl BatchBuilder {
    /// An empty batch at offset 0, of no leader and no producer, with the producer's timestamps.
    pub fn new(codec: Codec) -> Self {
        Self {
            codec,
            base_offset: 0,
            leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
            control: false,
            append_time: None,
            times: None,
            count: 0,
            next_delta: 0,
            records: Vec::new(),
        }
    }

    /// Sets the first offset (default 0: the broker sets it in what is produced).
    pub fn base_offset(&mut self, base_offset: i64) -> &mut Self {
        self.base_offset = base_offset;
        self
    }

    /// Sets the leader epoch (default -1: the broker sets it in what is produced).
    pub fn leader_epoch(&mut self, leader_epoch: i32) -> &mut Self {
        self.leader_epoch = leader_epoch;
        self
    }

    /// Sets the idempotent or transactional producer, its epoch and the sequence number of the first record.
    pub fn producer(&mut self, id: i64, epoch: i16, base_sequence: i32) -> &mut Self {
        self.producer_id = id;
        self.producer_epoch = epoch;
        self.base_sequence = base_sequence;
        self
    }

    /// Says whether the records belong to a transaction (default no).
    pub fn transactional(&mut self, transactional: bool) -> &mut Self {
        self.transactional = transactional;
        self
    }

    /// Says whether the records are the broker's markers (default no), see [`Control`](super::Control).
    pub fn control(&mut self, control: bool) -> &mut Self {
        self.control = control;
        self
    }

    /// Gives all records the time at which the broker took them in, instead of the producer's.
    pub fn append_time(&mut self, timestamp: i64) -> &mut Self {
        self.append_time = Some(timestamp);
        self
    }

    /// Adds a record with its time in ms since 1970.
    pub fn push(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> &mut Self {
        let (base, max) = self.times.unwrap_or((timestamp, timestamp));
        self.times = Some((base, max.max(timestamp)));
        let timestamp_delta = timestamp.wrapping_sub(base);
        let offset_delta = self.next_delta as i64;
        write_record(&mut self.records, timestamp_delta, offset_delta, key, value, headers);
        self.count += 1;
        self.next_delta += 1;
        self
    }

    /// Leaves out the next `offsets` offsets, as compaction does. At the end of a batch they still count for its last
    /// offset.
    pub fn skip(&mut self, offsets: u32) -> &mut Self {
        self.next_delta += offsets as usize;
        self
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the batch before compression.
    pub fn bytes(&self) -> usize {
        BatchHeader::SIZE + self.records.len()
    }

    /// The batch. The builder keeps what it has, so the same can be written again or added to.
    ///
    /// # Errors
    ///
    /// [`RecordError::DoesNotFit`] for more bytes, records or offsets than the format has room for,
    /// [`RecordError::BatchOffsets`] for a base offset that is negative or leaves no room up to the last there is.
    pub fn build(&self) -> Result<Vec<u8>, RecordError> {
        fit(self.records.len(), "size of the records")?;
        let packed = if self.count == 0 { Vec::new() } else { codec::encode(self.codec, &self.records)? };
        let header = self.header(packed.len())?;
        let mut batch = Vec::with_capacity(header.size());
        batch.extend_from_slice(&header.to_bytes());
        batch.extend_from_slice(&packed);
        let crc = crc(&batch[CRC_START..]);
        batch[CRC..CRC_START].copy_from_slice(&crc.to_be_bytes());
        Ok(batch)
    }

    /// The header before records of `size` bytes, without the CRC.
    fn header(&self, size: usize) -> Result<BatchHeader, RecordError> {
        let (base_timestamp, latest) = self.times.unwrap_or((-1, -1));
        let header = BatchHeader {
            base_offset: self.base_offset,
            length: fit(BatchHeader::SIZE - LENGTH_END + size, "size of the batch")?,
            leader_epoch: self.leader_epoch,
            magic: 2,
            crc: 0,
            attributes: self.attributes(),
            last_offset_delta: fit(self.next_delta.saturating_sub(1), "last offset")?,
            base_timestamp,
            max_timestamp: self.append_time.unwrap_or(latest),
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            base_sequence: self.base_sequence,
            count: fit(self.count, "number of records")?,
        };
        header.check(0)?;
        Ok(header)
    }

    fn attributes(&self) -> i16 {
        let flag = |on: bool, bit: i16| if on { bit } else { 0 };
        i16::from(self.codec.number())
            | flag(self.append_time.is_some(), APPEND_TIME_BIT)
            | flag(self.transactional, TRANSACTIONAL_BIT)
            | flag(self.control, CONTROL_BIT)
    }
}

/// Appends a record to those of a batch.
pub(super) fn write_record(
    out: &mut Vec<u8>,
    timestamp_delta: i64,
    offset_delta: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[(&str, Option<&[u8]>)],
) {
    varint::write(out, record_size(timestamp_delta, offset_delta, key, value, headers) as i64);
    out.push(0); // attributes
    varint::write(out, timestamp_delta);
    varint::write(out, offset_delta);
    write_field(out, key);
    write_field(out, value);
    varint::write(out, headers.len() as i64);
    for (key, value) in headers {
        write_field(out, Some(key.as_bytes()));
        write_field(out, *value);
    }
}

fn record_size(
    timestamp_delta: i64,
    offset_delta: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[(&str, Option<&[u8]>)],
) -> usize {
    let headers_size: usize =
        headers.iter().map(|(key, value)| field_size(Some(key.as_bytes())) + field_size(*value)).sum();
    1 + varint::size(timestamp_delta)
        + varint::size(offset_delta)
        + field_size(key)
        + field_size(value)
        + varint::size(headers.len() as i64)
        + headers_size
}

fn field_size(field: Option<&[u8]>) -> usize {
    match field {
        None => varint::size(-1),
        Some(bytes) => varint::size(bytes.len() as i64) + bytes.len(),
    }
}

fn write_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => varint::write(out, -1),
        Some(bytes) => {
            varint::write(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
    }
}

/// A length or a count as the format has it.
pub(super) fn fit(value: usize, what: &'static str) -> Result<i32, RecordError> {
    i32::try_from(value).map_err(|_| RecordError::DoesNotFit { what })
}
