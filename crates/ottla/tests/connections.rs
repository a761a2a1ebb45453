//! Connections that are closed, moved or slowed down under a reader. Limits under a second are asserted on the hand-wound
//! clock (`core/tests/schedules.rs`); a request's time-out is in `faults.rs`, addresses that lead nowhere in `bootstrap.rs`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use ottla::{Event, Events, Reader};
use ottla_broker::{ApiKey, Broker, Fault};
use ottla_wire::message::{FetchRequest, FetchResponse};
use support::{broker, brokers, eventually, fill, next, soon};
use tokio::net::{TcpListener, TcpStream};

/// What was told so far.
async fn told(events: &mut Events) -> Vec<Event> {
    let mut all = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(50), events.next()).await {
        all.push(event);
    }
    all
}

fn is_trouble(event: &Event) -> bool {
    !matches!(event, Event::Connected { .. })
}

/// Reads what [`fill`] wrote up to this offset.
async fn read_to(reader: &mut Reader, partition: i32, end: i64) {
    loop {
        let message = next(reader).await;
        if (message.partition(), message.offset() + 1) == (partition, end) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_that_the_broker_closes_are_reopened_without_a_word() {
    let broker = broker(&[("t", 1)]).await;
    let mut reader =
        Reader::builder(broker.bootstrap()).topic("t").max_wait(Duration::from_millis(50)).open().unwrap();
    let (mut events, control) = (reader.events(), reader.control());
    for round in 1..=5 {
        fill(&broker, "t", 0, 100);
        read_to(&mut reader, 0, 100 * round).await;
        let at = control.partitions();
        control.pause(&at[0]).unwrap();
        nothing_is_asked(&broker).await;
        broker.with(|cluster| {
            assert!(cluster.open_connections(1) > 0);
            cluster.close_connections(1);
        });
        control.resume(&at[0]).unwrap();
    }
    fill(&broker, "t", 0, 100);
    read_to(&mut reader, 0, 600).await;
    let told = told(&mut events).await;
    assert!(told.len() > 5 && !told.iter().any(is_trouble), "{told:?}");
}

/// Waits until the last fetch has come back.
async fn nothing_is_asked(broker: &Broker) {
    let asked = || broker.with(|cluster| cluster.requests(ApiKey::Fetch));
    let mut before = asked();
    soon("no more fetches", async {
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if std::mem::replace(&mut before, asked()) == before {
                return;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_moves_is_followed() {
    let broker = brokers(2, &[("t", 2)]).await;
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    for round in 1..=4 {
        (0..2).for_each(|partition| fill(&broker, "t", partition, 100));
        for _ in 0..200 {
            next(&mut reader).await;
        }
        if round < 4 {
            // The new address is that of a door to the old one.
            let door = Door::to(broker.address(2).unwrap()).await;
            broker.with(|cluster| {
                cluster.set_address(2, "127.0.0.1", door.port).unwrap();
                cluster.close_connections(2);
            });
            eventually("the reader comes by the new door", || door.entered.load(Ordering::Relaxed) > 0).await;
        }
    }
}

/// Passes connections on.
struct Door {
    port: u16,
    entered: Arc<AtomicU32>,
}

impl Door {
    async fn to(inside: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let entered = Arc::new(AtomicU32::new(0));
        let count = entered.clone();
        tokio::spawn(async move {
            while let Ok((mut outside, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let mut inside = TcpStream::connect(inside).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                });
            }
        });
        Self { port, entered }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_throttled_reader_asks_as_seldom_as_it_is_told() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 100);
    let throttle = |response: &mut FetchResponse, _| response.throttle_time_ms = 200;
    broker.with(|cluster| cluster.fault(Fault::rewrite::<FetchRequest>(throttle).always()));
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let begin = Instant::now();
    for round in 1..=10 {
        read_to(&mut reader, 0, 100 * round).await;
        fill(&broker, "t", 0, 100);
    }
    let (asked, time) = (broker.with(|cluster| cluster.requests(ApiKey::Fetch)), begin.elapsed());
    println!("{asked} fetches in {time:?}");
    assert!(asked >= 10 && u128::from(asked) <= time.as_millis() / 200 + 2, "{asked} fetches in {time:?}");
}

/// Where a name has several addresses, and the first ones lead nowhere, the next is tried; most machines have two for this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_addresses_of_a_name_are_tried() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 100);
    let port = broker.address(1).unwrap().port();
    broker.with(|cluster| cluster.set_address(1, "localhost", port)).unwrap();
    let mut reader = Reader::builder(format!("localhost:{port}")).topic("t").open().unwrap();
    let mut events = reader.events();
    read_to(&mut reader, 0, 100).await;
    let told = told(&mut events).await;
    assert!(!told.iter().any(is_trouble), "{told:?}");
}
