//! Runs the command as a shell does, against a broker in this process.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::disallowed_methods, reason = "tests look at the clock")]
#![allow(unreachable_pub, reason = "a test file has no outside")]
#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use ottla_broker::{Broker, ClusterOptions};
use ottla_wire::record::{BatchBuilder, Codec};

/// No test waits longer for anything.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A broker in this process, served by threads of its own.
pub struct Cluster {
    runtime: tokio::runtime::Runtime,
    broker: Broker,
}

impl Cluster {
    pub fn start() -> Self {
        Self::with_options(ClusterOptions::new())
    }

    pub fn with_options(options: ClusterOptions) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let broker = runtime.block_on(Broker::start(options)).unwrap();
        Self { runtime, broker }
    }

    /// With a topic `orders`.
    pub fn with_orders(partitions: i32) -> Self {
        let cluster = Self::start();
        cluster.change(|cluster| cluster.create_topic("orders", partitions).unwrap());
        cluster
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut ottla_broker::Cluster) -> T) -> T {
        let _runtime = self.runtime.enter();
        self.broker.with(change)
    }

    pub fn bootstrap(&self) -> String {
        self.broker.bootstrap()
    }

    /// Appends values to `orders`, one batch, at time 1000.
    pub fn append(&self, partition: i32, values: &[&str]) {
        self.change(|cluster| cluster.append_values("orders", partition, 1000, values).unwrap());
    }

    /// Appends a batch to `orders` that `fill` fills.
    pub fn append_batch(&self, partition: i32, codec: Codec, fill: impl FnOnce(&mut BatchBuilder)) {
        let mut batch = BatchBuilder::new(codec);
        fill(&mut batch);
        let batch = batch.build().unwrap();
        self.change(|cluster| cluster.append("orders", partition, batch).unwrap());
    }

    /// The command, told where this broker is.
    pub fn ottla(&self, line: &str) -> Ottla {
        ottla(line).broker(&self.bootstrap())
    }
}

/// The command, not yet started.
pub struct Ottla(Command);

/// The command with these arguments, which blanks separate.
pub fn ottla(line: &str) -> Ottla {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ottla"));
    command.args(line.split(' ').filter(|arg| !arg.is_empty())).env_remove("KAFKA_BROKERS");
    Ottla(command.into_piped())
}

trait Piped {
    fn into_piped(self) -> Command;
}

impl Piped for Command {
    fn into_piped(mut self) -> Command {
        self.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self
    }
}

impl Ottla {
    pub fn broker(mut self, address: &str) -> Self {
        self.0.env("KAFKA_BROKERS", address);
        self
    }

    /// With this in its environment.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    /// One more argument, with whatever is in it.
    pub fn arg(mut self, arg: &str) -> Self {
        self.0.arg(arg);
        self
    }

    /// Prints to this file.
    pub fn print_to(mut self, path: &str) -> Self {
        self.0.stdout(File::options().write(true).open(path).unwrap());
        self
    }

    /// Runs it to its end.
    pub fn run(self) -> Ended {
        self.start().end()
    }

    /// Runs it to its end, with this as standard input.
    pub fn run_with(mut self, input: &[u8]) -> Ended {
        self.0.stdin(Stdio::piped());
        let mut running = self.start();
        let mut stdin = running.child.stdin.take().unwrap();
        let input = input.to_vec();
        // The command may end before it has read everything.
        let writer = thread::spawn(move || drop(stdin.write_all(&input)));
        let ended = running.end();
        writer.join().unwrap();
        ended
    }

    /// Starts it with a standard input that stays open.
    pub fn start_with_input(mut self) -> (Running, ChildStdin) {
        self.0.stdin(Stdio::piped());
        let mut running = self.start();
        let stdin = running.child.stdin.take().unwrap();
        (running, stdin)
    }

    pub fn start(mut self) -> Running {
        let started = Instant::now();
        let mut child = self.0.spawn().unwrap();
        let errors = Lines::of(child.stderr.take().unwrap());
        Running { child, started, errors, lines: None }
    }
}

