//! Brokers, and the lanes that lead to them.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{address::Address, backoff::Backoff};

/// A broker as we know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    /// An address of the bootstrap list, by its place there; asked for metadata only.
    Seed(usize),
    /// A broker of the cluster, by its id.
    Node(i32),
}

/// So long a broker is asked to wait where records came a moment ago, or may soon; while none come, twice as long each
/// time, up to `max_wait`. It costs nothing while they come, and a few questions when they end, and one that froze is
/// noticed before it has been quiet for as long again.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// Which of a broker's connections a request takes.
///
/// A broker serves one request of a connection at a time, so a parked one blocks those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Metadata and offsets: answered at once.
    Control,
    /// The fetch that parks for `max_wait`.
    Long,
    /// The fetch for what became fetchable while the long lane is parked; waits 50 ms at most.
    Express,
    /// Heartbeats and offsets of a group, at its coordinator.
    Group,
    /// JoinGroup and SyncGroup, which the coordinator may hold for a whole rebalance.
    Join,
}

impl Lane {
    pub(crate) const ALL: [Self; 5] = [Self::Control, Self::Long, Self::Express, Self::Group, Self::Join];
}

/// Whether a broker may be asked.
///
/// ```text
///          lost                       timer or metadata with a new address
///   Open ---------> Down(until) -----------------------------------------> Open
///    ^ reply: failures forgotten
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Down { until: Instant },
}

/// The state of one of the two fetch lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FetchLane {
    #[default]
    Idle,
    Asked(u64),
}

/// A broker, its lanes and the partitions it leads for us.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: Address,
    /// Whose answer named this address.
    pub(crate) named_by: Option<Address>,
    /// Whether anything ever came from there.
    pub(crate) has_answered: bool,
    pub(crate) phase: Phase,
    pub(crate) backoff: Backoff,
    /// The lane that failed last: only an answer on it shows that it works again.
    pub(crate) failed: Option<Lane>,
    pub(crate) long: FetchLane,
    pub(crate) express: FetchLane,
    /// The wait the next express fetch asks for; grows while it finds nothing.
    pub(crate) express_wait: Duration,
    /// The long lane came back empty and waits so long for the express one, to take over what is on it.
    pub(crate) joins_until: Option<Instant>,
    /// The express fetch that was waited for so; once is enough.
    pub(crate) joined: u64,
    /// How many bytes the next reply may have; adapts to the distance and the backlog.
    pub(crate) reply_bytes: i32,
    /// Cursors of partitions that this broker leads, the next to be served first.
    pub(crate) cursors: Vec<usize>,
    /// Bytes of queued parts of partitions that are not paused.
    pub(crate) queued_bytes: usize,
    /// How many such parts.
    pub(crate) queued_parts: usize,
    /// Grows from broker to broker each time that metadata asked of it was missed or of no use; 0 when it was of use.
    pub(crate) metadata_trouble: u64,
    /// Answers without records that came at once, in a row.
    pub(crate) early_answers: u32,
    /// Requests in a row that it speaks no version of.
    pub(crate) not_spoken: u32,
    /// Something changed that may allow a request.
    pub(crate) dirty: bool,
    /// An answer is late, and nothing came from there since.
    pub(crate) silent: bool,
    /// How long the next fetch on the long lane may be held, if `max_wait` allows.
    pub(crate) long_wait: Duration,
    /// No fetch is sent until then.
    pub(crate) muted_until: Option<Instant>,
    /// When the connections of these lanes have answered last.
    pub(crate) heard: BTreeMap<Lane, Instant>,
    /// Until when the broker wants to hear nothing on these lanes (KIP-219).
    pub(crate) throttled: BTreeMap<Lane, Instant>,
    /// When that was told the last time.
    pub(crate) throttle_told: Option<Instant>,
}

/// The longest wait of an express fetch.
pub(crate) const EXPRESS_WAIT_MAX: Duration = Duration::from_millis(50);

/// What a reply holds at first; the records are then walked while still in the processor's cache.
pub(crate) const REPLY_BYTES: i32 = 1 << 20;

impl Node {
    pub(crate) fn new(address: Address, max_bytes: i32) -> Self {
        Self {
            address,
            named_by: None,
            has_answered: false,
            phase: Phase::Open,
            backoff: Backoff::default(),
            failed: None,
            long: FetchLane::Idle,
            express: FetchLane::Idle,
            express_wait: Duration::ZERO,
            joins_until: None,
            joined: 0,
            reply_bytes: REPLY_BYTES.min(max_bytes),
            cursors: Vec::new(),
            queued_bytes: 0,
            queued_parts: 0,
            metadata_trouble: 0,
            early_answers: 0,
            not_spoken: 0,
            dirty: true,
            silent: false,
            long_wait: BUSY_WAIT,
            muted_until: None,
            heard: BTreeMap::new(),
            throttled: BTreeMap::new(),
            throttle_told: None,
        }
    }

    /// An answer came over this lane.
    pub(crate) fn works(&mut self, lane: Lane) {
        if self.failed.is_none_or(|failed| failed == lane) {
            self.failed = None;
            self.not_spoken = 0;
            self.backoff.reset();
        }
    }

    /// Records came, or a partition that may have some.
    pub(crate) fn expect_records(&mut self) {
        self.long_wait = BUSY_WAIT;
    }

    pub(crate) fn was_quiet_for(&mut self, wait: Duration) {
        self.long_wait = (wait * 2).max(BUSY_WAIT);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    pub(crate) fn fetch_lane(&mut self, lane: Lane) -> &mut FetchLane {
        match lane {
            Lane::Express => &mut self.express,
            _ => &mut self.long,
        }
    }
}
