//! Exchanges as text, a folder for each Kafka, a file in it for each API, a line for each exchange: version, client,
//! request and reply in hexadecimal digits, `-` where there is no reply.

use super::exchange::{self, Exchange};
use crate::failure::{During, Result, fail};
use crate::kafka::jars;
use crate::workspace;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

const FOLDER: &str = "crates/wire/tests/golden";

/// What ottla-wire speaks. Its tests notice what is missing here.
const APIS: [(i16, &str); 27] = [
    (0, "Produce"),
    (1, "Fetch"),
    (2, "ListOffsets"),
    (3, "Metadata"),
    (8, "OffsetCommit"),
    (9, "OffsetFetch"),
    (10, "FindCoordinator"),
    (11, "JoinGroup"),
    (12, "Heartbeat"),
    (13, "LeaveGroup"),
    (14, "SyncGroup"),
    (15, "DescribeGroups"),
    (16, "ListGroups"),
    (17, "SaslHandshake"),
    (18, "ApiVersions"),
    (19, "CreateTopics"),
    (20, "DeleteTopics"),
    (21, "DeleteRecords"),
    (22, "InitProducerId"),
    (23, "OffsetForLeaderEpoch"),
    (24, "AddPartitionsToTxn"),
    (26, "EndTxn"),
    (36, "SaslAuthenticate"),
    (37, "CreatePartitions"),
    (42, "DeleteGroups"),
    (68, "ConsumerGroupHeartbeat"),
    (69, "ConsumerGroupDescribe"),
];

/// Those that came with Kafka 4.0.
const LATE: [i16; 2] = [68, 69];

/// Where the exchanges with one Kafka are.
pub(super) struct Files {
    version: &'static str,
}

impl Files {
    pub(super) fn of(version: &'static str) -> Self {
        Self { version }
    }

    /// Replaces what was recorded before.
    pub(super) fn write(&self, exchanges: Vec<Exchange>) -> Result<()> {
        let folder = self.folder();
        let seen = exchanges.len();
        let texts = texts(&exchange::selected(exchanges));
        if let Some((_, missing)) =
            APIS.iter().find(|(key, name)| self.has(*key) && !texts.contains_key(name))
        {
            return fail(format!("nobody asked {missing}"));
        }
        if folder.exists() {
            fs::remove_dir_all(&folder).during(|| format!("clearing {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).during(|| format!("making {}", folder.display()))?;
        for (name, text) in &texts {
            let path = folder.join(name).with_extension("txt");
            fs::write(&path, text).during(|| format!("writing {}", path.display()))?;
        }
        let lines: usize = texts.values().map(|text| text.lines().count()).sum();
        let bytes: usize = texts.values().map(String::len).sum();
        eprintln!("kept {lines} of {seen} exchanges, {} KB, in {}", bytes / 1_000, folder.display());
        Ok(())
    }

    /// What Kafka reads in them: a line for each request and each reply, in their order.
    pub(super) fn write_content(&self, lines: &[u8]) -> Result<()> {
        let path = workspace::root().join(FOLDER).join(format!("content-{}.jsonl.gz", self.version));
        let writing = || format!("writing {}", path.display());
        let file = File::create(&path).during(writing)?;
        let mut gzip = GzEncoder::new(file, Compression::best());
        gzip.write_all(lines).and_then(|()| gzip.finish()).during(writing)?;
        Ok(())
    }

    pub(super) fn all(&self) -> Result<Vec<PathBuf>> {
        let folder = self.folder();
        let listing = || format!("listing {}", folder.display());
        let entries = fs::read_dir(&folder).during(listing)?;
        let mut paths = entries.map(|entry| Ok(entry.during(listing)?.path())).collect::<Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    fn folder(&self) -> PathBuf {
        workspace::root().join(FOLDER).join(format!("frames-{}", self.version))
    }

    fn has(&self, api: i16) -> bool {
        jars::major(self.version) >= 4 || !LATE.contains(&api)
    }
}

/// By the name of the API.
fn texts(exchanges: &[Exchange]) -> BTreeMap<&'static str, String> {
    let mut texts = BTreeMap::<_, String>::new();
    for exchange in exchanges {
        if let Some((_, name)) = APIS.iter().find(|(key, _)| *key == exchange.api) {
            texts.entry(*name).or_default().push_str(&line(exchange));
        }
    }
    texts
}

fn line(exchange: &Exchange) -> String {
    let Exchange { version, client, request, reply, .. } = exchange;
    let client = client.replace(char::is_whitespace, "_");
    let reply = reply.as_ref().map_or("-".into(), |reply| hex(reply));
    format!("{version} {client} {} {reply}\n", hex(request))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_is_a_line_in_the_file_of_its_api() {
        let metadata = Exchange {
            api: 3,
            version: 12,
            client: "a client".into(),
            request: vec![0, 0xff],
            reply: Some(vec![10]),
        };
        let unanswered = Exchange { api: 0, reply: None, ..metadata.clone() };
        let unknown = Exchange { api: 999, ..metadata.clone() };
        let texts = texts(&[metadata, unanswered, unknown]);
        let wanted = [("Metadata", "12 a_client 00ff 0a\n"), ("Produce", "12 a_client 00ff -\n")];
        assert_eq!(texts.iter().map(|(name, text)| (*name, &**text)).collect::<Vec<_>>(), wanted);
    }
}
