//! Processes that are not, or no longer, our children, by their number.

use crate::failure::{During, Result, fail};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to shut down before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// A Java program that runs in the background; any process may end what another started.
#[derive(Debug)]
pub(super) struct Server {
    /// What people call it.
    pub(super) name: &'static str,
    /// The file with its settings, which stands in its command line.
    pub(super) settings: PathBuf,
    /// What it prints.
    pub(super) log: PathBuf,
    /// Has its number, from start to stop.
    pub(super) pid: PathBuf,
}

impl Server {
    /// Starts `java`, which names the main class and what comes before it.
    pub(super) fn launch(&self, mut java: Command) -> Result<Child> {
        if self.running().is_some() {
            return fail(format!("{} with {} is running already", self.name, self.settings.display()));
        }
        let log = File::create(&self.log).during(|| format!("writing the log of {}", self.name))?;
        let log_too = log.try_clone().during(|| format!("writing the log of {}", self.name))?;
        // A group of its own: Ctrl-C in a terminal is for us; who owns the server sees to its end.
        java.arg(&self.settings).stdin(Stdio::null()).stdout(log).stderr(log_too).process_group(0);
        let child = java.spawn().during(|| format!("starting {}", self.name))?;
        fs::write(&self.pid, child.id().to_string()).during(|| format!("writing {}", self.pid.display()))?;
        Ok(child)
    }

    /// The process, if it runs. A number that by now belongs to another program does not count.
    pub(super) fn running(&self) -> Option<Pid> {
        let pid = Pid(fs::read_to_string(&self.pid).ok()?.trim().parse().ok()?);
        pid.command_line()?.contains(&*self.settings.to_string_lossy()).then_some(pid)
    }

    /// Lets it shut down, if it runs; killed when that takes too long.
    pub(super) fn stop(&self) {
        self.end("TERM");
    }

    /// Ends it at once, as a crash would.
    pub(super) fn kill(&self) {
        self.end("KILL");
    }

    /// Forgets a child that has ended, or that is to.
    pub(super) fn give_up(&self, child: &mut Child) {
        let _ = child.kill();
        let _ = child.wait();
        let _ = fs::remove_file(&self.pid);
    }

    fn end(&self, signal: &str) {
        if let Some(pid) = self.running() {
            pid.signal(signal);
            // One that is frozen takes the signal when it thaws.
            pid.signal("CONT");
            if !pid.wait_gone(STOP_LIMIT) {
                eprintln!(
                    "{} did not shut down within {} s, so it is killed",
                    self.name,
                    STOP_LIMIT.as_secs()
                );
                pid.signal("KILL");
                pid.wait_gone(STOP_LIMIT);
            }
        }
        let _ = fs::remove_file(&self.pid);
    }
}

/// Whether a child that is waited for is still there.
pub(super) fn still_running(child: &mut Child, name: &str) -> Result<()> {
    match child.try_wait().during(|| format!("watching {name}"))? {
        None => Ok(()),
        Some(status) => fail(format!("{name} ended ({status})")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pid(pub(crate) u32);

impl Pid {
    /// Sends `TERM`, `KILL`, `STOP` or `CONT`; says whether there was a process to take it.
    /// (The shell's own `kill` is everywhere, and std has none.)
    pub(crate) fn signal(self, signal: &str) -> bool {
        let mut kill = Command::new("sh");
        kill.args(["-c", &format!("kill -{signal} {}", self.0)]).stderr(Stdio::null());
        kill.status().is_ok_and(|status| status.success())
    }

    /// The command line of a process that runs; a process that ended but was not waited for counts as gone.
    pub(crate) fn command_line(self) -> Option<String> {
        if Path::new("/proc/self/stat").exists() { self.told_by_proc() } else { self.told_by_ps() }
    }

    /// Waits until the process is gone; false if it is still there after `limit`.
    pub(crate) fn wait_gone(self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.command_line().is_some() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// Between fork and exec, and again while it ends, a process has no command line for a moment.
    fn told_by_proc(self) -> Option<String> {
        for _ in 0..200 {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
            let state = stat.rsplit(") ").next()?.chars().next()?;
            if matches!(state, 'Z' | 'X') {
                return None;
            }
            let line = fs::read(format!("/proc/{}/cmdline", self.0)).ok()?;
            if !line.is_empty() {
                return Some(String::from_utf8_lossy(&line).replace('\0', " "));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(String::new())
    }

    fn told_by_ps(self) -> Option<String> {
        let ps = Command::new("ps").args(["-o", "stat=,args=", "-p", &self.0.to_string()]).output().ok()?;
        let line = String::from_utf8_lossy(&ps.stdout).trim().to_owned();
        (!line.is_empty() && !line.starts_with('Z')).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_seen_until_it_is_killed() {
        let mut child = Command::new("sleep").arg("61.5").spawn().unwrap();
        let pid = Pid(child.id());
        assert!(pid.signal("STOP"));
        assert!(!pid.wait_gone(Duration::from_millis(20)));
        assert!(pid.signal("KILL"));
        // Not waited for yet: a zombie, which counts as gone.
        assert!(pid.wait_gone(Duration::from_secs(10)));
        child.wait().unwrap();
        assert_eq!(pid.command_line(), None);
        assert!(!pid.signal("TERM"));
    }

    #[test]
    fn a_process_is_seen_from_its_first_moment() {
        for _ in 0..50 {
            let mut child = Command::new("sleep").arg("62.5").spawn().unwrap();
            let line = Pid(child.id()).command_line();
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(line.unwrap().contains("62.5"));
        }
    }

    #[test]
    fn our_own_command_line_is_found_both_ways() {
        let pid = Pid(std::process::id());
        assert!(pid.command_line().unwrap().contains("xtask"));
        if Command::new("ps").output().is_ok() {
            assert!(pid.told_by_ps().unwrap().contains("xtask"));
        }
    }
}
