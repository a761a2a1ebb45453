//! Schedules by the thousand: each seed makes a cluster, a reader and some trouble, and every promise is checked on the
//! way (see `support/watch.rs`) and after the last fault. `support/seeds.rs` says how to run more of them, or one.

mod support;

use std::time::{Duration, UNIX_EPOCH};

use ottla_broker::{ApiKey, ClusterOptions, Fault as Mishap, Like};
use ottla_core::{Config, OnOutOfRange, Start, TopicPartition, Until};
use ottla_wire::{
    code::Code,
    message::{
        FetchRequest, MetadataRequest, fetch_response::FetchResponse, metadata_response::MetadataResponse,
    },
    record::{Batches, Codec},
};
use support::*;

/// What runs in every test run.
const SEEDS: u64 = 300;

/// Seeds that once failed, by what was wrong.
const REGRESSIONS: Regressions = &[
    ("an answer from before a leader change was taken for the new leader's", &[4332]),
    ("a reader that failed with its budget full never got the answer that mends it", &[1554]),
];

#[test]
fn promises_hold_on_every_schedule() {
    let mut total = Report::default();
    if let Some(seeds) = run_seeds("read", SEEDS, REGRESSIONS, simulate, |report| total.add(&report)) {
        println!("{seeds} seeds: {total:?}");
        total.check(seeds);
    }
}

/// What came together over the seeds, so that a simulation that does nothing is noticed.
#[derive(Debug, Default)]
struct Report {
    records: u64,
    requests: u64,
    events: u64,
    faults: u64,
    steps: u64,
    /// The most requests that brought nothing in a second, of one schedule.
    busiest: u64,
}

impl Report {
    fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.requests += other.requests;
        self.events += other.events;
        self.faults += other.faults;
        self.steps += other.steps;
        self.busiest = self.busiest.max(other.busiest);
    }

    fn check(&self, seeds: u64) {
        assert!(self.records > 50 * seeds, "hardly anything was read: {self:?}");
        assert!(seeds < 100 || self.faults > 0, "nothing ever failed: {self:?}");
    }
}

/// One schedule.
fn simulate(seed: u64) -> Report {
    let mut chaos = Chaos::new(seed);
    chaos.rage(5, 40, Chaos::act);
    chaos.heal();
    chaos.check_the_end();
    chaos.report()
}

/// What a schedule has of its own.
struct Readers {
    /// Whether they are to stop at the end.
    ends: bool,
    kinds: Vec<Kind>,
    /// How often values are large.
    large_one_in: u32,
    age: Age,
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cut,
    StopNode,
    CloseConnections,
    Dark,
    Slow,
    MoveLeader,
    NoLeader,
    Truncate,
    Retention,
    Grow,
    Recreate,
    ErrorCode,
    OddReply,
    Garbage,
    Late,
    Silence,
    Corrupt,
    Seek,
    Pause,
    Habit,
    Keep,
    Move,
}

const KINDS: &[Kind] = &[
    Kind::Cut,
    Kind::StopNode,
    Kind::CloseConnections,
    Kind::Dark,
    Kind::Slow,
    Kind::MoveLeader,
    Kind::NoLeader,
    Kind::Truncate,
    Kind::Retention,
    Kind::Grow,
    Kind::Recreate,
    Kind::ErrorCode,
    Kind::OddReply,
    Kind::Garbage,
    Kind::Late,
    Kind::Silence,
    Kind::Corrupt,
    Kind::Seek,
    Kind::Pause,
    Kind::Habit,
    Kind::Keep,
    Kind::Move,
];

/// Kinds of trouble that find more together than among others.
const THEMES: &[&[Kind]] = &[
    &[Kind::Truncate, Kind::Late, Kind::MoveLeader, Kind::Seek],
    &[Kind::Truncate, Kind::Habit, Kind::Seek, Kind::Retention],
    &[Kind::ErrorCode, Kind::Habit, Kind::Keep, Kind::Pause],
    &[Kind::Cut, Kind::Dark, Kind::Slow, Kind::Seek, Kind::Pause],
    &[Kind::OddReply, Kind::MoveLeader, Kind::StopNode, Kind::Grow],
    &[Kind::Corrupt, Kind::Seek, Kind::Habit],
];

const APIS: &[ApiKey] = &[ApiKey::Metadata, ApiKey::ListOffsets, ApiKey::Fetch, ApiKey::OffsetForLeaderEpoch];

