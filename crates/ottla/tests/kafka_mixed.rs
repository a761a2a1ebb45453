//! A member of ours in a group with a consumer of other make, on a real Kafka; either may lead.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test is the outermost layer")]

#[path = "support/group.rs"]
mod group_support;
#[path = "support/kafka.rs"]
mod kafka_support;
mod support;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use group_support::Other;
use kafka_support::{Kafka, fresh};
use ottla::{Assignor, Control, Group, Range, Reader, RoundRobin, Sticky};
use ottla_wire::record::Codec;
use support::{soon, within};
use tokio::sync::oneshot;

const PARTITIONS: i32 = 6;

/// For those that are slow to begin, to poll, or to notice a rebalance.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_mixed_java_follows_ours_with_range() {
    mixed(&JAVA, Some(Arc::new(Range)), First::Ours).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_mixed_java_leads_ours_with_range() {
    mixed(&JAVA, Some(Arc::new(Range)), First::Other).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_mixed_java_follows_ours_with_sticky() {
    mixed(&JAVA, Some(Arc::new(Sticky)), First::Ours).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_mixed_java_leads_ours_with_sticky() {
    mixed(&JAVA, Some(Arc::new(Sticky)), First::Other).await;
}

/// Java offers range and its cooperative one, ours range and round-robin.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_mixed_java_and_ours_as_they_are_set_unless_told() {
    mixed(&JAVA, None, First::Other).await;
}

/// The others are built by `cargo xtask soak --only mixed`, which has them all join.
mod peers {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs peers: cargo xtask soak --only mixed"]
    async fn kafka_peers_librdkafka_follows_and_leads() {
        every_way(&LIBRDKAFKA, &[Arc::new(Range), Arc::new(RoundRobin)]).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs peers: cargo xtask soak --only mixed"]
    async fn kafka_peers_franz_go_follows_and_leads() {
        every_way(&FRANZ_GO, &[Arc::new(Range), Arc::new(RoundRobin), Arc::new(Sticky)]).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs peers: cargo xtask soak --only mixed"]
    async fn kafka_peers_kafka_go_follows_and_leads() {
        every_way(&KAFKA_GO, &[Arc::new(Range), Arc::new(RoundRobin)]).await;
    }

    async fn every_way(make: &Make, assignors: &[Arc<dyn Assignor>]) {
        for assignor in assignors {
            for first in [First::Ours, First::Other] {
                println!("{}, {}, {first:?} first", make.name, assignor.name());
                mixed(make, Some(assignor.clone()), first).await;
            }
        }
    }
}

/// A consumer that is not ours.
struct Make {
    name: &'static str,
    /// What holds its program's place; Java is compiled from source.
    variable: Option<&'static str>,
}

const JAVA: Make = Make { name: "java", variable: None };
const LIBRDKAFKA: Make = Make { name: "librdkafka", variable: Some("OTTLA_TEST_LIBRDKAFKA") };
const FRANZ_GO: Make = Make { name: "franz-go", variable: Some("OTTLA_TEST_FRANZ_GO") };
const KAFKA_GO: Make = Make { name: "kafka-go", variable: Some("OTTLA_TEST_KAFKA_GO") };

impl Make {
    fn start(&self, kafka: &Kafka, group: &str, topic: &str, assignor: Option<&str>) -> Other {
        let strategy = assignor.map(|name| match (self.variable, name) {
            (Some(_), name) => name.to_owned(),
            (None, "range") => "org.apache.kafka.clients.consumer.RangeAssignor".to_owned(),
            (None, "sticky") => "org.apache.kafka.clients.consumer.StickyAssignor".to_owned(),
            (None, other) => panic!("{other}"),
        });
        let strategy = strategy.map(|name| format!("partition.assignment.strategy={name}"));
        let mut properties = vec!["session.timeout.ms=6000", "heartbeat.interval.ms=300"];
        properties.extend(strategy.as_deref());
        match self.variable {
            None => Other::java(kafka.bootstrap(), group, topic, &properties),
            Some(variable) => {
                Other::program(self.name, variable, kafka.bootstrap(), group, topic, &properties)
            }
        }
    }
}

/// Who comes first, and so leads.
#[derive(Debug, Clone, Copy, PartialEq)]
enum First {
    Ours,
    Other,
}

/// The first reads alone, both share, the first leaves, the second reads alone; nothing is lost or comes twice.
async fn mixed(make: &Make, assignor: Option<Arc<dyn Assignor>>, first: First) {
    let mut stage = Stage::set(make.name).await;
    let name = assignor.as_ref().map(|assignor| assignor.name().to_owned());
    let other = |stage: &Stage| make.start(&stage.kafka, &stage.group, &stage.topic, name.as_deref());
    let ours = |stage: &Stage| Ours::start(&stage.kafka, &stage.group, &stage.topic, assignor.clone());

    stage.write(20).await;
    let (mut ours, mut other) = match first {
        First::Ours => {
            let ours = ours(&stage);
            stage.all_done().await;
            (ours, other(&stage))
        }
        First::Other => {
            let other = other(&stage);
            stage.all_done().await;
            (ours(&stage), other)
        }
    };
    share(&ours, &mut other).await;
    let member = ours.control.member().expect("a member");
    assert_eq!(
        (member.leader, &*member.protocol),
        (first == First::Ours, name.as_deref().unwrap_or("range"))
    );

    stage.write(30).await;
    stage.all_done().await;
    let mut records = Vec::new();
    match first {
        First::Ours => {
            records.extend(ours.leave().await);
            other.until("it owns all", |other| other.owned().len() == PARTITIONS as usize).await;
            stage.write(10).await;
            stage.all_done().await;
            records.extend(other.records());
            other.leave().await;
        }
        First::Other => {
            records.extend(other.records());
            other.leave().await;
            ours.owns_all().await;
            stage.write(10).await;
            stage.all_done().await;
            records.extend(ours.leave().await);
        }
    }
    stage.each_once(records);
}

/// Waits until each has half of the partitions.
async fn share(ours: &Ours, other: &mut Other) {
    let half = PARTITIONS as usize / 2;
    let shared = |other: &Other| {
        let (of_ours, of_other) = (ours.owned(), other.owned().into_iter().collect::<BTreeSet<_>>());
        (of_ours.len(), of_other.len()) == (half, half) && of_ours.is_disjoint(&of_other)
    };
    other.until("they share", shared).await;
}

/// A topic and a group, and how far the records go.
struct Stage {
    kafka: Kafka,
    topic: String,
    group: String,
    end: i64,
}

impl Stage {
    async fn set(name: &str) -> Self {
        let mut kafka = Kafka::connect("OTTLA_TEST_KAFKA").await;
        let topic = kafka.create(&format!("mixed-{name}"), PARTITIONS, &[]).await;
        let group = fresh("mixed");
        kafka.coordinator(&group).await;
        Self { kafka, topic, group, end: 0 }
    }

    /// Appends so many records to each partition.
    async fn write(&mut self, count: i64) {
        for partition in 0..PARTITIONS {
            self.kafka.fill(&self.topic, partition, self.end, count, Codec::None).await;
        }
        self.end += count;
    }

    /// Waits until the group has committed all of it.
    async fn all_done(&mut self) {
        let Self { kafka, topic, group, end } = self;
        let done = vec![*end; PARTITIONS as usize];
        within(PATIENCE, "everything is read and committed", async {
            while kafka.committed(group, topic, PARTITIONS).await != done {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }

    fn each_once(&self, mut records: Vec<(i32, i64)>) {
        records.sort_unstable();
        let all = (0..PARTITIONS).flat_map(|partition| (0..self.end).map(move |offset| (partition, offset)));
        let missing: Vec<_> = all.filter(|record| records.binary_search(record).is_err()).collect();
        assert!(missing.is_empty(), "lost: {missing:?}");
        let twice: Vec<_> = records.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "twice: {twice:?}");
    }
}

/// A member of ours that reads and acknowledges.
struct Ours {
    control: Control<Group>,
    records: Arc<Mutex<Vec<(i32, i64)>>>,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Ours {
    fn start(kafka: &Kafka, group: &str, topic: &str, assignor: Option<Arc<dyn Assignor>>) -> Self {
        let mut builder = Reader::builder(kafka.bootstrap()).group(group).topics([topic]);
        if let Some(assignor) = assignor {
            builder = builder.assignors([assignor]);
        }
        let reader = builder
            .session_timeout(Duration::from_secs(6))
            .heartbeat_interval(Duration::from_millis(300))
            .commit_interval(Duration::from_millis(100))
            .open()
            .unwrap();
        let records = Arc::<Mutex<Vec<_>>>::default();
        let (stop, stopped) = oneshot::channel();
        let control = reader.control();
        let task = tokio::spawn(read(reader, records.clone(), stopped));
        Self { control, records, stop, task }
    }

    fn owned(&self) -> BTreeSet<String> {
        self.control.partitions().iter().map(|at| format!("{}:{}", at.topic, at.partition)).collect()
    }

    async fn owns_all(&mut self) {
        within(PATIENCE, "ours owns all", async {
            while self.owned().len() < PARTITIONS as usize {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// Leaves, and tells what it read.
    async fn leave(self) -> Vec<(i32, i64)> {
        drop(self.stop);
        soon("ours leaves", self.task).await.unwrap();
        std::mem::take(&mut *self.records.lock().unwrap())
    }
}

async fn read(
    mut reader: Reader<Group>,
    records: Arc<Mutex<Vec<(i32, i64)>>>,
    mut stopped: oneshot::Receiver<()>,
) {
    loop {
        let message = tokio::select! {
            next = reader.next() => next.unwrap().unwrap(),
            _ = &mut stopped => break,
        };
        records.lock().unwrap().push((message.partition(), message.offset()));
        reader.ack(&message).unwrap();
    }
    reader.close().await.unwrap();
}
