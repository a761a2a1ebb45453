//! A machine with its links, its reader and who watches it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use ottla_core::{Body, Config, Event, Lane, Machine, Peer};

use super::{
    member::Caller,
    net::{Happening, WireId},
    reader::Reader,
    watch::Watch,
};

/// A request that went out.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub when: Instant,
    pub peer: Peer,
    pub lane: Lane,
    /// `metadata`, `offsets`, `epochs`, `fetch`, `find`, `join`, `sync`, `heartbeat`, `recall`, `commit` or `leave`.
    pub what: &'static str,
}

/// Whether a client gets time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    Runs,
    /// It gets none for a while; what comes for it waits.
    Frozen,
    /// It is no more.
    Gone,
}

/// What a machine needs around it.
pub struct Client {
    pub machine: Machine,
    pub links: BTreeMap<(Peer, Lane), WireId>,
    pub reader: Reader,
    pub caller: Caller,
    pub life: Life,
    /// What came while it was frozen.
    pub missed: VecDeque<Happening>,
    pub watch: Watch,
    pub events: Vec<(Instant, Event)>,
    pub sent: Vec<Sent>,
    /// Connections that were dialled.
    pub dialled: u64,
    /// There is room again for who waited.
    pub room: Arc<AtomicBool>,
    /// When the latest requests went out, for the bound on requests a second.
    pub lately: VecDeque<Instant>,
}

impl Client {
    pub fn new(now: Instant, config: Config) -> Self {
        let watch = Watch::new(&config);
        let machine = Machine::new(now, config);
        let room = Arc::new(AtomicBool::new(false));
        let flag = room.clone();
        machine.ledger().on_room(move || flag.store(true, Ordering::Relaxed));
        Self {
            machine,
            links: BTreeMap::new(),
            reader: Reader::new(),
            caller: Caller::new(),
            life: Life::Runs,
            missed: VecDeque::new(),
            watch,
            events: Vec::new(),
            sent: Vec::new(),
            dialled: 0,
            room,
            lately: VecDeque::new(),
        }
    }

    /// The group that it reads in, if any.
    pub fn group_id(&self) -> String {
        self.machine.config().group.as_ref().map(|group| group.id.to_string()).unwrap_or_default()
    }

    pub fn is_static(&self) -> bool {
        self.machine.config().group.as_ref().is_some_and(|group| group.instance.is_some())
    }

    pub fn sent(&mut self, now: Instant, peer: Peer, lane: Lane, body: &Body) {
        let what = match body {
            Body::Metadata(_) => "metadata",
            Body::ListOffsets(_) => "offsets",
            Body::LeaderEpochs(_) => "epochs",
            Body::Fetch(_) => "fetch",
            Body::FindCoordinator(_) => "find",
            Body::Join(..) => "join",
            Body::Sync(..) => "sync",
            Body::Heartbeat(..) => "heartbeat",
            Body::Recall(_) => "recall",
            Body::Commit(_) => "commit",
            Body::Leave(_) => "leave",
        };
        self.sent.push(Sent { when: now, peer, lane, what });
    }
}
