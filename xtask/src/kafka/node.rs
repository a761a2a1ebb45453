//! One broker as a folder: its settings, its data, its log, and the number of its process while it runs.
//!
//! ```text
//!  DIR/node.json          version and ports, written by `create`, never changed by a start
//!  DIR/server.properties  what Kafka reads
//!  DIR/data/              Kafka's logs; kept over stop and start
//!  DIR/out.log            what Kafka prints
//!  DIR/kafka.pid          there from start to stop
//! ```
//!
//! A node has no state of its own, so any process may stop what another started.

use super::process::Pid;
use super::{jars, ports, probe};
use crate::failure::{During, Failure, Result, fail};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a broker may take until it answers; on a busy machine with two cores it is some 5 s.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long a broker may take to shut down before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Node {
    dir: PathBuf,
    version: String,
    port: u16,
}

/// What a new node is to be.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) version: String,
    /// None: a free one.
    pub(crate) port: Option<u16>,
    /// Added to server.properties; they win over ours.
    pub(crate) set: Vec<(String, String)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { version: jars::NEWEST.into(), port: None, set: Vec::new() }
    }
}

impl Node {
    /// Makes the folder's settings, and its data if there are none yet; starts nothing.
    pub(crate) fn create(dir: &Path, settings: &Settings) -> Result<Self> {
        if jars::major(&settings.version) < 3 {
            let known = jars::KNOWN.join(", ");
            return fail(format!(
                "Kafka {} needs a ZooKeeper, which is not started here; known: {known}",
                settings.version
            ));
        }
        let dir = absolute(dir)?;
        let (port, controller_port) = chosen_ports(settings.port)?;
        fs::create_dir_all(&dir).during(|| format!("making {}", dir.display()))?;
        let node = Self { dir, version: settings.version.clone(), port };
        node.write("server.properties", &properties(&node.dir, port, controller_port, &settings.set))?;
        node.write("node.json", &json!({ "version": node.version, "port": port }).to_string())?;
        node.format()?;
        Ok(node)
    }

    /// A node that was created before.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let dir = absolute(dir)?;
        let text = match fs::read_to_string(dir.join("node.json")) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return fail(format!("{} is not the folder of a Kafka that xtask made", dir.display()));
            }
            read => read.during(|| format!("reading the settings in {}", dir.display()))?,
        };
        let state: Value = serde_json::from_str(&text).during(|| format!("reading {}", dir.display()))?;
        let port = state["port"].as_u64().and_then(|port| u16::try_from(port).ok());
        match (state["version"].as_str(), port) {
            (Some(version), Some(port)) => Ok(Self { dir, version: version.into(), port }),
            _ => fail(format!("{}/node.json is broken", dir.display())),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts the broker and waits until it can be used. It outlives us unless somebody stops it.
    pub(crate) fn start(&self) -> Result<Child> {
        if self.running().is_some() {
            return fail(format!("the Kafka in {} is running already", self.dir.display()));
        }
        let log = File::create(self.dir.join("out.log")).during(|| "writing Kafka's log".into())?;
        let log_too = log.try_clone().during(|| "writing Kafka's log".into())?;
        let mut kafka = self.java(&["-Xmx1g", "-XX:+ExitOnOutOfMemoryError"])?;
        kafka.arg("kafka.Kafka").arg(self.dir.join("server.properties"));
        // A group of its own: Ctrl-C in a terminal is for us; who owns the broker sees to its end.
        kafka.stdin(Stdio::null()).stdout(log).stderr(log_too).process_group(0);
        let mut child = kafka.spawn().during(|| "starting Kafka".into())?;
        self.write("kafka.pid", &child.id().to_string())?;
        match probe::wait(self.port, 1, START_LIMIT, || still_running(&mut child)) {
            Ok(()) => Ok(child),
            Err(failure) => Err(self.did_not_start(&mut child, &failure)),
        }
    }

    /// The broker's process, if it runs. A number that by now belongs to another program does not count.
    pub(crate) fn running(&self) -> Option<Pid> {
        let pid = Pid(fs::read_to_string(self.dir.join("kafka.pid")).ok()?.trim().parse().ok()?);
        let ours = self.dir.join("server.properties");
        pid.command_line()?.contains(&*ours.to_string_lossy()).then_some(pid)
    }

    /// Lets the broker shut down, if it runs; killed when that takes too long.
    pub(crate) fn stop(&self) {
        self.end("TERM", STOP_LIMIT);
    }

    /// Ends the broker at once, as a crash would.
    pub(crate) fn kill(&self) {
        self.end("KILL", STOP_LIMIT);
    }

    /// The broker stays alive with its connections open, but does nothing any more.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.signal("STOP")
    }

    pub(crate) fn thaw(&self) -> Result<()> {
        self.signal("CONT")
    }

    /// Removes the data, keeping settings and log. The broker must not run.
    pub(crate) fn remove_data(&self) {
        let _ = fs::remove_dir_all(self.dir.join("data"));
    }

    fn end(&self, signal: &str, limit: Duration) {
        if let Some(pid) = self.running() {
            pid.signal(signal);
            // One that is frozen takes the signal when it thaws.
            pid.signal("CONT");
            if !pid.wait_gone(limit) {
                eprintln!("Kafka did not shut down within {} s, so it is killed", limit.as_secs());
                pid.signal("KILL");
                pid.wait_gone(limit);
            }
        }
        let _ = fs::remove_file(self.dir.join("kafka.pid"));
    }

    fn signal(&self, signal: &str) -> Result<()> {
        match self.running() {
            Some(pid) if pid.signal(signal) => Ok(()),
            _ => fail(format!("the Kafka in {} is not running", self.dir.display())),
        }
    }

    fn did_not_start(&self, child: &mut Child, failure: &Failure) -> Failure {
        let _ = child.kill();
        let _ = child.wait();
        let _ = fs::remove_file(self.dir.join("kafka.pid"));
        let path = self.dir.join("out.log");
        let log = fs::read_to_string(&path).unwrap_or_default();
        let told = jars::last_lines(&log, 15);
        Failure::new(format!("Kafka did not start: {failure}\n{told}\n(all of it: {})", path.display()))
    }

    /// Prepares the data folder, as KRaft wants it before the first start.
    fn format(&self) -> Result<()> {
        if self.dir.join("data").exists() {
            return Ok(());
        }
        // The same id for every cluster: 16 bytes that say what it is.
        const CLUSTER_ID: &str = "b3R0bGEta2Fma2EtdGVzdA";
        let mut format = self.java(&["-XX:TieredStopAtLevel=1"])?;
        format.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"]);
        format.arg(self.dir.join("server.properties"));
        let output = format.stdin(Stdio::null()).output().during(|| "starting Java".into())?;
        if output.status.success() {
            return Ok(());
        }
        let told = [output.stdout, output.stderr].concat();
        fail(format!(
            "Kafka refuses the settings:\n{}",
            jars::last_lines(&String::from_utf8_lossy(&told), 10)
        ))
    }

    fn java(&self, options: &[&str]) -> Result<Command> {
        java(&self.version, "warn", options)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.dir.join(name);
        fs::write(&path, text).during(|| format!("writing {}", path.display()))
    }
}

