//! From a name to a TCP connection: all addresses of the name, the quickest wins (RFC 8305, "happy eyeballs").

use std::{collections::VecDeque, io, net::SocketAddr, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpStream, lookup_host},
    task::JoinSet,
    time::sleep,
};

/// An attempt that takes longer is joined by one at the next address.
const STAGGER: Duration = Duration::from_millis(250);

/// A connection on which nothing comes is probed after so long: were its other end gone without a word, or forgotten by a
/// router in between, we would wait for it until a deadline.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Between two probes; some nine of them unanswered end the connection.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// Connects to whichever address of the name answers first.
///
/// # Errors
///
/// What happened at each address.
pub(crate) async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let found = lookup_host((host, port)).await.map_err(|error| format!("cannot connect: {error}"))?;
    let addresses = interleave(found.collect());
    if addresses.is_empty() {
        return Err(format!("{host} has no address"));
    }
    let socket = race(addresses, host).await?;
    // What is lost without these is speed, and an early word of a dead peer.
    let _ = socket.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(PROBE_INTERVAL);
    let _ = SockRef::from(&socket).set_tcp_keepalive(&keepalive);
    Ok(socket)
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

async fn race(mut addresses: VecDeque<SocketAddr>, host: &str) -> Result<TcpStream, String> {
    let mut attempts = JoinSet::new();
    let mut failures: Vec<(SocketAddr, io::Error)> = Vec::new();
    loop {
        if let Some(at) = addresses.pop_front() {
            attempts.spawn(async move { (at, TcpStream::connect(at).await) });
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
            return Err(told(host, &failures));
        }
    }
}

fn told(host: &str, failures: &[(SocketAddr, io::Error)]) -> String {
    match failures {
        [(at, error)] if at.ip().to_string() == host => format!("cannot connect: {error}"),
        [(at, error)] => format!("cannot connect to {at}: {error}"),
        many => {
            let each: Vec<String> = many.iter().map(|(at, error)| format!("{at}: {error}")).collect();
            format!("cannot connect to any of its addresses ({})", each.join("; "))
        }
    }
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
        let socket = race([dead, alive].into(), "name").await.expect("one is alive");
        assert_eq!(socket.peer_addr().expect("connected"), alive);
        let error = race([dead].into(), "name").await.expect_err("none is alive");
        assert!(error.contains(&dead.to_string()), "{error}");
    }

    /// An address of the documentation range: routers drop what goes there, or say that there is no way.
    #[tokio::test]
    async fn a_silent_address_costs_no_more_than_the_stagger() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let alive = listener.local_addr().expect("bound");
        let begin = Instant::now();
        let socket = race([at("192.0.2.1:9"), alive].into(), "name").await.expect("one is alive");
        assert_eq!(socket.peer_addr().expect("connected"), alive);
        assert!(begin.elapsed() < STAGGER * 10, "{:?}", begin.elapsed());
    }
}
