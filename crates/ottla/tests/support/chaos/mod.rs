//! A group on a real Kafka whose members come, go, are killed and are frozen at random, under load. Each member is a process
//! that writes down what it does; what the members and the broker say has to fit together ([`history`]).
//!
//! - `OTTLA_CHAOS_SECONDS=n`: for so long (20).
//! - `OTTLA_CHAOS_SEED=n`: with the same dice; what happens then still depends on the machine.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of this")]

pub mod history;
mod load;
mod member;

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{kafka_support::fresh, support::within};
use history::{History, Member, Tally};
use load::{Group, Load};
pub use member::plays_a_member;

const PARTITIONS: i32 = 8;

/// How many records a batch has at most.
const BATCH: i64 = 20;

/// The shortest that the test's broker allows is a second. Long enough for two busy cores, short enough for many deaths.
const SESSION: Duration = Duration::from_millis(2500);
const HEARTBEAT: Duration = Duration::from_millis(500);

/// How long the group may take to be through when the trouble is over: two sessions, and much patience.
const QUIET: Duration = Duration::from_secs(60);

/// What a member's process is told, by this variable.
const ROLE: &str = "OTTLA_CHAOS_MEMBER";

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Microseconds on the clock that all processes of this machine share.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros() as u64
}

/// A group, its members, and who does things to them.
pub struct Chaos {
    /// The test that a member's process is asked to run; it begins with [`plays_a_member`].
    test: &'static str,
    seed: u64,
    time: Duration,
    dice: fastrand::Rng,
    bootstrap: String,
    topic: String,
    group: Group,
    logs: PathBuf,
    /// What was done to members, and when.
    log: File,
    members: Vec<Process>,
    deeds: Deeds,
    load: Load,
}

impl Chaos {
    /// A group of three on that cluster, and records that keep coming.
    pub async fn begin(test: &'static str, bootstrap: String) -> Self {
        let seed = number("OTTLA_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
        let time = Duration::from_secs(number("OTTLA_CHAOS_SECONDS").unwrap_or(20));
        let topic = fresh("chaos");
        let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{seed}-{}", now()));
        fs::create_dir_all(&logs).unwrap();
        println!("to roll the dice the same way: OTTLA_CHAOS_SEED={seed}; logs: {}", logs.display());
        let load = Load::begin(&bootstrap, &topic).await;
        let group = Group::known(&bootstrap, fresh("chaos"), topic.clone()).await;
        let (dice, log) = (fastrand::Rng::with_seed(seed), File::create(logs.join("chaos")).unwrap());
        let (members, deeds) = (Vec::new(), Deeds::default());
        let mut chaos =
            Self { test, seed, time, dice, bootstrap, topic, group, logs, log, members, deeds, load };
        (0..3).for_each(|_| chaos.add());
        chaos
    }

    /// Does things to members for as long as the run is to last.
    pub async fn rage(&mut self) {
        let end = Instant::now() + self.time;
        while Instant::now() < end {
            self.act();
            let pause = Duration::from_millis(self.dice.u64(50..900));
            tokio::time::sleep(pause).await;
        }
    }

    /// Lets the group read to the end in peace; what everybody says must fit together then, and be enough to show
    /// something.
    pub async fn judge(mut self) {
        let (wrong, tally) = self.end().await.check();
        println!("{:?}\n{tally:?}", self.deeds);
        let logs = self.logs.display();
        assert!(wrong.is_empty(), "seed {}, logs in {logs}:\n{}", self.seed, wrong.join("\n"));
        check_that_much_happened(&self.deeds, &tally, self.time);
        fs::remove_dir_all(&self.logs).unwrap();
    }

    /// Does one thing to one member.
    fn act(&mut self) {
        self.members.iter_mut().for_each(Process::thaw_when_due);
        let running: Vec<_> = (0..self.members.len()).filter(|n| self.members[*n].is_running()).collect();
        let roll = self.dice.u32(0..10);
        let Some(&chosen) = self.dice.choice(&running).filter(|_| roll < 8 && running.len() > 1) else {
            if running.len() < 6 {
                self.add();
            }
            return;
        };
        match roll {
            0 | 1 => self.add(),
            2 | 3 => {
                self.note(chosen, "closes");
                self.members[chosen].close();
                self.deeds.closed += 1;
            }
            4 | 5 => {
                self.note(chosen, "is killed");
                self.members[chosen].kill();
                self.deeds.killed += 1;
            }
            _ => {
                let time = SESSION.mul_f64(self.dice.f64() * 2.5);
                self.note(chosen, &format!("is frozen for {time:?}"));
                self.members[chosen].freeze(time);
                self.deeds.frozen += 1;
                self.deeds.fenced += u64::from(time > SESSION);
            }
        }
    }

    fn add(&mut self) {
        let name = format!("member-{:02}", self.members.len());
        let (log, seed) = (self.logs.join(&name), self.dice.u64(..));
        let role =
            format!("{} {} {} {seed} {}", self.bootstrap, self.group.name(), self.topic, log.display());
        self.members.push(Process::begin(self.test, name, log, role));
        self.note(self.members.len() - 1, "begins");
        self.deeds.begun += 1;
    }

    fn note(&mut self, member: usize, what: &str) {
        writeln!(self.log, "{} {} {what}", now(), self.members[member].name).unwrap();
    }

    /// Waits until the group is through, and tells all that is known.
    async fn end(&mut self) -> History {
        self.members.iter_mut().for_each(Process::thaw);
        self.add();
        let ends = self.load.end().await;
        if tokio::time::timeout(QUIET, self.group.is_through(&ends)).await.is_err() {
            let (committed, logs) = (self.group.committed().await, self.logs.display());
            panic!("the group is not through: {committed:?} of {ends:?}, {:?}; logs: {logs}", self.deeds);
        }
        self.members.iter_mut().for_each(Process::close);
        for member in &mut self.members {
            member.wait().await;
        }
        let commits = self.group.commits().await;
        fs::write(self.logs.join("commits"), format!("{commits:#?}")).unwrap();
        let members = self.members.iter().map(Process::told).collect();
        History { members, commits, ends, batch: BATCH as usize }
    }
}

/// A member as a process: this program, asked to play one.
struct Process {
    name: String,
    log: PathBuf,
    child: Child,
    ended: bool,
    /// From when to when.
    frozen: Vec<(u64, u64)>,
    thaws: Option<Instant>,
}

impl Process {
    fn begin(test: &str, name: String, log: PathBuf, role: String) -> Self {
        let output = File::create(log.with_extension("out")).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--nocapture", "--exact", test]);
        command.env(ROLE, role).stdin(Stdio::piped());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        Self { name, log, child: command.spawn().unwrap(), ended: false, frozen: Vec::new(), thaws: None }
    }

