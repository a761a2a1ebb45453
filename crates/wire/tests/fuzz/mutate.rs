//! Changes bytes in the ways that break readers: wrong lengths, counts and offsets, bytes too many and too few.

use fastrand::Rng;

/// No case grows further.
const LEN_MAX: usize = 64 * 1024;
/// No piece that is moved is longer.
const PIECE_MAX: usize = 200;
/// Here the headers are.
const FRONT: usize = 80;

pub(crate) fn mutate(case: &mut Vec<u8>, pool: &[Vec<u8>], random: &mut Rng) {
    match random.u8(..9) {
        0 => flip(case, random),
        1 | 2 => number(case, random),
        3 => varint(case, random),
        4 => case.truncate(random.usize(..=case.len())),
        5 => drop(case.drain(piece(case, random))),
        6 => nudge(case, random),
        7 => insert(case, pool, random),
        _ => overwrite(case, pool, random),
    }
    case.truncate(LEN_MAX);
}

fn place(case: &[u8], random: &mut Rng) -> usize {
    let end = if random.bool() { case.len().min(FRONT) } else { case.len() };
    random.usize(..=end)
}

fn piece(case: &[u8], random: &mut Rng) -> std::ops::Range<usize> {
    let start = place(case, random);
    let most = if random.bool() { 8 } else { PIECE_MAX };
    start..random.usize(start..=case.len().min(start + most))
}

fn flip(case: &mut [u8], random: &mut Rng) {
    let at = place(case, random);
    if let Some(byte) = case.get_mut(at) {
        *byte ^= 1 << random.u8(..8);
    }
}

/// One up or down.
fn nudge(case: &mut [u8], random: &mut Rng) {
    let at = place(case, random);
    if let Some(byte) = case.get_mut(at) {
        *byte = byte.wrapping_add(if random.bool() { 1 } else { 0xff });
    }
}

/// A number at the edge of something, in one to eight bytes.
fn number(case: &mut [u8], random: &mut Rng) {
    const EDGES: [i64; 14] = [
        0,
        1,
        -1,
        -2,
        0x7f,
        0x80,
        0x7fff,
        0xffff,
        i32::MAX as i64,
        i32::MIN as i64,
        i64::MAX,
        i64::MAX - 1,
        i64::MIN,
        1 << 20,
    ];
    let bytes = EDGES[random.usize(..EDGES.len())].to_be_bytes();
    let size = 1 << random.u8(..4);
    put(case, &bytes[8 - size..], random);
}

fn varint(case: &mut [u8], random: &mut Rng) {
    const EDGES: [&[u8]; 6] = [
        &[0],
        &[1],
        &[0x80, 0x80, 0x04],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xfe, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    ];
    put(case, EDGES[random.usize(..EDGES.len())], random);
}

fn insert(case: &mut Vec<u8>, pool: &[Vec<u8>], random: &mut Rng) {
    let other = &pool[random.usize(..pool.len())];
    let taken = other[piece(other, random)].to_vec();
    let at = place(case, random);
    case.splice(at..at, taken);
}

fn overwrite(case: &mut [u8], pool: &[Vec<u8>], random: &mut Rng) {
    let other = &pool[random.usize(..pool.len())];
    let taken = piece(other, random);
    put(case, &other[taken], random);
}

fn put(case: &mut [u8], bytes: &[u8], random: &mut Rng) {
    let at = place(case, random);
    for (old, new) in case[at..].iter_mut().zip(bytes) {
        *old = *new;
    }
}
