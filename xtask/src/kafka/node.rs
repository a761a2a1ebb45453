//! One broker as a folder: its settings, its data, its log, and the number of its process while it runs.
//!
//! ```text
//!  DIR/node.json          version, id, port and size of the cluster, written by `create`, never changed by a start
//!  DIR/server.properties  what Kafka reads
//!  DIR/data/              Kafka's logs; kept over stop and start
//!  DIR/out.log            what Kafka prints
//!  DIR/kafka.pid          there from start to stop
//! ```
//!
//! A node has no state of its own, so any process may stop what another started.

use super::process::{Pid, Server, still_running};
use super::properties::{Seat, properties};
use super::{jars, probe};
use crate::failure::{During, Failure, Result, fail};
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a broker may take until it answers; on a busy machine with two cores it is some 5 s.
const START_LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Node {
    dir: PathBuf,
    version: String,
    id: u16,
    port: u16,
    /// How many nodes the cluster has.
    of: u16,
}

/// What new nodes are to be.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) version: String,
    /// The first node's, and those after it; None: free ones.
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
    pub(super) fn create(dir: &Path, settings: &Settings, seat: &Seat) -> Result<Self> {
        let dir = absolute(dir)?;
        fs::create_dir_all(&dir).during(|| format!("making {}", dir.display()))?;
        let (version, of) = (settings.version.clone(), seat.of);
        let node = Self { dir, version, id: seat.id, port: seat.port, of };
        node.write("server.properties", &properties(&node.dir.join("data"), seat, &settings.set))?;
        node.write("node.json", &node.state().to_string())?;
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
        let number = |name: &str| state[name].as_u64().and_then(|number| u16::try_from(number).ok());
        match (state["version"].as_str(), number("port")) {
            // Folders of before there were clusters name the port only.
            (Some(version), Some(port)) => {
                let (id, of) = (number("id").unwrap_or(1), number("of").unwrap_or(1));
                Ok(Self { dir, version: version.into(), id, port, of })
            }
            _ => fail(format!("{}/node.json is broken", dir.display())),
        }
    }

    /// Whether this is a node's folder.
    pub(super) fn is_in(dir: &Path) -> bool {
        dir.join("node.json").exists()
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Its number in its cluster, from 1 on.
    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    pub(crate) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts the broker and waits until it can be used. It outlives us unless somebody stops it.
    pub(crate) fn start(&self) -> Result<Child> {
        let child = self.launch()?;
        self.ready(child, &[self.id])
    }

    /// Starts the broker's process.
    pub(super) fn launch(&self) -> Result<Child> {
        let mut kafka = self.java(&["-Xmx1g", "-XX:+ExitOnOutOfMemoryError"])?;
        if self.of > 1 {
            // Several at once are up in two thirds of the time without the compiler that makes the fastest code.
            kafka.arg("-XX:TieredStopAtLevel=1");
        }
        kafka.arg("kafka.Kafka");
        self.server().launch(kafka)
    }

    /// Waits until a broker that was launched can be used and knows these nodes.
    pub(super) fn ready(&self, mut child: Child, nodes: &[u16]) -> Result<Child> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match probe::wait(self.port, nodes, left, || still_running(&mut child, "the broker")) {
                Ok(()) => return Ok(child),
                Err(_) if self.met_its_former_self() => {
                    self.server().give_up(&mut child);
                    child = self.launch()?;
                }
                Err(failure) => return Err(self.did_not_start(&mut child, &failure)),
            }
        }
    }

    /// ZooKeeper takes a broker that was killed for alive until its session ends, and its successor for an impostor, who
    /// is sent away.
    fn met_its_former_self(&self) -> bool {
        jars::needs_zookeeper(&self.version) && self.log().contains("NodeExistsException")
    }

    /// The broker's process, if it runs.
    pub(crate) fn running(&self) -> Option<Pid> {
        self.server().running()
    }

    /// Lets the broker shut down, if it runs; killed when that takes too long.
    pub(crate) fn stop(&self) {
        self.server().stop();
    }

    /// Ends the broker at once, as a crash would.
    pub(crate) fn kill(&self) {
        self.server().kill();
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

    fn state(&self) -> Value {
        json!({ "version": self.version, "id": self.id, "port": self.port, "of": self.of })
    }

    fn server(&self) -> Server {
        let file = |name: &str| self.dir.join(name);
        let (settings, log, pid) = (file("server.properties"), file("out.log"), file("kafka.pid"));
        Server { name: "Kafka", settings, log, pid }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("out.log")).unwrap_or_default()
    }

    fn signal(&self, signal: &str) -> Result<()> {
        match self.running() {
            Some(pid) if pid.signal(signal) => Ok(()),
            _ => fail(format!("the Kafka in {} is not running", self.dir.display())),
        }
    }

    fn did_not_start(&self, child: &mut Child, failure: &Failure) -> Failure {
        self.server().give_up(child);
        let told = jars::last_lines(&self.log(), 15);
        let path = self.dir.join("out.log");
        Failure::new(format!("Kafka did not start: {failure}\n{told}\n(all of it: {})", path.display()))
    }

    /// Prepares the data folder, as KRaft wants it before the first start.
    fn format(&self) -> Result<()> {
        if self.dir.join("data").exists() || jars::needs_zookeeper(&self.version) {
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

pub(super) fn absolute(dir: &Path) -> Result<PathBuf> {
    std::path::absolute(dir).during(|| format!("finding {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_none_of_ours_is_refused() {
        let error = Node::open(Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("not the folder of a Kafka"), "{error}");
    }
}
