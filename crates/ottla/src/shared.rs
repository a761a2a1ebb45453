//! The machine behind its mutex, and what connects it to the tasks around it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::{Duration, Instant},
};

use ottla_core::{Address, CommitError, Lane, Ledger, Lost, Machine, Peer, Rebalance, Request, Take};
use tokio::sync::{Notify, mpsc};

use crate::{error::Error, events::Bell, options::Options, pool::Pool, tickets::Tickets};

/// What the reader, its controls, its driver and its connections share.
///
/// The lock is short: it is never held across an await, a CRC or a decode. Whoever changes something also carries
/// the consequences to those concerned, so that no change has to visit another task first.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Wakes the driver: a connection is wanted, an earlier deadline, or the end.
    pub(crate) driver: Notify,
    /// Wakes connections that wait for room.
    pub(crate) room: Notify,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) bell: Bell,
    pub(crate) options: Options,
    pub(crate) budget: usize,
    /// How long a group may be said farewell to; without one there is nobody.
    farewell: Option<Duration>,
    /// Whether closing has begun, for those who must not wait for the lock.
    closing: AtomicBool,
    /// The driver panicked.
    panicked: AtomicBool,
}

/// How far its life is.
///
/// ```text
///   Open --close, drop--> Closing --the group is left--> Ended
///     '--close, drop: without a group; the runtime ends----^
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Open,
    Closing,
    Ended,
}

struct State {
    machine: Machine,
    links: HashMap<(Peer, Lane), Link>,
    next_serial: u64,
    wanted: Vec<Dial>,
    /// The deadline that the driver sleeps towards.
    sleeping_until: Option<Instant>,
    reader: Option<Waker>,
    /// Who waits for what the coordinator says.
    tickets: Tickets,
    /// Where rebalances are told.
    hooks: Option<mpsc::UnboundedSender<Rebalance>>,
    life: Life,
    /// When closing has had its time.
    closing_until: Option<Instant>,
    /// How leaving the group went.
    outcome: Option<Result<(), CommitError>>,
}

/// The driver's end of a connection task.
struct Link {
    serial: u64,
    outbox: mpsc::UnboundedSender<Request>,
}

/// A connection to make.
pub(crate) struct Dial {
    pub(crate) peer: Peer,
    pub(crate) lane: Lane,
    pub(crate) serial: u64,
    pub(crate) address: Address,
    /// Ends when the connection is not wanted any more. Never holds more than the machine keeps under way on a lane.
    pub(crate) outbox: mpsc::UnboundedReceiver<Request>,
}

/// What the reader does next.
pub(crate) enum Next<T> {
    /// The reader is closed.
    Closed,
    /// It goes on with something that it had begun.
    Begun(T),
    /// It begins with something new, or learns that there is nothing.
    Taken(Take),
}

/// What the driver has to do.
pub(crate) struct Turn {
    pub(crate) dials: Vec<Dial>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) ended: bool,
}

/// What is left of the time for closing when the group is given up, at most.
const TO_END: Duration = Duration::from_millis(50);

impl Shared {
    pub(crate) fn new(
        machine: Machine,
        options: Options,
        hooks: Option<mpsc::UnboundedSender<Rebalance>>,
    ) -> Arc<Self> {
        let farewell = machine.config().group.as_ref().map(|_| options.close_timeout);
        let ledger = machine.ledger().clone();
        let budget = machine.config().budget;
        let pool = Arc::new(Pool::new(ledger.clone(), budget / 4));
        let state = State {
            machine,
            links: HashMap::new(),
            next_serial: 0,
            wanted: Vec::new(),
            sleeping_until: None,
            reader: None,
            tickets: Tickets::default(),
            hooks,
            life: Life::Open,
            closing_until: None,
            outcome: None,
        };
        let shared = Arc::new(Self {
            state: Mutex::new(state),
            driver: Notify::new(),
            room: Notify::new(),
            ledger,
            pool,
            bell: Bell::new(),
            options,
            budget,
            farewell,
            closing: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&shared);
        shared.ledger.on_room(move || {
            if let Some(shared) = weak.upgrade() {
                shared.room.notify_waiters();
                shared.driver.notify_one();
            }
        });
        shared
    }

    /// Changes the machine and carries out what follows.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut Machine, Instant) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state.machine, Instant::now());
        self.carry_out(state);
        result
    }

