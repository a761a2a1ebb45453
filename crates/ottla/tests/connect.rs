//! Connections that are made in another way than over plain TCP.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

#[allow(dead_code, unreachable_pub, reason = "an example is a program")]
#[path = "../examples/proxy.rs"]
mod proxy;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use ottla::{Address, Builder, Connect, ErrorKind, Event, Groups, Reader, Tcp, Transport, Until};
use ottla_broker::Broker;
use proxy::HttpProxy;
use support::{broker, commits, fill, member, next, offsets, soon};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream, ReadBuf},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf},
};

/// A broker that advertises an address which leads nowhere from here.
async fn remote_broker() -> (Broker, SocketAddr) {
    let broker = broker(&[("t", 2)]).await;
    (0..2).for_each(|partition| fill(&broker, "t", partition, 1000));
    broker.with(|c| c.set_address(1, "kafka.invalid", 9092)).unwrap();
    let at = broker.address(1).unwrap();
    (broker, at)
}

/// The other end of a pipe, whose bytes go to the broker and back.
async fn piped(to: SocketAddr) -> io::Result<DuplexStream> {
    let (ours, mut theirs) = tokio::io::duplex(10_000);
    let mut socket = TcpStream::connect(to).await?;
    tokio::spawn(async move { tokio::io::copy_bidirectional(&mut theirs, &mut socket).await });
    Ok(ours)
}

fn reader() -> Builder {
    Reader::builder("kafka.invalid:9092")
        .topic("t")
        .backoff(Duration::from_millis(1)..=Duration::from_millis(20))
}

async fn reads_all(reader: Builder) {
    let mut reader = reader.until(Until::End).open().unwrap();
    let mut expected = [0; 2];
    while let Some(message) = soon("the end", reader.next()).await.unwrap() {
        support::check(&message);
        let partition = message.partition() as usize;
        assert_eq!(message.offset(), expected[partition]);
        expected[partition] += 1;
    }
    assert_eq!(expected, [1000; 2]);
}

/// What the first attempt that fails is told as.
async fn first_retry(reader: &Reader) -> String {
    let mut events = reader.events();
    soon("a connection to fail", async {
        loop {
            let event = events.next().await.unwrap();
            if let Event::Retrying { .. } = event {
                return event.to_string();
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_closure_that_makes_any_stream_will_do_and_is_told_every_address() {
    let (_broker, to) = remote_broker().await;
    let (asked, count) = (Arc::new(AtomicUsize::new(0)), |asked: &Arc<AtomicUsize>| asked.load(Relaxed));
    let seen = asked.clone();
    reads_all(reader().connect(move |address: Address| {
        assert_eq!(address.to_string(), "kafka.invalid:9092");
        seen.fetch_add(1, Relaxed);
        async move { Ok(Transport::new(piped(to).await?)) }
    }))
    .await;
    assert!(count(&asked) >= 2, "for the bootstrap address and for the broker");
}

/// As those of TLS may.
#[tokio::test]
async fn a_stream_that_keeps_what_is_written_until_it_is_flushed_will_do() {
    let (_broker, to) = remote_broker().await;
    let buffered = move |_: Address| async move {
        Ok(Transport::new(tokio::io::BufStream::new(TcpStream::connect(to).await?)))
    };
    reads_all(reader().connect(buffered)).await;
    let mut groups = Groups::new("kafka.invalid:9092").unwrap().connect(buffered);
    assert!(soon("the groups", groups.list()).await.unwrap().is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_will_do() {
    let (_broker, to) = remote_broker().await;
    let path = std::env::temp_dir().join(format!("ottla-connect-{}.socket", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut socket = TcpStream::connect(to).await?;
                tokio::io::copy_bidirectional(&mut from, &mut socket).await
            });
        }
    });
    let socket = path.clone();
    reads_all(reader().connect(move |_: Address| tokio::net::UnixStream::connect(socket.clone()))).await;
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn groups_and_their_members_connect_by_it_too() {
    let (broker, to) = remote_broker().await;
    let connector: Arc<dyn Connect> = Arc::new(move |_: Address| piped_transport(to));
    let mut reader = member(&broker).connect(connector.clone()).open().unwrap();
    let message = next(&mut reader).await;
    reader.ack(&message).unwrap();
    commits(&broker, message.partition(), 1).await;
    let mut groups = Groups::new("kafka.invalid:9092").unwrap().connect(connector);
    let told = soon("the description", groups.describe("g")).await.unwrap();
    assert_eq!((told.members.len(), told.coordinator.address.host.as_str()), (1, "kafka.invalid"));
    soon("close", reader.close()).await.unwrap();
}

async fn piped_transport(to: SocketAddr) -> io::Result<Transport> {
    Ok(Transport::new(piped(to).await?))
}

/// A proxy that knows one broker by name.
async fn http_proxy(known: &'static str, to: SocketAddr) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((from, _)) = listener.accept().await {
            tokio::spawn(serve_tunnel(from, known, to));
        }
    });
    at.to_string().parse().unwrap()
}

async fn serve_tunnel(from: TcpStream, known: &str, to: SocketAddr) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut asked = String::new();
    while !asked.ends_with("\r\n\r\n") {
        from.read_line(&mut asked).await?;
    }
    if !asked.starts_with(&format!("CONNECT {known} HTTP/1.1\r\n")) {
        return from.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await;
    }
    let mut socket = TcpStream::connect(to).await?;
    from.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut from, &mut socket).await.map(drop)
}