impl Chaos<Readers> {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x0771a);
        let nodes = rng.i32(1..=3);
        let (cluster, age) = some_age(&mut rng, seed);
        let latency = some_latency(&mut rng, 20);
        let mut world = World::new(Setup { seed, nodes, latency, cluster });
        let topics = some_topics(&mut rng, &mut world, 2);
        let ends = rng.u32(0..5) == 0;
        let mut kinds = some_kinds(&mut rng, KINDS, THEMES);
        // An end that was found and then cut off is not reached any more.
        kinds.retain(|kind| !ends || !matches!(kind, Kind::Truncate | Kind::Recreate));
        kinds.push(Kind::Cut);
        let configs: Vec<_> =
            (0..1 + rng.usize(0..4) / 3).map(|_| config(&world, &topics, ends, &mut rng)).collect();
        let pace = ms(rng.u64(1..=400));
        let large_one_in = [4, 20, 100][rng.usize(0..3)];
        let own = Readers { ends, kinds, large_one_in, age };
        let (down, dark) = (Vec::new(), Vec::new());
        let mut chaos = Self { world, rng, topics, apis: APIS, down, dark, pace, own };
        (0..chaos.rng.u32(0..10)).for_each(|_| chaos.produce());
        for config in configs {
            let client = chaos.world.open(config);
            chaos.world.clients[client].reader.by_batch = chaos.rng.bool();
            if chaos.rng.u32(0..3) == 0 {
                chaos.habit();
            }
        }
        chaos
    }

    fn act(&mut self) {
        if self.rng.u32(0..3) > 0 {
            return self.produce();
        }
        let kind = self.own.kinds[self.rng.usize(0..self.own.kinds.len())];
        match kind {
            Kind::Cut => self.cut(),
            Kind::StopNode => self.stop_or_start(),
            Kind::CloseConnections => self.close_connections(),
            Kind::Dark => self.darken_or_lighten(),
            Kind::Slow => self.slow(),
            Kind::MoveLeader => self.move_leader(),
            Kind::NoLeader => self.take_leader(),
            Kind::Truncate => self.truncate_and_fill(),
            Kind::Retention => self.retain(),
            Kind::Grow => self.grow(),
            Kind::Recreate => self.recreate(),
            Kind::ErrorCode => self.error_code(),
            Kind::OddReply => self.odd_reply(),
            Kind::Garbage => self.garbage(),
            Kind::Late => self.late(3000),
            Kind::Silence => self.silence(),
            Kind::Corrupt => self.corrupt(),
            Kind::Seek => self.seek(),
            Kind::Pause => self.pause_or_resume(),
            Kind::Habit => self.habit(),
            Kind::Keep => self.keep(),
            Kind::Move => self.move_node(),
        }
        self.revive(4);
    }

    fn produce(&mut self) {
        let Some((topic, partition)) = self.place() else { return };
        let shape = self.some_shape();
        let codecs = [Codec::None, Codec::None, Codec::Lz4, Codec::Snappy];
        let codec = codecs[self.rng.usize(0..codecs.len())];
        let value = if self.rng.u32(0..self.own.large_one_in) == 0 { 40_000 } else { 0 };
        self.world.append(&topic, partition, Produce { shape, codec, value });
    }

    // The cluster.

    fn take_leader(&mut self) {
        let Some((topic, partition)) = self.place() else { return };
        match self.world.cluster.leader(&topic, partition) {
            None => self.move_leader(),
            Some(_) => self.world.lead(&topic, partition, None),
        }
    }

    fn truncate_and_fill(&mut self) {
        let Some((topic, partition)) = self.place() else { return };
        if !self.own.age.epochs {
            return; // an old cluster has no means to say so
        }
        self.truncate(&topic, partition);
        (0..self.rng.u32(0..6)).for_each(|_| {
            let count = self.rng.u32(1..10);
            self.world.fill(&topic, partition, count);
        });
    }

    fn recreate(&mut self) {
        let topic = self.topics[self.rng.usize(0..self.topics.len())].clone();
        if self.world.truth.life(&topic).is_none() {
            let partitions = self.rng.i32(1..=4);
            return self.world.topic(&topic, partitions);
        }
        if self.own.age.ids {
            let partitions = self.world.truth.partitions(&topic);
            self.world.delete_topic(&topic);
            if self.rng.bool() {
                self.world.topic(&topic, partitions + self.rng.i32(0..2));
            }
        }
    }

    fn move_node(&mut self) {
        let node = self.node();
        let nodes = self.world.cluster.nodes();
        if !nodes.iter().any(|other| other.id != node && other.host == format!("node{}", other.id)) {
            return; // no bootstrap address would lead anywhere
        }
        let host = format!("node{node}v{}", self.rng.u32(0..1000));
        self.world.cluster.set_address(node, host, 9092).expect("there is a node");
        self.world.cluster.close_connections(node);
        self.world.settle();
    }

    // Replies.

    fn error_code(&mut self) {
        let api = self.api();
        // Retriable ones mostly; the others fail a partition or the reader, which the schedules test.
        let codes = [
            Code::NOT_LEADER_OR_FOLLOWER,
            Code::FENCED_LEADER_EPOCH,
            Code::UNKNOWN_LEADER_EPOCH,
            Code::UNKNOWN_TOPIC_OR_PARTITION,
            Code::UNKNOWN_TOPIC_ID,
            Code::OFFSET_NOT_AVAILABLE,
            Code::KAFKA_STORAGE_ERROR,
            Code::REPLICA_NOT_AVAILABLE,
            Code::LEADER_NOT_AVAILABLE,
            Code::UNKNOWN_SERVER_ERROR,
            Code::REQUEST_TIMED_OUT,
            Code::CORRUPT_MESSAGE,
            Code::TOPIC_AUTHORIZATION_FAILED,
            Code(12345),
        ];
        self.refuse(api, &codes, true);
    }

    fn odd_reply(&mut self) {
        let mut rng = self.rng.fork();
        let node = self.node();
        let mishap = match self.rng.u32(0..8) {
            6 => Mishap::rewrite::<MetadataRequest>(move |response: &mut MetadataResponse, _| {
                // A broker that lags behind.
                response.brokers.retain(|broker| broker.node_id == node || rng.bool());
                for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
                    partition.leader_epoch = (partition.leader_epoch - rng.i32(0..3)).max(0);
                    partition.leader_id = if rng.bool() { node } else { partition.leader_id };
                }
            }),
            7 => Mishap::rewrite::<FetchRequest>(move |response: &mut FetchResponse, _| {
                // Records that are cut inside their first batch.
                for data in response.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
                    if let Some(records) = &mut data.records {
                        records.truncate(rng.usize(0..80));
                    }
                }
            }),
            0 => Mishap::rewrite::<FetchRequest>(move |response: &mut FetchResponse, _| {
                response.responses.iter_mut().for_each(|topic| topic.partitions.retain(|_| rng.bool()));
            }),
            1 => Mishap::rewrite::<FetchRequest>(move |response: &mut FetchResponse, _| {
                for topic in &mut response.responses {
                    let mut twice = topic.partitions.clone();
                    twice.retain(|_| rng.bool());
                    topic.partitions.extend(twice);
                    rng.shuffle(&mut topic.partitions);
                }
            }),
            2 => Mishap::rewrite::<FetchRequest>(move |response: &mut FetchResponse, _| {
                response.throttle_time_ms = rng.i32(-5..500);
            }),
            3 => Mishap::rewrite::<MetadataRequest>(move |response: &mut MetadataResponse, _| {
                response.topics.retain(|_| rng.bool());
            }),
            4 => Mishap::rewrite::<MetadataRequest>(move |response: &mut MetadataResponse, _| {
                response.brokers.retain(|_| rng.bool());
            }),
            _ => Mishap::rewrite::<MetadataRequest>(move |response: &mut MetadataResponse, _| {
                response.topics.iter_mut().for_each(|topic| topic.partitions.retain(|_| rng.bool()));
            }),
        };
        self.mishap(mishap);
    }

    fn garbage(&mut self) {
        let api = if self.rng.u32(0..4) == 0 { ApiKey::ApiVersions } else { self.api() };
        let mishap = match self.rng.bool() {
            true => Mishap::cut(api, self.rng.usize(0..300)),
            false => {
                let bytes: Vec<u8> = (0..self.rng.usize(0..60)).map(|_| self.rng.u8(..)).collect();
                Mishap::garbage(api, bytes)
            }
        };
        self.mishap(mishap);
    }

    /// Flips a bit where it shows: the magic, the CRC, or what it covers.
    fn corrupt(&mut self) {
        let mut rng = self.rng.fork();
        let mishap = Mishap::rewrite::<FetchRequest>(move |response: &mut FetchResponse, _| {
            for data in response.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
                let Some(records) = data.records.as_ref().filter(|_| rng.bool()) else { continue };
                let batches: Vec<_> = Batches::new(records).filter_map(Result::ok).collect();
                if let Some((_, range)) = rng.choice(&batches) {
                    let mut records = records.to_vec();
                    match rng.u32(0..4) {
                        0 => records[range.start + 22] ^= 0x20, // as if it were a control batch
                        _ => records[rng.usize(range.start + 16..range.end)] ^= 1 << rng.u32(0..8),
                    }
                    data.records = Some(records.into());
                }
            }
        });
        self.mishap(mishap);
    }

    // The caller.

    fn client(&mut self) -> usize {
        self.rng.usize(0..self.world.clients.len())
    }

    fn known(&mut self, client: usize) -> Option<TopicPartition> {
        let known: Vec<_> = self.world.clients[client].machine.partitions().cloned().collect();
        self.rng.choice(known).filter(|at| at.partition < self.world.truth.partitions(&at.topic))
    }

    fn seek(&mut self) {
        let client = self.client();
        let Some(at) = self.known(client) else { return };
        let to = match self.rng.u32(0..8) {
            0 => Start::Earliest,
            1 => Start::Latest,
            2 => Start::Last(self.rng.u64(0..20)),
            3 => Start::Offset(self.world.truth.end(&at.topic, at.partition) + self.rng.i64(0..30)),
            4 => Start::At(UNIX_EPOCH + ms(1_000_000 + self.rng.u64(0..200))),
            _ => Start::Offset(self.some_offset(&at.topic, at.partition)),
        };
        self.world.seek(client, &at, to);
    }

    fn pause_or_resume(&mut self) {
        let client = self.client();
        let paused = self.world.clients[client].watch.paused_partitions();
        match self.rng.choice(paused) {
            Some(at) if self.rng.bool() => self.world.resume(client, &at),
            _ => {
                if let Some(at) = self.known(client) {
                    self.world.pause(client, &at);
                }
            }
        }
    }

    fn habit(&mut self) {
        let habit = self.some_habit();
        let client = self.client();
        self.world.set_habit(client, habit);
    }

    fn keep(&mut self) {
        let bytes = if self.rng.bool() { 0 } else { self.rng.usize(0..1_000_000) };
        let client = self.client();
        self.world.set_keep(client, bytes);
    }

    /// What failed is read again by a caller who seeks to where it stands, or to the nearest offset that there is.
    fn revive(&mut self, one_in: u32) {
        for client in 0..self.world.clients.len() {
            for at in self.world.clients[client].watch.failed_partitions() {
                if self.rng.u32(0..one_in) == 0 {
                    self.revive_one(client, &at);
                }
            }
        }
    }

    fn revive_one(&mut self, client: usize, at: &TopicPartition) {
        if at.partition >= self.world.truth.partitions(&at.topic) {
            return; // of a topic that was made anew with fewer
        }
        let (start, end) =
            (self.world.truth.start(&at.topic, at.partition), self.world.truth.end(&at.topic, at.partition));
        let position = self.world.clients[client].machine.position(at).expect("it is read");
        let to = position.map_or(Start::Earliest, |position| Start::Offset(position.clamp(start, end)));
        self.world.seek(client, at, to);
    }

    // The end.

    /// The last fault is over, and the caller reads on.
    fn heal(&mut self) {
        self.heal_nodes();
        for node in self.world.cluster.nodes() {
            let home = format!("node{}", node.id);
            self.world.cluster.set_address(node.id, home, 9092).expect("there is a node");
        }
        self.heal_topics();
        let world = &mut self.world;
        for client in 0..world.clients.len() {
            world.set_keep(client, 0);
            world.set_habit(client, Habit::Fast);
            for at in world.clients[client].watch.paused_partitions() {
                world.resume(client, &at);
            }
        }
        // What a fault did to a fetch that is parked shows when it is answered, or is given up.
        let hangs = self.own.kinds.contains(&Kind::Garbage) || self.own.kinds.contains(&Kind::Silence);
        let give_up = |config: &Config| if hangs { config.request_timeout } else { Duration::ZERO };
        let configs = world.clients.iter().map(|client| client.machine.config());
        let longest = configs.map(|config| config.max_wait + give_up(config)).max();
        world.run(longest.unwrap_or_default() + secs(1));
    }

    /// Everything comes within the time that the longest wait needs, and then what is new comes at once.
    fn check_the_end(&mut self) {
        self.fill_all(1); // else a topic made anew and empty looks as if it were known
        let mut waited = Duration::ZERO;
        while waited < secs(140) && self.behind().is_some() {
            self.world.run(secs(1));
            waited += secs(1);
            self.revive(1);
        }
        assert_eq!(self.behind(), None, "long after the last fault");
        self.fill_all(2);
        self.world.run(secs(2));
        assert_eq!(self.behind(), None, "what is written is read at once");
        if self.own.ends {
            return; // partitions that were added since then wait for who asks again
        }
        for node in self.world.cluster.nodes() {
            // Its three lanes, and a bootstrap address that was asked beside a slow node.
            let (open, most) = (self.world.cluster.open_connections(node.id), 4 * self.world.clients.len());
            assert!(open <= most, "{open} connections to node {}, {most} are enough", node.id);
        }
        for client in &self.world.clients {
            self.topics.iter().for_each(|topic| client.watch.check_complete(&self.world.truth, topic));
            for at in
                client.machine.partitions().filter(|at| at.partition < self.world.truth.partitions(&at.topic))
            {
                assert_eq!(client.machine.lag(at), Ok(Some(0)), "{at}");
            }
            let held = client.machine.ledger().total();
            assert_eq!(held, 0, "all was handed out and nothing is kept");
        }
    }

    fn behind(&self) -> Option<String> {
        self.world.clients.iter().find_map(|client| match self.own.ends {
            true => (!client.reader.ended).then(|| "the reader has not come to its end".to_owned()),
            false => {
                self.topics.iter().find_map(|t| client.watch.behind(&client.machine, &self.world.truth, t))
            }
        })
    }

    fn report(&self) -> Report {
        let clients = || self.world.clients.iter();
        Report {
            records: clients().map(|client| client.reader.reads.len() as u64).sum(),
            requests: clients().map(|client| client.sent.len() as u64).sum(),
            events: clients().map(|client| client.events.len() as u64).sum(),
            faults: clients().map(|client| client.reader.faults.len() as u64).sum(),
            steps: self.world.steps,
            busiest: clients().map(|client| client.watch.busiest as u64).max().unwrap_or(0),
        }
    }
}

