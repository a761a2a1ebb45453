//! A client that waits for each answer, and that calls itself by what it is about to ask: so whoever records between
//! it and the broker knows what the frames are for.

use crate::reread;
use bytes::Bytes;
use ottla_wire::api::ApiVersions;
use ottla_wire::frame;
use ottla_wire::message::{ApiVersionsRequest, Message, Request};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::RangeInclusive;
use std::time::Duration;

/// What is only done so that something can be asked is done without a name.
pub(crate) const NAMELESS: &str = "";

pub(crate) struct Kafka {
    stream: TcpStream,
    correlation_id: i32,
    spoken: ApiVersions,
}

impl Kafka {
    /// The broker whose address is in that variable.
    pub(crate) fn of(variable: &str) -> Self {
        let address = std::env::var(variable)
            .unwrap_or_else(|_| panic!("{variable} must name a real Kafka; `cargo xtask test` starts one"));
        let stream = TcpStream::connect(&address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut kafka = Self { stream, correlation_id: 0, spoken: ApiVersions::default() };
        let reply = kafka.ask(NAMELESS, &ApiVersionsRequest::default(), 0);
        kafka.spoken = ApiVersions::new(&reply);
        kafka
    }

    /// The versions that both speak.
    pub(crate) fn versions<R: Request>(&self) -> RangeInclusive<i16> {
        let (min, max) = self.spoken.range(R::KEY).unwrap_or_else(|| panic!("no {}", R::NAME));
        min.max(*R::VERSIONS.start())..=max.min(*R::VERSIONS.end())
    }

    /// Asks, and holds the reply against what is written of it anew.
    pub(crate) fn ask<R: Request>(&mut self, case: &str, request: &R, version: i16) -> R::Response {
        self.tell(case, request, version);
        let what = || format!("{} v{version} ({case})", R::Response::NAME);
        let frame = self.hear().unwrap_or_else(|error| panic!("{}: {error} after {request:?}", what()));
        assert_eq!(frame::correlation_id(&frame), Ok(self.correlation_id), "{}", what());
        reread::reply::<R>(&frame, version).unwrap_or_else(|error| panic!("{}: {error}", what()))
    }

    /// For what is not answered.
    pub(crate) fn tell<R: Request>(&mut self, case: &str, request: &R, version: i16) {
        self.correlation_id += 1;
        let frame = frame::encode_request(request, version, self.correlation_id, case);
        let frame = frame.unwrap_or_else(|error| panic!("{} v{version} ({case}): {error}", R::NAME));
        let (_, reread) = reread::request::<R>(&Bytes::copy_from_slice(&frame[4..])).unwrap();
        assert_eq!(&reread, request, "v{version} ({case})");
        self.say(&frame);
    }

    /// Asks in the newest version, for what is done in between.
    pub(crate) fn nameless<R: Request>(&mut self, request: &R) -> R::Response {
        self.ask(NAMELESS, request, *self.versions::<R>().end())
    }

    /// Sends a frame as it is, with its length.
    pub(crate) fn say(&mut self, frame: &[u8]) {
        self.stream.write_all(frame).unwrap();
    }

    /// The next frame, without its length.
    pub(crate) fn hear(&mut self) -> std::io::Result<Bytes> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut frame = vec![0; frame::length(length, 64 << 20).unwrap()];
        self.stream.read_exact(&mut frame)?;
        Ok(frame.into())
    }
}

/// Asks again and again until the answer is there, for half a minute or more.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3_000 {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain for {what}");
}
