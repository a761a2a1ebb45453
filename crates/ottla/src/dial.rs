//! From an address to a connection on which both ends know each other's versions. Linear, so ordinary async code.

use std::{error::Error, future::Future, sync::Arc, time::Duration};

use ottla_core::{Address, Ledger};
use ottla_wire::{
    api::ApiVersions,
    code::Code,
    frame::{self, LengthError},
    message::{ApiVersionsRequest, ApiVersionsResponse, Message},
};

use crate::{
    caught::caught,
    connect::{Connect, Transport},
    frames::{Broken, Frames},
    options::Options,
    pool::Pool,
};

/// A connection that may be asked.
pub(crate) struct Dialled {
    pub(crate) socket: Transport,
    pub(crate) frames: Frames,
    pub(crate) versions: ApiVersions,
}

/// Connects and exchanges versions.
///
/// # Errors
///
/// What happened, as a sentence without its subject.
pub(crate) async fn dial(address: &Address, options: &Options) -> Result<Dialled, String> {
    let late = |what: &str, limit| format!("{what} took more than {limit:?}");
    let limit = options.connect_timeout;
    let socket = within(limit, connect(address, options), || late("connecting", limit)).await?;
    let limit = options.handshake_timeout;
    let late = || format!("{}; {STRANGER}", late("exchanging versions", limit));
    within(limit, greet(socket, options), late).await
}

async fn connect(address: &Address, options: &Options) -> Result<Transport, String> {
    match caught(async { options.connector.0.connect(address).await }).await {
        Ok(Ok(transport)) => Ok(transport),
        Ok(Err(error)) => Err(format!("cannot connect: {}", with_sources(&error))),
        Err(panic) => Err(format!("cannot connect: the connector panicked: {panic}")),
    }
}

/// An error and what caused it, unless it says so itself.
fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let cause = source.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        next = source.source();
    }
    text
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, String>>,
    late: impl FnOnce() -> String,
) -> Result<T, String> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(late()),
    }
}

/// Asks in the newest version we have; a broker that does not know it answers in the oldest, with its range.
async fn greet(mut socket: Transport, options: &Options) -> Result<Dialled, String> {
    let mut frames = Frames::new();
    let mut version = *ApiVersionsRequest::VERSIONS.end();
    loop {
        let response = ask_versions(&mut socket, &mut frames, version, options).await?;
        let code = Code(response.error_code);
        if code == Code::NONE {
            return Ok(Dialled { socket, frames, versions: ApiVersions::new(&response) });
        }
        let lower = ApiVersions::new(&response).pick::<ApiVersionsRequest>().unwrap_or(0);
        if code != Code::UNSUPPORTED_VERSION || lower >= version {
            return Err(format!("the broker refused to say its versions: {code}"));
        }
        version = lower;
    }
}

async fn ask_versions(
    socket: &mut Transport,
    frames: &mut Frames,
    version: i16,
    options: &Options,
) -> Result<ApiVersionsResponse, String> {
    let request = ApiVersionsRequest {
        client_software_name: "ottla".to_owned(),
        client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..ApiVersionsRequest::default()
    };
    let bytes = frame::encode_request(&request, version, 0, &options.client_id).map_err(|e| e.to_string())?;
    socket.send(&bytes).await?;
    let pool = Arc::new(Pool::new(Arc::new(Ledger::default()), 0));
    let most = options.max_frame_bytes.min(MOST_VERSIONS);
    let (frame, _) = frames.next(socket, &pool, most, None).await.map_err(stranger)?;
    // Behind the correlation id stands the error code, in every version.
    let refused = frame.get(4..6).is_some_and(|code| code == Code::UNSUPPORTED_VERSION.0.to_be_bytes());
    let version = if refused { 0 } else { version };
    match frame::decode_response::<ApiVersionsRequest>(frame, version) {
        Ok((_, response)) => Ok(response),
        Err(error) => Err(format!("what answers is no Kafka broker: {error}")),
    }
}

/// All that a broker has to say of its versions takes less than a thousandth of it.
const MOST_VERSIONS: usize = 1 << 20;

const STRANGER: &str = "is it a Kafka broker, and without TLS?";

/// Before the first answer, nothing says that a Kafka broker without TLS is at the other end.
fn stranger(broken: Broken) -> String {
    match broken {
        Broken::Length(large @ LengthError::TooLarge { .. }) => format!("{large}; {STRANGER}"),
        Broken::Length(named) => named.to_string(),
        other => format!("{other} before it said its versions; {STRANGER}"),
    }
}
