//! Three real nodes under steady load, of which one after the other is killed or frozen, or loses what it leads, or all are
//! restarted in turn. A writer for each partition, whose every batch is in the log once, and a reader of them all; what they
//! say has to fit together ([`book`]).
//!
//! - `OTTLA_STORM_SECONDS=n`: for so long (15). From a minute on freezes last 20 s, and the nodes are restarted in turn, too.
//! - `OTTLA_STORM_SEED=n`: with the same dice; what happens then still depends on the machine.

#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of this")]

pub mod book;
mod writer;

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ottla::{Events, Reader};
use ottla_wire::message::metadata_response::MetadataResponsePartition;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    client_support::{Client, PAUSE},
    kafka_support::{NODES, environment, fresh, node, tool},
    support::{check, within},
};
use book::{Book, Deed, Kind};

const PARTITIONS: i32 = 12;
const REPLICAS: usize = 3;

/// How long the nodes may take to have everything everywhere again, or the reader to be through.
const QUIET: Duration = Duration::from_secs(60);

/// From here on a run is a long one.
const LONG: Duration = Duration::from_secs(60);

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// The book, which everybody writes in.
#[derive(Clone)]
struct Log {
    begin: Instant,
    book: Arc<Mutex<Book>>,
}

impl Log {
    fn write<T>(&self, note: impl FnOnce(&mut Book, Duration) -> T) -> T {
        note(&mut self.book.lock().unwrap(), self.begin.elapsed())
    }
}

/// A cluster, those who write and read, and who does things to it.
pub struct Storm {
    seed: u64,
    time: Duration,
    dice: fastrand::Rng,
    nodes: i32,
    topic: String,
    client: Client,
    log: Log,
    stop: watch::Sender<bool>,
    writers: Vec<JoinHandle<()>>,
    reader: JoinHandle<()>,
    events: JoinHandle<String>,
    folder: PathBuf,
}

