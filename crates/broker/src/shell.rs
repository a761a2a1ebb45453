//! The cluster behind TCP.
//!
//! A task per node accepts, a task per connection reads frames and writes replies, one task minds the deadline. All
//! share the cluster behind one short lock, never held across an await.

use crate::options::ClusterOptions;
use crate::{Cluster, ConnectionId, Output};
use bytes::{BufMut, Bytes, BytesMut};
use ottla_wire::frame;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

/// A [`Cluster`] that listens, each node on a port of its own.
///
/// Dropping it ends its tasks and closes its sockets.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ottla_broker::{Broker, ClusterOptions};
/// let broker = Broker::start(ClusterOptions::new().nodes(3)).await?;
/// broker.with(|cluster| cluster.create_topic("letters", 6))?;
/// println!("{}", broker.bootstrap());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Broker {
    shared: Arc<Shared>,
    addresses: BTreeMap<i32, SocketAddr>,
    nodes: JoinSet<()>,
    /// Holds the task that minds the deadline, which ends with it.
    _clock: JoinSet<()>,
}

/// Where a [`Broker`] listens.
#[derive(Debug, Clone)]
pub struct BrokerOptions {
    cluster: ClusterOptions,
    listen: SocketAddr,
    advertise: Option<String>,
}

impl BrokerOptions {
    /// Free ports of 127.0.0.1.
    pub fn new(cluster: ClusterOptions) -> Self {
        Self { cluster, listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0), advertise: None }
    }

    /// Listens here: the first node on this port, the others on those that follow. With port 0 each takes a free one.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// The host that clients are told to connect to. Default: the address it listens on, or `localhost` if that is every
    /// address.
    pub fn advertise(mut self, host: impl Into<String>) -> Self {
        self.advertise = Some(host.into());
        self
    }

    fn host(&self) -> String {
        match (&self.advertise, self.listen.ip()) {
            (Some(host), _) => host.clone(),
            (None, ip) if ip.is_unspecified() => "localhost".into(),
            (None, ip) => ip.to_string(),
        }
    }
}

impl From<ClusterOptions> for BrokerOptions {
    fn from(cluster: ClusterOptions) -> Self {
        Self::new(cluster)
    }
}

impl Broker {
    /// Starts to listen and serve. Metadata gives the addresses that came of it.
    ///
    /// # Errors
    /// An address cannot be listened on.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing was started.
    pub async fn start(options: impl Into<BrokerOptions>) -> io::Result<Self> {
        let options = options.into();
        let host = options.host();
        let mut cluster = Cluster::new(options.cluster.clone());
        let mut listeners = Vec::new();
        for (node, nth) in cluster.nodes().into_iter().zip(0..) {
            let listener = TcpListener::bind(nth_address(options.listen, nth)?).await?;
            let address = listener.local_addr()?;
            cluster.set_address(node.id, &host, address.port()).map_err(io::Error::other)?;
            listeners.push((node.id, address, listener));
        }
        Ok(Self::serve(cluster, listeners))
    }

    fn serve(cluster: Cluster, listeners: Vec<(i32, SocketAddr, TcpListener)>) -> Self {
        let shared = Arc::new(Shared::new(cluster));
        let mut addresses = BTreeMap::new();
        let mut nodes = JoinSet::new();
        for (id, address, listener) in listeners {
            let (runs, may_run) = watch::channel(true);
            shared.lock().nodes.insert(id, runs);
            addresses.insert(id, address);
            nodes.spawn(serve_node(Arc::clone(&shared), id, address, listener, may_run));
        }
        let mut clock = JoinSet::new();
        clock.spawn(mind_the_deadline(Arc::clone(&shared)));
        Self { shared, addresses, nodes, _clock: clock }
    }

    /// What to give a client to begin with: the nodes' hosts and ports, separated by commas.
    pub fn bootstrap(&self) -> String {
        let nodes = self.with(|cluster| cluster.nodes());
        let address = |host: &str, port| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        nodes.iter().map(|node| address(&node.host, node.port)).collect::<Vec<_>>().join(",")
    }

    /// Where a node listens.
    pub fn address(&self, node: i32) -> Option<SocketAddr> {
        self.addresses.get(&node).copied()
    }

