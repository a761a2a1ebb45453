//! The same requests to a real Kafka and to this broker, and the comparison of what they answer.
//!
//! `OTTLA_TEST_KAFKA` names the real one (`host:port`), a single node of version 4.4.

use super::{list, listed};
use bytes::Bytes;
use ottla_broker::wire::Uuid;
use ottla_broker::wire::frame::{decode_response, encode_request};
use ottla_broker::wire::message::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use ottla_broker::wire::message::*;
use ottla_broker::{Broker, ClusterOptions};
use std::fmt::Debug;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// One of the two, and what was asked and answered.
pub(crate) struct Peer {
    pub(crate) who: &'static str,
    pub(crate) address: String,
    pub(crate) stream: TcpStream,
    correlation_id: i32,
    transcript: Vec<(String, String)>,
    /// Words that each has its own of, and what is noted in their place.
    names: Vec<(String, String)>,
}

impl Peer {
    pub(crate) fn new(who: &'static str, address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self {
            who,
            address: address.into(),
            stream,
            correlation_id: 0,
            transcript: Vec::new(),
            names: Vec::new(),
        }
    }

    pub(crate) fn ask<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        let frame = self.try_frame(&self.frame(request, version));
        let frame = frame.unwrap_or_else(|| panic!("{}: closed after {request:?}", self.who));
        decode_response::<R>(frame, version).unwrap().1
    }

    pub(crate) fn frame<R: Request>(&self, request: &R, version: i16) -> Vec<u8> {
        encode_request(request, version, self.correlation_id, "compare").unwrap()
    }

    /// Sends a frame and reads one; `None` if the connection closes instead. Then there is a new one.
    pub(crate) fn try_frame(&mut self, frame: &[u8]) -> Option<Bytes> {
        self.correlation_id += 1;
        self.stream.write_all(frame).unwrap();
        let reply = self.read();
        if reply.is_none() {
            self.stream = Self::new(self.who, &self.address).stream;
        }
        reply
    }

    /// The next frame; `None` if the connection was closed.
    pub(crate) fn read(&mut self) -> Option<Bytes> {
        let mut length = [0; 4];
        match self.stream.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                return None;
            }
            Err(error) => panic!("{}: {error}", self.who),
        }
        let mut frame = vec![0; i32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame).unwrap();
        Some(frame.into())
    }

    pub(crate) fn note(&mut self, what: impl Into<String>, answer: impl Debug) {
        let rename =
            |text: String| self.names.iter().fold(text, |text, (word, name)| text.replace(word, name));
        let noted = (rename(what.into()), rename(format!("{answer:?}")));
        self.transcript.push(noted);
    }

    /// From now on this is noted where that word stands.
    pub(crate) fn name(&mut self, word: &str, name: &str) {
        if !word.is_empty() && !self.names.iter().any(|(known, _)| known == word) {
            self.names.push((word.into(), name.into()));
        }
    }

    /// Asks, and notes whether the connection was closed instead of an answer.
    pub(crate) fn note_closing(&mut self, what: impl Into<String>, frame: &[u8]) {
        let closes = self.try_frame(frame).is_none();
        self.note(what, closes);
    }
}

/// Has both do the same, and compares what they noted.
pub(crate) fn compare(script: fn(&mut Peer, &str)) {
    let real = std::env::var("OTTLA_TEST_KAFKA")
        .expect("OTTLA_TEST_KAFKA must name a real Kafka; `cargo xtask test` starts one");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let broker = runtime.block_on(Broker::start(ClusterOptions::new())).unwrap();
    let topic = format!("compare-{:08x}", fastrand::u32(..));
    let mut kafka = Peer::new("Kafka", &real);
    let mut ours = Peer::new("ours", &broker.bootstrap());
    std::thread::scope(|scope| {
        for peer in [&mut kafka, &mut ours] {
            scope.spawn(|| script(peer, &topic));
        }
    });
    assert!(!kafka.transcript.is_empty());
    let differing: Vec<String> = kafka
        .transcript
        .iter()
        .zip(&ours.transcript)
        .filter(|(kafka, ours)| kafka != ours)
        .map(|((what, kafka), (_, ours))| difference(what, kafka, ours))
        .collect();
    assert!(differing.is_empty(), "{} answers differ:\n{}", differing.len(), differing.join("\n"));
    assert_eq!(kafka.transcript.len(), ours.transcript.len());
    Peer::new("Kafka", &real).ask(&delete(&topic), 5);
}

/// Two long answers, from a little before where they differ.
fn difference(what: &str, kafka: &str, ours: &str) -> String {
    let same = kafka.bytes().zip(ours.bytes()).take_while(|(kafka, ours)| kafka == ours).count();
    let cut =
        |answer: &str| String::from_utf8_lossy(&answer.as_bytes()[same.saturating_sub(60)..]).into_owned();
    format!("{what}\n  Kafka: {:.200}\n  ours:  {:.200}", cut(kafka), cut(ours))
}

/// Makes a topic that keeps old records, and waits until the node leads it.
pub(crate) fn create(peer: &mut Peer, topic: &str, partitions: i32, configs: &[(&str, &str)]) -> Uuid {
    let configs = [("retention.ms", "-1")].iter().chain(configs);
    let configs = configs
        .map(|(name, value)| CreatableTopicConfig { name: (*name).into(), value: Some((*value).into()) });
    let topics = vec![CreatableTopic {
        name: topic.into(),
        num_partitions: partitions,
        replication_factor: 1,
        configs: configs.collect(),
        ..Default::default()
    }];
    let created = peer.ask(&CreateTopicsRequest { topics, timeout_ms: 10_000, validate_only: false }, 7);
    assert_eq!(created.topics[0].error_code, 0, "{created:?}");
    for partition in 0..partitions {
        while listed(&peer.ask(&list(topic, partition, -1), 5)).error_code != 0 {
            std::thread::yield_now();
        }
    }
    created.topics[0].topic_id
}

pub(crate) fn delete(topic: &str) -> DeleteTopicsRequest {
    DeleteTopicsRequest { topic_names: vec![topic.into()], timeout_ms: 10_000, ..Default::default() }
}

#[allow(clippy::disallowed_methods, reason = "a real broker waits by a real clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
