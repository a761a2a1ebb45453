//! Rebalance hooks: what they may do, and that nothing they do, or leave undone, holds the group up for ever.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use ottla::{CommitOffset, ErrorKind, Message, Rebalance, Start, TopicPartition};
use ottla_broker::{ApiKey, Fault};
use support::{
    commits, committed, eventually, fill, group_broker, member, next, nothing, offsets, owns, soon,
};
use tokio::sync::mpsc;

/// Hands what the hook is told to the test.
fn told() -> (impl Fn(Rebalance) -> std::future::Ready<()>, mpsc::UnboundedReceiver<Rebalance>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let hook = move |rebalance| {
        let _ = sender.send(rebalance);
        std::future::ready(())
    };
    (hook, receiver)
}

/// What happened, in words.
type Journal = Arc<Mutex<Vec<String>>>;

fn note(journal: &Journal, line: impl Into<String>) {
    journal.lock().unwrap().push(line.into());
}

fn name(rebalance: &Rebalance) -> &'static str {
    match rebalance {
        Rebalance::Assigned(_) => "assigned",
        Rebalance::Revoked(_) => "revoked",
        Rebalance::Lost(_) => "lost",
    }
}

#[tokio::test]
async fn reading_begins_when_the_hook_has_let_go_of_the_assignment() {
    let broker = group_broker(1, &[("t", 2)]).await;
    fill(&broker, "t", 0, 10);
    let (hook, mut told) = told();
    let mut reader = member(&broker).on_rebalance(hook).open().unwrap();
    let Rebalance::Assigned(assigned) = soon("the hook", told.recv()).await.unwrap() else { panic!() };
    assert_eq!(assigned.partitions(), [TopicPartition::new("t", 0), TopicPartition::new("t", 1)]);
    nothing(&mut reader, Duration::from_millis(100)).await;
    drop(assigned);
    assert_eq!(offsets(&mut reader, 3).await, [0, 1, 2]);
}

#[tokio::test]
async fn offsets_kept_elsewhere_are_where_reading_begins() {
    let broker = group_broker(1, &[("t", 2)]).await;
    (0..2).for_each(|partition| fill(&broker, "t", partition, 10));
    broker.with(|c| c.commit_offset("g", "t", 0, 2));
    let mut reader = member(&broker)
        .on_rebalance(|rebalance| async move {
            if let Rebalance::Assigned(assigned) = rebalance {
                tokio::time::sleep(Duration::from_millis(20)).await; // a look at a database
                for (at, offset) in assigned.partitions().iter().zip([8, 9]) {
                    assigned.start_at(at, Start::Offset(offset)).unwrap();
                }
                let strange = TopicPartition::new("t", 7);
                let error = assigned.start_at(&strange, Start::Earliest).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NotRead);
            }
        })
        .open()
        .unwrap();
    let mut got = Vec::new();
    for _ in 0..3 {
        let message = next(&mut reader).await;
        got.push((message.partition(), message.offset()));
    }
    got.sort_unstable();
    assert_eq!(got, [(0, 8), (0, 9), (1, 9)]);
}

#[tokio::test]
async fn what_is_acknowledged_in_the_hook_is_committed_before_the_partition_is_given_up() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let held: Arc<Mutex<Vec<Message>>> = Arc::default();
    let in_hook = held.clone();
    let hook = move |rebalance| {
        let held = in_hook.clone();
        async move {
            if let Rebalance::Revoked(revoked) = rebalance {
                assert!(revoked.deadline() > Instant::now());
                let held = std::mem::take(&mut *held.lock().unwrap());
                revoked.control().ack(&held[0]).unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await; // work that has to be finished
                revoked.ack(&held[1]).unwrap();
                revoked.commit().await.unwrap();
                revoked.control().commit(&held[2]).await.unwrap();
                revoked.ack_through(&held[3]).unwrap();
            }
        }
    };
    let mut reader = member(&broker).on_rebalance(hook).open().unwrap();
    for _ in 0..5 {
        let message = next(&mut reader).await;
        held.lock().unwrap().push(message);
    }
    let mut other = member(&broker).open().unwrap();
    commits(&broker, 0, 4).await;
    soon("either reads on", async {
        tokio::select! {
            message = next(&mut reader) => assert_eq!(message.offset(), 4),
            message = next(&mut other) => assert_eq!(message.offset(), 4),
        }
    })
    .await;
    assert!(held.lock().unwrap().is_empty());
}

