//! Kafka's own tools, each doing a little of what a cluster is for.

use crate::failure::{During, Result, fail};
use crate::kafka::{jars, tools};
use crate::workspace;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

const GROUPS: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
const CONSUMER: &str = "org.apache.kafka.tools.consumer.ConsoleConsumer";

/// Has them all play before the broker at that address; what they print goes to a file in `dir`.
pub(super) fn play(address: &str, dir: &Path, version: &str) -> Result<()> {
    let stage = Stage { address, dir, version };
    for codec in CODECS {
        let topic = format!("java-{codec}");
        stage.run("TopicCommand", &["--create", "--topic", &topic, "--config", "retention.ms=-1"])?;
        stage.produce(&topic, codec)?;
        stage.consume(&topic, codec)?;
    }
    stage.topics()?;
    stage.groups("classic", "heartbeat.interval.ms=300")?;
    if jars::major(version) >= 4 {
        stage.groups("consumer", "auto.commit.interval.ms=300")?;
    }
    stage.transactions()
}

/// What Kafka's own code reads in all requests and replies, also in those of ours, a line of JSON each. It has to write
/// them anew to the same bytes.
pub(super) fn reads(files: &[PathBuf]) -> Result<Vec<u8>> {
    let program = workspace::root().join("crates/wire/tests/golden/Frames.java");
    let mut java = Command::new(jars::java()?);
    java.arg("-cp").arg(format!("{}/*", jars::kafka(jars::NEWEST)?.display())).arg(program).args(files);
    let output = java.output().during(|| "starting Java".into())?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    fail(format!("Kafka does not read what was recorded:\n{}", String::from_utf8_lossy(&output.stderr)))
}

struct Stage<'a> {
    address: &'a str,
    dir: &'a Path,
    version: &'a str,
}

impl Stage<'_> {
    /// Records with headers, null values and empty ones.
    fn produce(&self, topic: &str, codec: &str) -> Result<()> {
        let lines = "one:1,two:2\tkey\tvalue\nnone:\tNULL\tof no key\nlast:\tof no value\tNULL\nfour:4\t\t\n";
        let client = format!("client.id=java-producer-{codec}");
        let mut tool = self.tool("ConsoleProducer")?;
        tool.args(["--topic", topic, "--compression-codec", codec, "--command-property", &client]);
        for property in ["parse.headers=true", "parse.key=true", "null.marker=NULL"] {
            tool.args(["--reader-property", property]);
        }
        self.feed(tool, lines)
    }

    /// By partition, without a group.
    fn consume(&self, topic: &str, codec: &str) -> Result<()> {
        let client = format!("client.id=java-consumer-{codec}");
        let how = ["--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "4"];
        self.run(CONSUMER, &[&how[..], &["--command-property", &client]].concat())
    }

    fn topics(&self) -> Result<()> {
        self.run("TopicCommand", &["--list"])?;
        self.run("TopicCommand", &["--describe", "--topic", "java-none"])?;
        self.run("TopicCommand", &["--alter", "--topic", "java-gzip", "--partitions", "2"])?;
        // The end, the start, from a time on; what came later is the greatest time and what is kept elsewhere.
        let times = ["-1", "-2", "1700000000000", "-3", "-4", "-5"];
        let known = if jars::major(self.version) >= 3 { 6 } else { 3 };
        for time in &times[..known] {
            self.run("GetOffsetShell", &["--topic", "java-none", "--time", time])?;
        }
        let wanted = r#"{"partitions":[{"topic":"java-zstd","partition":0,"offset":2}],"version":1}"#;
        let file = self.dir.join("delete-records.json");
        fs::write(&file, wanted).during(|| format!("writing {}", file.display()))?;
        self.run("DeleteRecordsCommand", &["--offset-json-file", &file.to_string_lossy()])?;
        self.run("TopicCommand", &["--delete", "--topic", "java-gzip"])
    }

    fn groups(&self, protocol: &str, setting: &str) -> Result<()> {
        let group = format!("java-{protocol}");
        let settings = [
            format!("group.protocol={protocol}"),
            format!("client.id=java-{protocol}-member"),
            setting.to_owned(),
        ];
        let mut consume = vec!["--topic", "java-none", "--group", &group, "--from-beginning"];
        // It ends when nothing has come for so long: time enough for some heartbeats.
        consume.extend(["--timeout-ms", "4000"]);
        settings.iter().for_each(|setting| consume.extend(["--command-property", setting]));
        self.run(CONSUMER, &consume)?;
        self.run(GROUPS, &["--list", "--state"])?;
        self.run(GROUPS, &["--describe", "--group", &group])?;
        self.run(GROUPS, &["--describe", "--group", &group, "--members", "--verbose"])?;
        let reset =
            ["--reset-offsets", "--to-earliest", "--execute", "--topic", "java-none", "--group", &group];
        self.run(GROUPS, &reset)?;
        self.run(GROUPS, &["--delete", "--group", &group])
    }

    fn transactions(&self) -> Result<()> {
        let mut produce = tools::class("ProducerPerformance")?;
        produce.args([
            "--topic",
            "java-lz4",
            "--num-records",
            "4",
            "--record-size",
            "10",
            "--throughput",
            "-1",
        ]);
        produce.args(["--transactional-id", "java-transactions", "--transaction-duration-ms", "1000"]);
        produce.args([
            "--bootstrap-server",
            self.address,
            "--command-property",
            "client.id=java-transactions",
        ]);
        self.feed(produce, "")?;
        let client = "client.id=java-reads-committed";
        let how = ["--topic", "java-lz4", "--partition", "0", "--offset", "earliest", "--max-messages", "8"];
        let committed = ["--isolation-level", "read_committed", "--command-property", client];
        self.run(CONSUMER, &[&how[..], &committed].concat())
    }

    fn run(&self, class: &str, args: &[&str]) -> Result<()> {
        let mut tool = self.tool(class)?;
        tool.args(args);
        self.feed(tool, "")
    }

    fn tool(&self, class: &str) -> Result<Command> {
        let mut tool = tools::class(class)?;
        tool.args(["--bootstrap-server", self.address]);
        Ok(tool)
    }

    /// Runs a tool that reads `lines`.
    fn feed(&self, mut tool: Command, lines: &str) -> Result<()> {
        let shown = tool.get_args().skip_while(|arg| !arg.to_string_lossy().starts_with("org.apache"));
        let shown: Vec<_> = shown.map(|arg| arg.to_string_lossy().into_owned()).collect();
        eprintln!("  {}", shown.join(" "));
        let starting = || format!("starting {}", shown[0]);
        tool.stdin(Stdio::piped()).stdout(self.log()?).stderr(self.log()?);
        let mut child = tool.spawn().during(starting)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(lines.as_bytes()).during(starting)?;
        }
        if child.wait().during(starting)?.success() {
            return Ok(());
        }
        let told = fs::read_to_string(self.dir.join("golden.log")).unwrap_or_default();
        fail(format!("{} failed:\n{}", shown.join(" "), jars::last_lines(&told, 10)))
    }

    fn log(&self) -> Result<File> {
        let path = self.dir.join("golden.log");
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        opened.during(|| format!("writing {}", path.display()))
    }
}
