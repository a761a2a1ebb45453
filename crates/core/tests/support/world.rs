//! The clock, the cluster, the clients, and the loop that goes from one thing that happens to the next.

use std::{
    collections::BTreeMap,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use bytes::Bytes;
use ottla_broker::{Cluster, ClusterOptions, ConnectionId, Fault as Mishap, Leaders, NodeOptions, Output};
use ottla_core::{
    Address, Asked, Config, Event, Fault, Lane, Lost, Peer, Reply, Request, Start, Subscription,
    TopicPartition, Until,
};
use ottla_wire::{
    api::ApiVersions,
    code::Code,
    frame,
    message::{ApiVersionsRequest, ApiVersionsResponse, Message},
};

use super::{
    clients::{Client, Life, Sent},
    net::{Happening, Latency, Net, Stage, Wire, WireId},
    reader::{Habit, Polled, Read, Step, share},
    trace::trace,
    truth::{Produce, Truth},
    ward::Ward,
};

macro_rules! note {
    ($world:expr, $($what:tt)*) => {
        trace($world.elapsed(), format_args!($($what)*))
    };
}

/// Milliseconds.
pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Seconds.
pub const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// What a world is made with.
#[derive(Debug, Clone)]
pub struct Setup {
    pub seed: u64,
    pub nodes: i32,
    pub latency: Latency,
    pub cluster: ClusterOptions,
}

/// Everything there is.
pub struct World {
    pub now: Instant,
    pub begin: Instant,
    pub rng: fastrand::Rng,
    pub cluster: Cluster,
    pub net: Net,
    pub clients: Vec<Client>,
    pub truth: Truth,
    pub wards: BTreeMap<String, Ward>,
    /// One in so many pieces of what nodes send has a wrong byte near its beginning, except where it tells offsets.
    pub damage: Option<u32>,
    /// How often something happened at this very moment.
    busy: u32,
    pub steps: u64,
}

/// No schedule needs more.
const MOST_STEPS: u64 = 500_000;
const CONNECT_TIMEOUT: Duration = secs(5);
const HANDSHAKE_TIMEOUT: Duration = secs(5);
/// Where the lengths, the codes and the names are.
const DAMAGED: usize = 60;
const BEFORE_TOPICS: usize = 44;
const BEFORE_ASSIGNMENT: usize = 30;
/// Frames up to here need no room, as in `ottla`.
const SMALL_FRAME: usize = 64 << 10;
const MAX_FRAME: usize = 256 << 20;
const GATE_REPORT: Duration = secs(1);
/// Milliseconds since 1970 at the beginning.
const WALL_MS: i64 = 1_700_000_000_000;

impl Default for Setup {
    fn default() -> Self {
        Self {
            seed: 0,
            nodes: 1,
            latency: Latency { least: Duration::from_micros(200), more: Duration::from_micros(300) },
            cluster: ClusterOptions::new(),
        }
    }
}

impl World {
    pub fn new(setup: Setup) -> Self {
        #[allow(clippy::disallowed_methods, reason = "a point to count from; this clock is wound by hand")]
        let now = Instant::now();
        let node = |id| NodeOptions { host: format!("node{id}"), port: 9092, ..NodeOptions::new(id) };
        let options =
            setup.cluster.seed(setup.seed).remember_requests(0).with_nodes((1..=setup.nodes).map(node));
        Self {
            now,
            begin: now,
            rng: fastrand::Rng::with_seed(setup.seed),
            cluster: Cluster::new(options),
            net: Net::new(setup.latency),
            clients: Vec::new(),
            truth: Truth::default(),
            wards: BTreeMap::new(),
            damage: None,
            busy: 0,
            steps: 0,
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.now - self.begin
    }

    // Clients.

    /// Adds a machine, its links and a reader that begins to read.
    pub fn open(&mut self, config: Config) -> usize {
        let client = self.clients.len();
        note!(self, "client {client} opens: {config:?}");
        if let Some(group) = &config.group {
            self.ward(&group.id).joined(client, &config);
        }
        self.clients.push(Client::new(self.now, config));
        self.carry_out(client);
        self.net.at(self.now, Happening::Reader(client));
        self.net.at(self.now, Happening::Driver(client));
        client
    }

    pub fn seek(&mut self, client: usize, at: &TopicPartition, start: Start) {
        note!(self, "user seeks {at} to {start:?}");
        let it = &mut self.clients[client];
        it.machine.seek(at, start).expect("it is read");
        it.watch.sought(at, start);
        self.ward_sought(client, at, start);
        self.carry_out(client);
        self.rouse(client);
    }

    pub fn pause(&mut self, client: usize, at: &TopicPartition) {
        note!(self, "user pauses {at}");
        let it = &mut self.clients[client];
        it.machine.pause(at).expect("it is read");
        it.watch.paused(at);
        self.carry_out(client);
    }

    pub fn resume(&mut self, client: usize, at: &TopicPartition) {
        note!(self, "user resumes {at}");
        let it = &mut self.clients[client];
        it.machine.resume(at).expect("it is read");
        it.watch.resumed(at);
        self.carry_out(client);
        self.rouse(client);
    }

    pub fn set_habit(&mut self, client: usize, habit: Habit) {
        note!(self, "user reads {habit:?}");
        self.clients[client].reader.habit = habit;
        self.rouse(client);
    }

    /// From now on the caller keeps so many bytes of what it got.
    pub fn set_keep(&mut self, client: usize, bytes: usize) {
        note!(self, "user keeps {bytes} bytes");
        self.clients[client].reader.set_keep(bytes);
        self.after_room(client);
    }

    pub fn rouse(&mut self, client: usize) {
        self.net.at(self.now, Happening::Reader(client));
    }

    pub fn take(&mut self, client: usize) -> ottla_core::Take {
        self.clients[client].machine.take(self.now)
    }

    pub fn reads(&self, client: usize) -> &[Read] {
        &self.clients[client].reader.reads
    }

    /// The offsets handed out of a partition, in order.
    pub fn offsets(&self, client: usize, topic: &str, partition: i32) -> Vec<i64> {
        let of = |read: &&Read| *read.at.topic == *topic && read.at.partition == partition;
        self.reads(client).iter().filter(of).map(|read| read.offset).collect()
    }

    pub fn faults(&self, client: usize) -> Vec<Fault> {
        self.clients[client].reader.faults.iter().map(|(_, fault)| fault.clone()).collect()
    }

    pub fn events(&self, client: usize) -> impl Iterator<Item = &Event> {
        self.clients[client].events.iter().map(|(_, event)| event)
    }

    pub fn sent(&self, client: usize) -> &[Sent] {
        &self.clients[client].sent
    }

    pub fn ours(&self, client: usize) -> usize {
        self.clients[client].machine.ledger().buffered().ours
    }

    // The cluster.

    pub fn topic(&mut self, name: &str, partitions: i32) {
        note!(self, "topic {name} is made with {partitions} partitions");
        self.cluster.create_topic(name, partitions).expect("a new topic");
        self.truth.create(name, partitions);
        self.settle();
    }

    pub fn delete_topic(&mut self, name: &str) {
        note!(self, "topic {name} is deleted");
        self.cluster.delete_topic(name).expect("there is one");
        self.truth.delete(name);
        self.wards.values_mut().for_each(|ward| ward.deleted(name));
        self.settle();
    }

    pub fn grow_topic(&mut self, name: &str, partitions: i32) {
        note!(self, "topic {name} gets {partitions} partitions");
        self.cluster.add_partitions(name, partitions).expect("more than there are");
        self.truth.grow(name, partitions);
        self.settle();
    }

    pub fn append(&mut self, topic: &str, partition: i32, produce: Produce) {
        let (batch, deltas) = self.truth.batch(produce);
        let first = self.cluster.append(topic, partition, batch).expect("there is a partition");
        let end = self.cluster.high_watermark(topic, partition).expect("there is a partition");
        note!(self, "{topic}-{partition} gets {produce:?} at {first}, ends at {end}");
        self.truth.appended(topic, partition, first, &deltas, end);
        self.settle();
    }

    /// Appends so many small records, in one batch.
    pub fn fill(&mut self, topic: &str, partition: i32, count: u32) {
        self.append(topic, partition, Produce::plain(count));
    }

    /// The log is cut there, and another leader has taken over: an unclean election.
    pub fn truncate(&mut self, topic: &str, partition: i32, end: i64, leader: i32) {
        note!(self, "{topic}-{partition} is cut at {end}, led by {leader}");
        self.cluster.truncate(topic, partition, end).expect("there is a partition");
        self.truth.truncated(topic, partition, end);
        let (at, end) = (TopicPartition::new(topic, partition), self.truth.end(topic, partition));
        self.wards.values_mut().for_each(|ward| ward.truncated(&at, end));
        self.lead(topic, partition, Some(leader));
    }

    pub fn delete_records(&mut self, topic: &str, partition: i32, start: i64) {
        note!(self, "{topic}-{partition} begins at {start}");
        let start = self.cluster.delete_records(topic, partition, start).expect("within the log");
        self.truth.started(topic, partition, start);
        self.settle();
    }

    pub fn lead(&mut self, topic: &str, partition: i32, leader: Option<i32>) {
        note!(self, "{topic}-{partition} is led by {leader:?}");
        self.cluster.set_leader(topic, partition, leader).expect("there is a partition");
        self.settle();
    }

    pub fn stop(&mut self, node: i32, leaders: Leaders) {
        note!(self, "node {node} stops, its partitions {leaders:?}");
        self.cluster.stop_node(node, leaders).expect("there is a node");
        self.settle();
    }

    pub fn start(&mut self, node: i32) {
        note!(self, "node {node} starts");
        self.cluster.start_node(node).expect("there is a node");
        self.settle();
    }

    /// The node dies, and nobody in the cluster has noticed yet: it leads what it led.
    pub fn kill(&mut self, node: i32) {
        note!(self, "node {node} is dead");
        self.net.dead.insert(node);
        self.cluster.close_connections(node);
        self.settle();
    }

    /// The node is back.
    pub fn revive(&mut self, node: i32) {
        note!(self, "node {node} is back");
        self.net.dead.remove(&node);
    }

    pub fn mishap(&mut self, mishap: Mishap) -> ottla_broker::FaultId {
        note!(self, "mishap {mishap:?}");
        self.cluster.fault(mishap)
    }

    // The network.

    /// Nothing comes through to or from the node any more; nobody is told.
    pub fn darken(&mut self, node: i32) {
        note!(self, "node {node} is dark");
        self.net.darken(node);
    }

    pub fn lighten(&mut self, node: i32) {
        note!(self, "node {node} is light");
        self.net.lighten(self.now, node);
    }

    /// A connection breaks; what is on its way is lost, both ways.
    pub fn cut(&mut self, id: WireId) {
        note!(self, "wire {} is cut", id.0);
        if let Some(connection) = self.net.wires.get(&id).and_then(|wire| wire.connection) {
            self.cluster.disconnect(connection);
            self.net.by_connection.remove(&connection);
        }
        self.lose(id, "the connection was reset");
    }

    // Time.

    /// Lets so much time pass.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.next_time().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Lets time pass until `done`, and gives how much.
    ///
    /// # Panics
    ///
    /// If it takes longer than `limit`.
    #[track_caller]
    pub fn until(&mut self, limit: Duration, what: &str, done: impl Fn(&Self) -> bool) -> Duration {
        let begin = self.now;
        let end = begin + limit;
        while !done(self) {
            match self.next_time() {
                Some(next) if next <= end => self.step(),
                _ => panic!("not within {limit:?} of {:?}: {what}", begin - self.begin),
            }
        }
        self.now - begin
    }

    fn next_time(&self) -> Option<Instant> {
        let running = self.clients.iter().filter(|client| client.life == Life::Runs);
        let machines = running.filter_map(|c| c.machine.poll_deadline()).map(|(at, _)| at);
        machines.chain(self.cluster.poll_deadline()).chain(self.net.next()).min()
    }

    /// What happens next, happens.
    fn step(&mut self) {
        let Some(next) = self.next_time() else { return };
        self.busy = if next > self.now { 0 } else { self.busy + 1 };
        assert!(self.busy < 100_000, "it spins: nothing lets the time pass");
        self.steps += 1;
        assert!(self.steps < MOST_STEPS, "so many steps that something spins, be it slowly");
        self.now = self.now.max(next);
        if let Some(what) = self.net.due(self.now) {
            self.happen(what);
        } else if self.cluster.poll_deadline().is_some_and(|at| at <= self.now) {
            self.cluster.handle_timeout(self.now);
        } else {
            for client in 0..self.clients.len() {
                let it = &self.clients[client];
                let due = it.machine.poll_deadline().is_some_and(|(at, _)| at <= self.now);
                if due && it.life == Life::Runs {
                    self.turn(client);
                }
            }
        }
        self.settle();
    }

    fn happen(&mut self, what: Happening) {
        let client = self.net.client_of(&what);
        match client.map_or(Life::Runs, |client| self.clients[client].life) {
            Life::Runs => {}
            Life::Frozen => return self.clients[client.expect("one is frozen")].missed.push_back(what),
            Life::Gone => return,
        }
        match what {
            Happening::Dialled(id) => self.dialled(id),
            Happening::Accepted(id) => self.accepted(id),
            Happening::Refused(id) => self.lose(id, "cannot connect: connection refused"),
            Happening::TooLong(id, what) => self.too_long(id, what),
            Happening::Up(id, frame) => self.up(id, &frame),
            Happening::Left(id) => self.left(id),
            Happening::Down(id, bytes) => self.down(id, &bytes),
            Happening::Closed(id, why) => self.lose(id, why),
            Happening::Gate(id) => self.gate_report(id),
            Happening::Driver(client) => self.turn(client),
            Happening::Reader(client) => self.read(client),
            Happening::Acks(client) => self.acknowledge(client),
            Happening::Hook(client, id) => self.hook_done(client, id),
        }
    }

    /// The driver's turn, as in `ottla`'s `Shared::turn`.
    fn turn(&mut self, client: usize) {
        let Some(it) = self.clients.get_mut(client) else { return };
        it.machine.handle_timeout(self.now);
        if let Some((at, why)) = it.machine.poll_deadline() {
            assert!(at > self.now, "{why:?} was due and still is");
        }
        it.machine.handle_room();
        self.carry_out(client);
    }
}

/// Between the machine and its links, as `ottla`'s `Shared` does it.
impl World {
    /// Carries out what the machine wants now.
    pub fn carry_out(&mut self, client: usize) {
        while let Some(link) = self.clients[client].machine.poll_hang_up() {
            note!(self, "client {client} hangs up on {link:?}");
            self.clients[client].watch.unlinked(link.0, link.1);
            if let Some(id) = self.clients[client].links.remove(&link) {
                self.leave(id);
            }
        }
        while let Some(request) = self.clients[client].machine.poll_request(self.now) {
            self.request(client, request);
        }
        let now = self.now;
        let it = &mut self.clients[client];
        while let Some(event) = it.machine.poll_event() {
            trace(now - self.begin, format_args!("client {client} tells {event:?}"));
            it.watch.told(&event, &self.truth);
            if let Some(ward) = it.machine.config().group.as_ref().and_then(|g| self.wards.get_mut(&*g.id)) {
                ward.told(client, &event);
            }
            it.events.push((now, event));
        }
        self.carry_out_group(client);
        let it = &mut self.clients[client];
        if it.reader.registered && it.machine.poll_ready() {
            it.reader.registered = false;
            self.net.at(now, Happening::Reader(client));
        }
        self.after_room(client);
        self.check_bounds(client);
    }

    /// Somebody waited for room, and there is.
    fn after_room(&mut self, client: usize) {
        if self.clients[client].room.swap(false, Ordering::Relaxed) {
            self.look_at_gates(client);
            self.net.at(self.now, Happening::Driver(client));
        }
    }

    fn request(&mut self, client: usize, request: Request) {
        let key = (request.peer, request.lane);
        note!(self, "client {client} asks {key:?} #{} {:?}", request.id, request.body);
        self.clients[client].sent(self.now, request.peer, request.lane, &request.body);
        self.clients[client].watch.asked(self.now, &request);
        if let Some(&id) = self.clients[client].links.get(&key) {
            return self.ask(id, request);
        }
        let Some(address) = self.clients[client].machine.address(request.peer).cloned() else { return };
        let node = self.resolve(&address);
        let black_hole = address.host.starts_with("hole");
        let id = self.net.dial(self.now, client, key, (address, node), request);
        self.clients[client].links.insert(key, id);
        self.clients[client].dialled += 1;
        note!(self, "client {client} dials wire {} to {key:?}", id.0);
        self.net.at(self.now + CONNECT_TIMEOUT, Happening::TooLong(id, "connecting"));
        if !black_hole {
            self.net.up(self.now, &mut self.rng, id, Happening::Dialled(id));
        }
    }

    fn resolve(&self, address: &Address) -> Option<i32> {
        let at = |node: &NodeOptions| node.host == address.host && node.port == address.port;
        self.cluster.nodes().into_iter().find(at).map(|node| node.id)
    }

    /// Writes a request, if the connection stands.
    fn ask(&mut self, id: WireId, request: Request) {
        let Some(wire) = self.net.wires.get_mut(&id) else { return };
        let Stage::Open(versions) = &wire.stage else { return wire.outbox.push(request) };
        let correlation = wire.next_correlation;
        let client = wire.client;
        match request.body.encode(versions, correlation, "sim") {
            Ok((bytes, asked)) => {
                wire.next_correlation += 1;
                wire.asked.push_back((correlation, request.id, asked));
                self.net.up(self.now, &mut self.rng, id, Happening::Up(id, bytes.into()));
            }
            Err(error) => {
                let what = error.to_string();
                self.clients[client].machine.handle_unsupported(self.now, request.id, what);
                self.carry_out(client);
            }
        }
    }

    /// At the node: somebody connects.
    fn dialled(&mut self, id: WireId) {
        let Some(node) = self.net.wires.get(&id).map(|wire| wire.node) else { return };
        let alive = node.filter(|node| !self.net.dead.contains(node));
        let connection = alive.and_then(|node| self.cluster.connect(node));
        let answer = match connection {
            Some(_) => Happening::Accepted(id),
            None => Happening::Refused(id),
        };
        if let Some(connection) = connection {
            self.net.wires.get_mut(&id).expect("looked up above").connection = Some(connection);
            self.net.by_connection.insert(connection, id);
        }
        self.net.down(self.now, &mut self.rng, id, answer);
    }

    /// At the client: the connection stands; which versions are spoken?
    fn accepted(&mut self, id: WireId) {
        let Some(wire) = self.net.wires.get_mut(&id) else { return };
        if let Stage::Connecting = wire.stage {
            self.net.at(self.now + HANDSHAKE_TIMEOUT, Happening::TooLong(id, "exchanging versions"));
            self.greet(id, *ApiVersionsRequest::VERSIONS.end());
        }
    }

    fn greet(&mut self, id: WireId, version: i16) {
        let Some(wire) = self.net.wires.get_mut(&id) else { return };
        wire.stage = Stage::Greeting(version);
        let request = ApiVersionsRequest {
            client_software_name: "sim".to_owned(),
            client_software_version: "1".to_owned(),
            ..ApiVersionsRequest::default()
        };
        let bytes = frame::encode_request(&request, version, 0, "sim").expect("a request");
        self.net.up(self.now, &mut self.rng, id, Happening::Up(id, bytes.into()));
    }

    fn greeted(&mut self, id: WireId, version: i16, frame: Bytes) {
        let Ok((_, response)) = frame::decode_response::<ApiVersionsRequest>(frame, version) else {
            return self.lose(id, "what answers is no Kafka broker");
        };
        let response: ApiVersionsResponse = response;
        let versions = ApiVersions::new(&response);
        if Code(response.error_code) != Code::NONE {
            let lower = versions.pick::<ApiVersionsRequest>().unwrap_or(0);
            return match lower < version {
                true => self.greet(id, lower),
                false => self.lose(id, "the broker refused to say its versions"),
            };
        }
        let Some(wire) = self.net.wires.get_mut(&id) else { return };
        wire.stage = Stage::Open(versions);
        let (client, peer) = (wire.client, wire.peer);
        let waiting = std::mem::take(&mut wire.outbox);
        self.clients[client].machine.handle_connected(peer);
        self.carry_out(client);
        for request in waiting {
            self.ask(id, request);
        }
    }

    fn too_long(&mut self, id: WireId, what: &'static str) {
        let stage = self.net.wires.get(&id).map(|wire| &wire.stage);
        match (stage, what) {
            (Some(Stage::Connecting), "connecting") => self.lose(id, "connecting took more than 5s"),
            (Some(Stage::Greeting(_)), "exchanging versions") => {
                self.lose(id, "exchanging versions took more than 5s");
            }
            _ => {}
        }
    }

    /// The client lets go of a connection.
    pub fn leave(&mut self, id: WireId) {
        let Some(wire) = self.net.wires.get_mut(&id) else { return };
        wire.stage = Stage::LeftByClient;
        wire.stream = Vec::new();
        self.net.up(self.now, &mut self.rng, id, Happening::Left(id));
    }

    /// At the node: the client is gone.
    fn left(&mut self, id: WireId) {
        if let Some(connection) = self.net.wires.remove(&id).and_then(|wire| wire.connection) {
            self.cluster.disconnect(connection);
            self.net.by_connection.remove(&connection);
        }
    }

    /// At the client: the connection ended by itself.
    fn lose(&mut self, id: WireId, why: &str) {
        let Some(wire) = self.net.wires.get(&id) else { return };
        if let Stage::LeftByClient = wire.stage {
            return;
        }
        let (client, key, address) = (wire.client, (wire.peer, wire.lane), wire.address.clone());
        note!(self, "client {client} loses wire {} to {key:?}: {why}", id.0);
        self.leave(id);
        let it = &mut self.clients[client];
        if it.links.get(&key) == Some(&id) {
            it.links.remove(&key);
            it.watch.unlinked(key.0, key.1);
            let lost = Lost { address, reason: why.to_owned() };
            it.machine.handle_lost(self.now, key.0, key.1, &lost);
        }
        self.carry_out(client);
    }
}

/// Between the links and the nodes.
impl World {
    /// Sends what the cluster has to send.
    pub fn settle(&mut self) {
        self.look_at_commits();
        while let Some(output) = self.cluster.poll_output() {
            let (Output::Send { connection, .. } | Output::Close { connection }) = &output;
            let Some(&id) = self.net.by_connection.get(connection) else { continue };
            match output {
                Output::Send { bytes, .. } => {
                    self.net.down_bytes(self.now, &mut self.rng, id, &bytes);
                }
                Output::Close { connection } => self.closed(id, connection),
            }
        }
    }

    fn closed(&mut self, id: WireId, connection: ConnectionId) {
        self.net.by_connection.remove(&connection);
        if let Some(wire) = self.net.wires.get_mut(&id) {
            wire.connection = None;
        }
        let closed = Happening::Closed(id, "the broker closed the connection");
        self.net.down(self.now, &mut self.rng, id, closed);
    }

    /// At the node: a frame came.
    fn up(&mut self, id: WireId, frame: &Bytes) {
        let Some(connection) = self.net.wires.get(&id).and_then(|wire| wire.connection) else { return };
        let wall = WALL_MS + self.elapsed().as_millis() as i64;
        self.cluster.handle_frame(self.now, wall, connection, frame.slice(4..));
    }

    /// At the client: bytes came.
    fn down(&mut self, id: WireId, bytes: &Bytes) {
        let Some(wire) = self.net.wires.get_mut(&id) else { return };
        if let Stage::LeftByClient = wire.stage {
            return;
        }
        let before = wire.stream.len();
        wire.stream.extend_from_slice(bytes);
        let asked = wire.asked.iter();
        let most = || asked.map(|(_, _, asked)| may_be_damaged(*asked)).min().unwrap_or(DAMAGED);
        if let Some((rate, damaged)) = self.damage.map(|rate| (rate, most())).filter(|(_, most)| *most > 0)
            && self.rng.u32(0..rate) == 0
        {
            let at = before + self.rng.usize(0..bytes.len().min(damaged));
            wire.stream[at] = [0, 1, 2, 0x7f, 0x80, 0xff][self.rng.usize(0..6)];
            note!(self, "wire {}: byte {at} of what waits there is damaged", id.0);
        }
        self.cut_frames(id);
    }

    /// Takes whole frames out of what came, as long as there is room for them.
    fn cut_frames(&mut self, id: WireId) {
        loop {
            let Some(wire) = self.net.wires.get_mut(&id) else { return };
            let Some(prefix) = wire.stream.first_chunk::<4>() else { return };
            let bytes = match frame::length(*prefix, MAX_FRAME) {
                Ok(bytes) => bytes,
                Err(error) => return self.lose(id, &error.to_string()),
            };
            let whole = wire.stream.len() >= 4 + bytes;
            if !whole {
                return self.report(id);
            }
            if bytes > SMALL_FRAME && !self.gate_is_open(id, bytes) {
                return;
            }
            let Some(wire) = self.net.wires.get_mut(&id) else { return };
            if wire.stream.len() < 4 + bytes {
                return; // what made room has also let go of the connection, or read it
            }
            let rest = wire.stream.split_off(4 + bytes);
            let frame = std::mem::replace(&mut wire.stream, rest).split_off(4);
            self.frame(id, frame);
        }
    }

    /// As `ottla`'s `Body::fill`: a frame that takes long is reported to be still coming.
    fn report(&mut self, id: WireId) {
        let Some(wire) = self.net.wires.get_mut(&id) else { return };
        if self.now - wire.reported < GATE_REPORT {
            return;
        }
        wire.reported = self.now;
        let (client, peer, lane) = (wire.client, wire.peer, wire.lane);
        self.clients[client].machine.handle_progress(self.now, peer, lane);
        self.carry_out(client);
    }

    /// As `ottla`'s `Gate`: a large frame waits for room, unless the reader starves.
    fn gate_is_open(&mut self, id: WireId, bytes: usize) -> bool {
        let client = self.net.wires[&id].client;
        if !self.fits(client, bytes) {
            self.clients[client].machine.give_up_paused();
            self.carry_out(client);
        }
        let it = &self.clients[client];
        it.machine.ledger().want_room();
        let open = self.fits(client, bytes) || it.machine.reader_starves();
        let Some(wire) = self.net.wires.get_mut(&id) else { return false };
        if !open && !std::mem::replace(&mut wire.gated, true) {
            note!(self, "wire {} is not read: {bytes} bytes would be too many", id.0);
            self.net.at(self.now + GATE_REPORT, Happening::Gate(id));
        }
        open
    }

    fn fits(&self, client: usize, bytes: usize) -> bool {
        let machine = &self.clients[client].machine;
        machine.ledger().total() + bytes <= machine.config().budget
    }

    fn gate_report(&mut self, id: WireId) {
        let Some(wire) = self.net.wires.get_mut(&id) else { return };
        if let Stage::LeftByClient = wire.stage {
            return;
        }
        wire.gated = false;
        let (client, peer, lane) = (wire.client, wire.peer, wire.lane);
        self.clients[client].machine.handle_progress(self.now, peer, lane);
        self.carry_out(client);
        self.cut_frames(id);
    }

    fn look_at_gates(&mut self, client: usize) {
        let waits = |wire: &Wire| wire.client == client && wire.gated;
        let waiting: Vec<_> = self.net.wires.iter().filter(|(_, w)| waits(w)).map(|(id, _)| *id).collect();
        for id in waiting {
            self.cut_frames(id);
        }
    }

    fn frame(&mut self, id: WireId, frame: Vec<u8>) {
        let wire = self.net.wires.get_mut(&id).expect("it was just read");
        let client = wire.client;
        let (frame, account) = share(frame, self.clients[client].machine.ledger());
        if let Stage::Greeting(version) = wire.stage {
            return self.greeted(id, version, frame);
        }
        let Ok(correlation) = frame::correlation_id(&frame) else { return self.lose(id, "too short") };
        let Some((wanted, request, asked)) = wire.asked.pop_front() else {
            return self.lose(id, "the broker sent an answer that nobody asked for");
        };
        if correlation != wanted {
            return self.lose(id, "the broker answered another request");
        }
        let bytes = frame.len();
        let mut reply = match asked.decode(frame) {
            Ok(reply) => reply,
            Err(error) => return self.lose(id, &format!("the broker's answer makes no sense: {error}")),
        };
        note!(self, "client {client} gets the answer to #{request}, {bytes} bytes: {}", Brief(&reply));
        let brought = bytes > 300 || has_committed(&reply); // else no more than a fetch that found nothing
        if let Reply::Fetch(fetch) = &mut reply {
            fetch.account = Some(account);
        }
        let it = &mut self.clients[client];
        it.watch.answered(self.now, request, bytes, brought);
        it.machine.handle_reply(self.now, request, reply);
        self.carry_out(client);
    }
}

/// The reader's side.
impl World {
    /// Reads by habit.
    fn read(&mut self, client: usize) {
        let Some(it) = self.clients.get_mut(client) else { return };
        if it.caller.waits_for.is_some() {
            return; // for its commit to be answered, which wakes it
        }
        let (most, pause) = match it.reader.habit {
            Habit::Stopped => return,
            Habit::Fast => (usize::MAX, Duration::ZERO),
            Habit::Slow(most, pause) => (most, pause),
        };
        it.reader.registered = false;
        for _ in 0..most {
            if !self.poll_reader(client) || self.clients[client].caller.waits_for.is_some() {
                return;
            }
        }
        self.net.at(self.now + pause, Happening::Reader(client));
    }

    /// Asks for the next record or batch; false if there is none.
    fn poll_reader(&mut self, client: usize) -> bool {
        loop {
            let it = &mut self.clients[client];
            let step = it.reader.step(self.now, &mut it.machine);
            match step {
                Step::Took => {
                    let part = &it.reader.walk.as_ref().expect("it was just taken").part;
                    trace(
                        self.now - self.begin,
                        format_args!(
                            "client {client} takes {}-{} from {} to {}, {} batches",
                            part.topic,
                            part.partition,
                            part.from,
                            part.next,
                            part.batches.len()
                        ),
                    );
                    it.watch.took(part);
                }
                Step::Walked => {
                    let part = &it.reader.walk.as_ref().expect("it was just walked").part;
                    it.watch.walked(part, &self.truth);
                }
                Step::Told(None) => {}
                Step::Told(Some(fault)) | Step::Polled(Polled::Fault(fault)) => {
                    trace(self.now - self.begin, format_args!("client {client} gets a fault: {fault}"));
                    it.watch.failed(&fault);
                    let for_ever = fault.partition().is_none() && !matches!(fault, Fault::Unreachable { .. });
                    it.reader.faults.push((self.now, fault));
                    self.carry_out(client);
                    if for_ever {
                        // It would be told at once again, every time: ask again when something happens.
                        self.clients[client].reader.registered = true;
                        return false;
                    }
                    return true;
                }
                Step::Polled(Polled::Records(records)) => {
                    let by_batch = it.reader.by_batch;
                    self.handed_out(client, &records);
                    let it = &mut self.clients[client];
                    for read in records {
                        it.watch.read(&read, &self.truth);
                        let position = it.machine.position(&read.at).ok().flatten();
                        assert!(
                            by_batch || position == Some(read.offset + 1),
                            "{}: handed out offset {} and stands at {position:?}",
                            read.at,
                            read.offset
                        );
                        it.reader.keep(read.value.clone());
                        it.reader.reads.push(Read { value: Bytes::new(), key: None, ..read });
                    }
                    self.acknowledge_new(client);
                    self.after_room(client);
                    return true;
                }
                Step::Polled(Polled::Ended) => {
                    it.reader.ended = true; // the caller stops asking, until it seeks
                    it.watch.ended();
                    self.carry_out(client);
                    return false;
                }
                Step::Polled(Polled::Waiting) => {
                    self.look_at_gates(client);
                    self.carry_out(client);
                    return false;
                }
            }
            self.carry_out(client);
        }
    }

    fn check_bounds(&mut self, client: usize) {
        let it = &mut self.clients[client];
        it.watch.check_bounds(&it.machine, it.reader.largest_unpacked);
    }
}

/// How many bytes of an answer may be damaged. Whoever is told a wrong offset or partition, or that a topic is another, reads
/// elsewhere, and cannot know.
fn may_be_damaged(asked: Asked) -> usize {
    let asked = format!("{asked:?}");
    let is = |kind: &&str| asked.contains(&format!("kind: {kind},"));
    if ["Fetch", "Recall", "ListOffsets", "LeaderEpochs"].iter().any(is) {
        return 0;
    }
    if is(&"Metadata") {
        BEFORE_TOPICS
    } else if is(&"Sync") {
        BEFORE_ASSIGNMENT
    } else {
        DAMAGED
    }
}

/// Whether offsets were committed, all of them.
fn has_committed(reply: &Reply) -> bool {
    let Reply::Commit(answer) = reply else { return false };
    answer.topics.iter().flat_map(|topic| &topic.partitions).all(|p| Code(p.error_code) == Code::NONE)
}

/// A reply without what is long in it.
struct Brief<'a>(&'a Reply);

impl std::fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = format!("{:?}", self.0);
        text.truncate(1500);
        f.write_str(&text)
    }
}

/// Configurations for tests.
impl World {
    /// Reads all of these topics from every node of the cluster, from the beginning.
    pub fn config(&self, topics: &[&str]) -> Config {
        let nodes = self.cluster.nodes();
        Config {
            bootstrap: nodes.into_iter().map(|n| Address { host: n.host, port: n.port }).collect(),
            subscriptions: topics
                .iter()
                .map(|t| Subscription { topic: (*t).into(), partitions: None })
                .collect(),
            ..Config::default()
        }
    }
}

/// For tests that want an end.
pub fn with_end(config: Config) -> Config {
    Config { until: Some(Until::End), ..config }
}

/// Counts by key, for tests that look at what was sent.
pub fn count<K: Ord>(keys: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    let mut counts = BTreeMap::new();
    keys.for_each(|key| *counts.entry(key).or_default() += 1);
    counts
}

/// The link of a lane, for tests that cut it.
impl World {
    pub fn link(&self, client: usize, peer: Peer, lane: Lane) -> Option<WireId> {
        self.clients[client].links.get(&(peer, lane)).copied()
    }
}
