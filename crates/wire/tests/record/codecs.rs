//! Compressed data in all the forms that some client writes, and in some that nobody should.

use std::io::Write;

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use ottla_wire::record::{BatchBuilder, BatchHeader, Codec, Decoder, RecordError};

use crate::LIMIT;

/// 150 KB in which there is something to find.
fn text() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    let words = ["castle", "trial", "letter", "father", "sister", "Ottla", "beetle", "apple"];
    let mut text = Vec::new();
    while text.len() < 150_000 {
        text.extend_from_slice(words[random.usize(..words.len())].as_bytes());
        text.push(random.u8(..));
    }
    text
}

fn noise(len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(9);
    (0..len).map(|_| random.u8(..)).collect()
}

/// What `packed` unpacks to, into a fresh buffer, one that is too small and one that is too large.
fn unpack(codec: Codec, packed: &[u8], limit: usize) -> Result<Vec<u8>, RecordError> {
    let mut decoder = Decoder::new();
    let mut fresh = Vec::new();
    let first = decoder.decode(codec, packed, limit, &mut fresh).map(|()| fresh);
    for mut used in [vec![1; 10], vec![1; 1 << 20]] {
        let again = decoder.decode(codec, packed, limit, &mut used).map(|()| used);
        let same = match (&first, &again) {
            (Err(RecordError::Corrupt { .. }), Err(RecordError::Corrupt { .. })) => true,
            (first, again) => first == again,
        };
        assert!(same, "{codec} into a used buffer");
    }
    first
}

#[track_caller]
fn assert_unpacks(codec: Codec, packed: &[u8], expected: &[u8]) {
    let unpacked = unpack(codec, packed, LIMIT).unwrap();
    assert!(unpacked == expected, "{} bytes instead of {}", unpacked.len(), expected.len());
    // Exactly the limit is allowed, a byte less is not.
    assert!(unpack(codec, packed, expected.len()).is_ok());
    if let Some(limit) = expected.len().checked_sub(1) {
        assert_eq!(unpack(codec, packed, limit), Err(RecordError::TooLarge { limit }));
    }
}

#[track_caller]
fn assert_corrupt(codec: Codec, packed: &[u8]) {
    let found = unpack(codec, packed, LIMIT).map(|unpacked| unpacked.len());
    assert!(matches!(found, Err(RecordError::Corrupt { codec: c, .. }) if c == codec), "{found:?}");
}

pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn lz4(info: FrameInfo, content: &[u8]) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8], parameters: &[zstd_safe::CParameter]) -> Vec<u8> {
    let mut context = zstd_safe::CCtx::create();
    for parameter in parameters {
        context.set_parameter(*parameter).unwrap();
    }
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
    context.compress2(&mut out, content).unwrap();
    out
}

pub(crate) fn xerial(chunks: &[&[u8]]) -> Vec<u8> {
    let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for chunk in chunks {
        let packed = snap::raw::Encoder::new().compress_vec(chunk).unwrap();
        out.extend_from_slice(&(packed.len() as u32).to_be_bytes());
        out.extend(packed);
    }
    out
}

#[test]
fn gzip_in_one_member() {
    for content in [&text()[..], &noise(70_000), b"x"] {
        assert_unpacks(Codec::Gzip, &gzip(content), content);
    }
    assert_unpacks(Codec::Gzip, &gzip(b""), b"");
}

#[test]
fn gzip_with_all_that_a_header_may_have() {
    let mut encoder = flate2::GzBuilder::new()
        .extra(&b"extra"[..])
        .filename("letters.txt")
        .comment("to Ottla")
        .write(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&text()).unwrap();
    let packed = encoder.finish().unwrap();
    assert_unpacks(Codec::Gzip, &packed, &text());
    assert_unpacks(Codec::Gzip, &[&packed[..], &packed].concat(), &[text(), text()].concat());
}

#[test]
fn gzip_in_several_members() {
    let (one, two) = (text(), noise(1000));
    let all = [&one[..], &two, b"", &one].concat();
    let packed = [gzip(&one), gzip(&two), gzip(b""), gzip(&one)].concat();
    assert_unpacks(Codec::Gzip, &packed, &all);
    // Two members that are the same: the trailer at the end fits the first one too.
    assert_unpacks(Codec::Gzip, &[gzip(&two), gzip(&two)].concat(), &[&two[..], &two].concat());
}

