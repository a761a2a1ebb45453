//! Fetch, version 4: the oldest that brokers still speak, and the cheapest to write and to read.

use crate::records::{self, i16_at, i32_at};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;

/// Bytes of a reply, and of a partition in it, at most.
const MAX_BYTES: i32 = 1 << 20;
const MAX_WAIT_MS: i32 = 500;

/// A partition and the offset to ask it for.
#[derive(Clone)]
pub struct Part {
    pub number: i32,
    pub next: i64,
}

pub struct Fetcher {
    socket: TcpStream,
    topic: String,
    parts: Vec<Part>,
    /// Also says which partition is asked first, so that none starves.
    correlation_id: i32,
    frame: Vec<u8>,
}

/// A reply: its bytes, and where in them the records of each partition are.
pub struct Reply {
    pub frame: Vec<u8>,
    pub sets: Vec<Set>,
}

pub struct Set {
    part: i32,
    pub range: Range<usize>,
}

impl Fetcher {
    pub fn connect(broker: &str, topic: &str, parts: Vec<Part>) -> Self {
        let socket = TcpStream::connect(broker).expect("the broker accepts");
        socket.set_nodelay(true).expect("a socket option");
        Self { socket, topic: topic.to_owned(), parts, correlation_id: 0, frame: Vec::new() }
    }

    /// Sends a request for what comes next.
    pub fn ask(&mut self) {
        let request = self.request();
        self.socket.write_all(&request).expect("the broker takes a request");
        self.correlation_id += 1;
    }

    /// Waits for a reply to arrive whole.
    pub fn receive(&mut self) -> Reply {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length).expect("a reply");
        let length = u32::from_be_bytes(length) as usize;
        let mut frame = std::mem::take(&mut self.frame);
        // Never made shorter: what was there is overwritten, not cleared again for each reply.
        if frame.len() < length {
            frame.resize(length, 0);
        }
        self.socket.read_exact(&mut frame[..length]).expect("a whole reply");
        let sets = sets(&frame[..length]);
        Reply { frame, sets }
    }

    /// Moves the partitions past the batches of a reply; headers are enough for that.
    pub fn advance(&mut self, reply: &Reply) {
        for set in &reply.sets {
            let part =
                self.parts.iter_mut().find(|part| part.number == set.part).expect("a partition we know");
            if let Some(batch) = records::batches(&reply.frame[set.range.clone()]).last() {
                part.next = batch.next_offset();
            }
        }
    }

    /// Takes the buffer back for the next reply.
    pub fn recycle(&mut self, reply: Reply) {
        self.frame = reply.frame;
    }

    fn request(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        out.extend(1i16.to_be_bytes());
        out.extend(4i16.to_be_bytes());
        out.extend(self.correlation_id.to_be_bytes());
        string(&mut out, "floor");
        let (replica, min_bytes, read_uncommitted) = (-1i32, 1i32, 0);
        for number in [replica, MAX_WAIT_MS, min_bytes, MAX_BYTES] {
            out.extend(number.to_be_bytes());
        }
        out.push(read_uncommitted);
        out.extend(1i32.to_be_bytes());
        string(&mut out, &self.topic);
        out.extend((self.parts.len() as i32).to_be_bytes());
        let (ahead, behind) = self.parts.split_at(self.correlation_id as usize % self.parts.len());
        for part in behind.iter().chain(ahead) {
            out.extend(part.number.to_be_bytes());
            out.extend(part.next.to_be_bytes());
            out.extend(MAX_BYTES.to_be_bytes());
        }
        let length = out.len() as i32 - 4;
        out[..4].copy_from_slice(&length.to_be_bytes());
        out
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as i16).to_be_bytes());
    out.extend(text.as_bytes());
}

/// Finds the record sets in a reply to a request for one topic.
fn sets(frame: &[u8]) -> Vec<Set> {
    // Correlation id, throttle time.
    let mut at = 8;
    assert_eq!(i32_at(frame, at), 1, "one topic was asked for");
    at += 4;
    at += 2 + i16_at(frame, at) as usize;
    let count = i32_at(frame, at);
    at += 4;
    (0..count).map(|_| set(frame, &mut at)).collect()
}

fn set(frame: &[u8], at: &mut usize) -> Set {
    let part = i32_at(frame, *at);
    assert_eq!(i16_at(frame, *at + 4), 0, "error code of partition {part}");
    // Partition, error code, high watermark, last stable offset.
    *at += 4 + 2 + 8 + 8;
    let aborted = i32_at(frame, *at).max(0) as usize;
    *at += 4 + aborted * 16;
    let length = i32_at(frame, *at).max(0) as usize;
    *at += 4 + length;
    Set { part, range: *at - length..*at }
}
