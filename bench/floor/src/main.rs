//! The floor: what no client can avoid. One thread and one blocking socket receive fetch replies, check the CRC of
//! each batch, decompress it (contexts and buffers reused) and walk its records; the next request is sent before
//! the current reply is walked. Nothing else that a client must do is done: no metadata, no leaders, no errors
//! survived, no records handed to anybody.
//!
//! usage: floor BROKER TOPIC part:N|all COUNT      `all` are partitions 0 to 5; BROKER leads all of them
//!
//! Reads from the beginning and prints one line of JSON: client, n, bytes (keys and values), secs, first.

#![allow(clippy::disallowed_methods, reason = "it times itself")]

mod codec;
mod fetch;
mod records;

use fetch::{Fetcher, Part};
use std::time::{Duration, Instant};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [broker, topic, which, count] = &args[..] else {
        panic!("usage: floor BROKER TOPIC part:N|all COUNT");
    };
    let count = count.parse().expect("COUNT is a number");
    read(broker, topic, parts(which), count);
}

fn parts(which: &str) -> Vec<Part> {
    let numbers = match which.strip_prefix("part:") {
        Some(number) => {
            let number: i32 = number.parse().expect("part:N has a number");
            number..number + 1
        }
        None if which == "all" => 0..6,
        None => panic!("part:N or all, not {which}"),
    };
    numbers.map(|number| Part { number, next: 0 }).collect()
}

fn read(broker: &str, topic: &str, parts: Vec<Part>, count: u64) {
    let start = Instant::now();
    let mut fetcher = Fetcher::connect(broker, topic, parts);
    let mut decoder = codec::Decoder::new();
    let (mut records, mut bytes, mut first) = (0u64, 0u64, Duration::ZERO);
    fetcher.ask();
    while records < count {
        let reply = fetcher.receive();
        fetcher.advance(&reply);
        fetcher.ask();
        for set in &reply.sets {
            for batch in records::batches(&reply.frame[set.range.clone()]) {
                batch.check_crc();
                let body = decoder.decode(batch.codec(), batch.body());
                records::walk(body, batch.count(), |length| {
                    if records == 0 {
                        first = start.elapsed();
                    }
                    records += 1;
                    bytes += length as u64;
                });
            }
        }
        fetcher.recycle(reply);
    }
    let (secs, first) = (start.elapsed().as_secs_f64(), first.as_secs_f64());
    println!(r#"{{"client":"floor","n":{records},"bytes":{bytes},"secs":{secs:.6},"first":{first:.6}}}"#);
}
