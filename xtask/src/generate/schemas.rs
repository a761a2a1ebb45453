//! Where the schemas come from.

use crate::failure::{During, Result};
use crate::kafka::jars;
use crate::workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with the schemas, unpacked from the jar of Kafka's clients: the one given, or else the one that Maven
/// gets.
pub(super) fn unpacked(jar: Option<PathBuf>, version: &str) -> Result<PathBuf> {
    let jar = match jar {
        Some(jar) => jar,
        None => jars::kafka(version)?.join(format!("kafka-clients-{version}.jar")),
    };
    let jar = fs::canonicalize(&jar).during(|| format!("looking for {}", jar.display()))?;
    unpack(&jar)
}

/// `jar` comes with every JDK, which Maven needs anyway.
fn unpack(jar: &Path) -> Result<PathBuf> {
    let folder = workspace::target()?.join("generate/schemas");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).during(|| format!("making {}", folder.display()))?;
    workspace::check(Command::new("jar").current_dir(&folder).arg("xf").arg(jar).arg("common/message"))?;
    Ok(folder.join("common/message"))
}