    /// Looks into the cluster, or changes it. What becomes ready by that is sent at once; connections and ports of nodes
    /// that were stopped or started follow at once, but after this returns.
    ///
    /// The cluster is locked meanwhile: no request is served, and calling this inside blocks for ever.
    pub fn with<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        self.shared.change(|cluster| {
            cluster.handle_timeout(now());
            change(cluster)
        })
    }

    /// Closes all ports and connections, and waits until that is done.
    ///
    /// # Cancel safety
    /// If the future is dropped, it is as if the broker had been dropped.
    pub async fn stop(mut self) {
        self.shared.lock().nodes.clear();
        while self.nodes.join_next().await.is_some() {}
    }
}

fn nth_address(first: SocketAddr, nth: u16) -> io::Result<SocketAddr> {
    let mut address = first;
    if first.port() != 0 {
        let port = first.port().checked_add(nth);
        address.set_port(port.ok_or_else(|| io::Error::other("there are too few ports after this one"))?);
    }
    Ok(address)
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The deadline came nearer.
    sooner: Notify,
}

#[derive(Debug)]
struct State {
    cluster: Cluster,
    /// To the tasks of the connections. One that is dropped closes its connection.
    senders: HashMap<ConnectionId, mpsc::UnboundedSender<Bytes>>,
    /// To the tasks of the nodes: whether the node runs.
    nodes: BTreeMap<i32, watch::Sender<bool>>,
    /// What the clock's task waits for.
    deadline: Option<Instant>,
}

impl Shared {
    fn new(cluster: Cluster) -> Self {
        let state = State { cluster, senders: HashMap::new(), nodes: BTreeMap::new(), deadline: None };
        Self { state: Mutex::new(state), sooner: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the cluster, and sends what came of it.
    fn change<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state.cluster);
        state.send_outputs();
        state.tell_nodes();
        let deadline = state.cluster.poll_deadline();
        let is_sooner = match (deadline, state.deadline) {
            (Some(next), Some(waited_for)) => next < waited_for,
            (next, None) => next.is_some(),
            (None, Some(_)) => false,
        };
        if is_sooner {
            state.deadline = deadline;
            self.sooner.notify_one();
        }
        result
    }

    fn connect(&self, node: i32) -> Option<(ConnectionId, mpsc::UnboundedReceiver<Bytes>)> {
        let mut state = self.lock();
        let id = state.cluster.connect(node)?;
        let (sender, receiver) = mpsc::unbounded_channel();
        state.senders.insert(id, sender);
        Some((id, receiver))
    }

    fn disconnect(&self, connection: ConnectionId) {
        let mut state = self.lock();
        state.cluster.disconnect(connection);
        state.senders.remove(&connection);
    }
}

impl State {
    fn send_outputs(&mut self) {
        while let Some(output) = self.cluster.poll_output() {
            match output {
                Output::Send { connection, bytes } => {
                    if let Some(sender) = self.senders.get(&connection) {
                        // The task may be about to end; then nobody waits for the reply.
                        let _ = sender.send(bytes);
                    }
                }
                Output::Close { connection } => {
                    self.senders.remove(&connection);
                }
            }
        }
    }

    fn tell_nodes(&self) {
        for (id, node) in &self.nodes {
            let runs = self.cluster.is_running(*id);
            node.send_if_modified(|before| std::mem::replace(before, runs) != runs);
        }
    }
}

async fn mind_the_deadline(shared: Arc<Shared>) {
    loop {
        let deadline = {
            let mut state = shared.lock();
            state.deadline = state.cluster.poll_deadline();
            state.deadline
        };
        let due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.sooner.notified() => {}
            () = due => shared.change(|cluster| cluster.handle_timeout(now())),
        }
    }
}

/// Listens while the node runs; ends when nobody can start it any more.
async fn serve_node(
    shared: Arc<Shared>,
    node: i32,
    address: SocketAddr,
    listener: TcpListener,
    mut runs: watch::Receiver<bool>,
) {
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        if !*runs.borrow_and_update() {
            listener = None;
            connections.shutdown().await;
            if runs.changed().await.is_err() {
                return;
            }
            continue;
        }
        let Some(open) = &listener else {
            listener = listen_again(address).await;
            continue;
        };
        tokio::select! {
            accepted = open.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve_connection(Arc::clone(&shared), node, stream))),
                Err(error) => {
                    tracing::warn!(node, %error, "cannot accept a connection");
                    tokio::time::sleep(RETRY).await;
                }
            },
            Some(_) = connections.join_next() => {}
            changed = runs.changed() => if changed.is_err() {
                connections.shutdown().await;
                return;
            },
        }
    }
}