impl Storm {
    pub async fn begin() -> Self {
        let seed = number("OTTLA_STORM_SEED").unwrap_or_else(|| fastrand::u64(..));
        let time = Duration::from_secs(number("OTTLA_STORM_SECONDS").unwrap_or(15));
        let (bootstrap, topic) = (environment(NODES), fresh("storm"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&topic);
        fs::create_dir_all(&folder).unwrap();
        println!(
            "to roll the dice the same way: OTTLA_STORM_SEED={seed}; what is kept: {}",
            folder.display()
        );
        let mut client = Client::new(&bootstrap);
        client.create(&topic, PARTITIONS).await;
        let log = Log { begin: Instant::now(), book: Arc::default() };
        let (stop, stopped) = watch::channel(false);
        let begin = |partition| writer::begin(&bootstrap, &topic, partition, log.clone(), stopped.clone());
        let writers = (0..PARTITIONS).map(begin).collect();
        let reader = Reader::builder(&*bootstrap).topic(&*topic).partitions(0..PARTITIONS).open().unwrap();
        let events = tokio::spawn(collect(reader.events(), log.clone()));
        let reader = tokio::spawn(read(reader, log.clone()));
        let nodes = bootstrap.split(',').count() as i32;
        let dice = fastrand::Rng::with_seed(seed);
        Self { seed, time, dice, nodes, topic, client, log, stop, writers, reader, events, folder }
    }

    /// Does one thing after the other for as long as the run is to last.
    pub async fn rage(&mut self) {
        self.until_whole().await;
        let mut kinds = Vec::new();
        while self.log.begin.elapsed() < self.time {
            if kinds.is_empty() {
                kinds = self.kinds();
            }
            self.act(kinds.pop().expect("filled above")).await;
            self.until_whole().await;
            self.sleep(500..2500).await;
        }
    }

    /// Lets the reader come to the end in peace; then everything must fit together, and be enough to show something.
    pub async fn judge(mut self) {
        let path = self.folder.join("events");
        fs::write(&path, self.end().await).unwrap();
        let book = self.log.book.lock().unwrap();
        let (wrong, pauses) = book.check();
        let mut deeds = BTreeMap::<_, u64>::new();
        book.deeds().iter().for_each(|deed| *deeds.entry(deed.kind).or_default() += 1);
        println!("{deeds:?}; from a record's acknowledgement to its being handed out:\n{pauses}");
        let (count, first) = (wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
        let (seed, path) = (self.seed, path.display());
        assert_eq!(count, 0, "seed {seed}; what the reader told is in {path}; this is wrong:\n{first}");
        let ((records, _), seconds) = (book.progress(), self.time.as_secs());
        assert!(records as u64 > 100 * seconds, "{records} records");
        assert!(deeds.values().sum::<u64>() > seconds / 60, "{deeds:?}");
        fs::remove_dir_all(&self.folder).unwrap();
    }

    /// Waits until everybody is through, and gives what the reader has told.
    async fn end(&mut self) -> String {
        self.stop.send_replace(true);
        for writer in &mut self.writers {
            writer.await.unwrap();
        }
        let is_through = || self.log.write(|book, _| book.progress().1);
        let through = async {
            while !is_through() && !self.reader.is_finished() {
                tokio::time::sleep(PAUSE).await;
            }
        };
        let _ = tokio::time::timeout(QUIET, through).await; // what is missing is told by the book
        if self.reader.is_finished() {
            (&mut self.reader).await.unwrap();
        }
        self.reader.abort();
        (&mut self.events).await.unwrap()
    }

    /// What is done next, each for once, the last first.
    fn kinds(&mut self) -> Vec<Kind> {
        let mut kinds = vec![Kind::Kill, Kind::Freeze, Kind::Reassign];
        if self.time >= LONG {
            kinds.extend([Kind::Kill, Kind::Reassign, Kind::Roll]);
        }
        self.dice.shuffle(&mut kinds);
        kinds
    }

    async fn act(&mut self, kind: Kind) {
        let partitions = self.partitions().await;
        let chosen = self.dice.choice(&partitions).expect("a topic has partitions").leader_id;
        let led = partitions.iter().filter(|p| p.leader_id == chosen).map(|p| p.partition_index).collect();
        let all = (0..PARTITIONS).collect();
        let (node, concerned) = match kind {
            Kind::Kill | Kind::Freeze => (Some(chosen), led),
            Kind::Reassign | Kind::Roll => (None, all),
        };
        let from = self.log.begin.elapsed();
        match kind {
            Kind::Kill => self.kill(chosen).await,
            Kind::Freeze => self.freeze(chosen).await,
            Kind::Reassign => self.reassign(&partitions).await,
            Kind::Roll => self.roll().await,
        }
        let to = self.log.begin.elapsed();
        println!("{from:.1?} to {to:.1?}: {kind:?} {} {concerned:?}", node.unwrap_or_default());
        self.log.write(|book, _| book.done(Deed { kind, node, partitions: concerned, from, to }));
    }

    /// Others have taken over after 3 s, or not yet.
    async fn kill(&mut self, id: i32) {
        node("stop", id, &["--kill"]).await;
        self.sleep(500..5000).await;
        node("start", id, &[]).await;
    }

    async fn freeze(&mut self, id: i32) {
        node("freeze", id, &[]).await;
        match self.time >= LONG {
            true => tokio::time::sleep(Duration::from_secs(20)).await,
            false => self.sleep(1000..5000).await,
        }
        node("thaw", id, &[]).await;
    }

    /// Each partition is led by the next of its replicas.
    async fn reassign(&mut self, partitions: &[MetadataResponsePartition]) {
        let mut all = String::new();
        for partition in partitions {
            let mut replicas = partition.replica_nodes.clone();
            let leads = replicas.iter().position(|&id| id == partition.leader_id).unwrap_or_default();
            let next = (leads + 1) % replicas.len();
            replicas.rotate_left(next);
            let comma = if all.is_empty() { "" } else { "," };
            let (topic, number) = (&self.topic, partition.partition_index);
            write!(all, r#"{comma}{{"topic":"{topic}","partition":{number},"replicas":{replicas:?}}}"#)
                .unwrap();
        }
        let path = self.folder.join("reassignment.json");
        fs::write(&path, format!(r#"{{"version":1,"partitions":[{all}]}}"#)).unwrap();
        let (path, bootstrap) = (path.to_str().unwrap(), environment(NODES));
        let to = ["--bootstrap-server", &*bootstrap];
        let execute = ["--execute", "--reassignment-json-file", path];
        tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", &[&to[..], &execute].concat())
            .await;
        let elect = ["--election-type", "preferred", "--path-to-json-file", path];
        tool("LeaderElectionCommand", &[&to[..], &elect].concat()).await;
    }

    /// One after the other is stopped as it should be, and started.
    async fn roll(&mut self) {
        for id in 1..=self.nodes {
            node("stop", id, &[]).await;
            node("start", id, &[]).await;
            self.until_whole().await;
        }
    }

    /// Waits until every partition has a leader and all its replicas are in sync.
    async fn until_whole(&mut self) {
        within(QUIET, "all replicas are in sync", async {
            let is_whole = |p: &MetadataResponsePartition| p.leader_id > 0 && p.isr_nodes.len() == REPLICAS;
            while !self.partitions().await.iter().all(is_whole) {
                tokio::time::sleep(5 * PAUSE).await;
            }
        })
        .await;
    }

    async fn partitions(&mut self) -> Vec<MetadataResponsePartition> {
        let metadata = self.client.metadata(&self.topic).await;
        metadata.topics.into_iter().flat_map(|topic| topic.partitions).collect()
    }

    async fn sleep(&mut self, ms: std::ops::Range<u64>) {
        tokio::time::sleep(Duration::from_millis(self.dice.u64(ms))).await;
    }
}

/// Notes everything that comes; nothing that happens is more than the reader can live with.
async fn read(mut reader: Reader, log: Log) {
    loop {
        match reader.next().await {
            Ok(message) => {
                let message = message.expect("not the end");
                log.write(|book, now| book.handed_out(now, message.partition(), message.offset()));
                check(&message);
            }
            Err(error) => log.write(|book, _| book.went_wrong(error.to_string())),
        }
    }
}

/// All that the reader tells until it ends.
async fn collect(mut events: Events, log: Log) -> String {
    let mut all = String::new();
    while let Some(event) = events.next().await {
        writeln!(all, "{:.3?} {event:?}", log.begin.elapsed()).unwrap();
    }
    all
}
