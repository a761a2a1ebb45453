//! Questions to brokers and their answers: what the machine hands out and takes back.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use ottla_wire::{
    DecodeError, EncodeError, Uuid,
    api::ApiVersions,
    frame,
    message::{
        FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest,
        MetadataResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, Request as Speaks,
        fetch_request::{FetchPartition, FetchTopic},
    },
};

use crate::{
    cluster::{Lane, Peer},
    fetch::reply::FetchReply,
};

/// Something to ask a broker.
#[derive(Debug)]
pub struct Request {
    /// Names the answer.
    pub id: u64,
    /// Whom to ask.
    pub peer: Peer,
    /// By which connection.
    pub lane: Lane,
    /// What to ask.
    pub body: Body,
}

/// What to ask.
#[derive(Debug)]
pub enum Body {
    /// Where the brokers, topics and leaders are.
    Metadata(MetadataRequest),
    /// Offsets by time, and the ends of the log.
    ListOffsets(ListOffsetsRequest),
    /// Where a leader epoch ended (KIP-320).
    LeaderEpochs(OffsetForLeaderEpochRequest),
    /// Records.
    Fetch(FetchAsk),
}

/// A fetch, before it is known whether the broker names topics by id.
#[derive(Debug)]
pub struct FetchAsk {
    pub(crate) max_wait: Duration,
    pub(crate) min_bytes: i32,
    pub(crate) max_bytes: i32,
    pub(crate) topics: Vec<FetchAskTopic>,
}

/// A topic of a fetch.
#[derive(Debug)]
pub(crate) struct FetchAskTopic {
    pub(crate) name: Arc<str>,
    pub(crate) id: Uuid,
    pub(crate) partitions: Vec<FetchPartition>,
}

/// What is needed to read the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    kind: Kind,
    version: i16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Metadata,
    ListOffsets,
    LeaderEpochs,
    Fetch,
}

/// An answer.
#[derive(Debug)]
pub enum Reply {
    /// To [`Body::Metadata`].
    Metadata(MetadataResponse),
    /// To [`Body::ListOffsets`].
    ListOffsets(ListOffsetsResponse),
    /// To [`Body::LeaderEpochs`].
    LeaderEpochs(OffsetForLeaderEpochResponse),
    /// To [`Body::Fetch`].
    Fetch(FetchReply),
}

/// Why a request could not be written.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The broker and we share no version of this API.
    #[error(
        "the broker speaks {api} in versions {theirs}, we in {ours}; this needs a broker of Kafka 2.1 or later"
    )]
    Versions {
        /// The API's name.
        api: &'static str,
        /// What the broker speaks.
        theirs: String,
        /// What we speak.
        ours: String,
    },
    /// The broker does not speak this API at all.
    #[error("the broker does not speak {api}")]
    Absent {
        /// The API's name.
        api: &'static str,
    },
    /// The request does not fit the version.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// The first Fetch version that names topics by id only.
const FETCH_BY_ID: i16 = 13;

impl Body {
    /// The request as a frame, in the highest version that both ends speak.
    ///
    /// # Errors
    ///
    /// [`AskError::Versions`] if there is none.
    pub fn encode(
        &self,
        versions: &ApiVersions,
        correlation: i32,
        client_id: &str,
    ) -> Result<(Vec<u8>, Asked), AskError> {
        match self {
            Self::Metadata(body) => write(body, Kind::Metadata, versions, i16::MAX, correlation, client_id),
            Self::ListOffsets(body) => {
                write(body, Kind::ListOffsets, versions, i16::MAX, correlation, client_id)
            }
            Self::LeaderEpochs(body) => {
                write(body, Kind::LeaderEpochs, versions, i16::MAX, correlation, client_id)
            }
            Self::Fetch(ask) => {
                // A zero id names nothing: without all ids we must speak names.
                let by_name = ask.topics.iter().any(|t| t.id.is_zero());
                let cap = if by_name { FETCH_BY_ID - 1 } else { i16::MAX };
                write(&ask.request(), Kind::Fetch, versions, cap, correlation, client_id)
            }
        }
    }

    /// How long the broker may hold the request before it must answer.
    pub fn broker_wait(&self) -> Duration {
        match self {
            Self::Fetch(ask) => ask.max_wait,
            _ => Duration::ZERO,
        }
    }
}

fn write<R: Speaks>(
    body: &R,
    kind: Kind,
    versions: &ApiVersions,
    cap: i16,
    correlation: i32,
    client_id: &str,
) -> Result<(Vec<u8>, Asked), AskError> {
    let version = versions.pick_at_most::<R>(cap).ok_or_else(|| no_version::<R>(versions, cap))?;
    let frame = frame::encode_request(body, version, correlation, client_id)?;
    Ok((frame, Asked { kind, version }))
}

fn no_version<R: Speaks>(versions: &ApiVersions, cap: i16) -> AskError {
    let api = R::KEY.name();
    match versions.range(R::KEY) {
        None => AskError::Absent { api },
        Some((low, high)) => AskError::Versions {
            api,
            theirs: format!("{low} to {high}"),
            ours: format!("{} to {}", R::VERSIONS.start(), (*R::VERSIONS.end()).min(cap)),
        },
    }
}

impl FetchAsk {
    fn request(&self) -> FetchRequest {
        FetchRequest {
            max_wait_ms: i32::try_from(self.max_wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes: self.min_bytes,
            max_bytes: self.max_bytes,
            // Sessions (KIP-227) come later; 0 and -1 ask for none.
            session_id: 0,
            session_epoch: -1,
            topics: self.topics.iter().map(FetchAskTopic::request).collect(),
            ..FetchRequest::default()
        }
    }
}

impl FetchAskTopic {
    fn request(&self) -> FetchTopic {
        FetchTopic {
            topic: self.name.to_string(),
            topic_id: self.id,
            partitions: self.partitions.clone(),
            ..FetchTopic::default()
        }
    }
}

impl Asked {
    /// Reads the answer; for a fetch this finds where batches begin and end, without decoding them.
    ///
    /// # Errors
    ///
    /// What the broker sent that the version does not allow.
    pub fn decode(self, frame: Bytes) -> Result<Reply, DecodeError> {
        Ok(match self.kind {
            Kind::Metadata => {
                Reply::Metadata(frame::decode_response::<MetadataRequest>(frame, self.version)?.1)
            }
            Kind::ListOffsets => {
                Reply::ListOffsets(frame::decode_response::<ListOffsetsRequest>(frame, self.version)?.1)
            }
            Kind::LeaderEpochs => Reply::LeaderEpochs(
                frame::decode_response::<OffsetForLeaderEpochRequest>(frame, self.version)?.1,
            ),
            Kind::Fetch => {
                let bytes = frame.len();
                let response: FetchResponse = frame::decode_response::<FetchRequest>(frame, self.version)?.1;
                Reply::Fetch(FetchReply::outline(response, bytes))
            }
        })
    }
}
