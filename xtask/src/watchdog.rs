//! A process that takes too long is killed, so that a hang becomes a failure with a name.

use crate::kafka::process::Pid;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Kills the process unless it is called off in time.
pub(crate) struct Watchdog {
    call_off: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watchdog {
    pub(crate) fn set(child: u32, limit: Duration) -> Self {
        let (call_off, called_off) = channel();
        let thread = std::thread::spawn(move || {
            let bites = called_off.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if bites {
                Pid(child).signal("KILL");
            }
            bites
        });
        Self { call_off, thread }
    }

    /// To be called when the process has ended; says whether it had to be killed.
    pub(crate) fn call_off(self) -> bool {
        drop(self.call_off);
        self.thread.join().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_hanging_process_is_killed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let watchdog = Watchdog::set(child.id(), Duration::from_millis(10));
        assert!(!child.wait().unwrap().success());
        assert!(watchdog.call_off());
    }

    #[test]
    fn a_quick_process_is_left_alone() {
        let mut child = Command::new("true").spawn().unwrap();
        let watchdog = Watchdog::set(child.id(), Duration::from_secs(60));
        assert!(child.wait().unwrap().success());
        assert!(!watchdog.call_off());
    }
}
