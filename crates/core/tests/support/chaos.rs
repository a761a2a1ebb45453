//! Trouble that every reader can meet: the network, the cluster and its answers. Each simulation says in `own` what it
//! has beside that, and adds what only its readers meet.

use std::time::Duration;

use ottla_broker::{ApiKey, Fault as Mishap, Leaders};
use ottla_core::{Address, Config};
use ottla_wire::code::Code;

use super::{
    net::Latency,
    reader::Habit,
    truth::Shape,
    world::{World, ms, secs},
};

/// A world and what makes trouble in it.
///
/// A seed stands for the order in which the dice are thrown: another order, and the seeds that are kept show nothing.
pub struct Chaos<Own> {
    pub world: World,
    pub rng: fastrand::Rng,
    pub topics: Vec<String>,
    /// What the readers ask.
    pub apis: &'static [ApiKey],
    /// Nodes that are stopped.
    pub down: Vec<i32>,
    /// Nodes that nothing comes through to.
    pub dark: Vec<i32>,
    /// How long it is between two acts, about.
    pub pace: Duration,
    pub own: Own,
}

impl<Own> Chaos<Own> {
    /// Acts for some seconds.
    pub fn rage(&mut self, from: u64, to: u64, act: impl Fn(&mut Self)) {
        let end = self.world.now + self.secs(from, to);
        while self.world.now < end {
            let pause = self.pause();
            self.world.run(pause);
            act(self);
        }
    }

    /// Mostly about the pace, now and then none, or long enough for everything to park and settle.
    fn pause(&mut self) -> Duration {
        match self.rng.u32(0..10) {
            0 => Duration::ZERO,
            1 => self.secs(1, 5),
            _ => self.pace.mul_f64(self.rng.f64() * 2.0),
        }
    }

    // Choices.

    pub fn secs(&mut self, from: u64, to: u64) -> Duration {
        secs(self.rng.u64(from..=to))
    }

    pub fn node(&mut self) -> i32 {
        let nodes = self.world.cluster.nodes();
        nodes[self.rng.usize(0..nodes.len())].id
    }

    fn any_topic(&mut self) -> Option<String> {
        let topic = self.topics[self.rng.usize(0..self.topics.len())].clone();
        self.world.truth.life(&topic).map(|_| topic)
    }

    pub fn place(&mut self) -> Option<(String, i32)> {
        let topic = self.any_topic()?;
        let partition = self.rng.i32(0..self.world.truth.partitions(&topic));
        Some((topic, partition))
    }

    /// One that the log holds, or its end.
    pub fn some_offset(&mut self, topic: &str, partition: i32) -> i64 {
        let truth = &self.world.truth;
        self.rng.i64(truth.start(topic, partition)..=truth.end(topic, partition))
    }

    pub fn some_shape(&mut self) -> Shape {
        let count = self.rng.u32(1..=12);
        match self.rng.u32(0..16) {
            0 => Shape::Gaps(count),
            1 => Shape::Tail(count),
            2 => Shape::Empty(count),
            3 => Shape::Control,
            _ => Shape::Plain(count),
        }
    }

    pub fn some_habit(&mut self) -> Habit {
        match self.rng.u32(0..4) {
            0 => Habit::Stopped,
            1 => Habit::Slow(self.rng.usize(1..20), ms(self.rng.u64(0..100))),
            _ => Habit::Fast,
        }
    }

    pub fn api(&mut self) -> ApiKey {
        self.apis[self.rng.usize(0..self.apis.len())]
    }

    // The network.

    pub fn cut(&mut self) {
        let wires: Vec<_> = self.world.clients.iter().flat_map(|c| c.links.values().copied()).collect();
        if let Some(wire) = self.rng.choice(wires) {
            self.world.cut(wire);
        }
    }

    pub fn close_connections(&mut self) {
        let node = self.node();
        self.world.cluster.close_connections(node);
        self.world.settle();
    }

    pub fn darken_or_lighten(&mut self) {
        match self.dark.pop() {
            Some(node) => self.world.lighten(node),
            None => {
                let node = self.node();
                self.world.darken(node);
                self.dark.push(node);
            }
        }
    }

    pub fn slow(&mut self) {
        let node = self.node();
        let least = ms(self.rng.u64(0..700));
        self.world.net.latency_of.insert(node, Latency { least, more: least });
    }

    // The cluster.

    pub fn stop_or_start(&mut self) {
        match self.down.pop() {
            Some(node) if self.rng.u32(0..3) > 0 => self.world.start(node),
            Some(node) => self.down.push(node),
            None => {
                let node = self.node();
                let leaders = if self.rng.bool() { Leaders::Move } else { Leaders::Lose };
                self.world.stop(node, leaders);
                self.down.push(node);
            }
        }
    }

