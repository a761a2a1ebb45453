//! Every failure as a person sees it: `docs/errors.md` is written from here, and has to agree.
//!
//! `OTTLA_BLESS=1 cargo test -p ottla --test errors` writes what is said into the page.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

#[path = "support/page.rs"]
mod page;
mod support;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use ottla::{
    Address, Builder, CommitOffset, Connect, Error, Event, Events, Group, Groups, MissingTopic, OnOutOfRange,
    Reader, Start, Sticky, TopicPartition, Transport, Until,
};
use ottla_broker::{ApiKey, Broker, ClusterOptions, Code, Fault, Leaders};
use ottla_wire::{
    message::{ApiVersionsRequest, FetchRequest, FetchResponse},
    record::{BatchBuilder, Codec},
};
use page::{Said, tidy};
use support::{brokers, fill, impostor, nobody, offsets, soon};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::{TcpStream, tcp::OwnedReadHalf},
};

/// Some of it is the system's own words, which are those of Linux here. Each family takes its own time, so they run side by side.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_page_says_what_is_said() {
    let families = tokio::join!(
        strangers(),
        outages(),
        cut_off(),
        topics(),
        logs(),
        damage(),
        held(),
        callers(),
        refused_members(),
        lost_partitions(),
        last_commits(),
        from_outside(),
    );
    let (a, b, c, d, e, f, g, h, i, j, k, l) = families;
    let said: Said = [a, b, c, d, e, f, g, h, i, j, k, l].into_iter().flatten().collect();
    page::check("library", &said);
}

