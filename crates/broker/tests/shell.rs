//! The broker over TCP, with a raw socket as its client.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use bytes::Bytes;
use common::{batch, fetch, from, list, listed, only, produce, produced, records, sized_batch};
use ottla_broker::wire::frame::{correlation_id, decode_response, encode_request};
use ottla_broker::wire::message::{
    FetchRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest, Request,
};
use ottla_broker::wire::record::Codec;
use ottla_broker::{ApiKey, Broker, BrokerOptions, ClusterOptions, Fault, Leaders};
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Client {
    stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), correlation_id: 0 }
    }

    async fn send<R: Request>(&mut self, request: &R, version: i16) {
        self.correlation_id += 1;
        let frame = encode_request(request, version, self.correlation_id, "test").unwrap();
        self.stream.write_all(&frame).await.unwrap();
    }

    async fn read(&mut self) -> Bytes {
        let length = self.stream.read_i32().await.unwrap();
        let mut frame = vec![0; length as usize];
        self.stream.read_exact(&mut frame).await.unwrap();
        frame.into()
    }

    async fn take<R: Request>(&mut self, version: i16) -> R::Response {
        decode_response::<R>(self.read().await, version).unwrap().1
    }

    async fn ask<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.send(request, version).await;
        self.take::<R>(version).await
    }

    /// Everything until the broker closes.
    async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is a way to close, too.
        let _ = self.stream.read_to_end(&mut rest).await;
        rest
    }
}

/// Fails a test that hangs.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), what).await.expect("within ten seconds")
}