    pub fn move_leader(&mut self) {
        let Some((topic, partition)) = self.place() else { return };
        let node = self.node();
        self.world.lead(&topic, partition, Some(node));
    }

    /// An unclean election: some node leads what it has of the log.
    pub fn truncate(&mut self, topic: &str, partition: i32) {
        let at = self.some_offset(topic, partition);
        let node = self.node();
        self.world.truncate(topic, partition, at, node);
    }

    pub fn retain(&mut self) {
        let Some((topic, partition)) = self.place() else { return };
        let at = self.some_offset(&topic, partition);
        self.world.delete_records(&topic, partition, at);
    }

    pub fn grow(&mut self) {
        let Some(topic) = self.any_topic() else { return };
        let count = self.world.truth.partitions(&topic);
        if count < 8 {
            self.world.grow_topic(&topic, count + 1);
        }
    }

    // Answers.

    /// It happens a few times, at one node or wherever.
    pub fn mishap(&mut self, mishap: Mishap) {
        let mishap = mishap.times(self.rng.u64(1..=4));
        let mishap = if self.rng.bool() { mishap } else { mishap.node(self.node()) };
        self.world.mishap(mishap);
    }

    /// One of the codes comes, about one partition if the API can say so.
    pub fn refuse(&mut self, api: ApiKey, codes: &[Code], by_partition: bool) {
        let code = codes[self.rng.usize(0..codes.len())];
        let mishap = match (self.rng.bool(), self.place()) {
            (true, Some((topic, partition))) if by_partition => {
                Mishap::partition_error(api, code).topic(topic).partition(partition)
            }
            _ => Mishap::error(api, code),
        };
        self.mishap(mishap);
    }

    /// Answers come up to so many milliseconds later.
    pub fn late(&mut self, most: u64) {
        let (api, late) = (self.api(), ms(self.rng.u64(1..most)));
        self.mishap(Mishap::delay(api, late));
    }

    pub fn silence(&mut self) {
        let api = self.api();
        self.world.mishap(Mishap::silence(api));
    }

    // The end.

    /// The last fault is over: every node is there and answers.
    pub fn heal_nodes(&mut self) {
        let world = &mut self.world;
        world.cluster.clear_faults();
        self.dark.drain(..).for_each(|node| world.lighten(node));
        self.down.drain(..).for_each(|node| world.start(node));
        world.net.latency_of.clear();
    }

    /// Every topic is there, and has its leaders.
    pub fn heal_topics(&mut self) {
        let world = &mut self.world;
        for topic in &self.topics {
            if world.truth.life(topic).is_none() {
                world.topic(topic, 2);
            }
            for partition in 0..world.truth.partitions(topic) {
                if world.cluster.leader(topic, partition).is_none() {
                    world.lead(topic, partition, Some(1));
                }
            }
        }
    }

    pub fn fill_all(&mut self, records: u32) {
        for topic in &self.topics {
            for partition in 0..self.world.truth.partitions(topic) {
                self.world.fill(topic, partition, records);
            }
        }
    }
}

/// Less than 3 ms times `most` at the least, and three times that at the most.
pub fn some_latency(rng: &mut fastrand::Rng, most: u64) -> Latency {
    let least = Duration::from_micros(rng.u64(50..3000) * rng.u64(1..most));
    Latency { least, more: least.mul_f64(rng.f64() * 2.0) }
}

/// Up to so many topics; the first of them is there, others may come later.
pub fn some_topics(rng: &mut fastrand::Rng, world: &mut World, most: u32) -> Vec<String> {
    let topics: Vec<String> = (0..rng.u32(1..=most)).map(|nth| format!("t{nth}")).collect();
    for (nth, topic) in topics.iter().enumerate() {
        if nth == 0 || rng.bool() {
            world.topic(topic, rng.i32(1..=4));
        }
    }
    topics
}

/// The kinds of trouble that a schedule has: a few of all, or those of a theme. Few at a time find more than all at once.
pub fn some_kinds<Kind: Copy>(rng: &mut fastrand::Rng, all: &[Kind], themes: &[&[Kind]]) -> Vec<Kind> {
    if !rng.bool() {
        return themes[rng.usize(0..themes.len())].to_vec();
    }
    let mut kinds = all.to_vec();
    rng.shuffle(&mut kinds);
    kinds.truncate(rng.usize(1..=8));
    kinds
}

/// Every other reader knows an address, too, that leads nowhere.
pub fn perhaps_a_dead_address(rng: &mut fastrand::Rng, config: &mut Config) {
    if rng.bool() {
        let host = if rng.bool() { "dead" } else { "hole" };
        config.bootstrap.push(Address { host: host.to_owned(), port: 9092 });
    }
}
