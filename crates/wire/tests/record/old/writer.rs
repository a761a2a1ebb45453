//! Writes what nobody writes any more.

use std::io::Write;
use std::ops::Range;

use lz4_flex::frame::{BlockMode, FrameEncoder, FrameInfo};
use ottla_wire::record::{Codec, TimestampType};

use crate::Owned;

/// A message as it is written, whatever its fields are.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) magic: u8,
    pub(super) attributes: u8,
    pub(super) offset: i64,
    /// Format 0 has none.
    pub(super) timestamp: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
}

pub(super) const APPEND: u8 = 8;
const CRC: Range<usize> = 12..16;

impl Message {
    pub(super) fn new(magic: u8, record: &Owned) -> Self {
        Self {
            magic,
            attributes: if record.timestamp_type == TimestampType::Append { APPEND } else { 0 },
            offset: record.offset,
            timestamp: record.timestamp,
            key: record.key.clone(),
            value: record.value.clone(),
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.offset.to_be_bytes().to_vec();
        bytes.extend([0; 8]); // length and CRC
        bytes.extend([self.magic, self.attributes]);
        if self.magic > 0 {
            bytes.extend(self.timestamp.to_be_bytes());
        }
        for field in [&self.key, &self.value] {
            let len = field.as_ref().map_or(-1, |field| field.len() as i32);
            bytes.extend(len.to_be_bytes());
            bytes.extend(field.iter().flatten());
        }
        let length = bytes.len() as i32 - 12;
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        set_crc(&mut bytes);
        bytes
    }
}

/// Makes the CRC of the message that `bytes` are right.
pub(super) fn set_crc(bytes: &mut [u8]) {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, &bytes[CRC.end..]) as u32;
    bytes[CRC].copy_from_slice(&crc.to_be_bytes());
}

/// A wrapper.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wrapper {
    pub(super) magic: u8,
    pub(super) codec: Codec,
    /// Format 1 counts from the first one inside; otherwise offsets stay as they are, as the first 0.10 did not do.
    pub(super) relative: bool,
    pub(super) append_time: Option<i64>,
}

impl Wrapper {
    /// The wrapper of a magic and a codec, as Kafka would write it.
    pub(super) fn of(magic: u8, codec: Codec) -> Self {
        Self { magic, codec, relative: magic == 1, append_time: None }
    }

    /// What holds `messages`, which have the offsets that they are to have.
    pub(super) fn around(&self, messages: &[Message]) -> Vec<u8> {
        let base = if self.relative { messages[0].offset } else { 0 };
        let inside =
            messages.iter().map(|message| Message { offset: message.offset - base, ..message.clone() });
        let set: Vec<u8> = inside.flat_map(|message| message.to_bytes()).collect();
        let offset = messages[messages.len() - 1].offset;
        let latest = messages.iter().map(|message| message.timestamp).max().unwrap();
        self.around_bytes(offset, latest, &set)
    }

    /// What holds these bytes.
    pub(super) fn around_bytes(&self, offset: i64, latest: i64, set: &[u8]) -> Vec<u8> {
        let append = if self.append_time.is_some() { APPEND } else { 0 };
        let wrapper = Message {
            magic: self.magic,
            attributes: self.codec.number() | append,
            offset,
            timestamp: self.append_time.unwrap_or(latest),
            key: None,
            value: Some(pack(self.codec, self.magic, set)),
        };
        wrapper.to_bytes()
    }
}

/// Packs as clients did.
pub(super) fn pack(codec: Codec, magic: u8, set: &[u8]) -> Vec<u8> {
    match codec {
        Codec::Gzip => crate::codecs::gzip(set),
        Codec::Snappy => crate::codecs::xerial(&set.chunks(32 * 1024).collect::<Vec<_>>()),
        Codec::Lz4 => {
            let mut frame = lz4(set);
            if magic == 0 {
                frame[HEADER_CHECKSUM] = kafkas_header_checksum(&frame);
            }
            frame
        }
        other => panic!("{other} came later"),
    }
}

pub(super) fn lz4(set: &[u8]) -> Vec<u8> {
    let info = FrameInfo::new().block_mode(BlockMode::Independent);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(set).unwrap();
    encoder.finish().unwrap()
}

/// Where a frame without its content's size has the checksum of its header.
pub(super) const HEADER_CHECKSUM: usize = 6;

/// Kafka began to count at the frame's first byte, four bytes too early.
pub(super) fn kafkas_header_checksum(frame: &[u8]) -> u8 {
    use std::hash::Hasher;
    let mut hasher = twox_hash::XxHash32::with_seed(0);
    hasher.write(&frame[..HEADER_CHECKSUM]);
    (hasher.finish() >> 8) as u8
}
