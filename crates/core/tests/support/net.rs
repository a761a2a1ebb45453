//! Wires between machines and nodes: what is sent arrives later, in order on each wire, or never.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use bytes::Bytes;
use ottla_broker::ConnectionId;
use ottla_core::{Address, Asked, Lane, Peer, Request};
use ottla_wire::api::ApiVersions;

/// One TCP connection, from its dialling on. Never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WireId(pub u64);

/// How long a message is on its way: `least`, and up to `more` on top.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    pub least: Duration,
    pub more: Duration,
}

/// A connection with both of its ends.
#[derive(Debug)]
pub struct Wire {
    pub client: usize,
    pub peer: Peer,
    pub lane: Lane,
    pub address: Address,
    /// Where the address leads.
    pub node: Option<i32>,
    /// The node's end, while it has one.
    pub connection: Option<ConnectionId>,
    pub stage: Stage,
    /// Requests that wait until it stands.
    pub outbox: Vec<Request>,
    /// What was asked and not answered, in order.
    pub asked: VecDeque<(i32, u64, Asked)>,
    pub next_correlation: i32,
    /// What came and is not yet a whole frame.
    pub stream: Vec<u8>,
    /// It is not read, for want of room.
    pub gated: bool,
    /// When the machine was told last that something is coming.
    pub reported: Instant,
    up: Instant,
    down: Instant,
}

/// How far a connection is.
#[derive(Debug)]
pub enum Stage {
    Connecting,
    /// Versions were asked for in this version.
    Greeting(i16),
    Open(ApiVersions),
    /// The client has let go of it.
    LeftByClient,
}

