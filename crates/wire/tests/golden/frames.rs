//! What was recorded: in `frames/API.txt` a line for each exchange, with the version, the client's name, the request
//! and the reply in hexadecimal digits (`-`: no reply was wanted), without their lengths.

use bytes::Bytes;
use ottla_wire::api::ApiKey;
use std::fmt;
use std::fs;
use std::path::PathBuf;

pub(crate) struct Exchange {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    /// Who asked: `java-*` and what else Java's clients call themselves, or what we wanted to know.
    pub(crate) client: String,
    pub(crate) request: Bytes,
    pub(crate) reply: Option<Bytes>,
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{} ({})", self.api, self.version, self.client)
    }
}

impl Exchange {
    fn parse(api: ApiKey, line: &str) -> Self {
        let mut parts = line.split(' ');
        let mut part = || parts.next().unwrap_or_else(|| panic!("{api}: a line is too short: {line}"));
        Self {
            api,
            version: part().parse().unwrap(),
            client: part().into(),
            request: bytes(part()).unwrap(),
            reply: bytes(part()),
        }
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

/// All exchanges, in the order of the files' names and lines.
pub(crate) fn all() -> Vec<Exchange> {
    let mut apis = ApiKey::ALL.to_vec();
    apis.sort_by_key(|api| api.name());
    apis.into_iter().flat_map(of).collect()
}

/// The exchanges of an API.
pub(crate) fn of(api: ApiKey) -> Vec<Exchange> {
    let path = folder().join("frames").join(api.name()).with_extension("txt");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| Exchange::parse(api, line)).collect()
}

fn bytes(hex: &str) -> Option<Bytes> {
    if hex == "-" {
        return None;
    }
    let digits = hex.as_bytes().chunks(2).map(|digits| str::from_utf8(digits).unwrap());
    Some(digits.map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect())
}