/// What a cluster of some age can tell of what happened to a topic.
#[derive(Debug, Clone, Copy)]
struct Age {
    /// Where a log was cut.
    epochs: bool,
    /// That a topic is another one of the same name.
    ids: bool,
}

fn some_age(rng: &mut fastrand::Rng, seed: u64) -> (ClusterOptions, Age) {
    let new = ClusterOptions::new();
    match rng.u32(0..6) {
        0 => (new.versions(ApiKey::Fetch, 4, 15), Age { epochs: true, ids: true }), // no hints
        1 => (new.versions(ApiKey::Fetch, 4, 12), Age { epochs: true, ids: false }), // ids in metadata only
        2 => {
            // Kafka 2.1
            let old = new.versions(ApiKey::Fetch, 0, 10).versions(ApiKey::Metadata, 0, 7);
            let old = old.versions(ApiKey::ListOffsets, 0, 4).versions(ApiKey::OffsetForLeaderEpoch, 0, 1);
            (old, Age { epochs: false, ids: false })
        }
        _ => match some_kafka(seed, REGRESSIONS) {
            Like::V2_8 => (new.like(Like::V2_8), Age { epochs: true, ids: false }),
            other => (new.like(other), Age { epochs: true, ids: true }),
        },
    }
}

fn config(world: &World, topics: &[String], ends: bool, rng: &mut fastrand::Rng) -> Config {
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    let mut config = world.config(&names);
    perhaps_a_dead_address(rng, &mut config);
    config.seed = rng.u64(..);
    config.until = ends.then_some(Until::End);
    config.start = match rng.u32(0..7) {
        0 => Start::Latest,
        1 => Start::Last(5),
        3 => Start::At(UNIX_EPOCH + ms(1_000_000 + rng.u64(0..100))),
        2 => Start::Offset(rng.i64(0..20)),
        _ => Start::Earliest,
    };
    config.on_out_of_range = match rng.u32(0..6) {
        0 => OnOutOfRange::Earliest,
        1 => OnOutOfRange::Latest,
        2 => OnOutOfRange::Error,
        _ => OnOutOfRange::Nearest,
    };
    config.max_wait = ms([50, 500, 500, 3000, 10_000][rng.usize(0..5)]);
    config.request_timeout = secs([1, 1, 5, 5, 30][rng.usize(0..5)]);
    config.metadata_max_age = ms([300, 2000, 10_000, 60_000][rng.usize(0..4)]);
    config.budget = [1 << 20, 200_000, 64 << 20][rng.usize(0..3)];
    if rng.bool() {
        config.max_bytes = rng.i32(100..200_000);
    }
    if rng.u32(0..4) == 0 {
        config.max_partition_bytes = Some(rng.i32(100..100_000));
    }
    config.max_attempts = rng.bool().then(|| rng.u32(1..5));
    config
}
