//! Kafka's jars, fetched once with Maven, and the Java to run them with.

use crate::failure::{During, Result, fail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version that is meant when none is named, and whose tools are used against any broker.
pub(crate) const NEWEST: &str = "4.4.0";

const INSTALL: &str = "on Debian and Ubuntu: apt-get install openjdk-17-jdk-headless maven";

/// The folder with Kafka's jars and all they need, downloaded if it is not there.
pub(crate) fn kafka(version: &str) -> Result<PathBuf> {
    let broker = if major(version) >= 2 { "kafka_2.13" } else { "kafka_2.12" };
    let mut wanted = vec![Artifact::new("org.apache.kafka", broker, version)];
    if major(version) >= 3 {
        wanted.push(Artifact::new("org.apache.kafka", "kafka-tools", version));
    }
    fetched(&cache()?.join(version), &format!("Apache Kafka {version}"), &wanted)
}

/// The folder with a logger, without which Kafka dies without a word: its jars bring the interface only.
pub(crate) fn logger() -> Result<PathBuf> {
    let wanted = [Artifact::new("org.slf4j", "slf4j-simple", "1.7.36")];
    fetched(&cache()?.join("slf4j-simple-1.7.36"), "a logger for Kafka", &wanted)
}

/// A Java that is new enough.
pub(crate) fn java() -> Result<PathBuf> {
    let java = match std::env::var_os("JAVA_HOME") {
        Some(home) if !home.is_empty() => Path::new(&home).join("bin/java"),
        _ => PathBuf::from("java"),
    };
    let Ok(output) = Command::new(&java).arg("-version").output() else {
        return fail(format!(
            "Kafka needs Java 17 or later, and `{}` is not there; {INSTALL}",
            java.display()
        ));
    };
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    match java_major(&told) {
        Some(17..) => Ok(java),
        _ => fail(format!("Kafka needs Java 17 or later, and this is {}; {INSTALL}", first_line(&told))),
    }
}

/// Whether brokers of this version keep what they know of each other in a ZooKeeper. (2.8 could do without, for trials.)
pub(crate) fn needs_zookeeper(version: &str) -> bool {
    major(version) < 3
}

/// The first number of a Kafka version.
pub(crate) fn major(version: &str) -> u32 {
    version.split('.').next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

struct Artifact {
    group: &'static str,
    name: &'static str,
    version: String,
}

impl Artifact {
    fn new(group: &'static str, name: &'static str, version: &str) -> Self {
        Self { group, name, version: version.to_owned() }
    }
}

fn cache() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("KAFKA_JARS").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    match std::env::home_dir() {
        Some(home) => Ok(home.join(".cache/kafka-jars")),
        None => fail("there is no home directory to keep Kafka's jars in; set KAFKA_JARS to a folder"),
    }
}

/// `folder/libs`. A download happens beside it and is moved there when it is whole, so that a killed one
/// leaves nothing that looks like a cache.
fn fetched(folder: &Path, what: &str, wanted: &[Artifact]) -> Result<PathBuf> {
    let libs = folder.join("libs");
    if folder.join(".complete").exists() {
        return Ok(libs);
    }
    eprintln!("fetching {what} with Maven into {} (once)", folder.display());
    let fresh = folder.with_file_name(format!(
        "{}.fetching-{}",
        folder.file_name().unwrap_or_default().to_string_lossy(),
        std::process::id()
    ));
    let outcome = download(&fresh, wanted).and_then(|()| put_in_place(&fresh, folder));
    if fresh.exists() {
        let _ = fs::remove_dir_all(&fresh);
    }
    outcome.map(|()| libs)
}

fn download(into: &Path, wanted: &[Artifact]) -> Result<()> {
    fs::create_dir_all(into).during(|| format!("making {}", into.display()))?;
    fs::write(into.join("pom.xml"), pom(wanted)).during(|| format!("writing into {}", into.display()))?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"]);
    let output = maven.current_dir(into).stdin(Stdio::null()).output();
    let Ok(output) = output else {
        return fail(format!("`mvn`, which downloads Kafka, is not there; {INSTALL}"));
    };
    fs::write(into.join("mvn.log"), &output.stdout).during(|| format!("writing into {}", into.display()))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stdout);
        return fail(format!("Maven failed:\n{}", last_lines(&told, 5)));
    }
    fs::write(into.join(".complete"), "").during(|| format!("writing into {}", into.display()))
}

/// Another run may have been faster: what is complete stays, what is not gives way.
fn put_in_place(fresh: &Path, folder: &Path) -> Result<()> {
    if folder.join(".complete").exists() {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(folder).during(|| format!("clearing a broken {}", folder.display()))?;
    }
    match fs::rename(fresh, folder) {
        Err(_) if folder.join(".complete").exists() => Ok(()),
        renamed => renamed.during(|| format!("moving the download to {}", folder.display())),
    }
}

fn pom(wanted: &[Artifact]) -> String {
    let dependency = |artifact: &Artifact| {
        let Artifact { group, name, version } = artifact;
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>\n"
        )
    };
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\n\
         <groupId>local</groupId><artifactId>kafka</artifactId><version>1</version>\n\
         <dependencies>\n{}</dependencies></project>\n",
        wanted.iter().map(dependency).collect::<String>()
    )
}

/// From what `java -version` prints: 17 of `openjdk version "17.0.15"`, 8 of `java version "1.8.0_392"`.
fn java_major(told: &str) -> Option<u32> {
    let version = told.split('"').nth(1)?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match numbers.next()?.ok()? {
        1 => numbers.next()?.ok(),
        major => Some(major),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("unknown")
}

/// The end of a log, without the stack frames of Java's exceptions.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("\tat ")).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_tells_its_version_in_several_ways() {
        assert_eq!(java_major("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK ..."), Some(17));
        assert_eq!(java_major("java version \"1.8.0_392\""), Some(8));
        assert_eq!(java_major("openjdk version \"25\" 2025-09-16"), Some(25));
        assert_eq!(java_major("openjdk version \"22-ea\""), Some(22));
        assert_eq!(java_major("sh: java: not found"), None);
    }

    #[test]
    fn the_pom_names_what_is_wanted() {
        let pom = pom(&[Artifact::new("org.apache.kafka", "kafka-tools", "4.4.0")]);
        assert!(pom.contains("<artifactId>kafka-tools</artifactId><version>4.4.0</version>"));
    }

    #[test]
    fn a_whole_download_replaces_a_broken_one_and_yields_to_a_whole_one() {
        let base = std::env::temp_dir().join(format!("ottla-xtask-jars-{}", std::process::id()));
        let (fresh, folder) = (base.join("fresh"), base.join("4.4.0"));
        fs::create_dir_all(&fresh).unwrap();
        fs::create_dir_all(folder.join("libs")).unwrap();
        fs::write(fresh.join(".complete"), "first").unwrap();
        put_in_place(&fresh, &folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join(".complete")).unwrap(), "first");
        assert!(!folder.join("libs").exists());

        fs::create_dir_all(&fresh).unwrap();
        fs::write(fresh.join(".complete"), "second").unwrap();
        put_in_place(&fresh, &folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join(".complete")).unwrap(), "first");
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_log_is_cut_to_its_end() {
        assert_eq!(last_lines("a\nb\nc", 2), "b\nc");
        assert_eq!(last_lines("Exception: no\n\tat a.b(C.java:1)\n\tat a.c(C.java:2)", 2), "Exception: no");
        assert_eq!(last_lines("a", 2), "a");
    }
}
