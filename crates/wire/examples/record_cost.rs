//! What a read costs in this crate, measured: checksums, the walk over records, and unpacking, each beside the plainest
//! code that does the same work. `cargo run --release -p ottla-wire --example record_cost [PART OF A NAME]`
//!
//! Each figure is the best of many short runs, which is what the code costs on an otherwise idle processor.
#![allow(clippy::disallowed_methods, reason = "measuring is looking at a clock")]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has nothing to say")]

use std::hint::black_box;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use ottla_wire::record::{BatchBuilder, BatchHeader, Codec, Decoder, Records, Span};

/// The batch size of the measured topics.
const BATCH: usize = 64 * 1024;

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let all: [(&str, fn()); 3] = [("crc", crc), ("walk", walk), ("decode", decode)];
    for (name, measure) in all {
        if name.contains(&wanted) {
            measure();
        }
    }
}

fn crc() {
    for size in [100, 1000, 16 * 1024, BATCH, 1 << 20] {
        let value = vec![7; size];
        let batch = plain_batch(|builder| {
            builder.push(0, None, Some(&value), &[]);
        });
        let header = BatchHeader::parse(&batch).unwrap();
        let best = best(|| header.check_crc(black_box(&batch)).unwrap());
        let rate = batch.len() as f64 / best.as_secs_f64() / 1e9;
        println!("crc of {size:>7} bytes        {:>8.1} ns   {rate:>6.1} GB/s", best.as_secs_f64() * 1e9);
    }
}

fn walk() {
    let value = [b'x'; 100];
    let plain = records_of(|builder, _| {
        builder.push(1_700_000_000_000, None, Some(&value), &[]);
    });
    let json = records_of(|builder, i| {
        let value = json_line(i);
        builder.push(
            1_700_000_000_000 + i as i64,
            Some(&value.as_bytes()[7..15]),
            Some(value.as_bytes()),
            &[],
        );
    });
    let headers = records_of(|builder, i| {
        let time = 1_700_000_000_000 + i as i64;
        builder.push(time, Some(b"key"), Some(&value), &[("trace", Some(b"0123456789")), ("span", None)]);
    });
    for (name, (header, records)) in [("plain", plain), ("json", json), ("headers", headers)] {
        let count = f64::from(header.count);
        let tell = |how: &str, best: Duration| {
            println!("walk {name:<8} {how:<13} {:>8.2} ns a record", best.as_secs_f64() * 1e9 / count);
        };
        tell("by hand", best(|| by_hand(black_box(&records), header.count)));
        tell("spans", best(|| spans(black_box(&records), header.count)));
        tell("records", best(|| iterate(&header, black_box(&records))));
        tell("all fields", best(|| iterate_all(&header, black_box(&records))));
    }
}

/// The walk of the floor (the measured minimum that a client is compared with), with its bounds checked.
fn by_hand(records: &[u8], count: i32) -> usize {
    #[inline(always)]
    fn varint(bytes: &[u8], at: &mut usize) -> i64 {
        let (mut raw, mut shift) = (0_u64, 0);
        loop {
            let byte = bytes[*at];
            *at += 1;
            raw |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
            shift += 7;
        }
        ((raw >> 1) as i64) ^ -((raw & 1) as i64)
    }
    let (mut at, mut sum) = (0, 0);
    for _ in 0..count {
        let len = varint(records, &mut at) as usize;
        let end = at + len;
        at += 1;
        varint(records, &mut at);
        varint(records, &mut at);
        let key = varint(records, &mut at).max(0) as usize;
        at += key;
        let value = varint(records, &mut at).max(0) as usize;
        at += value;
        varint(records, &mut at);
        sum += key + value;
        at = end;
    }
    sum
}

fn spans(records: &[u8], count: i32) -> usize {
    let (mut at, mut sum) = (0, 0);
    for _ in 0..count {
        let span = Span::parse(records, at).unwrap();
        sum += span.key(records).map_or(0, <[u8]>::len) + span.value(records).map_or(0, <[u8]>::len);
        at = span.next();
    }
    sum
}

fn iterate(header: &BatchHeader, records: &[u8]) -> usize {
    let mut sum = 0;
    for record in Records::new(header, records) {
        let record = record.unwrap();
        sum += record.key().map_or(0, <[u8]>::len) + record.value().map_or(0, <[u8]>::len);
    }
    sum
}

/// Everything a record has, headers too.
fn iterate_all(header: &BatchHeader, records: &[u8]) -> usize {
    let mut sum = 0;
    for record in Records::new(header, records) {
        let record = record.unwrap();
        sum += record.key().map_or(0, <[u8]>::len) + record.value().map_or(0, <[u8]>::len);
        sum = sum.wrapping_add(record.offset as usize).wrapping_add(record.timestamp as usize);
        for header in record.headers() {
            sum += header.unwrap().key.len();
        }
    }
    sum
}