    fn is_running(&mut self) -> bool {
        !self.ended && self.thaws.is_none()
    }

    /// Asks it to leave.
    fn close(&mut self) {
        self.ended = true;
        drop(self.child.stdin.take());
    }

    fn kill(&mut self) {
        self.ended = true;
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn freeze(&mut self, time: Duration) {
        self.frozen.push((now(), u64::MAX));
        self.signal("STOP");
        self.thaws = Some(Instant::now() + time);
    }

    fn thaw_when_due(&mut self) {
        if self.thaws.is_some_and(|at| at <= Instant::now()) {
            self.thaw();
        }
    }

    fn thaw(&mut self) {
        if self.thaws.take().is_some() {
            self.signal("CONT");
            self.frozen.last_mut().unwrap().1 = now();
        }
    }

    /// Waits for the end of one that was killed or asked to leave, which has to be a good one.
    async fn wait(&mut self) {
        let status = within(QUIET, &format!("{} ends", self.name), async {
            loop {
                match self.child.try_wait().unwrap() {
                    Some(status) => return status,
                    None => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        })
        .await;
        let was_killed = status.code().is_none();
        assert!(was_killed || status.success(), "{} ended with {status}: {}", self.name, self.log.display());
    }

    fn told(&self) -> Member {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        Member::read(&self.name, &text, self.frozen.clone()).unwrap()
    }

    fn signal(&self, signal: &str) {
        let kill = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success(), "{kill}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run in which nothing happened has shown nothing. Where nodes die, nothing is written and nobody joins for seconds.
fn check_that_much_happened(deeds: &Deeds, tally: &Tally, time: Duration) {
    let seconds = time.as_secs();
    assert!(tally.records > 50 * seconds, "{tally:?}");
    assert!(tally.handed_out >= tally.records, "{tally:?}");
    assert!(tally.commits > 2 * seconds, "{tally:?}");
    assert!(2 * tally.tenures > seconds, "{tally:?}");
    let enough = seconds / 20;
    assert!(deeds.closed >= enough && deeds.killed >= enough && deeds.frozen >= enough, "{deeds:?}");
}

/// How often what was done to members.
#[derive(Debug, Default)]
struct Deeds {
    begun: u64,
    closed: u64,
    killed: u64,
    frozen: u64,
    /// For longer than the session.
    fenced: u64,
}