type Family = Vec<(&'static str, Vec<String>)>;

/// How a program sees it, and how a person does.
fn told(error: &Error) -> String {
    let questions = [
        (error.partition().is_some(), "partition()"),
        (error.offset().is_some(), "offset()"),
        (error.code().is_some(), "code()"),
        (error.is_retriable(), "is_retriable()"),
        (error.is_fenced(), "is_fenced()"),
        (error.is_closed(), "is_closed()"),
    ];
    let answers: Vec<&str> = questions.iter().filter(|(yes, _)| *yes).map(|(_, name)| *name).collect();
    let answers = if answers.is_empty() { String::new() } else { format!(" {}", answers.join(" ")) };
    tidy(&format!("ErrorKind::{:?}{answers}\n    {error}", error.kind()))
}

fn happened(event: &Event) -> String {
    let name: String = format!("{event:?}").chars().take_while(char::is_ascii_alphanumeric).collect();
    tidy(&format!("Event::{name}\n    {event}"))
}

fn lines(texts: &[String]) -> Vec<String> {
    texts.iter().flat_map(|text| text.lines().map(str::to_owned)).collect()
}

/// A reader of "orders" that is quick to try again.
fn reader(bootstrap: impl Into<String>) -> Builder {
    Reader::builder(bootstrap).topic("orders").backoff(Duration::from_millis(2)..=Duration::from_millis(20))
}

/// The first such event since the reader was opened.
async fn event<K>(reader: &Reader<K>, which: impl Fn(&Event) -> bool) -> String {
    heard(&mut reader.events(), which).await
}

async fn heard(events: &mut Events, which: impl Fn(&Event) -> bool) -> String {
    soon("an event", async {
        loop {
            let event = events.next().await.expect("it is open");
            if which(&event) {
                return happened(&event);
            }
        }
    })
    .await
}

fn is_retry(event: &Event) -> bool {
    matches!(event, Event::Retrying { .. })
}

/// The first error, whatever comes before it.
async fn error<K>(mut reader: Reader<K>) -> String {
    soon("an error", async {
        loop {
            if let Err(error) = reader.next().await {
                return told(&error);
            }
        }
    })
    .await
}

/// The first failed attempt to connect.
async fn retry(builder: Builder) -> Vec<String> {
    let reader = builder.open().unwrap();
    lines(&[event(&reader, is_retry).await])
}

async fn orders() -> Broker {
    let broker = brokers(1, &[("orders", 2)]).await;
    (0..2).for_each(|partition| fill(&broker, "orders", partition, 100));
    broker
}

/// Who is not the broker that was looked for.
async fn strangers() -> Family {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap(); // the system accepts, nobody answers
    let never = |_: Address| std::future::pending::<io::Result<Transport>>();
    let panics = |_: Address| async { panic!("no ticket for this train") as io::Result<Transport> };
    let ancient = orders().await;
    ancient.with(|c| c.fault(Fault::error(ApiKey::ApiVersions, Code::UNKNOWN_SERVER_ERROR).always()));
    let cases = tokio::join!(
        retry(reader(nobody())),
        retry(reader("no-such-host.invalid:9092")),
        retry(reader("kafka:9092").connect(never).connect_timeout(Duration::from_millis(100))),
        retry(reader(mute.local_addr().unwrap().to_string())),
        retry(reader(impostor(b"HTTP/1.1 400 Bad Request\r\n\r\n"))),
        retry(reader(impostor(b"\x15\x03\x03\x00\x02\x02\x16"))),
        retry(reader(impostor(b""))),
        retry(reader(impostor(b"\x7f\xff\xff\xff"))),
        retry(reader(impostor(b"\xff\xff\xff\xff"))),
        retry(reader(impostor(b"\x00\x00\x00\x08\x00\x00"))),
        retry(reader(impostor(b"\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00"))),
        retry(reader(ancient.bootstrap())),
        retry(reader("kafka:9092").connect(panics)),
    );
    let (refused, unknown, slow, silent, http, tls, hangs_up, gigantic, negative, cut, odd, versions, panics) =
        cases;
    let as_configured = |text: &String| text.replace("100ms", "5s");
    vec![
        ("no broker", refused),
        ("unknown host", unknown),
        ("black hole", slow.iter().map(as_configured).collect()),
        ("silence", silent),
        ("HTTP", http),
        ("TLS", tls),
        ("hangs up", hangs_up),
        ("2 GiB", gigantic),
        ("negative length", negative),
        ("cut before versions", cut),
        ("no Kafka", odd),
        ("versions refused", versions),
        ("connector", panics),
    ]
}

async fn outages() -> Family {
    let outage = error(reader(nobody()).max_attempts(3).open().unwrap()).await;
    let all = reader(nobody()).open().unwrap();
    let unreachable = event(&all, |event| matches!(event, Event::Unreachable { .. })).await;

    let broker = orders().await;
    let bootstrap = broker.bootstrap();
    let dead: Address = nobody().parse().unwrap();
    broker.with(|c| c.set_address(1, dead.host.clone(), dead.port)).unwrap();
    let advertised = error(reader(bootstrap).max_attempts(3).open().unwrap()).await;

    let broker = orders().await;
    let reads = reader(broker.bootstrap()).open().unwrap();
    let mut events = reads.events();
    heard(&mut events, |event| matches!(event, Event::Connected { .. })).await;
    broker.with(|c| c.stop_node(1, Leaders::Lose)).unwrap();
    heard(&mut events, |event| matches!(event, Event::Unreachable { .. })).await;
    broker.with(|c| c.start_node(1)).unwrap();
    let reachable = heard(&mut events, |event| matches!(event, Event::Reachable)).await;

    let broker = orders().await;
    let old = Fault::rewrite::<ApiVersionsRequest>(|response, _| {
        let fetch = response.api_keys.iter_mut().find(|api| api.api_key == ApiKey::Fetch as i16).unwrap();
        (fetch.min_version, fetch.max_version) = (0, 3);
    });
    broker.with(|c| c.fault(old.always()));
    let old = error(reader(broker.bootstrap()).open().unwrap()).await;
    vec![
        ("outage", lines(&[unreachable, outage])),
        ("reachable", lines(&[reachable])),
        ("advertised", lines(&[advertised])),
        ("too old", lines(&[old])),
    ]
}

/// A fetch is answered with this, once; what is told of it.
async fn fetch_fault(fault: Fault, patience: Duration) -> Vec<String> {
    let broker = brokers(1, &[("orders", 1)]).await;
    fill(&broker, "orders", 0, 100);
    broker.with(|c| c.fault(fault));
    let mut reader = reader(broker.bootstrap()).request_timeout(patience).max_wait(BRIEF).open().unwrap();
    let told = event(&reader, is_retry).await;
    assert_eq!(offsets(&mut reader, 100).await, (0..100).collect::<Vec<_>>());
    lines(&[told.replace("1s", "30s")])
}

const BRIEF: Duration = Duration::from_millis(50);

async fn cut_off() -> Family {
    let garbage = |bytes: &'static [u8]| Fault::garbage(ApiKey::Fetch, bytes);
    let cases = tokio::join!(
        fetch_fault(Fault::close(ApiKey::Fetch), DAY),
        fetch_fault(Fault::cut(ApiKey::Fetch, 3), DAY),
        fetch_fault(Fault::cut(ApiKey::Fetch, 1000), DAY),
        fetch_fault(Fault::silence(ApiKey::Fetch), Duration::from_secs(1)),
        fetch_fault(garbage(b"\x00\x00\x00\x08\x7f\x00\x00\x00\x00\x00\x00\x00"), DAY),
        fetch_fault(garbage(b"\x00\x00\x00\x02\x7f\x00"), DAY),
        fetch_fault(garbage(b"\x7f\x00\x00\x00\x00"), DAY),
    );
    let (closed, length, body, silent, other, short, large) = cases;
    let broker = orders().await;
    let reset =
        retry(reader("127.0.0.1:1").connect(Breaking::connector(broker.address(1).unwrap(), 1000))).await;
    let cut = [closed, length, body, reset].concat();
    vec![("cut", cut), ("no answer", silent), ("nonsense", [other, short].concat()), ("too large", large)]
}

/// What reads from a connection that is reset when so many bytes have come.
struct Breaking {
    stream: OwnedReadHalf,
    left: usize,
}

impl Breaking {
    /// The first three connections are such ones.
    fn connector(to: SocketAddr, bytes: usize) -> impl Connect {
        let made = AtomicUsize::new(0);
        move |_: Address| {
            let left = if made.fetch_add(1, Relaxed) < 3 { bytes } else { usize::MAX };
            async move {
                let (stream, write) = TcpStream::connect(to).await?.into_split();
                Ok(Transport::new(tokio::io::join(Self { stream, left }, write)))
            }
        }
    }
}

impl AsyncRead for Breaking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::from_raw_os_error(CONNECTION_RESET)));
        }
        let mut some = buffer.take(self.left);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut some))?;
        let read = some.filled().to_vec();
        self.left -= read.len();
        buffer.put_slice(&read);
        Poll::Ready(Ok(()))
    }
}

