//! What a reader holds is bounded, whatever its caller does or leaves undone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::time::Duration;

use ottla::{Event, Reader, TopicPartition, Until};
use ottla_wire::record::{BatchBuilder, Codec};
use support::{brokers, eventually, soon};

const MIB: usize = 1 << 20;

/// Appends batches of one record of so many bytes.
fn fill_big(broker: &ottla_broker::Broker, partition: i32, count: usize, bytes: usize) {
    for n in 0..count {
        let mut batch = BatchBuilder::new(Codec::None);
        batch.push(1, None, Some(&vec![n as u8; bytes]), &[]);
        broker.with(|c| c.append("t", partition, batch.build().unwrap())).unwrap();
    }
}

#[tokio::test]
async fn a_caller_that_stops_reading_is_not_drowned() {
    let broker = brokers(2, &[("t", 4)]).await;
    (0..4).for_each(|partition| fill_big(&broker, partition, 64, MIB / 4));
    let budget = 2 * MIB;
    let mut reader =
        Reader::builder(broker.bootstrap()).topic("t").budget(budget).until(Until::End).open().unwrap();
    let control = reader.control();
    let message = soon("a message", reader.next()).await.unwrap().unwrap();
    let mut most = 0;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        most = most.max(control.buffered().ours);
    }
    println!("held while the caller did nothing: {most} of {budget}");
    assert!(most <= budget + 2 * (MIB + MIB / 4), "{most} is more than the budget and a reply a broker");
    drop(message);
    let mut count = 1;
    while soon("the rest", reader.next()).await.unwrap().is_some() {
        count += 1;
        assert!(control.buffered().ours <= budget + 2 * (MIB + MIB / 4));
    }
    assert_eq!(count, 256, "and all of it came");
}

#[tokio::test]
async fn a_caller_that_keeps_more_than_the_budget_still_gets_the_next() {
    let broker = brokers(1, &[("t", 2)]).await;
    (0..2).for_each(|partition| fill_big(&broker, partition, 40, MIB / 4));
    let budget = 2 * MIB;
    let mut reader =
        Reader::builder(broker.bootstrap()).topic("t").budget(budget).until(Until::End).open().unwrap();
    let (control, mut events) = (reader.control(), reader.events());
    let mut kept = Vec::new();
    while let Some(message) = soon("the next", reader.next()).await.unwrap() {
        kept.push(message);
    }
    assert_eq!(kept.len(), 80);
    let buffered = control.buffered();
    println!("{buffered:?} with a budget of {budget}");
    assert!(buffered.held >= 80 * MIB / 4, "{buffered:?}: all that is kept is counted");
    assert!(buffered.ours <= budget + 2 * MIB, "{buffered:?}");
    soon("the event", async { while !matches!(events.next().await.unwrap(), Event::HeldByCaller { .. }) {} })
        .await;
    drop(kept);
    eventually("nothing is held", || control.buffered().held == 0).await;
}

#[tokio::test]
async fn detached_messages_hold_no_reply() {
    let broker = brokers(1, &[("t", 1)]).await;
    fill_big(&broker, 0, 40, MIB / 4);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").until(Until::End).open().unwrap();
    let (control, mut kept) = (reader.control(), Vec::new());
    while let Some(message) = soon("the next", reader.next()).await.unwrap() {
        kept.push(message.detach());
    }
    assert_eq!((kept.len(), control.buffered().held), (40, 0));
    assert!(
        kept.iter().enumerate().all(|(n, message)| message.value().unwrap().iter().all(|&b| b == n as u8))
    );
}

#[tokio::test]
async fn a_batch_larger_than_the_budget_gets_through_alone() {
    let broker = brokers(1, &[("t", 1)]).await;
    fill_big(&broker, 0, 3, 3 * MIB);
    let mut reader =
        Reader::builder(broker.bootstrap()).topic("t").budget(MIB).until(Until::End).open().unwrap();
    for n in 0..3u8 {
        let message = soon("the large one", reader.next()).await.unwrap().unwrap();
        assert_eq!(message.value().map(|value| (value.len(), value[0])), Some((3 * MIB, n)));
    }
}

#[tokio::test]
async fn what_paused_partitions_keep_is_given_up_when_space_is_short() {
    let broker = brokers(1, &[("t", 2)]).await;
    fill_big(&broker, 0, 20, MIB / 4);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").budget(2 * MIB).open().unwrap();
    let (control, at) = (reader.control(), TopicPartition::new("t", 0));
    let first = soon("a message", reader.next()).await.unwrap().unwrap();
    assert_eq!((first.partition(), first.offset()), (0, 0));
    drop(first);
    control.pause(&at).unwrap();
    fill_big(&broker, 1, 40, MIB / 4);
    for offset in 0..40 {
        let message = soon("the other goes on", reader.next()).await.unwrap().unwrap();
        assert_eq!((message.partition(), message.offset()), (1, offset));
    }
    control.resume(&at).unwrap();
    for offset in 1..20 {
        let message = soon("the resumed one", reader.next()).await.unwrap().unwrap();
        assert_eq!((message.partition(), message.offset()), (0, offset));
    }
}

#[tokio::test]
async fn everything_is_given_back_in_the_end() {
    let broker = brokers(2, &[("t", 4)]).await;
    (0..4).for_each(|partition| fill_big(&broker, partition, 8, MIB / 4));
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let control = reader.control();
    for _ in 0..9 {
        soon("a message", reader.next()).await.unwrap().unwrap();
    }
    reader.close().await.unwrap();
    eventually("connections are gone", || {
        broker.with(|c| c.open_connections(1) + c.open_connections(2)) == 0
    })
    .await;
    drop(control);
}