/// As Java's `GZIPInputStream`: what is no member is ignored, what begins like one has to be one.
#[test]
fn gzip_with_bytes_behind_it() {
    let packed = gzip(&text());
    for behind in
        [&[0][..], &[0; 4], &[0; 100], &[0xff; 100], &[0x1f], &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
    {
        assert_unpacks(Codec::Gzip, &[&packed[..], behind].concat(), &text());
    }
    assert_corrupt(Codec::Gzip, &[&packed[..], &packed[..packed.len() - 3]].concat());
}

#[test]
fn gzip_that_is_wrong() {
    let good = gzip(&text());
    for at in [0, 1, 2, 40, good.len() - 1, good.len() - 5] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert_corrupt(Codec::Gzip, &bad);
    }
    for cut in [1, 4, 8, 9, good.len() / 2, good.len() - 5] {
        assert_corrupt(Codec::Gzip, &good[..good.len() - cut]);
    }
    assert_corrupt(Codec::Gzip, b"no gzip at all, but long enough");
}

#[test]
fn snappy_framed_and_raw() {
    let text = text();
    let chunks: Vec<_> = text.chunks(32 * 1024).collect();
    assert_unpacks(Codec::Snappy, &xerial(&chunks), &text);
    assert_unpacks(Codec::Snappy, &xerial(&[&text]), &text);
    assert_unpacks(Codec::Snappy, &xerial(&[&text, b"", b"x"]), &[&text[..], b"x"].concat());
    assert_unpacks(Codec::Snappy, &xerial(&[]), b"");
    let raw = snap::raw::Encoder::new().compress_vec(&text).unwrap();
    assert_unpacks(Codec::Snappy, &raw, &text);
}

/// As Java's `SnappyInputStream`.
#[test]
fn snappy_streams_behind_one_another() {
    let (one, two) = (xerial(&[b"one"]), xerial(&[b"two", b"three"]));
    assert_unpacks(Codec::Snappy, &[&one[..], &two].concat(), b"onetwothree");
    assert_unpacks(Codec::Snappy, &[&one[..], &[0; 3]].concat(), b"one");
    assert_corrupt(Codec::Snappy, &[&one[..], &[0; 4]].concat());
    assert_corrupt(Codec::Snappy, &[&one[..], &[0xff; 100]].concat());
    assert_corrupt(Codec::Snappy, &[&one[..], &two[..10]].concat());
    let mut other_version = one.clone();
    other_version[11] = 9;
    assert_unpacks(Codec::Snappy, &other_version, b"one");
}

#[test]
fn snappy_that_is_wrong() {
    let good = xerial(&[&text()]);
    for cut in [1, 5, good.len() / 2, good.len() - 20, good.len() - 9] {
        assert_corrupt(Codec::Snappy, &good[..good.len() - cut]);
    }
    let raw = snap::raw::Encoder::new().compress_vec(&text()).unwrap();
    assert_corrupt(Codec::Snappy, &raw[..raw.len() - 1]);
    assert_corrupt(Codec::Snappy, &[&raw[..], &[0]].concat());
}

#[test]
fn lz4_with_all_that_a_frame_may_have() {
    for content in [text(), noise(70_000), b"x".to_vec(), Vec::new()] {
        for size in [BlockSize::Max64KB, BlockSize::Max4MB] {
            for mode in [BlockMode::Independent, BlockMode::Linked] {
                for bits in 0..8 {
                    let info = FrameInfo::new()
                        .block_size(size)
                        .block_mode(mode)
                        .block_checksums(bits & 1 != 0)
                        .content_checksum(bits & 2 != 0)
                        .content_size((bits & 4 != 0).then_some(content.len() as u64));
                    assert_unpacks(Codec::Lz4, &lz4(info, &content), &content);
                }
            }
        }
    }
}

/// As Java's `Lz4BlockInputStream`: the frame's end is the end.
#[test]
fn lz4_with_bytes_behind_it() {
    let packed = lz4(FrameInfo::new(), &text());
    for behind in [&[0][..], &[0xff; 100], &packed] {
        assert_unpacks(Codec::Lz4, &[&packed[..], behind].concat(), &text());
    }
}

