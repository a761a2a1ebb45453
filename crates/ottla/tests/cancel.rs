//! A future that is dropped, at whatever await, loses nothing and repeats nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use ottla::{CommitOffset, Reader, Until};
use ottla_broker::{ApiKey, Fault};
use support::{brokers, commits, fill, group_broker, member, soon};

/// Polls a future so many times, with the runtime running in between, and drops it if it is not done by then.
async fn poll_at_most<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..times {
        let polled =
            std::future::poll_fn(|context: &mut Context<'_>| Poll::Ready(future.as_mut().poll(context)));
        if let Poll::Ready(result) = polled.await {
            return Some(result);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[tokio::test]
async fn next_and_next_batch_may_be_dropped_at_every_await() {
    for times in 1..6 {
        let broker = brokers(2, &[("t", 3)]).await;
        (0..3).for_each(|partition| fill(&broker, "t", partition, 3000));
        let mut reader = Reader::builder(broker.bootstrap())
            .topic("t")
            .max_bytes(10_000)
            .until(Until::End)
            .backoff(Duration::from_millis(1)..=Duration::from_millis(2))
            .open()
            .unwrap();
        let (mut expected, mut rounds, mut dropped) = ([0; 3], 0, 0);
        soon("the end", async {
            loop {
                rounds += 1;
                if rounds % 500 == 0 {
                    broker.with(|c| c.fault(Fault::cut(ApiKey::Fetch, rounds % 3000)));
                }
                if rounds % 3 == 0 {
                    match poll_at_most(times, reader.next_batch()).await {
                        None => dropped += 1,
                        Some(batch) => {
                            let Some(batch) = batch.unwrap() else { return };
                            let partition = batch.partition() as usize;
                            for record in &batch {
                                assert_eq!(record.unwrap().offset, expected[partition]);
                                expected[partition] += 1;
                            }
                        }
                    }
                } else {
                    match poll_at_most(times, reader.next()).await {
                        None => dropped += 1,
                        Some(message) => {
                            let Some(message) = message.unwrap() else { return };
                            support::check(&message);
                            assert_eq!(message.offset(), expected[message.partition() as usize]);
                            expected[message.partition() as usize] += 1;
                        }
                    }
                }
            }
        })
        .await;
        assert_eq!(expected, [3000; 3]);
        assert!(dropped > 0, "nothing was dropped, so nothing was tested");
    }
}

#[tokio::test]
async fn events_and_close_may_be_dropped() {
    let broker = brokers(1, &[("t", 1)]).await;
    let reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let mut events = reader.events();
    let mut seen = 0;
    while seen < 2 {
        if let Some(Some(event)) = poll_at_most(1, events.next()).await {
            seen += i32::from(matches!(event, ottla::Event::Connected { .. }));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let control = reader.control();
    drop(poll_at_most(1, reader.close()).await);
    support::eventually("closed all the same", || broker.with(|c| c.open_connections(1)) == 0).await;
    control.close();
    soon("events end", async { while events.next().await.is_some() {} }).await;
}

#[tokio::test]
async fn a_commit_that_is_dropped_is_on_its_way_all_the_same() {
    for times in 1..4 {
        let broker = group_broker(1, &[("t", 1)]).await;
        fill(&broker, "t", 0, 10);
        let mut reader = member(&broker).commit_interval(Duration::MAX).open().unwrap();
        let control = reader.control();
        let (first, second) = (support::next(&mut reader).await, support::next(&mut reader).await);
        let batch = soon("a batch", reader.next_batch()).await.unwrap().unwrap();
        drop(control.commit(&second)); // never polled: nothing happens
        let slow = Fault::delay(ApiKey::OffsetCommit, Duration::from_millis(30)).always();
        broker.with(|c| c.fault(slow));
        assert!(poll_at_most(times, control.commit(&first)).await.is_none());
        commits(&broker, 0, 1).await;
        assert!(poll_at_most(times, control.commit_batch(&batch)).await.is_none());
        commits(&broker, 0, 10).await;
        let offset = CommitOffset { offset: 4, ..CommitOffset::default() };
        let at = batch.topic_partition();
        assert!(poll_at_most(times, control.commit_offsets([(at.clone(), offset)])).await.is_none());
        commits(&broker, 0, 4).await;
        assert!(poll_at_most(times, control.committed(std::slice::from_ref(&at))).await.is_none());
        let told = soon("committed", control.committed(&[at])).await.unwrap();
        assert_eq!(told[0].1.as_ref().unwrap().offset, 4);
        soon("close", reader.close()).await.unwrap();
    }
}

#[tokio::test]
async fn a_close_that_is_dropped_commits_and_leaves_all_the_same() {
    for times in 0..4 {
        let broker = group_broker(1, &[("t", 1)]).await;
        fill(&broker, "t", 0, 10);
        let mut reader = member(&broker).commit_interval(Duration::MAX).open().unwrap();
        let message = support::next(&mut reader).await;
        reader.ack(&message).unwrap();
        drop(poll_at_most(times, reader.close()).await);
        commits(&broker, 0, 1).await;
        let has_left = || broker.with(|c| c.group("g")).unwrap().members.is_empty();
        support::eventually("the group is left", has_left).await;
    }
}