#[tokio::test]
async fn offsets_can_be_committed_in_the_hook_and_not_after_it() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let (hook, mut told) = told();
    let reader = member(&broker).on_rebalance(hook).rebalance_timeout(Duration::from_secs(1)).open().unwrap();
    let at = TopicPartition::new("t", 0);
    let offset = |offset| [(at.clone(), CommitOffset { offset, ..CommitOffset::default() })];
    drop(soon("assigned", told.recv()).await);
    commits(&broker, 0, 0).await;
    reader.control().rejoin().unwrap();
    let Rebalance::Revoked(revoked) = soon("revoked", told.recv()).await.unwrap() else { panic!() };
    soon("a commit", revoked.commit_offsets(offset(6))).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(6));
    assert!(revoked.deadline() > Instant::now(), "{:?}", revoked.deadline() - Instant::now());
    // Kept beyond its deadline: it is over all the same.
    let Rebalance::Assigned(_) = soon("assigned anew", told.recv()).await.unwrap() else { panic!() };
    assert!(Instant::now() >= revoked.deadline());
    for result in
        [soon("too late", revoked.commit()).await, soon("too late", revoked.commit_offsets(offset(9))).await]
    {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.partition()), (ErrorKind::Fenced, Some(&at)));
    }
    assert_eq!(committed(&broker, 0), Some(6));
}

#[tokio::test]
async fn hooks_run_one_after_the_other_in_order() {
    let broker = group_broker(1, &[("t", 1)]).await;
    let journal = Journal::default();
    let in_hook = journal.clone();
    let hook = move |rebalance: Rebalance| {
        let journal = in_hook.clone();
        async move {
            note(&journal, format!("{} begins", name(&rebalance)));
            tokio::time::sleep(Duration::from_millis(10)).await;
            note(&journal, format!("{} ends", name(&rebalance)));
        }
    };
    let reader = member(&broker).on_rebalance(hook).open().unwrap();
    let control = reader.control();
    for generation in 1..4 {
        eventually("a generation", || control.member().is_some_and(|m| m.generation >= generation)).await;
        control.rejoin().unwrap();
    }
    eventually("the last", || control.member().is_some_and(|m| m.generation >= 4)).await;
    soon("close", reader.close()).await.unwrap();
    let journal = journal.lock().unwrap();
    let cycle = ["assigned begins", "assigned ends", "revoked begins", "revoked ends"];
    assert!(journal.len() >= 16 && journal.len() % 4 == 0, "{journal:?}");
    assert!(journal.iter().zip(cycle.iter().cycle()).all(|(line, wanted)| line == wanted), "{journal:?}");
}

#[tokio::test]
async fn a_hook_that_panics_begins_nothing_and_holds_up_nobody() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let hook = move |rebalance: Rebalance| {
        // Once before there is a future, and then in it.
        assert!(counted.fetch_add(1, Ordering::Relaxed) > 0, "a mistake in a hook");
        async move { panic!("a mistake in a hook, {}", name(&rebalance)) }
    };
    let mut reader = member(&broker).on_rebalance(hook).open().unwrap();
    let (control, at) = (reader.control(), TopicPartition::new("t", 0));
    for offset in 0..2 {
        let error = soon("the error", reader.next()).await.unwrap_err();
        assert_eq!((error.kind(), error.partition()), (ErrorKind::Hook, Some(&at)), "{error}");
        control.seek(&at, Start::Offset(offset)).unwrap();
        let message = next(&mut reader).await;
        assert_eq!(message.offset(), offset);
        soon("commit", reader.commit(&message)).await.unwrap();
        let generation = control.member().unwrap().generation;
        control.rejoin().unwrap();
        eventually("it goes on", || control.member().is_some_and(|m| m.generation > generation)).await;
    }
    assert_eq!(committed(&broker, 0), Some(2));
    soon("close", reader.close()).await.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 6);
}

#[tokio::test]
async fn a_hook_that_does_not_return_holds_up_the_group_until_its_deadline_only() {
    let broker = group_broker(1, &[("t", 2)]).await;
    let hook = |rebalance| async move {
        if let Rebalance::Revoked(revoked) = rebalance {
            pending::<()>().await;
            drop(revoked);
        }
    };
    let timeout = Duration::from_millis(500);
    let stuck = member(&broker).rebalance_timeout(timeout).on_rebalance(hook).open().unwrap();
    owns(&stuck.control(), 2).await;
    eventually("it reads", || stuck.control().position(&TopicPartition::new("t", 0)).unwrap().is_some())
        .await;
    let other = member(&broker).open().unwrap();
    let begin = Instant::now();
    owns(&other.control(), 1).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    drop(stuck);
}