#[test]
fn lz4_that_is_wrong() {
    let info = FrameInfo::new().block_checksums(true).content_checksum(true).content_size(Some(150_000));
    let content = text();
    let good = lz4(info.content_size(Some(content.len() as u64)), &content);
    assert_unpacks(Codec::Lz4, &good, &content);
    // Magic, flags, sizes, content size, header checksum, block length, block, block checksum, content checksum.
    for at in [0, 4, 5, 6, 14, 15, 16, 30, good.len() - 9, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert_corrupt(Codec::Lz4, &bad);
    }
    for cut in 1..good.len().min(40) {
        assert_corrupt(Codec::Lz4, &good[..good.len() - cut]);
        assert_corrupt(Codec::Lz4, &good[..cut]);
    }
    let mut legacy = good.clone();
    legacy[..4].copy_from_slice(&0x184C_2102_u32.to_le_bytes());
    assert_corrupt(Codec::Lz4, &legacy);
    let mut skippable = good.clone();
    skippable[..4].copy_from_slice(&0x184D_2A50_u32.to_le_bytes());
    assert_corrupt(Codec::Lz4, &skippable);
}

#[test]
fn lz4_content_checksum_is_checked_behind_block_checksums() {
    let mut packed = lz4(FrameInfo::new().content_checksum(true), b"some content");
    *packed.last_mut().unwrap() ^= 1;
    assert_corrupt(Codec::Lz4, &packed);
}

#[test]
fn zstd_with_and_without_its_size() {
    use zstd_safe::CParameter::{ChecksumFlag, CompressionLevel, ContentSizeFlag, WindowLog};
    for content in [text(), noise(140_000), vec![b'x'; 1_000_000], b"x".to_vec(), Vec::new()] {
        for parameters in [
            &[][..],
            &[ContentSizeFlag(false)],
            &[ContentSizeFlag(false), ChecksumFlag(true), CompressionLevel(19)],
            &[ContentSizeFlag(false), WindowLog(10)],
            &[WindowLog(10), ChecksumFlag(true)],
            &[CompressionLevel(-5)],
        ] {
            assert_unpacks(Codec::Zstd, &zstd(&content, parameters), &content);
        }
    }
}

/// As Java's `ZstdInputStream`: frames behind one another are one, anything else is an error.
#[test]
fn zstd_in_several_frames() {
    use zstd_safe::CParameter::ContentSizeFlag;
    let (one, two) = (text(), noise(140_000));
    let all = [&one[..], &two, b"", &one].concat();
    for size in [false, true] {
        let pack = |content: &[u8]| zstd(content, &[ContentSizeFlag(size)]);
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let packed = [pack(&one), skippable.clone(), pack(&two), pack(b""), pack(&one)].concat();
        assert_unpacks(Codec::Zstd, &packed, &all);
        assert_unpacks(Codec::Zstd, &[&skippable[..], &packed].concat(), &all);
        for behind in [&[0][..], &[0; 4], &[0xff; 100], &packed[..10]] {
            assert_corrupt(Codec::Zstd, &[&packed[..], behind].concat());
        }
    }
}

#[test]
fn zstd_that_is_wrong() {
    use zstd_safe::CParameter::{ChecksumFlag, ContentSizeFlag};
    for parameters in [&[ChecksumFlag(true)][..], &[ChecksumFlag(true), ContentSizeFlag(false)]] {
        let good = zstd(&text(), parameters);
        for cut in [1, 3, 10, good.len() / 2, good.len() - 8, good.len() - 3] {
            assert_corrupt(Codec::Zstd, &good[..good.len() - cut]);
        }
        for at in [0, good.len() - 1, good.len() / 2] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_corrupt(Codec::Zstd, &bad);
        }
    }
}

