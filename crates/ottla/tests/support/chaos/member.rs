//! A member as a process, which writes down all that it does.

use std::{
    fs::File,
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use ottla::{Error, ErrorKind, Group, Message, Reader, Rebalance};

use super::{
    HEARTBEAT, ROLE, SESSION,
    history::{Deed, Line},
    now,
};

/// Plays a member, if this process was begun as one; a test that begins such processes begins with this.
pub async fn plays_a_member() -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    tokio::task::spawn_blocking(move || play(&role)).await.unwrap();
    true
}

/// Plays a member until standard input ends. On one thread: nothing comes between a record's coming and its line.
fn play(role: &str) {
    let mut words = role.splitn(5, ' ');
    let [bootstrap, group, topic, seed, log] = std::array::from_fn(|_| words.next().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let diary = Diary(Arc::new(Mutex::new(File::create(log).unwrap())));
    runtime.block_on(async {
        let reader = join(bootstrap, group, topic, &diary);
        let closed = read(reader, fastrand::Rng::with_seed(seed.parse().unwrap()), &diary).await;
        // Of several nodes one may be dead, and the coordinator with it; who was frozen for a session is out of the group. What
        // could not be committed then comes again.
        let is_out = |error: &Error| error.to_string().contains("no heartbeat was answered");
        let excused = |error: &Error| {
            error.kind() == ErrorKind::Uncommitted && (bootstrap.contains(',') || is_out(error))
        };
        assert!(closed.as_ref().err().is_none_or(excused), "{closed:?}");
    });
}

fn join(bootstrap: &str, group: &str, topic: &str, diary: &Diary) -> Reader<Group> {
    let diary = diary.clone();
    Reader::builder(bootstrap)
        .group(group)
        .topics([topic])
        .session_timeout(SESSION)
        .heartbeat_interval(HEARTBEAT)
        .rebalance_timeout(2 * SESSION)
        .commit_interval(Duration::from_millis(200))
        .max_wait(Duration::from_secs(10))
        .on_rebalance(move |rebalance| {
            diary.rebalance(&rebalance);
            async move { drop(rebalance) }
        })
        .open()
        .unwrap()
}

/// Reads until standard input ends, and leaves.
async fn read(mut reader: Reader<Group>, mut dice: fastrand::Rng, diary: &Diary) -> Result<(), Error> {
    let mut input_ends = end_of_input();
    loop {
        let next = tokio::select! {
            next = reader.next() => next,
            _ = &mut input_ends => break,
        };
        match next {
            Ok(message) => work(&reader, &message.expect("not the end"), &mut dice, diary).await,
            // Nothing that happens to it is more than it can live with.
            Err(error) => panic!("{error}"),
        }
    }
    let closed = reader.close().await;
    diary.note(Deed::Closed);
    closed
}

/// What a member does with a record.
async fn work(reader: &Reader<Group>, message: &Message, dice: &mut fastrand::Rng, diary: &Diary) {
    let (partition, offset) = (message.partition(), message.offset());
    diary.note(Deed::Out(partition, offset));
    if dice.u32(0..50) == 0 {
        tokio::time::sleep(Duration::from_millis(dice.u64(1..100))).await;
    }
    if dice.u32(0..20) > 0 {
        return match reader.ack(message) {
            Ok(()) => diary.note(Deed::Ack(partition, offset)),
            Err(error) => refused(message, &error, diary),
        };
    }
    diary.note(Deed::Committing(partition, offset));
    match reader.commit(message).await {
        Ok(()) => diary.note(Deed::Committed(partition, offset)),
        Err(error) => refused(message, &error, diary),
    }
}

/// A partition that is gone is the only reason.
fn refused(message: &Message, error: &Error, diary: &Diary) {
    let (partition, offset) = (message.partition(), message.offset());
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert_eq!(error.partition(), Some(&message.topic_partition()), "{error}");
    assert_eq!(error.offset(), Some(offset), "{error}");
    diary.note(Deed::Refused(partition, offset, error.to_string()));
}

fn end_of_input() -> tokio::sync::oneshot::Receiver<()> {
    let (told, ends) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = told.send(());
    });
    ends
}

/// Where a member writes down what it does; a line is there when the call returns, whatever happens to us.
#[derive(Clone)]
struct Diary(Arc<Mutex<File>>);

impl Diary {
    fn note(&self, deed: Deed) {
        let line = format!("{}\n", Line { at: now(), deed });
        self.0.lock().unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn rebalance(&self, rebalance: &Rebalance) {
        let numbers =
            |partitions: &[ottla::TopicPartition]| partitions.iter().map(|at| at.partition).collect();
        self.note(match rebalance {
            Rebalance::Assigned(assigned) => Deed::Assigned(numbers(assigned.partitions())),
            Rebalance::Revoked(revoked) => Deed::Given(numbers(revoked.partitions())),
            Rebalance::Lost(lost) => Deed::Lost(numbers(lost.partitions())),
        });
    }
}