#[tokio::test]
async fn partitions_that_were_lost_are_told_as_lost() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let (hook, mut told) = told();
    let mut reader =
        member(&broker).session_timeout(Duration::from_secs(1)).on_rebalance(hook).open().unwrap();
    drop(soon("assigned", told.recv()).await);
    let message = next(&mut reader).await;
    let frozen = broker.with(|c| c.fault(Fault::silence(ApiKey::Heartbeat).always()));
    let Rebalance::Lost(lost) = soon("lost", told.recv()).await.unwrap() else { panic!() };
    assert_eq!(lost.partitions(), [TopicPartition::new("t", 0)]);
    assert_eq!(lost.control().ack(&message).unwrap_err().kind(), ErrorKind::Fenced);
    broker.with(|c| c.clear_fault(frozen));
    let Rebalance::Assigned(_) = soon("assigned anew", told.recv()).await.unwrap() else { panic!() };
    assert_eq!(next(&mut reader).await.offset(), 0);
}

#[tokio::test]
async fn on_close_the_hook_may_still_commit_when_nobody_else_may() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let (hook, mut told) = told();
    let mut reader = member(&broker).on_rebalance(hook).open().unwrap();
    drop(soon("assigned", told.recv()).await);
    let (first, second) = (next(&mut reader).await, next(&mut reader).await);
    let control = reader.control();
    let closing = tokio::spawn(reader.close());
    let Rebalance::Revoked(revoked) = soon("revoked", told.recv()).await.unwrap() else { panic!() };
    assert!(control.ack(&first).unwrap_err().is_closed());
    revoked.ack(&first).unwrap();
    soon("a commit", revoked.commit()).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(1));
    revoked.ack(&second).unwrap();
    drop(revoked);
    soon("close", closing).await.unwrap().unwrap();
    assert_eq!(committed(&broker, 0), Some(2));
    assert!(told.recv().await.is_none(), "nothing is told after that");
}

#[tokio::test]
async fn a_hook_may_close_the_reader() {
    let broker = group_broker(1, &[("t", 1)]).await;
    let hook = |rebalance| async move {
        if let Rebalance::Assigned(assigned) = rebalance {
            assigned.control().close();
        }
    };
    let mut reader = member(&broker).on_rebalance(hook).open().unwrap();
    assert!(soon("the end", reader.next()).await.unwrap_err().is_closed());
    soon("close", reader.close()).await.unwrap();
}

#[tokio::test]
async fn what_is_being_worked_on_can_be_waited_for_before_a_partition_is_given_up() {
    let broker = group_broker(1, &[("t", 2)]).await;
    (0..2).for_each(|partition| fill(&broker, "t", partition, 10));
    let (tell, mut told) = mpsc::unbounded_channel();
    let hook = move |rebalance| {
        let tell = tell.clone();
        async move {
            if let Rebalance::Revoked(revoked) = rebalance {
                tell.send(None).unwrap();
                tell.send(Some(revoked.drained().await)).unwrap();
            }
        }
    };
    let timeout = Duration::from_millis(500);
    let mut reader =
        member(&broker).rebalance_timeout(timeout).close_timeout(timeout).on_rebalance(hook).open().unwrap();
    let control = reader.control();
    for all in [true, false] {
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(next(&mut reader).await);
        }
        let generation = control.member().unwrap().generation;
        control.rejoin().unwrap();
        assert_eq!(soon("the hook", told.recv()).await, Some(None));
        let left = if all { held.len() } else { 4 };
        held.iter().take(left).for_each(|message| reader.ack(message).unwrap());
        assert_eq!(soon("the hook's end", told.recv()).await, Some(Some(all)));
        eventually("it is in again", || control.member().is_some_and(|m| m.generation > generation)).await;
        let done = (0..2).filter_map(|partition| committed(&broker, partition)).sum::<i64>();
        assert_eq!(done, if all { 5 } else { 9 }, "what was acknowledged is committed, and no more");
    }
    let _ = soon("close", reader.close()).await; // one is held
}
