//! Addresses at which nobody can be reached, each in its own way.

#![allow(clippy::disallowed_methods, reason = "a test is the outermost layer")]
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of this")]

use std::net::{SocketAddr, TcpListener as Listener};

use socket2::{Domain, Socket, Type};
use tokio::{net::TcpListener, task::JoinSet};

/// An address at which nobody is; it stands as long as this value lives.
pub struct Nobody {
    pub name: &'static str,
    pub address: String,
    _held: Vec<Socket>,
    _tasks: JoinSet<()>,
}

impl Nobody {
    /// Each kind of them.
    pub async fn all() -> [Self; 4] {
        [Self::dead(), Self::hole(), Self::nowhere(), Self::mute().await]
    }

    /// Nobody listens: connecting is refused.
    pub fn dead() -> Self {
        let port = Listener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
        Self::new("dead", port.to_string(), Vec::new(), JoinSet::new())
    }

    /// Its queue is full and nobody empties it: what a connection begins with is dropped.
    pub fn hole() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0)).into();
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        listener.bind(&any).expect("a port");
        listener.listen(0).expect("it listens");
        let address = listener.local_addr().expect("bound");
        let mut held = vec![listener];
        for _ in 0..8 {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.set_nonblocking(true).expect("a socket can do that");
            let _ = socket.connect(&address); // it is under way, or waits in the queue
            held.push(socket);
        }
        let address = address.as_socket().expect("it is one").to_string();
        Self::new("full queue", address, held, JoinSet::new())
    }

    /// An address of the documentation range: routers drop what goes there, or say that there is no way.
    pub fn nowhere() -> Self {
        Self::new("nowhere", "192.0.2.1:9092".into(), Vec::new(), JoinSet::new())
    }

    /// It accepts, and never says a word.
    pub async fn mute() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut held = Vec::new();
            while let Ok((socket, _)) = listener.accept().await {
                held.push(socket);
            }
        });
        Self::new("mute", address, Vec::new(), tasks)
    }

    fn new(name: &'static str, address: String, held: Vec<Socket>, tasks: JoinSet<()>) -> Self {
        Self { name, address, _held: held, _tasks: tasks }
    }
}