/// A few KB that unpack to far more than is allowed: stopped at the limit, without the memory of what they claim.
#[test]
fn bombs_do_not_go_off() {
    const BOMB: usize = 8 << 20;
    const SMALL: usize = 1 << 20;
    let zeros = vec![0; BOMB];
    let level = zstd_safe::CParameter::CompressionLevel(1);
    let bombs = [
        (Codec::Gzip, gzip(&zeros)),
        (Codec::Gzip, [gzip(&zeros), gzip(b"x")].concat()),
        (Codec::Snappy, xerial(&[&zeros])),
        (Codec::Snappy, xerial(&zeros.chunks(32 * 1024).collect::<Vec<_>>())),
        (Codec::Snappy, snap::raw::Encoder::new().compress_vec(&zeros).unwrap()),
        (Codec::Lz4, lz4(FrameInfo::new().block_size(BlockSize::Max4MB), &zeros)),
        (Codec::Lz4, lz4(FrameInfo::new().content_size(Some(BOMB as u64)), &zeros)),
        (Codec::Zstd, zstd(&zeros, &[level])),
        (Codec::Zstd, zstd(&zeros, &[level, zstd_safe::CParameter::ContentSizeFlag(false)])),
    ];
    for (codec, bomb) in bombs {
        let mut out = Vec::new();
        let found = Decoder::new().decode(codec, &bomb, SMALL, &mut out);
        assert_eq!(found, Err(RecordError::TooLarge { limit: SMALL }), "{codec}");
        assert!(out.capacity() <= 2 * SMALL + 1, "{codec} took {} bytes", out.capacity());
    }
    let mut out = Vec::new();
    let found = Decoder::new().decode(Codec::None, &zeros, SMALL, &mut out);
    assert_eq!((found, out.capacity()), (Err(RecordError::TooLarge { limit: SMALL }), 0));
}

/// Sizes that are claimed and not there take no memory, however high the limit.
#[test]
fn claims_take_no_memory() {
    const NO_LIMIT: usize = usize::MAX;
    const ALLOWED: usize = 8 << 20;
    let mut gzip_claim = gzip(b"small");
    let at = gzip_claim.len() - 4;
    gzip_claim[at..].copy_from_slice(&u32::MAX.to_le_bytes());
    let snappy_claim = [&[0xff, 0xff, 0xff, 0xff, 0x0f][..], b"\0x"].concat();
    let zstd_claim = {
        let mut frame = zstd(&[7; 70_000], &[]);
        // Descriptor: a single segment, its size in eight bytes.
        frame.splice(4..9, [0xe0].into_iter().chain((1_u64 << 40).to_le_bytes()));
        frame
    };
    let claims = [(Codec::Gzip, gzip_claim), (Codec::Snappy, snappy_claim), (Codec::Zstd, zstd_claim)];
    for (codec, claim) in claims {
        let mut out = Vec::new();
        let found = Decoder::new().decode(codec, &claim, NO_LIMIT, &mut out);
        assert!(matches!(found, Err(RecordError::Corrupt { .. })), "{codec}: {found:?}");
        assert!(out.capacity() < ALLOWED, "{codec} took {} bytes", out.capacity());
    }
}

/// Go's library frames whatever it has for blocks of 4 MiB: a small batch is still small.
#[test]
fn large_blocks_take_no_memory() {
    let packed = lz4(FrameInfo::new().block_size(BlockSize::Max4MB), &text());
    let mut out = Vec::new();
    Decoder::new().decode(Codec::Lz4, &packed, LIMIT, &mut out).unwrap();
    assert!(out == text() && out.capacity() < 2 * out.len());
}

#[test]
fn nothing_unpacks_to_nothing() {
    for codec in Codec::ALL {
        let mut out = vec![1, 2, 3];
        Decoder::new().decode(codec, &[], 0, &mut out).unwrap();
        assert!(out.is_empty());
    }
}

/// A fault leaves nothing behind in a decoder: the next batch is read as ever.
#[test]
fn a_decoder_goes_on_after_a_fault() {
    let mut decoder = Decoder::new();
    let mut out = Vec::new();
    for round in 0..3 {
        for codec in Codec::ALL {
            let mut builder = BatchBuilder::new(codec);
            builder.push(round, None, Some(&text()), &[]);
            let batch = builder.build().unwrap();
            let packed = &batch[BatchHeader::SIZE..];
            decoder.decode(codec, packed, LIMIT, &mut out).unwrap();
            let expected = out.clone();
            if codec != Codec::None {
                decoder.decode(codec, &packed[..packed.len() / 2], LIMIT, &mut out).unwrap_err();
            }
            decoder.decode(codec, packed, 1000, &mut out).unwrap_err();
            decoder.decode(codec, packed, LIMIT, &mut out).unwrap();
            assert!(out == expected, "{codec}");
        }
    }
}

#[test]
fn names_and_numbers() {
    for (number, codec) in Codec::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(codec.number()), number);
        assert_eq!(codec.to_string().parse(), Ok(codec));
    }
    let error = "LZ4".parse::<Codec>().unwrap_err();
    assert_eq!(error.to_string(), r#"unknown codec "LZ4": expected none, gzip, snappy, lz4 or zstd"#);
}
