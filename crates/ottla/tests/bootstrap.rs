//! A bootstrap list of which some addresses lead nowhere. What they cost is bounded on the hand-wound clock of
//! `core/tests/schedules.rs`; here it is measured, and ten times the limit asserted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

#[path = "support/addresses.rs"]
mod addresses;
mod support;

use std::time::{Duration, Instant};

use addresses::Nobody;
use ottla::{Event, Reader};
use ottla_broker::{Broker, BrokerOptions, ClusterOptions};
use support::{PROMPT, broker, fill, next, soon, within};
use tokio::task::JoinSet;

/// What an address that leads nowhere may cost.
const COST: Duration = Duration::from_millis(300);

/// So many readers: which address they ask first is chosen by chance.
const READERS: u32 = 12;

/// How long readers with this list take to their first record: the longest time and the middle.
async fn first_records(bootstrap: &str) -> (Duration, Duration) {
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let bootstrap = bootstrap.to_owned();
        readers.spawn(async move {
            let begin = Instant::now();
            let mut reader = Reader::builder(bootstrap).topic("t").open().unwrap();
            next(&mut reader).await;
            begin.elapsed()
        });
    }
    let mut times = readers.join_all().await;
    times.sort_unstable();
    (times[times.len() - 1], times[times.len() / 2])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_leads_nowhere_costs_little() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let (_, alone) = first_records(&broker.bootstrap()).await;
    println!("alone: {alone:?} in the middle");
    for nobody in Nobody::all().await {
        let list = format!("{},{}", nobody.address, broker.bootstrap());
        let (longest, middle) = first_records(&list).await;
        println!("beside {}: {middle:?} in the middle, {longest:?} at most", nobody.name);
        assert!(longest < alone + 10 * COST, "beside {}: {longest:?}", nobody.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_that_lead_nowhere_are_passed_by() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let nobody = Nobody::all().await;
    let mut list: Vec<_> = nobody.iter().map(|nobody| nobody.address.clone()).collect();
    list.push(broker.bootstrap());
    let (longest, middle) = first_records(&list.join(",")).await;
    println!("beside all of them: {middle:?} in the middle, {longest:?} at most");
    assert!(longest < 40 * COST, "{longest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_all_were_dead_and_one_comes_it_is_found_within_the_pause() {
    const LONGEST_PAUSE: Duration = Duration::from_millis(400);
    let (dead, late) = (Nobody::dead(), Nobody::dead());
    let mut reader = Reader::builder(format!("{},{}", dead.address, late.address))
        .topic("t")
        .backoff(Duration::from_millis(20)..=LONGEST_PAUSE)
        .open()
        .unwrap();
    let mut events = reader.events();
    // The pauses have grown to their full length.
    soon("they fail, again and again", async {
        while !matches!(events.next().await, Some(Event::Unreachable { rounds: 8.., .. })) {}
    })
    .await;
    let begin = Instant::now();
    let options = BrokerOptions::new(ClusterOptions::new()).listen(late.address.parse().unwrap());
    let broker = Broker::start(options).await.unwrap();
    broker.with(|cluster| cluster.create_topic("t", 1)).unwrap();
    fill(&broker, "t", 0, 10);
    let limit = LONGEST_PAUSE * 12 / 10 + PROMPT;
    within(limit, "it is found", next(&mut reader)).await;
    println!("found after {:?}; the longest pause is {LONGEST_PAUSE:?} and a fifth", begin.elapsed());
}
