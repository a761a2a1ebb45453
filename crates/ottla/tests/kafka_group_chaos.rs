//! A group on a real Kafka whose members come, go, are killed and are frozen at random, under load. Each member is a process
//! that writes down what it does; what the members and the broker say has to fit together (`support/history.rs`).
//!
//! - `OTTLA_CHAOS_SECONDS=n`: for so long (20).
//! - `OTTLA_CHAOS_SEED=n`: with the same dice; what happens then still depends on the machine.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

#[path = "support/group.rs"]
mod group_support;
#[path = "support/history.rs"]
mod history;
#[path = "support/kafka.rs"]
mod kafka_support;
mod support;

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use group_support::now;
use history::{Deed, History, Line, Member, Sample, Tally};
use kafka_support::{Kafka, environment, fresh};
use ottla::{Error, ErrorKind, Group, Message, Reader, Rebalance};
use ottla_wire::record::Codec;
use support::within;

const BROKER: &str = "OTTLA_TEST_KAFKA";

const PARTITIONS: i32 = 8;

/// How many records a batch has at most.
const BATCH: i64 = 20;

/// The shortest that the test's broker allows is a second. Long enough for two busy cores, short enough for many deaths.
const SESSION: Duration = Duration::from_millis(2500);
const HEARTBEAT: Duration = Duration::from_millis(500);

/// How long the group may take to be through when the trouble is over: two sessions, and much patience.
const QUIET: Duration = Duration::from_secs(60);

