//! A real Apache Kafka on this machine, for our own checks and measurements, and (in `command`) for people.

pub(crate) mod cluster;
pub(crate) mod command;
pub(crate) mod jars;
pub(crate) mod node;
pub(crate) mod ports;
mod probe;
pub(crate) mod process;
mod properties;
pub(crate) mod tools;
mod zookeeper;

use crate::failure::{During, Result, fail};
use crate::workspace;
use cluster::Cluster;
use node::Settings;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tools::Tools;

/// A broker, or several, that live as long as this value, and no longer: they are stopped when the value is dropped, and
/// by a guard process when we die first, however we die. Their data are removed then; settings and logs stay.
pub(crate) struct Kafka {
    cluster: Cluster,
    guard: Guard,
    processes: Vec<Child>,
    _lock: File,
}

impl Kafka {
    /// Starts an empty broker in `target/kafka/NAME`.
    pub(crate) fn start(name: &str, settings: &Settings) -> Result<Self> {
        Self::start_nodes(name, 1, settings)
    }

    /// Starts a cluster of so many empty brokers in `target/kafka/NAME`.
    pub(crate) fn start_nodes(name: &str, count: u16, settings: &Settings) -> Result<Self> {
        eprintln!("starting Apache Kafka {}", settings.version);
        let dir = folder(name)?;
        let lock = lock(&dir)?;
        clear(&dir)?;
        let cluster = Cluster::create(&dir, count, settings)?;
        let guard = Guard::over(&cluster)?;
        let processes = cluster.start()?;
        let (version, bootstrap) = (cluster.version(), cluster.bootstrap());
        eprintln!("Apache Kafka {version} is up at {bootstrap} ({})", dir.display());
        Ok(Self { cluster, guard, processes, _lock: lock })
    }

    pub(crate) fn bootstrap(&self) -> String {
        self.cluster.bootstrap()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.cluster.dir()
    }

    pub(crate) fn tools(&self) -> Tools {
        Tools::new(self.bootstrap(), self.dir())
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        self.cluster.stop();
        self.processes.iter_mut().for_each(|process| drop(process.wait()));
        self.cluster.remove_data();
        self.guard.dismiss();
    }
}

/// A process that does nothing but wait for our end, in whatever way it comes, and then stops the broker.
struct Guard(Child);

impl Guard {
    fn over(cluster: &Cluster) -> Result<Self> {
        let mut guard = Command::new(workspace::own_binary());
        guard.args(["kafka", "guard", "--dir"]).arg(cluster.dir());
        // Our end of its standard input closes with us. Ctrl-C in the terminal is not for it.
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Ok(Self(guard.spawn().during(|| "starting the guard of Kafka".into())?))
    }

    fn dismiss(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Where brokers live unless told otherwise.
pub(crate) fn folder(name: &str) -> Result<PathBuf> {
    Ok(workspace::target()?.join("kafka").join(name))
}

/// Two runs must not use one folder. The lock ends with the process.
fn lock(dir: &Path) -> Result<File> {
    fs::create_dir_all(dir).during(|| format!("making {}", dir.display()))?;
    let path = lock_file(dir);
    let file = File::create(&path).during(|| format!("writing {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            fail(format!("another run is using {}; wait for it", dir.display()))
        }
        Err(fs::TryLockError::Error(error)) => fail(format!("locking {}: {error}", path.display())),
    }
}

/// Whether a run that is alive uses the folder.
fn is_locked(dir: &Path) -> bool {
    let locked = |file: File| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock));
    File::open(lock_file(dir)).is_ok_and(locked)
}

fn lock_file(dir: &Path) -> PathBuf {
    let mut path = dir.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// Stops what a run that died may have left here, and removes it.
fn clear(dir: &Path) -> Result<()> {
    if let Ok(leftover) = Cluster::open(dir) {
        leftover.stop();
    }
    fs::remove_dir_all(dir).during(|| format!("clearing {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_is_locked_until_its_user_ends() {
        let dir = std::env::temp_dir().join(format!("ottla-xtask-lock-{}", std::process::id()));
        assert!(!is_locked(&dir));
        let held = lock(&dir).unwrap();
        assert!(is_locked(&dir));
        assert!(lock(&dir).unwrap_err().to_string().contains("another run"));
        drop(held);
        // Another test that starts a process right now holds all our files until that process begins its program.
        while is_locked(&dir) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        fs::remove_dir_all(&dir).unwrap();
        fs::remove_file(lock_file(&dir)).unwrap();
    }
}
