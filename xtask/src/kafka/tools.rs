//! The Java tools that come with Kafka, for what has to be true independently of us.

use super::{jars, node};
use crate::failure::{During, Result, fail};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The end of each partition, by topic: `offsets["plain6"][&5]`.
pub(crate) type Offsets = BTreeMap<String, BTreeMap<i32, u64>>;

/// Kafka's tools against one cluster.
pub(crate) struct Tools {
    bootstrap: String,
    log: PathBuf,
}

/// What the producer writes.
pub(crate) enum Payload<'a> {
    /// So many bytes of random letters.
    Letters(u32),
    /// Random lines of a file.
    LinesOf(&'a Path),
}

/// A tool by its class; without a package it is one of `org.apache.kafka.tools`.
pub(crate) fn class(name: &str) -> Result<Command> {
    let mut java = node::java(jars::NEWEST, "error", &["-Xmx512m"])?;
    java.arg(if name.contains('.') { name.into() } else { format!("org.apache.kafka.tools.{name}") });
    Ok(java)
}

impl Tools {
    /// What the tools print is kept in a file in `dir`.
    pub(crate) fn new(bootstrap: String, dir: &Path) -> Self {
        Self { bootstrap, log: dir.join("tools.log") }
    }

    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    pub(crate) fn create_topic(&self, name: &str, partitions: u32) -> Result<()> {
        let mut create = self.tool("TopicCommand")?;
        create.args(["--create", "--topic", name, "--partitions", &partitions.to_string()]);
        self.run_quietly(&mut create)
    }

    /// Writes records in batches of 64 KiB with Kafka's own ProducerPerformance.
    pub(crate) fn produce(
        &self,
        topic: &str,
        records: u64,
        payload: &Payload<'_>,
        codec: &str,
    ) -> Result<()> {
        let mut produce = class("ProducerPerformance")?;
        produce.args(["--topic", topic, "--throughput", "-1", "--num-records", &records.to_string()]);
        match payload {
            Payload::Letters(size) => produce.args(["--record-size", &size.to_string()]),
            Payload::LinesOf(file) => produce.arg("--payload-file").arg(file),
        };
        produce.args(["--bootstrap-server", &self.bootstrap, "--command-property"]);
        produce.args(["batch.size=65536", "linger.ms=5"]).arg(format!("compression.type={codec}"));
        self.run_quietly(&mut produce)
    }

    /// The end offsets of all partitions of all topics.
    pub(crate) fn end_offsets(&self) -> Result<Offsets> {
        let mut offsets = self.tool("GetOffsetShell")?;
        let output =
            offsets.args(["--exclude-internal-topics"]).output().during(|| "starting Java".into())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        // A cluster without topics is an error to this tool, but not to us.
        if output.status.success() || complaint.contains("Could not match any topic-partitions") {
            return parse_offsets(&text);
        }
        fail(format!("GetOffsetShell failed: {}", jars::last_lines(&complaint, 5)))
    }

    /// Reads `count` records with Kafka's ConsoleConsumer and gives each as partition, offset and value.
    pub(crate) fn consume(
        &self,
        topic: &str,
        count: u64,
        mut each: impl FnMut(i32, i64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut consume = self.tool("org.apache.kafka.tools.consumer.ConsoleConsumer")?;
        consume.args(["--topic", topic, "--from-beginning", "--max-messages", &count.to_string()]);
        consume.args(["--timeout-ms", "60000"]);
        for property in ["print.partition=true", "print.offset=true"] {
            consume.args(["--formatter-property", property]);
        }
        let log = self.log()?;
        let mut child = consume.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
        let child = child.as_mut().map_err(|error| error.to_string()).during(|| "starting Java".into())?;
        let Some(stdout) = child.stdout.take() else { return fail("Java has no output") };
        let read = BufReader::with_capacity(1 << 20, stdout).split(b'\n').try_for_each(|line| {
            let line = line.during(|| "reading from Java".into())?;
            let (partition, offset, value) = parse_consumed(&line)?;
            each(partition, offset, value)
        });
        if read.is_err() {
            let _ = child.kill();
        }
        let status = child.wait().during(|| "waiting for Java".into())?;
        match read {
            Ok(()) if !status.success() => self.failed("ConsoleConsumer"),
            read => read,
        }
    }

    fn tool(&self, name: &str) -> Result<Command> {
        let mut tool = class(name)?;
        tool.args(["--bootstrap-server", &self.bootstrap]);
        Ok(tool)
    }

    fn run_quietly(&self, tool: &mut Command) -> Result<()> {
        let (out, err) = (self.log()?, self.log()?);
        let status = tool.stdin(Stdio::null()).stdout(out).stderr(err).status();
        match status.during(|| "starting Java".into())?.success() {
            true => Ok(()),
            false => self.failed("a tool of Kafka"),
        }
    }

    fn failed<T>(&self, what: &str) -> Result<T> {
        let told = std::fs::read_to_string(&self.log).unwrap_or_default();
        fail(format!("{what} failed:\n{}", jars::last_lines(&told, 10)))
    }

    fn log(&self) -> Result<std::fs::File> {
        let opened = OpenOptions::new().create(true).append(true).open(&self.log);
        opened.during(|| format!("writing {}", self.log.display()))
    }
}

/// Lines of `topic:partition:offset`.
fn parse_offsets(text: &str) -> Result<Offsets> {
    let mut offsets = Offsets::new();
    for line in text.lines() {
        let mut parts = line.rsplitn(3, ':');
        let (offset, partition, topic) = (parts.next(), parts.next(), parts.next());
        match (topic, partition.map(str::parse), offset.map(str::parse)) {
            (Some(topic), Some(Ok(partition)), Some(Ok(offset))) => {
                offsets.entry(topic.to_owned()).or_default().insert(partition, offset);
            }
            _ => return fail(format!("GetOffsetShell said `{line}`")),
        }
    }
    Ok(offsets)
}

/// A line of `Partition:3<tab>Offset:17<tab>value`.
fn parse_consumed(line: &[u8]) -> Result<(i32, i64, &[u8])> {
    let mut parts = line.splitn(3, |&byte| byte == b'\t');
    let partition = parts.next().and_then(|part| number(part, "Partition:"));
    let offset = parts.next().and_then(|part| number(part, "Offset:"));
    match (partition, offset, parts.next()) {
        (Some(partition), Some(offset), Some(value)) => Ok((partition as i32, offset, value)),
        _ => fail(format!("ConsoleConsumer said `{}`", String::from_utf8_lossy(line))),
    }
}

fn number(part: &[u8], name: &str) -> Option<i64> {
    std::str::from_utf8(part).ok()?.strip_prefix(name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_also_of_topics_with_colons() {
        let offsets = parse_offsets("a:0:5\na:1:7\nb:c:0:9\n").unwrap();
        assert_eq!(offsets["a"], BTreeMap::from([(0, 5), (1, 7)]));
        assert_eq!(offsets["b:c"][&0], 9);
        assert!(parse_offsets("nonsense").is_err());
    }

    #[test]
    fn a_consumed_line_keeps_the_tabs_of_its_value() {
        let line = b"Partition:3\tOffset:17\ta\tb";
        assert_eq!(parse_consumed(line).unwrap(), (3, 17, &b"a\tb"[..]));
        assert!(parse_consumed(b"Processed a total of 5 messages").is_err());
    }
}