const CONNECTION_RESET: i32 = 104;

/// The length, the correlation id, the reply's head, the batch's head, records, the last byte: wherever the broker dies, it
/// is told as the same thing, and the next connection brings all of it, once.
#[tokio::test]
async fn a_broker_that_dies_at_any_byte_of_a_frame_loses_and_repeats_nothing() {
    let whole = dies_at(4).await.expect("the length of the frame");
    let mut places = 0;
    for at in (0..96).chain((96..whole).step_by(61)).chain([whole + 3]) {
        let told = dies_at(at).await.expect("it is told as what it is");
        assert_eq!(told, if at < 4 { 0 } else { whole }, "after {at} bytes");
        places += 1;
    }
    println!("a frame of {whole} bytes was cut at {places} places");
    assert!(places > 50);
}

/// The broker sends so much of its first answer to a fetch, and is killed and started again. How long that frame should
/// have been.
async fn dies_at(bytes: usize) -> Option<usize> {
    let broker = brokers(1, &[("orders", 1)]).await;
    fill(&broker, "orders", 0, 100);
    let fault = broker.with(|c| c.fault(Fault::cut(ApiKey::Fetch, bytes)));
    let mut reader = reader(broker.bootstrap()).max_wait(BRIEF).open().unwrap();
    let mut events = reader.events();
    let reason = soon("it is told", async {
        loop {
            if let Event::Retrying { reason, .. } = events.next().await.unwrap() {
                return reason;
            }
        }
    })
    .await;
    assert_eq!(broker.with(|c| c.fault_hits(fault)), 1);
    broker.with(|c| c.stop_node(1, Leaders::Lose)).unwrap();
    broker.with(|c| c.start_node(1)).unwrap();
    assert_eq!(offsets(&mut reader, 100).await, (0..100).collect::<Vec<_>>());
    fill(&broker, "orders", 0, 100);
    assert_eq!(offsets(&mut reader, 100).await, (100..200).collect::<Vec<_>>());
    frame_length(&reason, bytes)
}

