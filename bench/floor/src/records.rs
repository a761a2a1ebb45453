//! Record batches of format 2 and the records in them.

const HEADER: usize = 61;

/// One whole batch: header and body.
pub struct Batch<'a>(&'a [u8]);

/// The whole batches of a record set; a cut one at the end is not among them.
pub fn batches(mut set: &[u8]) -> impl Iterator<Item = Batch<'_>> {
    std::iter::from_fn(move || {
        if set.len() < HEADER {
            return None;
        }
        // Offset and length come before what the length counts.
        let (batch, rest) = set.split_at_checked(12 + i32_at(set, 8) as usize)?;
        set = rest;
        Some(Batch(batch))
    })
}

impl<'a> Batch<'a> {
    pub fn next_offset(&self) -> i64 {
        i64_at(self.0, 0) + i64::from(i32_at(self.0, 23)) + 1
    }

    pub fn check_crc(&self) {
        let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &self.0[21..]);
        assert_eq!(crc as u32, i32_at(self.0, 17) as u32, "the CRC of a batch");
    }

    /// 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    pub fn codec(&self) -> i16 {
        i16_at(self.0, 21) & 7
    }

    pub fn count(&self) -> i32 {
        i32_at(self.0, 57)
    }

    pub fn body(&self) -> &'a [u8] {
        &self.0[HEADER..]
    }
}

/// Visits `count` records with the length of key and value together.
#[inline(always)]
pub fn walk(body: &[u8], count: i32, mut visit: impl FnMut(usize)) {
    let mut at = 0;
    for _ in 0..count {
        let length = varint(body, &mut at) as usize;
        let end = at + length;
        // Attributes, then the deltas of timestamp and offset.
        at += 1;
        varint(body, &mut at);
        varint(body, &mut at);
        let key = varint(body, &mut at).max(0) as usize;
        at += key;
        let value = varint(body, &mut at).max(0) as usize;
        at += value;
        let headers = varint(body, &mut at);
        debug_assert!(headers != 0 || at == end);
        visit(key + value);
        at = end;
    }
}

pub fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes(array_at(bytes, at))
}

pub fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(array_at(bytes, at))
}

pub fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(array_at(bytes, at))
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("as many bytes as the field has")
}

/// A zigzag varint.
#[inline(always)]
fn varint(bytes: &[u8], at: &mut usize) -> i64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (value >> 1) as i64 ^ -((value & 1) as i64);
        }
        shift += 7;
    }
}
