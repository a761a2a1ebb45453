//! Which partition a key belongs to, so that ours and Java's records with the same key meet.

/// The partition of a key among `count`, as Java's default partitioner has it.
pub(crate) fn of_key(key: &[u8], count: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % count.max(1)
}

/// MurmurHash2 of 32 bits with Kafka's seed (`Utils.murmur2`).
fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let mut hash = SEED ^ (bytes.len() as u32);
    let (words, rest) = bytes.as_chunks::<4>();
    for &word in words {
        let mut k = u32::from_le_bytes(word).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, &byte| (word << 8) | u32::from(byte));
        hash = (hash ^ word).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `org.apache.kafka.common.utils.Utils` of kafka-clients 4.4.0 printed: the key, `murmur2(key)`, and
    /// `toPositive(murmur2(key))` modulo 6 and 50.
    const JAVA: &[(&[u8], i32, u32, u32)] = &[
        (b"", 275646681, 3, 31),
        (b"a", -1563381124, 4, 24),
        (b"ab", 316155434, 2, 34),
        (b"abc", 479470107, 3, 7),
        (b"abcd", -1323649548, 2, 0),
        (b"21", -973932308, 0, 40),
        (b"foobar", -790332482, 0, 16),
        (b"a-little-bit-long-string", -985981536, 2, 12),
        (b"a-little-bit-longer-string", -1486304829, 5, 19),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 5, 27),
        (b"Ottla Kafka", 398154760, 4, 10),
        ("\u{fc}\u{df}\u{20ac}".as_bytes(), 1555320969, 3, 19),
        (b"\xff", -311467685, 3, 13),
        (b"\xff\x80", -442788720, 2, 28),
        (b"\xff\x80\0", -616959190, 4, 8),
        (b"\xff\x80\0\xfe", 218625671, 5, 21),
        (b"\xff\x80\0\xfe\xff", 39874303, 1, 3),
        (b"\xff\x80\0\xfe\xff\x81", -2063469827, 3, 21),
        (b"\xff\x80\0\xfe\xff\x81\xc0", -226987791, 5, 7),
    ];

    #[test]
    fn keys_go_where_java_sends_them() {
        for &(key, hash, of_6, of_50) in JAVA {
            assert_eq!(murmur2(key) as i32, hash, "{key:?}");
            assert_eq!((of_key(key, 6), of_key(key, 50)), (of_6, of_50), "{key:?}");
            assert_eq!(of_key(key, 1), 0);
        }
    }
}
