//! What was recorded: in `frames-KAFKA/API.txt` a line for each exchange with that Kafka, with the version, the client's
//! name, the request and the reply in hexadecimal digits (`-`: no reply was wanted), without their lengths.

use bytes::Bytes;
use ottla_wire::api::{ApiKey, ApiVersions};
use ottla_wire::code::Code;
use ottla_wire::frame;
use ottla_wire::message::ApiVersionsRequest;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The Kafkas that were recorded, the newest first.
pub(crate) const KAFKAS: [&str; 3] = ["4.4.0", "3.9.1", "2.8.2"];

pub(crate) const NEWEST: &str = KAFKAS[0];

pub(crate) struct Exchange {
    /// The version of the broker.
    pub(crate) kafka: &'static str,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    /// Who asked: `java-*` and what else Java's clients call themselves, or what we wanted to know.
    pub(crate) client: String,
    pub(crate) request: Bytes,
    pub(crate) reply: Option<Bytes>,
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{} ({}, {})", self.api, self.version, self.client, self.kafka)
    }
}

impl Exchange {
    fn parse(kafka: &'static str, api: ApiKey, line: &str) -> Self {
        let mut parts = line.split(' ');
        let mut part = || parts.next().unwrap_or_else(|| panic!("{api}: a line is too short: {line}"));
        Self {
            kafka,
            api,
            version: part().parse().unwrap(),
            client: part().into(),
            request: bytes(part()).unwrap(),
            reply: bytes(part()),
        }
    }

    /// What a broker speaks is asked in a version that it does not speak: it says so in version 0 (KIP-511).
    pub(crate) fn is_refused(&self) -> bool {
        let code = self.reply.as_ref().and_then(|reply| reply.get(4..6));
        self.api == ApiKey::ApiVersions && code == Some(&Code::UNSUPPORTED_VERSION.0.to_be_bytes()[..])
    }

    /// Which version the reply is in.
    pub(crate) fn reply_version(&self) -> i16 {
        if self.is_refused() { 0 } else { self.version }
    }

    /// Whether Java's encoder wrote the request.
    pub(crate) fn is_by_java(&self) -> bool {
        // Its tools cannot all be told how to call themselves.
        const JAVA: [&str; 4] = ["java-", "adminclient-", "GetOffsetShell", "AddPartitionsManager-"];
        JAVA.iter().any(|name| self.client.starts_with(name))
    }
}

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// All exchanges with all Kafkas.
pub(crate) fn all() -> Vec<Exchange> {
    KAFKAS.into_iter().flat_map(with).collect()
}

/// All exchanges with this Kafka, in the order of the files' names and lines.
pub(crate) fn with(kafka: &'static str) -> Vec<Exchange> {
    let mut apis = ApiKey::ALL.to_vec();
    apis.sort_by_key(|api| api.name());
    apis.into_iter().flat_map(|api| of(kafka, api)).collect()
}

/// The exchanges of an API with this Kafka; none if it does not speak it.
pub(crate) fn of(kafka: &'static str, api: ApiKey) -> Vec<Exchange> {
    let path = folder().join(format!("frames-{kafka}")).join(api.name()).with_extension("txt");
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        text => text.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
    };
    text.lines().map(|line| Exchange::parse(kafka, api, line)).collect()
}

/// What that Kafka says that it speaks.
pub(crate) fn spoken(kafka: &'static str) -> ApiVersions {
    let exchanges = of(kafka, ApiKey::ApiVersions);
    let asked = exchanges.into_iter().find(|exchange| exchange.client == "versions").expect("versions");
    let reply = frame::decode_response::<ApiVersionsRequest>(asked.reply.unwrap(), asked.version);
    ApiVersions::new(&reply.unwrap().1)
}

fn bytes(hex: &str) -> Option<Bytes> {
    if hex == "-" {
        return None;
    }
    let digits = hex.as_bytes().chunks(2).map(|digits| str::from_utf8(digits).unwrap());
    Some(digits.map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect())
}