fn decode() {
    let (_, records) = records_of(|builder, i| {
        let value = json_line(i);
        builder.push(1_700_000_000_000 + i as i64, None, Some(value.as_bytes()), &[]);
    });
    // A batch is 64 KB after compression with Java's default settings, but producers count before they compress.
    for codec in Codec::ALL.into_iter().skip(1) {
        let packed = pack(codec, &records);
        let mut floor = Floor::default();
        let mut decoder = Decoder::new();
        let mut out = Vec::new();
        let plain = best(|| floor.decode(codec, black_box(&packed)));
        let ours = best(|| decoder.decode(codec, black_box(&packed), 1 << 30, &mut out).unwrap());
        assert!(out == records && floor.out[..floor.len] == records[..]);
        let rate = |best: Duration| records.len() as f64 / best.as_secs_f64() / 1e6;
        println!(
            "decode {codec:<7} {:>6} -> {} bytes: {:>6.0} MB/s, floor {:>6.0} MB/s, {:.2} of its time",
            packed.len(),
            records.len(),
            rate(ours),
            rate(plain),
            ours.as_secs_f64() / plain.as_secs_f64(),
        );
    }
}

/// How the floor unpacks.
struct Floor {
    gzip: libdeflater::Decompressor,
    snappy: snap::raw::Decoder,
    zstd: zstd_safe::DCtx<'static>,
    out: Vec<u8>,
    len: usize,
}

impl Default for Floor {
    fn default() -> Self {
        Self {
            gzip: libdeflater::Decompressor::new(),
            snappy: snap::raw::Decoder::new(),
            zstd: zstd_safe::DCtx::create(),
            out: vec![0; 1 << 20],
            len: 0,
        }
    }
}

impl Floor {
    fn decode(&mut self, codec: Codec, src: &[u8]) {
        match codec {
            Codec::Gzip => self.len = self.gzip.gzip_decompress(src, &mut self.out).unwrap(),
            Codec::Snappy => {
                let (mut at, mut len) = (16, 0);
                while at < src.len() {
                    let size = u32::from_be_bytes(src[at..at + 4].try_into().unwrap()) as usize;
                    at += 4;
                    len += self.snappy.decompress(&src[at..at + size], &mut self.out[len..]).unwrap();
                    at += size;
                }
                self.len = len;
            }
            Codec::Lz4 => {
                self.out.clear();
                self.len = lz4_flex::frame::FrameDecoder::new(src).read_to_end(&mut self.out).unwrap();
            }
            _ => {
                self.zstd.reset(zstd_safe::ResetDirective::SessionOnly).unwrap();
                let mut input = zstd_safe::InBuffer::around(src);
                let mut output = zstd_safe::OutBuffer::around(&mut self.out[..]);
                assert_eq!(self.zstd.decompress_stream(&mut output, &mut input).unwrap(), 0);
                self.len = output.pos();
            }
        }
    }
}

/// As Java's producer packs: its zstd stream does not say how large the content is.
fn pack(codec: Codec, records: &[u8]) -> Vec<u8> {
    if codec != Codec::Zstd {
        let batch = rebuilt(codec, records);
        return batch[BatchHeader::SIZE..].to_vec();
    }
    let mut context = zstd_safe::CCtx::create();
    context.set_parameter(zstd_safe::CParameter::ContentSizeFlag(false)).unwrap();
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(records.len()));
    context.compress2(&mut out, records).unwrap();
    out
}

fn rebuilt(codec: Codec, records: &[u8]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    let mut at = 0;
    while at < records.len() {
        let span = Span::parse(records, at).unwrap();
        builder.push(1_700_000_000_000 + span.timestamp_delta(), span.key(records), span.value(records), &[]);
        at = span.next();
    }
    builder.build().unwrap()
}

fn json_line(i: usize) -> String {
    let mut random = fastrand::Rng::with_seed(i as u64);
    let events = ["view", "click", "purchase", "refund", "signup"];
    format!(
        r#"{{"id":"{:016x}","time":"2024-03-{:02}T{:02}:{:02}:{:02}.{:03}Z","user":{},"event":"{}","amount":{}.{:02},"path":"/shop/{}/items/{}"}}"#,
        random.u64(..),
        random.u32(1..29),
        random.u32(..24),
        random.u32(..60),
        random.u32(..60),
        random.u32(..1000),
        random.u32(..1_000_000),
        events[random.usize(..events.len())],
        random.u32(..1000),
        random.u32(..100),
        random.u32(..50),
        random.u32(..10_000),
    )
}

fn records_of(mut push: impl FnMut(&mut BatchBuilder, usize)) -> (BatchHeader, Vec<u8>) {
    let batch = plain_batch(|builder| {
        while builder.bytes() < BATCH {
            push(builder, builder.len());
        }
    });
    (BatchHeader::parse(&batch).unwrap(), batch[BatchHeader::SIZE..].to_vec())
}

fn plain_batch(fill: impl FnOnce(&mut BatchBuilder)) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    fill(&mut builder);
    builder.build().unwrap()
}

/// The shortest time one call took, over rounds of as many calls as fit a millisecond.
fn best<T>(mut run: impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    let calls = (1_000_000 / start.elapsed().as_nanos().max(1)).clamp(1, 10_000) as u32;
    let rounds = (0..300).map(|_| {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(run());
        }
        start.elapsed() / calls
    });
    let best = rounds.min().unwrap_or_default();
    std::io::stdout().flush().unwrap();
    best
}