/// Checks what is said of a frame that was cut after so many bytes.
fn frame_length(reason: &str, bytes: usize) -> Option<usize> {
    let got = reason.strip_prefix("the broker closed the connection")?;
    match bytes {
        0 => got.is_empty().then_some(0),
        1..4 => (got == format!(" after {bytes} of the 4 bytes of a frame's length")).then_some(0),
        _ => got
            .strip_prefix(&format!(" after {} of a frame's ", bytes - 4))?
            .strip_suffix(" bytes")?
            .parse()
            .ok(),
    }
}

/// The same with connections that are reset, at any byte of all that is said on them.
#[tokio::test]
async fn a_connection_that_is_reset_at_any_byte_loses_and_repeats_nothing() {
    let broker = brokers(1, &[("orders", 1)]).await;
    fill(&broker, "orders", 0, 100);
    let to = broker.address(1).unwrap();
    for bytes in (0..64).chain((64..6000).step_by(97)) {
        let builder = reader("127.0.0.1:1").connect(Breaking::connector(to, bytes)).max_wait(BRIEF);
        let mut reader = builder.until(Until::End).open().unwrap();
        assert_eq!(offsets(&mut reader, 100).await, (0..100).collect::<Vec<_>>(), "after {bytes} bytes");
        assert!(soon("the end", reader.next()).await.unwrap().is_none());
    }
}

async fn topics() -> Family {
    let broker = brokers(1, &[("orders", 2)]).await;
    let at = |topic: &str| {
        Reader::builder(broker.bootstrap()).topic(topic).backoff(Duration::from_millis(2)..=BRIEF)
    };
    let missing = at("order").open().unwrap();
    let waits = event(&missing, |event| matches!(event, Event::TopicMissing { .. })).await;
    let unmatched = Reader::builder(broker.bootstrap()).topics_matching("orders-.*").open().unwrap();
    let unmatched = event(&unmatched, |event| matches!(event, Event::NothingMatches { .. })).await;
    let fails = error(at("order").missing_topic(MissingTopic::Fail).open().unwrap()).await;
    let partition = at("orders").partition(6).open().unwrap();
    let partition_waits = event(&partition, |event| matches!(event, Event::PartitionMissing { .. })).await;
    let partition_fails =
        error(at("orders").partition(6).missing_topic(MissingTopic::Fail).open().unwrap()).await;

    broker.with(|c| c.set_leader("orders", 1, None)).unwrap();
    let leaderless = at("orders").open().unwrap();
    let leader = event(&leaderless, |event| matches!(event, Event::LeaderMissing { .. })).await;
    broker.with(|c| c.set_leader("orders", 1, Some(1))).unwrap();

    let fault = |api, code| Fault::partition_error(api, code).topic("orders").always();
    let refusal = broker.with(|c| c.fault(fault(ApiKey::Metadata, Code::TOPIC_AUTHORIZATION_FAILED)));
    let topic = error(at("orders").open().unwrap()).await;
    broker.with(|c| {
        c.clear_fault(refusal);
        fill_with(c, 1);
        c.fault(fault(ApiKey::Fetch, Code::TOPIC_AUTHORIZATION_FAILED).partition(0));
    });
    let fetch = error(at("orders").open().unwrap()).await;
    broker.with(|c| c.clear_faults());
    broker.with(|c| c.fault(fault(ApiKey::Fetch, Code::KAFKA_STORAGE_ERROR).partition(0)));
    let passing = at("orders").open().unwrap();
    let passing = event(&passing, |event| matches!(event, Event::Refused { .. })).await;
    broker.with(|c| c.clear_faults());
    let quota = |response: &mut FetchResponse, _| response.throttle_time_ms = 1500;
    broker.with(|c| c.fault(Fault::rewrite::<FetchRequest>(quota).always()));
    let throttled = at("orders").open().unwrap();
    let throttled = event(&throttled, |event| matches!(event, Event::Throttled { .. })).await;
    vec![
        ("unknown topic", lines(&[waits, fails])),
        ("nothing matches", lines(&[unmatched])),
        ("unknown partition", lines(&[partition_waits, partition_fails])),
        ("no leader", lines(&[leader])),
        ("not allowed", lines(&[topic, fetch])),
        ("refused for now", lines(&[passing])),
        ("throttled", lines(&[throttled])),
    ]
}