/// What to wait for when the system has no port or descriptor for us.
const RETRY: Duration = Duration::from_millis(20);

async fn listen_again(address: SocketAddr) -> Option<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!(%address, %error, "cannot listen again");
            tokio::time::sleep(RETRY).await;
            None
        }
    }
}

async fn serve_connection(shared: Arc<Shared>, node: i32, stream: TcpStream) {
    let Some((id, replies)) = shared.connect(node) else { return };
    let connection = Open { shared, id };
    if let Err(error) = connection.serve(stream, replies).await {
        tracing::debug!(node, connection = %id, %error, "a connection ended");
    }
}

/// A connection that is open; dropping it disconnects.
struct Open {
    shared: Arc<Shared>,
    id: ConnectionId,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.disconnect(self.id);
    }
}

/// Requests of one connection that are taken in before the first is answered. More stay in the socket.
const MOST_WAITING: usize = 64;

impl Open {
    async fn serve(
        &self,
        mut stream: TcpStream,
        mut replies: mpsc::UnboundedReceiver<Bytes>,
    ) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let (mut reader, mut writer) = stream.split();
        let mut frames = Frames::default();
        loop {
            let may_read = self.shared.lock().cluster.waiting(self.id) < MOST_WAITING;
            tokio::select! {
                biased; // what is answered goes out first: who does not read it is not served on
                reply = replies.recv() => match reply {
                    Some(reply) => writer.write_all(&reply).await?,
                    None => break,
                },
                frame = frames.next(&mut reader), if may_read => match frame? {
                    Some(frame) => self.handle(frame),
                    None => return Ok(()),
                },
            }
        }
        hang_up(stream).await
    }

    fn handle(&self, frame: Bytes) {
        self.shared.change(|cluster| cluster.handle_frame(now(), wall_ms(), self.id, frame));
    }
}

/// Closes so that what was sent arrives: a socket closed with bytes unread would reset the connection.
async fn hang_up(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let drain = async {
        let mut unread = [0; 4096];
        while stream.read(&mut unread).await? > 0 {}
        Ok(())
    };
    tokio::time::timeout(Duration::from_secs(1), drain).await.unwrap_or(Ok(()))
}

/// Cuts a stream into frames, and loses nothing when dropped in between.
#[derive(Debug, Default)]
struct Frames {
    prefix: [u8; 4],
    prefix_read: usize,
    /// The length of the frame, once it is known.
    length: Option<usize>,
    frame: BytesMut,
}

/// `socket.request.max.bytes` of a broker.
const MOST_REQUEST_BYTES: usize = 100 << 20;

impl Frames {
    /// The next frame; `None` at the end of the stream.
    ///
    /// # Cancel safety
    /// What was read stays for the next call.
    async fn next(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Bytes>> {
        loop {
            let read = match self.length {
                None => reader.read(&mut self.prefix[self.prefix_read..]).await?,
                Some(length) if self.frame.len() == length => return Ok(Some(self.take())),
                Some(length) => {
                    let left = length - self.frame.len();
                    reader.read_buf(&mut (&mut self.frame).limit(left)).await?
                }
            };
            if read == 0 {
                return Ok(None);
            }
            if self.length.is_none() {
                self.begin(read)?;
            }
        }
    }

    fn begin(&mut self, read: usize) -> io::Result<()> {
        self.prefix_read += read;
        if self.prefix_read == self.prefix.len() {
            let length = frame::length(self.prefix, MOST_REQUEST_BYTES).map_err(io::Error::other)?;
            self.length = Some(length);
            self.frame = BytesMut::with_capacity(length);
        }
        Ok(())
    }

    fn take(&mut self) -> Bytes {
        self.length = None;
        self.prefix_read = 0;
        std::mem::take(&mut self.frame).freeze()
    }
}

/// The runtime's time, which a test may have stopped.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[allow(clippy::disallowed_methods, reason = "the shell is the edge where the broker looks at the clock")]
fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
