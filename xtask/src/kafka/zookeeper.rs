//! The ZooKeeper of old brokers: one, from their own jars, in the folder `zookeeper` of their cluster's.
//!
//! ```text
//!  DIR/zookeeper/zoo.cfg   what it reads
//!  DIR/zookeeper/data/     what it remembers
//!  DIR/zookeeper/out.log   what it prints
//!  DIR/zookeeper/pid       there from start to stop
//! ```

use super::jars;
use super::node::java;
use super::process::{Server, still_running};
use crate::failure::{During, Failure, Result, fail};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long it may take until it answers; some 2 s on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct ZooKeeper {
    dir: PathBuf,
    /// Of the Kafka whose jars bring it.
    version: String,
    port: u16,
}

impl ZooKeeper {
    /// Writes the settings; starts nothing.
    pub(super) fn create(cluster: &Path, version: &str, port: u16) -> Result<Self> {
        let zookeeper = Self { dir: cluster.join("zookeeper"), version: version.into(), port };
        fs::create_dir_all(zookeeper.data()).during(|| format!("making {}", zookeeper.dir.display()))?;
        let settings = zookeeper.server().settings;
        fs::write(&settings, zookeeper.settings()).during(|| format!("writing {}", settings.display()))?;
        Ok(zookeeper)
    }

    /// One that was created before.
    pub(super) fn open(cluster: &Path, version: &str) -> Result<Self> {
        let dir = cluster.join("zookeeper");
        let path = dir.join("zoo.cfg");
        let text = fs::read_to_string(&path).during(|| format!("reading {}", path.display()))?;
        let port = text.lines().find_map(|line| line.strip_prefix("clientPort=")?.parse().ok());
        match port {
            Some(port) => Ok(Self { dir, version: version.into(), port }),
            None => fail(format!("{} is broken: there is no port in it", path.display())),
        }
    }

    /// Starts it, unless it runs, and waits until it can be used.
    pub(super) fn start(&self) -> Result<Option<Child>> {
        if self.is_running() {
            return Ok(None);
        }
        let mut java = java(&self.version, "warn", &["-Xmx256m", "-XX:TieredStopAtLevel=1"])?;
        // That of 2017 wants to show its log4j to the world, and there is none.
        java.arg("-Dzookeeper.jmx.log4j.disable=true");
        java.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain");
        let mut child = self.server().launch(java)?;
        match self.wait(&mut child) {
            Ok(()) => Ok(Some(child)),
            Err(failure) => Err(self.did_not_start(&mut child, &failure)),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.server().running().is_some()
    }

    pub(super) fn stop(&self) {
        self.server().stop();
    }

    pub(super) fn remove_data(&self) {
        let _ = fs::remove_dir_all(self.data());
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn server(&self) -> Server {
        let file = |name: &str| self.dir.join(name);
        Server { name: "ZooKeeper", settings: file("zoo.cfg"), log: file("out.log"), pid: file("pid") }
    }

    /// What it forgets with the machine is not missed here: nothing waits for the disk.
    fn settings(&self) -> String {
        format!(
            "dataDir={data}\n\
             clientPort={port}\n\
             clientPortAddress=127.0.0.1\n\
             tickTime=1000\n\
             forceSync=no\n\
             admin.enableServer=false\n\
             4lw.commands.whitelist=srvr\n",
            data = self.data().display(),
            port = self.port,
        )
    }

    fn wait(&self, child: &mut Child) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while !self.answers().unwrap_or(false) {
            still_running(child, "ZooKeeper")?;
            if Instant::now() > deadline {
                return fail(format!("it is not ready after {} s", START_LIMIT.as_secs()));
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Asked how it is, it says in which mode it serves once it does.
    fn answers(&self) -> io::Result<bool> {
        let limit = Duration::from_secs(2);
        let mut socket =
            TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)), limit)?;
        socket.set_read_timeout(Some(limit))?;
        socket.write_all(b"srvr")?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer.contains("Mode:"))
    }

    fn did_not_start(&self, child: &mut Child, failure: &Failure) -> Failure {
        let server = self.server();
        server.give_up(child);
        let log = fs::read_to_string(&server.log).unwrap_or_default();
        let told = jars::last_lines(&log, 15);
        Failure::new(format!(
            "ZooKeeper did not start: {failure}\n{told}\n(all of it: {})",
            server.log.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_created_is_found_again() {
        let dir = std::env::temp_dir().join(format!("ottla-xtask-zookeeper-{}", std::process::id()));
        ZooKeeper::create(&dir, "2.8.2", 4711).unwrap();
        let found = ZooKeeper::open(&dir, "2.8.2").unwrap();
        assert_eq!(found.port, 4711);
        assert!(!found.is_running());
        fs::write(dir.join("zookeeper/zoo.cfg"), "tickTime=1000\n").unwrap();
        assert!(ZooKeeper::open(&dir, "2.8.2").unwrap_err().to_string().contains("broken"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
