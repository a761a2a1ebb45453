//! The machine behind its mutex, and what connects it to the tasks around it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Instant,
};

use ottla_core::{Address, Lane, Ledger, Lost, Machine, Peer, Request, Take};
use tokio::sync::{Notify, mpsc};

use crate::{events::Bell, options::Options, pool::Pool};

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
}

struct State {
    machine: Machine,
    links: HashMap<(Peer, Lane), Link>,
    next_serial: u64,
    wanted: Vec<Dial>,
    /// The deadline that the driver sleeps towards.
    sleeping_until: Option<Instant>,
    reader: Option<Waker>,
    closed: bool,
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
    pub(crate) closed: bool,
}

impl Shared {
    pub(crate) fn new(machine: Machine, options: Options) -> Arc<Self> {
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
            closed: false,
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
        if state.closed {
            return Next::Closed;
        }
        if let Some(begun) = begun() {
            return Next::Begun(begun);
        }
        let taken = state.machine.take(Instant::now());
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
            closed: state.closed,
        }
    }

    /// Ends it all: connections, driver, and the reader's waiting.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.links.clear();
        state.wanted.clear();
        let reader = state.reader.take();
        drop(state);
        self.bell.close();
        self.driver.notify_one();
        self.room.notify_waiters();
        if let Some(waker) = reader {
            waker.wake();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn carry_out(&self, state: MutexGuard<'_, State>) {
        let mut state = self.carry_out_locked(state);
        let deadline = state.machine.poll_deadline().map(|(at, _)| at);
        let early = match (deadline, state.sleeping_until) {
            (Some(deadline), Some(sleeping)) => deadline < sleeping,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let driver = early || !state.wanted.is_empty();
        if early {
            state.sleeping_until = deadline;
        }
        drop(state);
        if driver {
            self.driver.notify_one();
        }
    }

    fn carry_out_locked<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.closed {
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