    /// Looks at the machine.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Machine) -> R) -> R {
        look(&self.lock().machine)
    }

    /// The next thing to hand out: what `begun` finds, which is asked under the lock, or what the machine has. If there
    /// is none, `waker` is woken when there is.
    pub(crate) fn take<T>(&self, waker: &Waker, begun: impl FnOnce() -> Option<T>) -> Next<T> {
        let mut state = self.lock();
        if state.life != Life::Open {
            return Next::Closed;
        }
        let now = Instant::now();
        state.machine.session_may_end(now);
        if let Some(begun) = begun() {
            return Next::Begun(begun);
        }
        let taken = state.machine.take(now);
        if let Take::Waiting = taken {
            match &mut state.reader {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            self.room.notify_waiters();
        }
        self.carry_out(state);
        Next::Taken(taken)
    }

    /// A connection stands.
    pub(crate) fn connected(&self, dial: &Dial) {
        let mut state = self.lock();
        if state.is_current(dial) {
            state.machine.handle_connected(dial.peer);
        }
        self.carry_out(state);
    }

    /// A connection ended by itself.
    pub(crate) fn lost(&self, dial: &Dial, lost: &Lost) {
        let mut state = self.lock();
        if state.is_current(dial) {
            state.links.remove(&(dial.peer, dial.lane));
            state.machine.handle_lost(Instant::now(), dial.peer, dial.lane, lost);
        }
        self.carry_out(state);
    }

    /// Has the reader look again.
    pub(crate) fn rouse(&self) {
        let waker = self.lock().reader.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Passes the deadlines and says what the driver has to do until when.
    pub(crate) fn turn(&self) -> Turn {
        let mut state = self.lock();
        let now = Instant::now();
        state.machine.handle_timeout(now);
        state.machine.handle_room();
        state.sleeping_until = None;
        let mut state = self.carry_out_locked(state);
        state.sleeping_until = state.machine.poll_deadline().map(|(at, _)| at);
        Turn {
            dials: std::mem::take(&mut state.wanted),
            deadline: state.sleeping_until,
            ended: state.life == Life::Ended || state.outcome.is_some(),
        }
    }

    /// Closes the reader: at once, or in the background if a group has to be left first. Calling it again does nothing.
    pub(crate) fn close(&self) {
        match self.farewell {
            Some(limit) => self.leave(limit),
            None => self.end(),
        }
    }

    /// Begins to leave the group; the driver ends everything when that is done.
    fn leave(&self, limit: Duration) {
        let mut state = self.lock();
        if state.life != Life::Open {
            return;
        }
        let now = Instant::now();
        let until = now + limit;
        (state.life, state.closing_until) = (Life::Closing, Some(until));
        self.closing.store(true, Ordering::Relaxed);
        // Tasks need a moment to end, too.
        state.machine.close(now, until - (limit / 20).min(TO_END));
        let reader = state.reader.take();
        self.carry_out(state);
        if let Some(waker) = reader {
            waker.wake();
        }
    }

    /// Ends it all: connections, driver, and whoever waits.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.life = Life::Ended;
        state.machine.halt();
        self.closing.store(true, Ordering::Relaxed);
        state.links.clear();
        state.wanted.clear();
        state.hooks = None;
        let tickets = std::mem::take(&mut state.tickets);
        let reader = state.reader.take();
        drop(state);
        drop(tickets); // who waits is told that the reader is closed
        self.bell.close();
        self.driver.notify_one();
        self.room.notify_waiters();
        if let Some(waker) = reader {
            waker.wake();
        }
    }

    /// Whether closing has begun.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// An error once closing has begun.
    #[inline]
    pub(crate) fn open(&self) -> Result<(), Error> {
        if self.is_closed() { Err(self.why_closed()) } else { Ok(()) }
    }

    /// What is said of a reader that has ended.
    pub(crate) fn why_closed(&self) -> Error {
        if self.panicked.load(Ordering::Relaxed) { Error::panicked() } else { Error::closed() }
    }

    /// The driver could not go on.
    pub(crate) fn note_panic(&self) {
        self.panicked.store(true, Ordering::Relaxed);
    }

    /// When closing has had its time.
    pub(crate) fn closing_until(&self) -> Option<Instant> {
        self.lock().closing_until
    }

    /// How closing went, once everything has ended.
    pub(crate) fn outcome(&self) -> Result<(), Error> {
        match (&self.lock().outcome, self.farewell) {
            (Some(outcome), _) => Ok(outcome.clone()?),
            (None, None) => Ok(()),
            (None, Some(_)) => Err(Error::connection("the runtime ended before the group was left")),
        }
    }

    /// Asks for something that somebody waits for; `None` if everything has ended, and nobody would answer.
    pub(crate) fn with_tickets<R>(&self, ask: impl FnOnce(&mut Machine, &mut Tickets) -> R) -> Option<R> {
        let mut state = self.lock();
        if state.life == Life::Ended {
            return None;
        }
        let State { machine, tickets, .. } = &mut *state;
        let result = ask(machine, tickets);
        self.carry_out(state);
        Some(result)
    }

    fn carry_out(&self, state: MutexGuard<'_, State>) {
        let mut state = self.carry_out_locked(state);
        let deadline = state.machine.poll_deadline().map(|(at, _)| at);
        let early = match (deadline, state.sleeping_until) {
            (Some(deadline), Some(sleeping)) => deadline < sleeping,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let driver = early || !state.wanted.is_empty() || state.outcome.is_some();
        if early {
            state.sleeping_until = deadline;
        }
        drop(state);
        if driver {
            self.driver.notify_one();
        }
    }

    fn carry_out_locked<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.life == Life::Ended {
            return state;
        }
        while let Some(link) = state.machine.poll_hang_up() {
            state.links.remove(&link);
        }
        while let Some(request) = state.machine.poll_request(Instant::now()) {
            state.send(request);
        }
        while let Some(event) = state.machine.poll_event() {
            self.bell.ring(event);
        }
        state.tell_group();
        if state.reader.is_some()
            && state.machine.poll_ready()
            && let Some(waker) = state.reader.take()
        {
            waker.wake();
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Tells what comes of the group to those concerned.
    fn tell_group(&mut self) {
        while let Some((ticket, settled)) = self.machine.poll_settled() {
            self.tickets.settle(ticket, settled);
        }
        while let Some(rebalance) = self.machine.poll_rebalance() {
            if let Some(hooks) = &self.hooks {
                let _ = hooks.send(rebalance); // it lives as long as the driver
            }
        }
        if self.life == Life::Closing && self.outcome.is_none() {
            self.outcome = self.machine.poll_closed();
        }
    }

    /// Hands a request to its connection, and has that made if there is none.
    fn send(&mut self, request: Request) {
        let key = (request.peer, request.lane);
        let request = match self.links.get(&key).map(|link| &link.outbox) {
            None => request,
            Some(outbox) => match outbox.send(request) {
                Ok(()) => return,
                Err(unsent) => unsent.0, // its task has just ended
            },
        };
        let Some(address) = self.machine.address(request.peer).cloned() else { return };
        let (sender, outbox) = mpsc::unbounded_channel();
        let serial = self.next_serial;
        self.next_serial += 1;
        let _ = sender.send(request);
        self.links.insert(key, Link { serial, outbox: sender });
        self.wanted.push(Dial { peer: key.0, lane: key.1, serial, address, outbox });
    }

    /// Whether it is still the connection of its lane, and not one that was given up.
    fn is_current(&self, dial: &Dial) -> bool {
        self.links.get(&(dial.peer, dial.lane)).is_some_and(|link| link.serial == dial.serial)
    }
}