fn fill_with(cluster: &mut ottla_broker::Cluster, count: i64) {
    for partition in 0..2 {
        let batch = support::batch(Codec::None, partition, 0, count);
        cluster.append("orders", partition, batch).unwrap();
    }
}

async fn logs() -> Family {
    let broker = orders().await;
    broker.with(|c| c.delete_records("orders", 0, 50)).unwrap();
    let at = |policy| reader(broker.bootstrap()).partition(0).start(Start::Offset(3)).on_out_of_range(policy);
    let nearest = at(OnOutOfRange::Nearest).open().unwrap();
    let reset = event(&nearest, |event| matches!(event, Event::OffsetReset { .. })).await;
    let range = error(at(OnOutOfRange::Error).open().unwrap()).await;

    let (cut_told, cut_fails) =
        tokio::join!(truncated(OnOutOfRange::Nearest), truncated(OnOutOfRange::Error));
    let (anew_told, anew_fails) =
        tokio::join!(recreated(OnOutOfRange::Nearest), recreated(OnOutOfRange::Error));
    let old = orders().await;
    let code = Code::UNSUPPORTED_FOR_MESSAGE_FORMAT;
    old.with(|c| c.fault(Fault::partition_error(ApiKey::ListOffsets, code).always()));
    let time = Start::At(std::time::UNIX_EPOCH + Duration::from_secs(1));
    let no_times = error(reader(old.bootstrap()).partition(0).start(time).open().unwrap()).await;
    vec![
        ("out of range", lines(&[reset, range])),
        ("truncated", lines(&[cut_told, cut_fails])),
        ("recreated", lines(&[anew_told, anew_fails])),
        ("no times", lines(&[no_times])),
    ]
}

/// The log is cut behind the reader, and its leader's epoch moves on, as after an unclean election.
async fn truncated(policy: OnOutOfRange) -> String {
    let broker = brokers(2, &[("orders", 1)]).await;
    fill(&broker, "orders", 0, 100);
    let builder = reader(broker.bootstrap()).metadata_max_age(BRIEF).max_wait(BRIEF).on_out_of_range(policy);
    let mut reader = builder.open().unwrap();
    offsets(&mut reader, 100).await;
    broker.with(|c| {
        c.truncate("orders", 0, 60).unwrap();
        let other = 3 - c.leader("orders", 0).unwrap();
        c.set_leader("orders", 0, Some(other)).unwrap();
    });
    match policy {
        OnOutOfRange::Error => error(reader).await,
        _ => event(&reader, |event| matches!(event, Event::Truncated { .. })).await,
    }
}

async fn recreated(policy: OnOutOfRange) -> String {
    let broker = brokers(1, &[("orders", 1)]).await;
    fill(&broker, "orders", 0, 100);
    let builder = reader(broker.bootstrap()).metadata_max_age(BRIEF).max_wait(BRIEF).on_out_of_range(policy);
    let mut reader = builder.open().unwrap();
    offsets(&mut reader, 100).await;
    broker.with(|c| {
        c.delete_topic("orders").unwrap();
        c.create_topic("orders", 1).unwrap();
    });
    match policy {
        OnOutOfRange::Error => error(reader).await,
        _ => event(&reader, |event| matches!(event, Event::TopicRecreated { .. })).await,
    }
}