fn still_running(child: &mut Child) -> Result<()> {
    match child.try_wait().during(|| "watching Kafka".into())? {
        None => Ok(()),
        Some(status) => fail(format!("the broker ended ({status})")),
    }
}

/// Java with the jars of a Kafka version and a logger that tells `level` and worse on standard error.
pub(crate) fn java(version: &str, level: &str, options: &[&str]) -> Result<Command> {
    let mut java = Command::new(jars::java()?);
    let mut classpath = format!("{}/*", jars::kafka(version)?.display());
    match jars::logger() {
        // In front, since some versions bring one of their own, which nobody configures.
        Ok(libs) => classpath.insert_str(0, &format!("{}/*:", libs.display())),
        Err(failure) => eprintln!("going on without Kafka's log: {failure}"),
    }
    java.args(options).arg(format!("-Dorg.slf4j.simpleLogger.defaultLogLevel={level}"));
    java.arg("-Dorg.slf4j.simpleLogger.showDateTime=true").arg("-cp").arg(classpath);
    Ok(java)
}

/// Broker and controller in one process, for tests: no replication, no waiting for late group members, no topics
/// that spring up by themselves.
fn properties(dir: &Path, port: u16, controller_port: u16, set: &[(String, String)]) -> String {
    let mut text = format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller_port}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         log.dirs={}\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=4\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=4\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         group.initial.rebalance.delay.ms=0\n\
         log.retention.ms=-1\n\
         auto.create.topics.enable=false\n",
        dir.join("data").display()
    );
    for (key, value) in set {
        text += &format!("{key}={value}\n");
    }
    text
}

/// The broker's port and its controller's.
fn chosen_ports(wanted: Option<u16>) -> Result<(u16, u16)> {
    match wanted {
        Some(port) if !ports::is_free(port) => {
            fail(format!("port {port} is taken; without --port a free one is used"))
        }
        Some(port) => Ok((port, ports::free(1)?[0])),
        None => ports::free(2).map(|ports| (ports[0], ports[1])),
    }
}

fn absolute(dir: &Path) -> Result<PathBuf> {
    std::path::absolute(dir).during(|| format!("finding {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_caller_come_last_and_win() {
        let text = properties(Path::new("/x"), 7, 8, &[("auto.create.topics.enable".into(), "true".into())]);
        assert!(text.contains("log.dirs=/x/data\n"));
        assert!(text.contains("advertised.listeners=PLAINTEXT://127.0.0.1:7\n"));
        assert!(text.ends_with("auto.create.topics.enable=false\nauto.create.topics.enable=true\n"));
    }

    #[test]
    fn a_folder_that_is_none_of_ours_is_refused() {
        let error = Node::open(Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("not the folder of a Kafka"), "{error}");
    }

    #[test]
    fn an_old_kafka_is_refused_with_the_reason() {
        let settings = Settings { version: "2.8.2".into(), ..Settings::default() };
        let error = Node::create(Path::new("/nowhere"), &settings).unwrap_err().to_string();
        assert!(error.contains("ZooKeeper"), "{error}");
    }
}