/// What a member's process is told, by variables.
const ROLE: &str = "OTTLA_CHAOS_MEMBER";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_chaos_loses_nothing_and_nobody_reads_what_another_has() {
    if let Ok(role) = std::env::var(ROLE) {
        return tokio::task::spawn_blocking(move || play(&role)).await.unwrap();
    }
    let seed = number("OTTLA_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let time = Duration::from_secs(number("OTTLA_CHAOS_SECONDS").unwrap_or(20));
    let mut chaos = Chaos::begin(seed).await;
    let logs = chaos.logs.clone();
    println!("to roll the dice the same way: OTTLA_CHAOS_SEED={seed}; logs: {}", logs.display());
    let end = Instant::now() + time;
    while Instant::now() < end {
        chaos.act();
        let pause = Duration::from_millis(chaos.dice.u64(50..900));
        tokio::time::sleep(pause).await;
    }
    let deeds = chaos.deeds.clone();
    let (wrong, tally) = chaos.end().await.check();
    println!("{deeds:?}\n{tally:?}");
    assert!(wrong.is_empty(), "seed {seed}, logs in {}:\n{}", logs.display(), wrong.join("\n"));
    check_that_much_happened(&deeds, &tally, time);
    fs::remove_dir_all(logs).unwrap();
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// A run in which nothing happened has shown nothing.
fn check_that_much_happened(deeds: &Deeds, tally: &Tally, time: Duration) {
    let seconds = time.as_secs();
    assert!(tally.records > 200 * seconds, "{tally:?}");
    assert!(tally.handed_out >= tally.records, "{tally:?}");
    assert!(tally.samples > 10 * seconds, "{tally:?}");
    assert!(tally.tenures > seconds, "{tally:?}");
    let enough = seconds / 20;
    assert!(deeds.closed >= enough && deeds.killed >= enough && deeds.frozen >= enough, "{deeds:?}");
}

/// How often what was done to members.
#[derive(Debug, Default, Clone)]
struct Deeds {
    begun: u64,
    closed: u64,
    killed: u64,
    frozen: u64,
    /// For longer than the session.
    fenced: u64,
}

/// A group, its members, and who does things to them.
struct Chaos {
    dice: fastrand::Rng,
    group: String,
    topic: String,
    logs: PathBuf,
    /// What was done to members, and when.
    log: File,
    members: Vec<Process>,
    deeds: Deeds,
    load: Load,
    watch: Watch,
}

impl Chaos {
    async fn begin(seed: u64) -> Self {
        let mut kafka = Kafka::connect(BROKER).await;
        let topic = kafka.create("chaos", PARTITIONS, &[]).await;
        let group = fresh("chaos");
        kafka.coordinator(&group).await;
        let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{seed}-{}", now()));
        fs::create_dir_all(&logs).unwrap();
        let load = Load::begin(&topic).await;
        let watch = Watch::begin(&group, &topic).await;
        let dice = fastrand::Rng::with_seed(seed);
        let (log, deeds) = (File::create(logs.join("chaos")).unwrap(), Deeds::default());
        let mut chaos = Self { dice, group, topic, logs, log, members: Vec::new(), deeds, load, watch };
        (0..3).for_each(|_| chaos.add());
        chaos
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
        self.members.push(Process::begin(&name, &self.logs, &self.group, &self.topic, self.dice.u64(..)));
        self.note(self.members.len() - 1, "begins");
        self.deeds.begun += 1;
    }

    fn note(&mut self, member: usize, what: &str) {
        writeln!(self.log, "{} {} {what}", now(), self.members[member].name).unwrap();
    }

    /// Lets the group read to the end in peace, and tells all that is known.
    async fn end(mut self) -> History {
        self.members.iter_mut().for_each(Process::thaw);
        self.add();
        let ends = self.load.end().await;
        let mut kafka = Kafka::connect(BROKER).await;
        let all_read = async {
            while kafka.committed(&self.group, &self.topic, PARTITIONS).await != ends {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(QUIET, all_read).await.is_err() {
            let committed = kafka.committed(&self.group, &self.topic, PARTITIONS).await;
            let described = kafka.describe(&self.group).await;
            panic!(
                "the group is not through: {committed:?} of {ends:?}, {described:?}, {:?}; logs: {}",
                self.deeds,
                self.logs.display()
            );
        }
        self.members.iter_mut().for_each(Process::close);
        for member in &mut self.members {
            member.wait().await;
        }
        let samples = self.watch.end().await;
        let members = self.members.iter().map(Process::told).collect();
        History { members, samples, ends, batch: BATCH as usize }
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
    fn begin(name: &str, logs: &Path, group: &str, topic: &str, seed: u64) -> Self {
        let log = logs.join(name);
        let role = format!("{} {group} {topic} {seed} {}", environment(BROKER), log.display());
        let output = File::create(logs.join(format!("{name}.out"))).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--nocapture", "--exact"]).arg(test_name());
        command.env(ROLE, role).stdin(Stdio::piped());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        let child = command.spawn().unwrap();
        Self { name: name.to_owned(), log, child, ended: false, frozen: Vec::new(), thaws: None }
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

/// The test that a process is asked to run.
fn test_name() -> &'static str {
    "kafka_chaos_loses_nothing_and_nobody_reads_what_another_has"
}

/// Records that keep coming.
struct Load {
    task: tokio::task::JoinHandle<Vec<i64>>,
    stop: tokio::sync::oneshot::Sender<()>,
}

impl Load {
    async fn begin(topic: &str) -> Self {
        let mut kafka = Kafka::connect(BROKER).await;
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let topic = topic.to_owned();
        let task = tokio::spawn(async move {
            let mut ends = vec![0; PARTITIONS as usize];
            while stopped.try_recv() == Err(tokio::sync::oneshot::error::TryRecvError::Empty) {
                let (partition, count) = (fastrand::usize(0..ends.len()), fastrand::i64(1..=BATCH));
                kafka.fill(&topic, partition as i32, ends[partition], count, Codec::None).await;
                ends[partition] += count;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            ends
        });
        Self { task, stop }
    }

    /// Where the partitions end.
    async fn end(&mut self) -> Vec<i64> {
        let (closed, _) = tokio::sync::oneshot::channel();
        drop(std::mem::replace(&mut self.stop, closed));
        (&mut self.task).await.unwrap()
    }
}

/// Somebody who asks the broker all the time what is committed.
struct Watch {
    task: tokio::task::JoinHandle<Vec<Sample>>,
    stop: tokio::sync::oneshot::Sender<()>,
}

impl Watch {
    async fn begin(group: &str, topic: &str) -> Self {
        let mut kafka = Kafka::connect(BROKER).await;
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let (group, topic) = (group.to_owned(), topic.to_owned());
        let task = tokio::spawn(async move {
            let mut samples = Vec::new();
            while stopped.try_recv() == Err(tokio::sync::oneshot::error::TryRecvError::Empty) {
                let asked = now();
                let committed = kafka.committed(&group, &topic, PARTITIONS).await;
                let answered = now();
                let sample = |(partition, offset)| Sample { asked, answered, partition, offset };
                samples.extend((0..).zip(committed).map(sample));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            samples
        });
        Self { task, stop }
    }

    async fn end(self) -> Vec<Sample> {
        drop(self.stop);
        self.task.await.unwrap()
    }
}

/// Plays a member until standard input ends. On one thread: nothing comes between a record's coming and its line.
fn play(role: &str) {
    let mut words = role.splitn(5, ' ');
    let [bootstrap, group, topic, seed, log] = std::array::from_fn(|_| words.next().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let diary = Diary(Arc::new(Mutex::new(File::create(log).unwrap())));
    runtime.block_on(async {
        let reader = join(bootstrap, group, topic, &diary);
        read(reader, fastrand::Rng::with_seed(seed.parse().unwrap()), &diary).await;
    });
}

fn join(bootstrap: &str, group: &str, topic: &str, diary: &Diary) -> Reader<Group> {
    let diary = diary.clone();
    Reader::builder(bootstrap)
        .group(group)
        .topics([topic])
        .session_timeout(SESSION)
        .heartbeat_interval(HEARTBEAT)
        .rebalance_timeout(2 * SESSION)
        .commit_interval(Duration::from_millis(200))
        .max_wait(Duration::from_secs(10))
        .on_rebalance(move |rebalance| {
            diary.rebalance(&rebalance);
            async move { drop(rebalance) }
        })
        .open()
        .unwrap()
}

async fn read(mut reader: Reader<Group>, mut dice: fastrand::Rng, diary: &Diary) {
    let mut input_ends = end_of_input();
    loop {
        let next = tokio::select! {
            next = reader.next() => next,
            _ = &mut input_ends => break,
        };
        match next {
            Ok(message) => work(&reader, &message.expect("not the end"), &mut dice, diary).await,
            // Nothing that happens to it is more than it can live with.
            Err(error) => panic!("{error}"),
        }
    }
    let closed = reader.close().await;
    diary.note(Deed::Closed);
    closed.unwrap();
}

/// What a member does with a record.
async fn work(reader: &Reader<Group>, message: &Message, dice: &mut fastrand::Rng, diary: &Diary) {
    let (partition, offset) = (message.partition(), message.offset());
    diary.note(Deed::Out(partition, offset));
    if dice.u32(0..50) == 0 {
        tokio::time::sleep(Duration::from_millis(dice.u64(1..100))).await;
    }
    if dice.u32(0..20) > 0 {
        return match reader.ack(message) {
            Ok(()) => diary.note(Deed::Ack(partition, offset)),
            Err(error) => refused(message, &error, diary),
        };
    }
    diary.note(Deed::Committing(partition, offset));
    match reader.commit(message).await {
        Ok(()) => diary.note(Deed::Committed(partition, offset)),
        Err(error) => refused(message, &error, diary),
    }
}

/// A partition that is gone is the only reason.
fn refused(message: &Message, error: &Error, diary: &Diary) {
    let (partition, offset) = (message.partition(), message.offset());
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert_eq!(error.partition(), Some(&message.topic_partition()), "{error}");
    assert_eq!(error.offset(), Some(offset), "{error}");
    diary.note(Deed::Refused(partition, offset, error.to_string()));
}

fn end_of_input() -> tokio::sync::oneshot::Receiver<()> {
    let (told, ends) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = told.send(());
    });
    ends
}

/// Where a member writes down what it does; a line is there when the call returns, whatever happens to us.
#[derive(Clone)]
struct Diary(Arc<Mutex<File>>);

impl Diary {
    fn note(&self, deed: Deed) {
        let line = format!("{}\n", Line { at: now(), deed });
        self.0.lock().unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn rebalance(&self, rebalance: &Rebalance) {
        let numbers =
            |partitions: &[ottla::TopicPartition]| partitions.iter().map(|at| at.partition).collect();
        self.note(match rebalance {
            Rebalance::Assigned(assigned) => Deed::Assigned(numbers(assigned.partitions())),
            Rebalance::Revoked(revoked) => Deed::Given(numbers(revoked.partitions())),
            Rebalance::Lost(lost) => Deed::Given(numbers(lost.partitions())),
        });
    }
}

/// That the checker finds what it is there for.
mod checker {
    use super::*;

    /// Two members, one partition of six records: the first does three and gives it up, the second does the rest.
    fn good() -> History {
        let one = "10 assigned 0\n11 out 0 0\n12 ack 0 0\n13 out 0 1\n14 ack 0 1\n15 out 0 2\n16 committing 0 2\n\
                   18 committed 0 2\n20 given 0\n21 closed\n";
        let two =
            "30 assigned 0\n31 out 0 3\n32 ack 0 3\n33 out 0 4\n34 ack 0 4\n35 out 0 5\n36 ack 0 5\n40 gi";
        let members =
            [("one", one), ("two", two)].map(|(name, text)| Member::read(name, text, Vec::new()).unwrap());
        let samples = [(9, -1), (15, 2), (19, 3), (29, 3), (39, 6)];
        let sample = |(at, offset)| Sample { asked: at - 1, answered: at, partition: 0, offset };
        History { members: members.into(), samples: samples.map(sample).into(), ends: vec![6], batch: 2 }
    }

    fn line(text: &str) -> Line {
        text.parse().unwrap()
    }

    /// What is found when `member` also has these lines.
    fn found(member: usize, more: &[&str], frozen: &[(u64, u64)]) -> Vec<String> {
        let mut history = good();
        let member = &mut history.members[member];
        member.lines.extend(more.iter().map(|text| line(text)));
        member.lines.sort_by_key(|line| line.at);
        member.frozen = frozen.to_vec();
        history.check().0
    }

    #[test]
    fn a_good_run_is_good() {
        let (wrong, tally) = good().check();
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!((tally.records, tally.handed_out, tally.tenures, tally.samples), (6, 6, 2, 5));
        assert_eq!((tally.repeated, tally.late, tally.refused), (0, 0, 0));
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        for text in [
            "1 assigned",
            "1 assigned 0 7",
            "2 given 3",
            "3 out 1 22",
            "4 ack 1 22",
            "5 committing 1 22",
            "6 committed 1 22",
            "7 refused 1 22 it was given up",
            "8 closed",
        ] {
            assert_eq!(line(text).to_string(), text);
        }
        for text in ["", "x closed", "1 out 1", "1 out 1 x", "1 laughed"] {
            assert!(text.parse::<Line>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_lost_record_is_found() {
        let mut history = good();
        history.ends[0] = 8;
        assert_eq!(history.check().0, ["2 records of partition 0 are lost, from 6 on"]);
    }

    #[test]
    fn a_hole_and_a_repetition_are_found() {
        assert!(found(1, &["37 out 0 5"], &[])[0].contains("got 5 after 5"));
        assert!(found(1, &["37 out 0 7"], &[])[0].contains("got 7 after 5"));
    }

    #[test]
    fn a_record_of_a_partition_that_it_has_not_is_found() {
        assert!(found(0, &["20 out 0 3"], &[])[0].contains("which it has not"));
        assert!(found(0, &["17 assigned 0"], &[])[0].contains("which it has"));
        assert!(found(0, &["22 given 0"], &[])[0].contains("which it has not"));
    }

    #[test]
    fn a_commit_that_goes_back_is_found() {
        let mut history = good();
        history.samples[3].offset = 2;
        assert!(history.check().0[0].contains("went from 3 to 2"));
    }

    #[test]
    fn a_commit_of_what_was_not_done_is_found() {
        let mut history = good();
        history.samples[1].offset = 3;
        assert!(history.check().0[0].contains("3 is committed for partition 0, but 2 was not done"));
    }

    #[test]
    fn a_record_that_comes_again_though_committed_is_found() {
        let mut history = good();
        history.members[1].lines.insert(1, line("30 out 0 2"));
        assert!(history.check().0[0].contains("began at 2, but 3 was committed"));
    }

    #[test]
    fn two_owners_are_found_and_a_frozen_one_may_hand_out_what_it_held() {
        // The first member does not give the partition up at 20.
        let late = |more: &[&str], frozen: &[(u64, u64)]| {
            let mut history = good();
            let one = &mut history.members[0];
            one.lines.truncate(8);
            one.lines.extend(more.iter().map(|text| line(text)));
            one.frozen = frozen.to_vec();
            history.check()
        };
        assert!(late(&["31 out 0 3"], &[]).0[0].contains("handed out 3 (1 in all, never frozen) while two"));
        let (wrong, tally) = late(&["31 out 0 3", "32 refused 0 3 it was given up"], &[(20, 31)]);
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!((tally.late, tally.refused), (1, 1));
        let three = ["31 out 0 3", "31 out 0 4", "31 out 0 5"];
        assert!(late(&three, &[(20, 31)]).0[0].contains("handed out 5 (3 in all, after a freeze) while two"));
        let commits = ["31 out 0 3", "31 committing 0 3", "32 committed 0 3"];
        assert!(
            late(&commits, &[(20, 31)]).0[0].contains("one with partition 0 since 10 committed 3 while two")
        );
    }
}