/// The caller keeps more than the budget.
async fn held() -> Family {
    let broker = brokers(1, &[("orders", 1)]).await;
    for _ in 0..8 {
        let mut batch = BatchBuilder::new(Codec::None);
        batch.push(1, None, Some(&vec![0; 300_000]), &[]);
        broker.with(|c| c.append("orders", 0, batch.build().unwrap())).unwrap();
    }
    let mut reader = reader(broker.bootstrap()).budget(1 << 20).max_bytes(300_000).open().unwrap();
    let mut kept = Vec::new();
    while kept.len() < 8 {
        kept.push(soon("the next one", reader.next()).await.unwrap());
    }
    let told = event(&reader, |event| matches!(event, Event::HeldByCaller { .. })).await;
    let bytes: String = told.chars().filter(char::is_ascii_digit).collect();
    vec![("held by the caller", lines(&[told.replace(&bytes, "1202860")]))]
}

async fn damage() -> Family {
    let crc = orders().await;
    crc.with(|c| c.fault(Fault::corrupt_records(80).partition(0).always()));
    let crc = error(reader(crc.bootstrap()).partition(0).open().unwrap()).await;

    let bomb = brokers(1, &[("orders", 1)]).await;
    let mut batch = BatchBuilder::new(Codec::Zstd);
    batch.push(1, None, Some(&vec![0; 1 << 20]), &[]);
    bomb.with(|c| c.append("orders", 0, batch.build().unwrap())).unwrap();
    let bomb = error(reader(bomb.bootstrap()).max_batch_bytes(100_000).open().unwrap()).await;

    let magic = orders().await;
    let unknown = Fault::rewrite::<FetchRequest>(|response, _| {
        for partition in response.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
            if let Some(records) = partition.records.as_mut().filter(|records| !records.is_empty()) {
                let mut bytes = records.to_vec();
                bytes[16] = 3;
                *records = bytes.into();
            }
        }
    });
    magic.with(|c| c.fault(unknown.always()));
    let magic = error(reader(magic.bootstrap()).partition(0).open().unwrap()).await;
    vec![("broken CRC", lines(&[crc])), ("bomb", lines(&[bomb])), ("unknown format", lines(&[magic]))]
}

/// What is wrong with how the library is called.
async fn callers() -> Family {
    let config = Reader::builder("kafka:kafka")
        .topic("or/ders")
        .start(Start::Offset(10))
        .until(Until::Offset(5))
        .max_attempts(0)
        .open();
    let nothing = Reader::builder("").open();
    let group = Reader::builder("kafka:9092")
        .group("billing")
        .topic("orders")
        .partition(3)
        .heartbeat_interval(Duration::from_secs(50))
        .open();
    let config = [config.unwrap_err(), nothing.unwrap_err(), group.unwrap_err()];
    let runtime = std::thread::spawn(|| Reader::builder("kafka:9092").topic("orders").open().unwrap_err());
    let runtime = runtime.join().unwrap();
    let timers = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let mut reader = Reader::builder("127.0.0.1:1").topic("orders").open().unwrap();
            reader.next().await.unwrap_err()
        })
    });
    let timers = timers.join().unwrap();

    let broker = orders().await;
    let mut reads = reader(broker.bootstrap()).partition(0).open().unwrap();
    let control = reads.control();
    let message = support::next(&mut reads).await;
    let not_read = control.seek(&TopicPartition::new("orders", 1), Start::Earliest).unwrap_err();
    let in_group = billing(&broker).open().unwrap();
    let no_group = in_group.ack(&message).unwrap_err();
    control.close();
    let closed = reads.next().await.unwrap_err();
    vec![
        ("configuration", lines(&config.map(|error| told(&error)))),
        ("runtime", lines(&[told(&runtime), told(&timers)])),
        ("not read", lines(&[told(&not_read)])),
        ("no group", lines(&[told(&no_group)])),
        ("closed", lines(&[told(&closed)])),
    ]
}