/// The command while it runs. Dropping it ends it.
pub struct Running {
    child: Child,
    started: Instant,
    errors: Lines,
    lines: Option<Lines>,
}

impl Running {
    /// The next line of standard output.
    pub fn line(&mut self) -> String {
        let stdout = &mut self.child.stdout;
        let lines = self.lines.get_or_insert_with(|| Lines::of(stdout.take().unwrap()));
        let line = lines.receive();
        line.unwrap_or_else(|| panic!("no line came; standard error: {}", self.errors.seen()))
    }

    /// Waits for a line on standard error that has `text` in it.
    pub fn note(&mut self, text: &str) -> String {
        loop {
            match self.errors.receive() {
                Some(line) if line.contains(text) => return line,
                Some(_) => {}
                None => panic!("no note has {text:?} in it: {}", self.errors.seen()),
            }
        }
    }

    /// All of standard error so far.
    pub fn notes(&self) -> String {
        self.errors.seen()
    }

    /// Standard output, for who wants to read it himself, or not.
    pub fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Sends a signal and expects that the command ends at once and without complaint.
    pub fn ends_cleanly_on(mut self, signal: &str) {
        let before = self.notes();
        let sent = Instant::now();
        self.signal(signal);
        let code = self.wait();
        let took = sent.elapsed();
        assert_eq!(code, Some(0), "standard error: {}", self.notes());
        // It takes under 0.2 s; a machine that is busy with other tests gets ten times as long.
        assert!(took < Duration::from_secs(2), "it took {took:?}");
        assert_eq!(self.errors.rest(), before, "it complained");
    }

    /// Waits for the end; the exit code.
    pub fn wait(&mut self) -> Option<i32> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it did not end; standard error: {}", self.notes());
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for the end, taking in all that is printed.
    pub fn end(mut self) -> Ended {
        let stdout = self.child.stdout.take().map(|mut stdout| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                stdout.read_to_end(&mut bytes).unwrap();
                bytes
            })
        });
        let code = self.wait();
        Ended {
            code,
            took: self.started.elapsed(),
            stdout: stdout.map(|reader| reader.join().unwrap()).unwrap_or_default(),
            stderr: self.errors.rest(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines of a stream, as they come.
struct Lines {
    receiver: mpsc::Receiver<String>,
    seen: Arc<Mutex<String>>,
}

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        let seen = Arc::new(Mutex::new(String::new()));
        let all = seen.clone();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                *all.lock().unwrap() += &format!("{line}\n");
                let _ = sender.send(line);
            }
        });
        Self { receiver, seen }
    }

    fn receive(&self) -> Option<String> {
        self.receiver.recv_timeout(LIMIT).ok()
    }

    fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    /// Everything, once the stream has ended.
    fn rest(&self) -> String {
        while self.receive().is_some() {}
        self.seen()
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub took: Duration,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ended {
    /// Expects success; what was printed.
    #[track_caller]
    pub fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "standard error: {}", self.stderr);
        self
    }

    /// Expects success without a word on standard error.
    #[track_caller]
    pub fn quietly(self) -> Self {
        assert_eq!(self.stderr, "");
        self.done()
    }

    /// Expects a failure of which standard error says `why`.
    #[track_caller]
    pub fn failed(self, why: &str) -> Self {
        assert_eq!(self.code, Some(1), "standard error: {}", self.stderr);
        assert!(self.stderr.contains(why), "{why:?} is not in: {}", self.stderr);
        self
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    pub fn lines(&self) -> Vec<&str> {
        self.text().lines().collect()
    }

    /// The lines in order, for topics of several partitions.
    pub fn sorted(&self) -> Vec<&str> {
        let mut lines = self.lines();
        lines.sort_unstable();
        lines
    }
}

/// Waits until something is the case.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not so within {LIMIT:?}");
        thread::sleep(Duration::from_millis(1));
    }
}
