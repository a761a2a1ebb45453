//! Zigzag varints, as records use them: most take one or two bytes, so those are decided without a loop.

use super::RecordError;

/// Bytes of the longest varint.
const MAX_SIZE: usize = 10;

/// Reads a varint that has to fit 32 bits and moves `at` behind it. `None` if the bytes end inside it or it does not fit.
#[inline(always)]
pub(super) fn read_i32(bytes: &[u8], at: &mut usize) -> Option<i32> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(unzigzag_32(u32::from(first)));
    }
    let second = *bytes.get(*at + 1)?;
    if second < 0x80 {
        *at += 2;
        return Some(unzigzag_32(u32::from(first & 0x7f) | u32::from(second) << 7));
    }
    let raw = u32::try_from(read_long(bytes, at)?).ok()?;
    Some(unzigzag_32(raw))
}

/// Reads a varint of up to 64 bits and moves `at` behind it. `None` if the bytes end inside it or it does not fit.
#[inline(always)]
pub(super) fn read_i64(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(unzigzag_64(u64::from(first)));
    }
    let second = *bytes.get(*at + 1)?;
    if second < 0x80 {
        *at += 2;
        return Some(unzigzag_64(u64::from(first & 0x7f) | u64::from(second) << 7));
    }
    Some(unzigzag_64(read_long(bytes, at)?))
}

/// Why nothing could be read at byte `at`: the bytes end inside the varint, or it is too large.
#[cold]
pub(super) fn fault(bytes: &[u8], at: usize, what: &'static str) -> RecordError {
    let rest = bytes.get(at..).unwrap_or_default();
    let left = rest.len();
    if left < MAX_SIZE && rest.iter().all(|&byte| byte >= 0x80) {
        return RecordError::Truncated { what, at, wanted: left + 1, left };
    }
    RecordError::Varint { what, at }
}

/// Appends `value` as a varint.
pub(super) fn write(out: &mut Vec<u8>, value: i64) {
    let mut raw = zigzag(value);
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// The bytes that [`write`] appends.
pub(super) fn size(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[cold]
#[inline(never)]
fn read_long(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut raw = 0;
    for (index, &byte) in bytes.get(*at..)?.iter().take(MAX_SIZE).enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << (7 * index);
        if shifted >> (7 * index) != bits {
            return None;
        }
        raw |= shifted;
        if byte < 0x80 {
            *at += index + 1;
            return Some(raw);
        }
    }
    None
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline(always)]
fn unzigzag_32(raw: u32) -> i32 {
    (raw >> 1) as i32 ^ -((raw & 1) as i32)
}

#[inline(always)]
fn unzigzag_64(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_comes_back() {
        for shift in 0..64 {
            for value in [1_i64 << shift, (1_i64 << shift).wrapping_sub(1), (-1_i64) << shift] {
                let mut out = Vec::new();
                write(&mut out, value);
                assert_eq!(out.len(), size(value));
                let mut at = 0;
                assert_eq!(read_i64(&out, &mut at), Some(value));
                assert_eq!(at, out.len());
                let mut at = 0;
                assert_eq!(read_i32(&out, &mut at), i32::try_from(value).ok());
            }
        }
    }

    #[test]
    fn what_does_not_end_or_fit_is_nothing() {
        assert_eq!(read_i32(&[], &mut 0), None);
        assert_eq!(read_i32(&[0x80], &mut 0), None);
        assert_eq!(read_i32(&[0xff, 0xff, 0xff, 0xff, 0x1f], &mut 0), None);
        assert_eq!(read_i64(&[0xff; 9], &mut 0), None);
        assert_eq!(read_i64(&[0xff; 11], &mut 0), None);
        assert_eq!(read_i64(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &mut 0), None);
    }
}