#[tokio::test]
async fn the_example_goes_through_an_http_proxy() {
    let (_broker, to) = remote_broker().await;
    let proxy = http_proxy("kafka.invalid:9092", to).await;
    reads_all(reader().connect(HttpProxy::new(proxy.clone()))).await;

    let elsewhere = Reader::builder("other.invalid:9092").topic("t").connect(HttpProxy::new(proxy.clone()));
    let wanted = format!(
        "other.invalid:9092: cannot connect: by the proxy {proxy}: it answered \"HTTP/1.1 502 Bad Gateway\"; trying again"
    );
    assert_eq!(first_retry(&elsewhere.open().unwrap()).await, wanted);
}

#[tokio::test]
async fn one_that_never_returns_is_bounded_by_the_connect_timeout() {
    let never = |_: Address| std::future::pending::<io::Result<Transport>>();
    let reader = reader().connect(never).connect_timeout(Duration::from_millis(100)).open().unwrap();
    let told = first_retry(&reader).await;
    assert_eq!(told, "kafka.invalid:9092: connecting took more than 100ms; trying again");
    soon("close", reader.close()).await.unwrap();

    let mut groups =
        Groups::new("kafka.invalid:9092").unwrap().connect(never).timeout(Duration::from_millis(300));
    let error = soon("an error", groups.list()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    println!("{error}");
}

#[tokio::test]
async fn one_that_panics_is_told_and_asked_again() {
    let (_broker, to) = remote_broker().await;
    let calls = AtomicUsize::new(0);
    let connector = move |_: Address| {
        let call = calls.fetch_add(1, Relaxed);
        async move {
            assert!(!call.is_multiple_of(3), "no way {call}");
            piped_transport(to).await
        }
    };
    let mut reader = reader().connect(connector).open().unwrap();
    let told = first_retry(&reader).await;
    assert_eq!(told, "kafka.invalid:9092: cannot connect: the connector panicked: no way 0; trying again");
    next(&mut reader).await;
    soon("close", reader.close()).await.unwrap();
}

/// Panics when so many bytes were read.
struct Brittle {
    stream: OwnedReadHalf,
    left: usize,
}

impl AsyncRead for Brittle {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.left = self.left.checked_sub(buffer.filled().len() - before).expect("it is brittle");
        read
    }
}

#[tokio::test]
async fn a_transport_that_panics_is_told_and_loses_nothing() {
    let (_broker, to) = remote_broker().await;
    let brittle = move |_: Address| async move {
        let (stream, write) = TcpStream::connect(to).await?.into_split();
        Ok(Transport::new(tokio::io::join(Brittle { stream, left: 30_000 }, write)))
    };
    let builder = reader().connect(brittle).partition(0).max_bytes(9000).until(Until::End);
    let mut reader = builder.open().unwrap();
    let mut events = reader.events();
    assert_eq!(offsets(&mut reader, 1000).await, (0..1000).collect::<Vec<_>>());
    let told = soon("the panic", async {
        loop {
            if let Event::Retrying { reason, .. } = events.next().await.unwrap() {
                return reason;
            }
        }
    });
    assert_eq!(
        told.await,
        "its task panicked, by a mistake of ours or of the transport it was given: it is brittle"
    );
}

#[tokio::test]
async fn an_error_is_told_with_its_sources() {
    #[derive(Debug, thiserror::Error)]
    #[error("the tunnel is closed")]
    struct Closed(#[source] std::num::ParseIntError);

    let fails = |_: Address| async {
        let why = "x".parse::<u8>().expect_err("no number");
        Err::<Transport, _>(io::Error::other(Closed(why)))
    };
    let told = first_retry(&reader().connect(fails).open().unwrap()).await;
    let wanted = "kafka.invalid:9092: cannot connect: the tunnel is closed: invalid digit found in string; trying again";
    assert_eq!(told, wanted);
}

#[tokio::test]
async fn tcp_connects_from_the_local_address_it_was_given() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let local: IpAddr = "127.0.0.1".parse().unwrap();
    let tcp = Tcp::new().local_address(local).keepalive(None);
    let (stream, accepted) = tokio::join!(tcp.connect(&at), listener.accept());
    assert_eq!(accepted.unwrap().1.ip(), local);
    drop(stream.unwrap());

    let (_broker, to) = remote_broker().await;
    let at = to.to_string();
    let builder = |local: &str| {
        Reader::builder(at.clone()).topic("t").connect(Tcp::new().local_address(local.parse().unwrap()))
    };
    let told = first_retry(&builder("192.0.2.1").open().unwrap()).await;
    let wanted = format!("{at}: cannot connect: from the local address 192.0.2.1: ");
    assert!(told.starts_with(&wanted), "{told}");
    let told = first_retry(&builder("::1").open().unwrap()).await;
    let why = "127.0.0.1 has no address of the family of the local address ::1";
    assert_eq!(told, format!("{at}: cannot connect: {why}; trying again"));
}
