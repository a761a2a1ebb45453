//! From a name to a TCP connection: all addresses of the name, the quickest wins (RFC 8305, "happy eyeballs").

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use ottla_core::Address;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpSocket, TcpStream, lookup_host},
    task::JoinSet,
    time::sleep,
};

use crate::connect::{Connect, Connecting};

/// Connects over plain TCP, to whichever address of a broker's name answers first.
///
/// An attempt that takes more than 250 ms is joined by one at the next address, IPv6 and IPv4 by turns (RFC 8305).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tcp {
    keepalive: Option<Duration>,
    local_address: Option<IpAddr>,
}

/// An attempt that takes longer is joined by one at the next address.
const STAGGER: Duration = Duration::from_millis(250);

/// A connection on which nothing comes is probed after so long: were its other end gone without a word, or forgotten by a
/// router in between, we would wait for it until a deadline.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Between two probes; some nine of them unanswered end the connection.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

impl Default for Tcp {
    fn default() -> Self {
        Self { keepalive: Some(KEEPALIVE), local_address: None }
    }
}

impl Tcp {
    /// As a reader does it that was told nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long nothing may come on a connection before it is probed, every 10 s then; 60 s. `None`: never. A shorter time
    /// than a firewall forgets connections after keeps them known to it.
    #[must_use]
    pub fn keepalive(mut self, idle: Option<Duration>) -> Self {
        self.keepalive = idle;
        self
    }

    /// The address of this machine to connect from, where it has several; the system chooses unless told. Brokers are
    /// reached at addresses of the same family (IPv4 or IPv6) only.
    #[must_use]
    pub fn local_address(mut self, address: IpAddr) -> Self {
        self.local_address = Some(address);
        self
    }

    async fn reach(&self, broker: &Address) -> io::Result<TcpStream> {
        let host = broker.host.as_str();
        let mut found: Vec<SocketAddr> = lookup_host((host, broker.port)).await?.collect();
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")));
        }
        if let Some(local) = self.local_address {
            found.retain(|at| at.is_ipv4() == local.is_ipv4());
            if found.is_empty() {
                let why = format!("{host} has no address of the family of the local address {local}");
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            }
        }
        let socket = race(interleave(found), host, self.local_address).await?;
        // What is lost without these is speed, and an early word of a dead peer.
        let _ = socket.set_nodelay(true);
        if let Some(idle) = self.keepalive {
            let keepalive = TcpKeepalive::new().with_time(idle).with_interval(PROBE_INTERVAL);
            let _ = SockRef::from(&socket).set_tcp_keepalive(&keepalive);
        }
        Ok(socket)
    }
}

impl Connect for Tcp {
    fn connect<'a>(&'a self, broker: &'a Address) -> Connecting<'a> {
        Box::pin(async { Ok(self.reach(broker).await?.into()) })
    }
}

/// IPv6 and IPv4 by turns, each in the resolver's order: one family may lead nowhere as a whole.
fn interleave(found: Vec<SocketAddr>) -> VecDeque<SocketAddr> {
    let first_is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    let (same, other): (Vec<_>, Vec<_>) = found.into_iter().partition(|at| at.is_ipv6() == first_is_v6);
    let (mut same, mut other) = (same.into_iter(), other.into_iter());
    let mut mixed = VecDeque::new();
    loop {
        let (one, two) = (same.next(), other.next());
        if one.is_none() && two.is_none() {
            return mixed;
        }
        mixed.extend(one.into_iter().chain(two));
    }
}

async fn race(
    mut addresses: VecDeque<SocketAddr>,
    host: &str,
    local: Option<IpAddr>,
) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    let mut failures: Vec<(SocketAddr, io::Error)> = Vec::new();
    loop {
        if let Some(at) = addresses.pop_front() {
            attempts.spawn(async move { (at, attempt(at, local).await) });
        }
        tokio::select! {
            Some(done) = attempts.join_next() => match done {
                Ok((_, Ok(socket))) => return Ok(socket), // dropping the set ends the others
                Ok((at, Err(error))) => failures.push((at, error)),
                Err(_) => {}
            },
            () = sleep(STAGGER), if !addresses.is_empty() => continue,
        }
        if attempts.is_empty() && addresses.is_empty() {
            return Err(told(host, failures));
        }
    }
}

async fn attempt(at: SocketAddr, local: Option<IpAddr>) -> io::Result<TcpStream> {
    let Some(local) = local else { return TcpStream::connect(at).await };
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    let bound = socket.bind(SocketAddr::new(local, 0));
    bound
        .map_err(|error| io::Error::new(error.kind(), format!("from the local address {local}: {error}")))?;
    socket.connect(at).await
}

/// What happened at each address, unless the host is the address.
fn told(host: &str, mut failures: Vec<(SocketAddr, io::Error)>) -> io::Error {
    if failures.len() == 1 && failures[0].0.ip().to_string() == host {
        return failures.swap_remove(0).1;
    }
    let kind = failures.first().map_or(io::ErrorKind::Other, |(_, error)| error.kind());
    let each: Vec<String> = failures.iter().map(|(at, error)| format!("{at}: {error}")).collect();
    io::Error::new(kind, each.join("; "))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::net::TcpListener;

    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn families_take_turns() {
        let found = ["1.1.1.1:1", "2.2.2.2:1", "[::1]:1", "3.3.3.3:1"].map(at);
        let wanted = ["1.1.1.1:1", "[::1]:1", "2.2.2.2:1", "3.3.3.3:1"].map(at);
        assert_eq!(interleave(found.to_vec()), VecDeque::from(wanted));
    }

    #[tokio::test]
    async fn a_dead_address_is_passed_over_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let alive = listener.local_addr().expect("bound");
        let dead = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound");
        let socket = race([dead, alive].into(), "name", None).await.expect("one is alive");
        assert_eq!(socket.peer_addr().expect("connected"), alive);
        let error = race([dead].into(), "name", None).await.expect_err("none is alive");
        assert!(error.to_string().contains(&dead.to_string()), "{error}");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    /// An address of the documentation range: routers drop what goes there, or say that there is no way.
    #[tokio::test]
    async fn a_silent_address_costs_no_more_than_the_stagger() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let alive = listener.local_addr().expect("bound");
        let begin = Instant::now();
        let socket = race([at("192.0.2.1:9"), alive].into(), "name", None).await.expect("one is alive");
        assert_eq!(socket.peer_addr().expect("connected"), alive);
        assert!(begin.elapsed() < STAGGER * 10, "{:?}", begin.elapsed());
    }
}
