//! Where the schemas come from.

use crate::failure::{During, Result, fail};
use crate::kafka::jars;
use rawzip::ZipArchive;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

/// Kafka's schemas, each by its message's name.
pub(super) struct Schemas {
    texts: BTreeMap<String, String>,
}

impl Schemas {
    /// From the jar of Kafka's clients: the one given, or else the one that Maven gets.
    pub(super) fn of_jar(jar: Option<PathBuf>, version: &str) -> Result<Self> {
        let jar = match jar {
            Some(jar) => jar,
            None => jars::kafka(version)?.join(format!("kafka-clients-{version}.jar")),
        };
        let bytes = fs::read(&jar).during(|| format!("reading {}", jar.display()))?;
        let texts = unpacked(&bytes).during(|| format!("unpacking {}", jar.display()))?;
        Ok(Self { texts })
    }

    pub(super) fn get(&self, name: &str) -> Result<&str> {
        match self.texts.get(name) {
            Some(text) => Ok(text),
            None => fail(format!("the jar has no schema of {name}")),
        }
    }
}

/// The files `common/message/NAME.json`.
fn unpacked(jar: &[u8]) -> Result<BTreeMap<String, String>> {
    let reading = || "reading the archive".into();
    let archive = ZipArchive::from_slice(jar).during(reading)?;
    let mut texts = BTreeMap::new();
    let mut entries = archive.entries();
    while let Some(entry) = entries.next_entry().during(reading)? {
        let path = String::from_utf8_lossy(entry.file_path().as_bytes()).into_owned();
        let Some(name) = schema_name(&path) else { continue };
        let packed = archive.get_entry(entry.wayfinder()).during(|| path.clone())?;
        let mut text = String::new();
        let inflated = flate2::bufread::DeflateDecoder::new(packed.data());
        packed.verifying_reader(inflated).read_to_string(&mut text).during(|| path.clone())?;
        texts.insert(name.to_owned(), text);
    }
    Ok(texts)
}

fn schema_name(path: &str) -> Option<&str> {
    path.strip_prefix("common/message/")?.strip_suffix(".json")
}
