//! What was asked of the cluster, for tests to look at.

use crate::ConnectionId;
use bytes::Bytes;
use ottla_wire::Input;
use ottla_wire::api::ApiKey;
use ottla_wire::frame::{RequestHeader, decode_request_header};
use ottla_wire::message::Request;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// A request that a broker began to serve.
#[derive(Debug, Clone)]
pub struct Received {
    /// When.
    pub at: Instant,
    /// The node asked.
    pub node: i32,
    /// The connection it came by.
    pub connection: ConnectionId,
    /// The API.
    pub api: ApiKey,
    /// The version of the request.
    pub version: i16,
    /// The number its reply repeats.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
    /// Bytes of the frame, without the length.
    pub size: usize,
    /// The frame, unless it was too large to keep.
    frame: Option<Bytes>,
}

impl Received {
    /// The request, if it is one of this type, its frame was not above 64 KiB, and it can be read.
    pub fn request<R: Request>(&self) -> Option<R> {
        if self.api != R::KEY {
            return None;
        }
        let mut input = Input::new(self.frame.clone()?);
        let header = decode_request_header(&mut input).ok()?;
        R::decode(&mut input, header.version).ok()
    }
}

/// The last requests, and how many there were in all.
#[derive(Debug, Default)]
pub(crate) struct Log {
    capacity: usize,
    last: VecDeque<Received>,
    counts: BTreeMap<ApiKey, u64>,
}

/// A produce request of a megabyte is not worth remembering for what it asks.
const LARGEST_KEPT: usize = 64 * 1024;

impl Log {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    pub(crate) fn push(
        &mut self,
        at: Instant,
        node: i32,
        connection: ConnectionId,
        header: &RequestHeader,
        frame: &Bytes,
    ) {
        *self.counts.entry(header.api).or_default() += 1;
        if self.capacity == 0 {
            return;
        }
        if self.last.len() == self.capacity {
            self.last.pop_front();
        }
        self.last.push_back(Received {
            at,
            node,
            connection,
            api: header.api,
            version: header.version,
            correlation_id: header.correlation_id,
            client_id: header.client_id.clone(),
            size: frame.len(),
            frame: (frame.len() <= LARGEST_KEPT).then(|| frame.clone()),
        });
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Received> {
        self.last.iter()
    }

    pub(crate) fn clear(&mut self) {
        self.last.clear();
    }

    pub(crate) fn count(&self, api: ApiKey) -> u64 {
        self.counts.get(&api).copied().unwrap_or(0)
    }
}