/// Waits until it is so.
async fn until(mut is_so: impl FnMut() -> bool) {
    soon(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

async fn broker(nodes: i32) -> Broker {
    let broker = Broker::start(ClusterOptions::new().nodes(nodes)).await.unwrap();
    broker.with(|cluster| cluster.create_topic("t", nodes)).unwrap();
    broker
}

#[tokio::test]
async fn metadata_leads_to_every_node() {
    let broker = broker(3).await;
    let first = broker.bootstrap().split(',').next().unwrap().parse().unwrap();
    let everything = MetadataRequest { topics: None, ..Default::default() };
    let metadata = Client::connect(first).await.ask(&everything, 12).await;
    assert_eq!(metadata.brokers.len(), 3);
    for partition in &metadata.topics[0].partitions {
        let leader = metadata.brokers.iter().find(|node| node.node_id == partition.leader_id).unwrap();
        assert_eq!(
            (leader.host.as_str(), leader.port),
            ("127.0.0.1", i32::from(broker.address(leader.node_id).unwrap().port()))
        );
        let mut client = Client::connect(broker.address(leader.node_id).unwrap()).await;
        let index = partition.partition_index;
        let response = client.ask(&produce("t", index, -1, sized_batch(Codec::Lz4, &[1, 2], 100)), 9).await;
        assert_eq!((produced(&response).error_code, produced(&response).base_offset), (0, 0));
        let response = client.ask(&fetch("t", vec![from(index, 0)]), 12).await;
        assert_eq!(only(&response).high_watermark, 2);
        assert_eq!(records(only(&response)).len(), sized_batch(Codec::Lz4, &[1, 2], 100).len());
    }
}

#[tokio::test]
async fn a_parked_fetch_is_woken_from_inside_and_by_the_clock() {
    let broker = broker(1).await;
    let mut client = Client::connect(broker.address(1).unwrap()).await;
    let request = FetchRequest { max_wait_ms: 60_000, ..fetch("t", vec![from(0, 0)]) };
    client.send(&request, 12).await;
    until(|| broker.with(|cluster| cluster.requests(ApiKey::Fetch)) == 1).await;
    broker.with(|cluster| cluster.append("t", 0, batch(&[1]))).unwrap();
    assert_eq!(only(&soon(client.take::<FetchRequest>(12)).await).high_watermark, 1);

    let request = FetchRequest { max_wait_ms: 50, ..fetch("t", vec![from(0, 1)]) };
    let response = soon(client.ask(&request, 12)).await;
    assert!(records(only(&response)).is_empty());
}

/// A long wait is armed first; a shorter one must not have to wait for it.
#[tokio::test]
async fn a_nearer_deadline_is_noticed() {
    let broker = broker(1).await;
    let mut patient = Client::connect(broker.address(1).unwrap()).await;
    patient.send(&FetchRequest { max_wait_ms: 600_000, ..fetch("t", vec![from(0, 0)]) }, 12).await;
    until(|| broker.with(|cluster| cluster.requests(ApiKey::Fetch)) == 1).await;
    let mut hasty = Client::connect(broker.address(1).unwrap()).await;
    let request = FetchRequest { max_wait_ms: 20, ..fetch("t", vec![from(0, 0)]) };
    soon(hasty.ask(&request, 12)).await;
}

#[tokio::test]
async fn a_stopped_node_refuses_and_a_started_one_listens_again() {
    let broker = broker(2).await;
    let address = broker.address(1).unwrap();
    let mut client = Client::connect(address).await;
    client.send(&FetchRequest { max_wait_ms: 60_000, ..fetch("t", vec![from(0, 0)]) }, 12).await;
    broker.with(|cluster| cluster.stop_node(1, Leaders::Move)).unwrap();
    assert_eq!(soon(client.rest()).await, b"");
    soon(async { while TcpStream::connect(address).await.is_ok() {} }).await;
    let mut other = Client::connect(broker.address(2).unwrap()).await;
    assert_eq!(listed(&other.ask(&list("t", 0, -1), 5).await).error_code, 0, "node 2 leads now");
    broker.with(|cluster| cluster.start_node(1)).unwrap();
    let stream = soon(async {
        loop {
            match TcpStream::connect(address).await {
                Ok(stream) => return stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    })
    .await;
    let mut client = Client { stream, correlation_id: 0 };
    assert_eq!(client.ask(&MetadataRequest::default(), 12).await.brokers.len(), 2);
}

#[tokio::test]
async fn a_cut_reply_arrives_up_to_the_cut() {
    let broker = broker(1).await;
    broker.with(|cluster| cluster.append("t", 0, sized_batch(Codec::None, &[1], 100_000))).unwrap();
    for bytes in [0, 2, 1000, 90_000] {
        broker.with(|cluster| cluster.fault(Fault::cut(ApiKey::Fetch, bytes)));
        let mut client = Client::connect(broker.address(1).unwrap()).await;
        client.send(&fetch("t", vec![from(0, 0)]), 12).await;
        // More is under way, so that the socket closes with bytes unread.
        client.send(&list("t", 0, -1), 5).await;
        assert_eq!(soon(client.rest()).await.len(), bytes);
    }
}

#[tokio::test]
async fn frames_may_come_in_pieces() {
    let broker = broker(1).await;
    let mut client = Client::connect(broker.address(1).unwrap()).await;
    client.stream.set_nodelay(true).unwrap();
    let frame = encode_request(&list("t", 0, -1), 5, 7, "pieces").unwrap();
    for byte in [&frame[..], &frame].concat() {
        client.stream.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    for _ in 0..2 {
        assert_eq!(correlation_id(&soon(client.read()).await), Ok(7));
    }
}

#[tokio::test]
async fn what_is_no_frame_closes_the_connection() {
    let broker = broker(1).await;
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 8], &i32::MAX.to_be_bytes()] {
        let mut client = Client::connect(broker.address(1).unwrap()).await;
        client.stream.write_all(bytes).await.unwrap();
        assert_eq!(soon(client.rest()).await, b"");
    }
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_while_its_fetch_is_parked() {
    let broker = broker(1).await;
    let mut client = Client::connect(broker.address(1).unwrap()).await;
    client.send(&FetchRequest { max_wait_ms: 600_000, ..fetch("t", vec![from(0, 0)]) }, 12).await;
    until(|| broker.with(|cluster| cluster.requests(ApiKey::Fetch)) == 1).await;
    drop(client);
    until(|| broker.with(|cluster| cluster.open_connections(1)) == 0).await;
}

#[tokio::test]
async fn requests_behind_a_parked_fetch_stay_in_the_socket_beyond_a_number() {
    let broker = broker(1).await;
    let mut client = Client::connect(broker.address(1).unwrap()).await;
    let request = FetchRequest { max_wait_ms: 600_000, ..fetch("t", vec![from(0, 0)]) };
    client.send(&request, 12).await;
    until(|| broker.with(|cluster| cluster.requests(ApiKey::Fetch)) == 1).await;
    let connection = broker.with(|cluster| cluster.received().next_back().unwrap().connection);
    for _ in 0..500 {
        client.send(&list("t", 0, -1), 5).await;
    }
    until(|| broker.with(|cluster| cluster.waiting(connection)) == 64).await;
    broker.with(|cluster| cluster.append("t", 0, batch(&[1]))).unwrap();
    soon(client.take::<FetchRequest>(12)).await;
    for expected in 2..=501 {
        let frame = soon(client.read()).await;
        assert_eq!(correlation_id(&frame), Ok(expected));
        assert_eq!(listed(&decode_response::<ListOffsetsRequest>(frame, 5).unwrap().1).offset, 1);
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody() {
    let broker = broker(1).await;
    for _ in 0..50 {
        broker.with(|cluster| cluster.append("t", 0, sized_batch(Codec::None, &[1], 1_000_000))).unwrap();
    }
    let mut lazy = Client::connect(broker.address(1).unwrap()).await;
    let mut request = fetch("t", vec![from(0, 0)]);
    request.topics[0].partitions[0].partition_max_bytes = 50 << 20;
    for _ in 0..5 {
        lazy.send(&request, 12).await;
    }
    until(|| broker.with(|cluster| cluster.requests(ApiKey::Fetch)) >= 1).await;
    let mut client = Client::connect(broker.address(1).unwrap()).await;
    assert_eq!(listed(&soon(client.ask(&list("t", 0, -1), 5)).await).offset, 50);
    assert!(broker.with(|cluster| cluster.requests(ApiKey::Fetch)) < 5, "later requests wait in the socket");
    for _ in 0..5 {
        assert!(records(only(&soon(lazy.take::<FetchRequest>(12)).await)).len() > 50_000_000);
    }
}

#[tokio::test]
async fn a_broker_that_ends_closes_everything() {
    for wait in [true, false] {
        let broker = broker(2).await;
        let addresses = [1, 2].map(|node| broker.address(node).unwrap());
        let mut client = Client::connect(addresses[0]).await;
        client.send(&FetchRequest { max_wait_ms: 600_000, ..fetch("t", vec![from(0, 0)]) }, 12).await;
        if wait {
            soon(broker.stop()).await;
            for address in addresses {
                assert!(TcpStream::connect(address).await.is_err());
            }
        } else {
            drop(broker);
        }
        assert_eq!(soon(client.rest()).await, b"");
    }
}

#[tokio::test]
async fn nodes_listen_on_the_ports_that_follow() {
    // A port is free if it and the next were just now; others may take them meanwhile, then try elsewhere.
    let broker = soon(async {
        loop {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let options =
                BrokerOptions::new(ClusterOptions::new().nodes(2)).listen(free).advertise("localhost");
            if let Ok(broker) = Broker::start(options).await {
                return broker;
            }
        }
    })
    .await;
    let [first, second] = [1, 2].map(|node| broker.address(node).unwrap().port());
    assert_eq!(second, first + 1);
    assert_eq!(broker.bootstrap(), format!("localhost:{first},localhost:{second}"));
}

/// Many clients at once, on several threads: every batch is there once, whole, and each connection's in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients() {
    let broker = broker(1).await;
    let address = broker.address(1).unwrap();
    let produce_100 = |id: i64| async move {
        let mut client = Client::connect(address).await;
        let mut offsets = Vec::new();
        for nth in 0..100 {
            let request = produce("t", 0, -1, sized_batch(Codec::None, &[id, nth], 500));
            offsets.push(produced(&client.ask::<ProduceRequest>(&request, 9).await).base_offset);
        }
        assert!(offsets.is_sorted());
        offsets
    };
    let clients: Vec<_> = (0..8).map(|id| tokio::spawn(produce_100(id))).collect();
    let mut offsets = Vec::new();
    for client in clients {
        offsets.extend(soon(client).await.unwrap());
    }
    offsets.sort_unstable();
    assert_eq!(offsets, (0..800).map(|nth| nth * 2).collect::<Vec<_>>());
}
