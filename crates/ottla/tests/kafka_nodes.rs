//! Three real nodes, and a group whose coordinator dies.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

#[path = "support/group.rs"]
mod group_support;
#[path = "support/kafka.rs"]
mod kafka_support;
mod support;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use kafka_support::{Kafka, NODES, environment, fresh, node};
use ottla::{Control, Group, Reader, Rebalance};
use ottla_wire::{
    message::{MetadataRequest, MetadataResponse, metadata_request::MetadataRequestTopic},
    record::{BatchBuilder, Codec},
};
use support::within;

const PARTITIONS: i32 = 6;

/// What each partition holds before the coordinator goes, and what it gets while it is away.
const BEFORE: i64 = 3000;
const MEANWHILE: i64 = 200;

/// Three brokers of a busy machine take their time for everything.
const PATIENCE: Duration = Duration::from_secs(120);

/// The longest that a partition may be silent whose node lives, though its group has no coordinator.
const GAP: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_nodes_a_dead_coordinator_stops_no_reading_and_commits_go_on_with_the_next() {
    lose_the_coordinator("stop", &["--kill"], "start").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_nodes_a_frozen_coordinator_stops_no_reading_and_commits_go_on_with_the_next() {
    lose_the_coordinator("freeze", &[], "thaw").await;
}

async fn lose_the_coordinator(lose: &str, how: &[&str], restore: &str) {
    let mut kafka = Kafka::at(nodes()[0].clone()).await;
    let topic = kafka.create("nodes", PARTITIONS, &[]).await;
    fill(&topic, 0, BEFORE, None).await;
    let group = fresh("nodes");
    let (coordinator, address) = kafka.coordinator(&group).await;
    println!("node {coordinator} ({address}) coordinates; leaders: {:?}", leaders(&topic, None).await);
    let diary = Diary::default();
    let members = [(); 2].map(|()| Member::start(&group, &topic, &diary));
    within(PATIENCE, "the group reads and commits", async {
        while kafka_of(&group, None).await.committed(&group, &topic, PARTITIONS).await.contains(&-1)
            || diary.count() < BEFORE
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let before = members.each_ref().map(|member| member.control.member().expect("a member"));
    let led_by_others: Vec<_> = leaders(&topic, None)
        .await
        .into_iter()
        .filter(|(_, leader)| leader.0 != coordinator)
        .map(|(partition, _)| partition)
        .collect();

    let away = Instant::now();
    node(lose, coordinator, how).await;
    let mut others = within(PATIENCE, "another coordinator", kafka_of(&group, Some(coordinator))).await;
    println!("another node coordinates after {:?}", away.elapsed());
    let at_once = others.committed(&group, &topic, PARTITIONS).await;
    within(PATIENCE, "commits go on", async {
        while others.committed(&group, &topic, PARTITIONS).await == at_once {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let back = Instant::now();
    println!("commits go on after {:?}", back - away);
    let gaps = diary.gaps(&led_by_others, away, back);
    println!("the longest silence of those with a living leader: {gaps:?}");
    assert!(gaps.values().all(|gap| *gap < GAP), "{gaps:?}");

    fill(&topic, BEFORE, MEANWHILE, Some(coordinator)).await;
    node(restore, coordinator, &[]).await;
    let end = BEFORE + MEANWHILE;
    let mut kafka = within(PATIENCE, "a coordinator", kafka_of(&group, None)).await;
    within(PATIENCE, "everything is read and committed", async {
        while kafka.committed(&group, &topic, PARTITIONS).await != vec![end; PARTITIONS as usize] {
            tokio::time::sleep(Duration::from_millis(50)).await;
            kafka = kafka_of(&group, None).await;
        }
    })
    .await;
    let after = members.each_ref().map(|member| member.control.member().expect("a member"));
    let who = |member: &ottla::Member| (member.id.clone(), member.generation);
    assert_eq!(before.each_ref().map(who), after.each_ref().map(who), "nobody had to join anew");
    members.into_iter().for_each(|member| member.task.abort());
    diary.each_once(end);
}

/// The address of each node.
fn nodes() -> Vec<String> {
    environment(NODES).split(',').map(str::to_owned).collect()
}

/// A connection to the group's coordinator, which has to be another than `but`.
async fn kafka_of(group: &str, but: Option<i32>) -> Kafka {
    loop {
        for address in living(but).await {
            let (id, coordinator) = Kafka::at(address).await.coordinator(group).await;
            if Some(id) != but {
                return Kafka::at(coordinator).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The nodes but for this one, by their ids: the first has the first address.
async fn living(but: Option<i32>) -> Vec<String> {
    let all = (1..).zip(nodes());
    all.filter(|(id, _)| Some(*id) != but).map(|(_, address)| address).collect()
}

/// Who leads each partition, by id and address; none may be led by `but`.
async fn leaders(topic: &str, but: Option<i32>) -> BTreeMap<i32, (i32, String)> {
    within(PATIENCE, "leaders", async {
        loop {
            let mut kafka = Kafka::at(living(but).await[0].clone()).await;
            let name = MetadataRequestTopic { name: Some(topic.to_owned()), ..Default::default() };
            let request = MetadataRequest { topics: Some(vec![name]), ..Default::default() };
            let found = leaders_in(&kafka.call(&request).await);
            if found.len() == PARTITIONS as usize && found.values().all(|(id, _)| Some(*id) != but) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
}

fn leaders_in(metadata: &MetadataResponse) -> BTreeMap<i32, (i32, String)> {
    let address = |id: i32| {
        let broker = metadata.brokers.iter().find(|broker| broker.node_id == id)?;
        Some((id, format!("{}:{}", broker.host, broker.port)))
    };
    let partitions = metadata.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.filter_map(|p| Some((p.partition_index, address(p.leader_id)?))).collect()
}

/// Appends records to each partition where it is led, without that node.
async fn fill(topic: &str, from: i64, count: i64, but: Option<i32>) {
    for (partition, (_, address)) in leaders(topic, but).await {
        let mut leader = Kafka::at(address).await;
        for offset in (from..from + count).step_by(100) {
            assert_eq!(leader.produce(topic, partition, batch()).await, offset);
        }
    }
}

/// A hundred records that together are much more than a member asks for at once.
fn batch() -> Vec<u8> {
    let mut batch = BatchBuilder::new(Codec::None);
    for n in 0..100 {
        batch.push(n, None, Some(&[b'x'; 1000]), &[]);
    }
    batch.build().unwrap()
}

/// A member that reads slowly, with little in store: what it hands out it has just fetched.
struct Member {
    control: Control<Group>,
    task: tokio::task::JoinHandle<()>,
}

impl Member {
    fn start(group: &str, topic: &str, diary: &Diary) -> Self {
        let mut reader = Reader::builder(environment(NODES))
            .group(group)
            .topics([topic])
            .commit_interval(Duration::from_millis(200))
            .request_timeout(Duration::from_secs(2))
            .max_bytes(100 << 10)
            .budget(1 << 20)
            .on_rebalance(|rebalance| async move {
                assert!(!matches!(rebalance, Rebalance::Lost(_)), "the session is longer than this takes");
            })
            .open()
            .unwrap();
        let (control, diary) = (reader.control(), diary.clone());
        let task = tokio::spawn(async move {
            loop {
                let message = reader.next().await.unwrap().unwrap();
                diary.note(message.partition(), message.offset());
                reader.ack(&message).unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Self { control, task }
    }
}

/// Which record came when.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<(Instant, i32, i64)>>>);

impl Diary {
    fn note(&self, partition: i32, offset: i64) {
        self.0.lock().unwrap().push((Instant::now(), partition, offset));
    }

    fn count(&self) -> i64 {
        self.0.lock().unwrap().len() as i64
    }

    /// The longest time without a record between two moments, of those of these partitions that had some left.
    fn gaps(&self, partitions: &[i32], from: Instant, to: Instant) -> BTreeMap<i32, Duration> {
        let all = self.0.lock().unwrap();
        let gap = |partition: i32| {
            let of_it: Vec<_> = all.iter().filter(|record| record.1 == partition).collect();
            let at_the_end = of_it.iter().any(|record| record.2 == BEFORE - 1 && record.0 < to);
            let mut times = vec![from];
            times.extend(of_it.iter().map(|record| record.0).filter(|at| (from..to).contains(at)));
            times.extend((!at_the_end).then_some(to));
            times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
        };
        partitions.iter().map(|&partition| (partition, gap(partition))).collect()
    }

    fn each_once(&self, end: i64) {
        let mut expected = BTreeMap::<i32, i64>::new();
        for (_, partition, offset) in &*self.0.lock().unwrap() {
            let next = expected.entry(*partition).or_default();
            assert_eq!(offset, next, "partition {partition}");
            *next += 1;
        }
        assert_eq!(expected, (0..PARTITIONS).map(|partition| (partition, end)).collect());
    }
}