/// A member of the group "billing" that is quick to notice.
fn billing(broker: &Broker) -> Builder<Group> {
    Reader::builder(broker.bootstrap())
        .group("billing")
        .topic("orders")
        .heartbeat_interval(Duration::from_millis(20))
        .commit_interval(Duration::from_millis(20))
        .backoff(Duration::from_millis(2)..=Duration::from_millis(20))
}

async fn group_broker(options: ClusterOptions) -> Broker {
    let broker = Broker::start(options).await.unwrap();
    broker.with(|c| c.create_topic("orders", 2)).unwrap();
    (0..2).for_each(|partition| fill(&broker, "orders", partition, 100));
    broker
}

/// The group does not take us, or not any more.
async fn refused_members() -> Family {
    let broker = group_broker(ClusterOptions::new().max_group_size(1)).await;
    let refuse = |api| Fault::error(api, Code::GROUP_AUTHORIZATION_FAILED).always();
    let refusal = broker.with(|c| c.fault(refuse(ApiKey::FindCoordinator)));
    let authorization = error(billing(&broker).open().unwrap()).await;
    broker.with(|c| c.clear_fault(refusal));
    let session = billing(&broker).session_timeout(Duration::from_secs(3600)).rebalance_timeout(DAY);
    let session = error(session.open().unwrap()).await;

    let only = billing(&broker).open().unwrap();
    support::eventually("it is in", || only.control().partitions().len() == 2).await;
    let full = error(billing(&broker).open().unwrap()).await;

    let broker = group_broker(ClusterOptions::new()).await;
    let first = billing(&broker).instance_id("till-3").open().unwrap();
    support::eventually("it is in", || first.control().partitions().len() == 2).await;
    let _second = billing(&broker).instance_id("till-3").open().unwrap();
    let fenced = error(first).await;

    let broker = group_broker(ClusterOptions::new()).await;
    let sticky = billing(&broker).assignors([Arc::new(Sticky) as _]).open().unwrap();
    support::eventually("it is in", || sticky.control().partitions().len() == 2).await;
    let protocol = error(billing(&broker).open().unwrap()).await;

    broker.with(|c| c.fault(Fault::error(ApiKey::FindCoordinator, Code::COORDINATOR_NOT_AVAILABLE).times(3)));
    let waits = billing(&broker).open().unwrap();
    let waits = event(&waits, |event| matches!(event, Event::GroupRefused { .. })).await;
    vec![
        ("group authorization", lines(&[authorization])),
        ("session timeout", lines(&[session])),
        ("group full", lines(&[full])),
        ("fenced instance", lines(&[fenced])),
        ("inconsistent protocol", lines(&[protocol])),
        ("no coordinator", lines(&[waits])),
    ]
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Partitions go to others.
async fn lost_partitions() -> Family {
    let broker = group_broker(ClusterOptions::new()).await;
    let mut reads = billing(&broker).open().unwrap();
    let message = support::next(&mut reads).await;
    reads.control().rejoin().unwrap();
    let mut events = reads.events();
    let revoked = heard(&mut events, |event| matches!(event, Event::Revoking { .. })).await;
    support::eventually("it is over", || reads.ack(&message).is_err()).await;
    let acknowledged = told(&reads.ack(&message).unwrap_err());
    let offset = CommitOffset { offset: 3, ..CommitOffset::default() };
    let elsewhere = TopicPartition::new("refunds", 0);
    let not_owned = told(&soon("refusal", reads.commit_offsets([(elsewhere, offset)])).await.unwrap_err());

    let forget = Fault::error(ApiKey::Heartbeat, Code::UNKNOWN_MEMBER_ID).always();
    broker.with(|c| c.fault(forget));
    let lost = heard(&mut events, |event| matches!(event, Event::PartitionsLost { .. })).await;

    let broker = group_broker(ClusterOptions::new()).await;
    let mut slow = billing(&broker).max_poll_interval(Duration::from_millis(100)).open().unwrap();
    support::next(&mut slow).await;
    let silent = event(&slow, |event| matches!(event, Event::ReaderSilent { .. })).await;

    let held =
        billing(&broker).rebalance_timeout(Duration::from_millis(300)).on_rebalance(|rebalance| async move {
            std::future::pending::<()>().await;
            drop(rebalance);
        });
    let held = held.open().unwrap();
    let busy = event(&held, |event| matches!(event, Event::HookBusy { .. })).await;
    let broker = group_broker(ClusterOptions::new()).await;
    let mut panics = billing(&broker)
        .on_rebalance(|rebalance| async move { panic!("a mistake in a hook: {rebalance:?}") })
        .open()
        .unwrap();
    let panicked = told(&soon("the error", panics.next()).await.unwrap_err());
    vec![
        ("given up", lines(&[revoked, acknowledged])),
        ("not owned", lines(&[not_owned])),
        ("lost", lines(&[lost])),
        ("silent caller", lines(&[silent.replace("100ms", "300s")])),
        ("busy hook", lines(&[busy.replace("300ms", "60s")])),
        ("panicking hook", lines(&[panicked])),
    ]
}

/// Something is acknowledged and not committed when the reader is closed.
async fn acknowledged(broker: &Broker) -> Reader<Group> {
    let builder = billing(broker).commit_interval(Duration::MAX).close_timeout(Duration::from_secs(1));
    let mut reader = builder.open().unwrap();
    let message = support::next(&mut reader).await;
    reader.ack(&message).unwrap();
    reader
}

async fn last_commits() -> Family {
    let dead = group_broker(ClusterOptions::new()).await;
    let reader = acknowledged(&dead).await;
    dead.with(|c| c.stop_node(1, Leaders::Lose)).unwrap();
    let dead = told(&soon("close", reader.close()).await.unwrap_err());

    let frozen = group_broker(ClusterOptions::new()).await;
    let reader = acknowledged(&frozen).await;
    frozen.with(|c| c.fault(Fault::silence(ApiKey::OffsetCommit).always()));
    let frozen = told(&soon("close", reader.close()).await.unwrap_err());

    let refusing = group_broker(ClusterOptions::new()).await;
    let mut reader = billing(&refusing).open().unwrap();
    let message = support::next(&mut reader).await;
    let code = Code::TOPIC_AUTHORIZATION_FAILED;
    refusing.with(|c| c.fault(Fault::partition_error(ApiKey::OffsetCommit, code).always()));
    let refused = told(&soon("commit", reader.commit(&message)).await.unwrap_err());
    reader.ack(&message).unwrap();
    let refused_later = event(&reader, |event| matches!(event, Event::CommitFailed { .. })).await;

    let beside = group_broker(ClusterOptions::new()).await;
    let member = billing(&beside).open().unwrap();
    support::eventually("it is in", || member.control().partitions().len() == 2).await;
    let builder = Reader::builder(beside.bootstrap()).topic("orders").partition(0).stored_in("billing");
    let mut stored = builder.open().unwrap();
    let message = support::next(&mut stored).await;
    let stored = told(&soon("commit", stored.commit(&message)).await.unwrap_err());
    vec![
        ("coordinator dead at close", lines(&[dead, frozen])),
        ("commit refused", lines(&[refused_later, refused])),
        ("commit beside members", lines(&[stored])),
    ]
}

/// `Groups`, which is no member.
async fn from_outside() -> Family {
    let broker = group_broker(ClusterOptions::new()).await;
    let member = billing(&broker).open().unwrap();
    support::eventually("it is in", || member.control().partitions().len() == 2).await;
    let mut groups = Groups::new(&broker.bootstrap()).unwrap();
    let missing = soon("refusal", groups.describe("biling")).await.unwrap_err();
    let offsets = [(TopicPartition::new("orders", 0), 5)];
    let not_empty = soon("refusal", groups.set_offsets("billing", offsets)).await.unwrap_err();
    let mut away = Groups::new(&nobody()).unwrap().timeout(Duration::from_secs(2));
    let away = soon("an error", away.list()).await.unwrap_err();
    let away = told(&away).replace("within 2 s", "within 30 s");
    vec![
        ("group missing", lines(&[told(&missing)])),
        ("group in use", lines(&[told(&not_empty)])),
        ("groups unreachable", lines(&[away])),
    ]
}