/// What happens at a time.
#[derive(Debug)]
pub enum Happening {
    /// At the node: somebody connects.
    Dialled(WireId),
    /// At the client: the connection stands.
    Accepted(WireId),
    /// At the client: it does not.
    Refused(WireId),
    /// At the client: it took too long.
    TooLong(WireId, &'static str),
    /// At the node: a frame with its length.
    Up(WireId, Bytes),
    /// At the node: the client has closed it.
    Left(WireId),
    /// At the client: bytes came.
    Down(WireId, Bytes),
    /// At the client: the node has closed it.
    Closed(WireId, &'static str),
    /// At the client: look whether there is room for what waits.
    Gate(WireId),
    /// The client's driver was woken.
    Driver(usize),
    /// The client's reader was woken, or goes on by its habit.
    Reader(usize),
    /// The client's caller acknowledges something.
    Acks(usize),
    /// The client's hook is done with a rebalance.
    Hook(usize, u64),
}

/// All wires and all that is on its way.
#[derive(Debug)]
pub struct Net {
    pub wires: BTreeMap<WireId, Wire>,
    pub by_connection: BTreeMap<ConnectionId, WireId>,
    queue: BTreeMap<(Instant, u64), Happening>,
    next_wire: u64,
    next_happening: u64,
    pub latency: Latency,
    /// For single nodes.
    pub latency_of: BTreeMap<i32, Latency>,
    /// What nodes send comes in pieces of so many bytes, each so long after the one before.
    pub trickle: Option<(usize, Duration)>,
    /// Nodes from and to which nothing comes through.
    dark: BTreeSet<i32>,
    /// Nodes that are gone, though the cluster still takes them for alive.
    pub dead: BTreeSet<i32>,
    held: VecDeque<Happening>,
}

impl Net {
    pub fn new(latency: Latency) -> Self {
        Self {
            wires: BTreeMap::new(),
            by_connection: BTreeMap::new(),
            queue: BTreeMap::new(),
            next_wire: 1,
            next_happening: 1,
            latency,
            latency_of: BTreeMap::new(),
            trickle: None,
            dark: BTreeSet::new(),
            dead: BTreeSet::new(),
            held: VecDeque::new(),
        }
    }

    pub fn dial(
        &mut self,
        now: Instant,
        client: usize,
        (peer, lane): (Peer, Lane),
        (address, node): (Address, Option<i32>),
        first: Request,
    ) -> WireId {
        let id = WireId(self.next_wire);
        self.next_wire += 1;
        let wire = Wire {
            client,
            peer,
            lane,
            address,
            node,
            connection: None,
            stage: Stage::Connecting,
            outbox: vec![first],
            asked: VecDeque::new(),
            next_correlation: 1,
            stream: Vec::new(),
            gated: false,
            reported: now,
            up: now,
            down: now,
        };
        self.wires.insert(id, wire);
        id
    }

    pub fn at(&mut self, when: Instant, what: Happening) {
        self.queue.insert((when, self.next_happening), what);
        self.next_happening += 1;
    }

    /// Sends towards the node.
    pub fn up(&mut self, now: Instant, rng: &mut fastrand::Rng, id: WireId, what: Happening) {
        let Some(wire) = self.wires.get(&id) else { return };
        let when = (now + self.delay(wire.node, rng)).max(wire.up);
        self.wires.get_mut(&id).expect("looked up above").up = when;
        self.at(when, what);
    }

    /// Sends towards the client.
    pub fn down(&mut self, now: Instant, rng: &mut fastrand::Rng, id: WireId, what: Happening) {
        let Some(wire) = self.wires.get(&id) else { return };
        let when = (now + self.delay(wire.node, rng)).max(wire.down);
        self.wires.get_mut(&id).expect("looked up above").down = when;
        self.at(when, what);
    }

    /// Sends bytes towards the client.
    pub fn down_bytes(&mut self, now: Instant, rng: &mut fastrand::Rng, id: WireId, bytes: &Bytes) {
        let Some((piece, pause)) = self.trickle else {
            return self.down(now, rng, id, Happening::Down(id, bytes.clone()));
        };
        for start in (0..bytes.len()).step_by(piece) {
            let end = bytes.len().min(start + piece);
            self.down(now, rng, id, Happening::Down(id, bytes.slice(start..end)));
            if let Some(wire) = self.wires.get_mut(&id) {
                wire.down += pause;
            }
        }
    }

    fn delay(&self, node: Option<i32>, rng: &mut fastrand::Rng) -> Duration {
        let latency = node.and_then(|id| self.latency_of.get(&id)).unwrap_or(&self.latency);
        latency.least + latency.more.mul_f64(rng.f64())
    }

    pub fn next(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|((when, _), _)| *when)
    }

    /// What happens next, if it happens by then. What would cross a dark node's border is held.
    pub fn due(&mut self, now: Instant) -> Option<Happening> {
        while self.next()? <= now {
            let (_, what) = self.queue.pop_first()?;
            if !self.is_held(&what) {
                return Some(what);
            }
            self.held.push_back(what);
        }
        None
    }

    /// The client whose side it happens at.
    pub fn client_of(&self, what: &Happening) -> Option<usize> {
        use Happening::{Accepted, Acks, Closed, Down, Driver, Gate, Hook, Reader, Refused, TooLong};
        match what {
            Accepted(id) | Refused(id) | TooLong(id, _) | Down(id, _) | Closed(id, _) | Gate(id) => {
                self.wires.get(id).map(|wire| wire.client)
            }
            Driver(client) | Reader(client) | Acks(client) | Hook(client, _) => Some(*client),
            Happening::Dialled(_) | Happening::Up(..) | Happening::Left(_) => None,
        }
    }

    fn is_held(&self, what: &Happening) -> bool {
        use Happening::{Accepted, Closed, Dialled, Down, Left, Refused, Up};
        let (Dialled(id) | Accepted(id) | Refused(id) | Up(id, _) | Left(id) | Down(id, _) | Closed(id, _)) =
            what
        else {
            return false;
        };
        self.wires.get(id).and_then(|wire| wire.node).is_some_and(|node| self.dark.contains(&node))
    }

    /// From now on nothing comes through to or from the node, and nobody is told.
    pub fn darken(&mut self, node: i32) {
        self.dark.insert(node);
    }

    /// What was held comes through now, late.
    pub fn lighten(&mut self, now: Instant, node: i32) {
        self.dark.remove(&node);
        for what in std::mem::take(&mut self.held) {
            self.at(now, what);
        }
    }

    pub fn is_dark(&self, node: i32) -> bool {
        self.dark.contains(&node)
    }
}
