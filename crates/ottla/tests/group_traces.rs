//! What a member of a group says to whoever listens to `tracing`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::{
    fmt::{Debug, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use ottla::Rebalance;
use ottla_broker::{ApiKey, Code, Fault};
use support::{commits, eventually, fill, group_broker, member, next, owns, soon};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// Keeps what is said at info and above.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<(Level, String)>>>);

impl Listener {
    fn take(&self) -> Vec<(Level, String)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn has(&self, level: Level, part: &str) -> bool {
        self.0.lock().unwrap().iter().any(|(said, text)| *said == level && text.contains(part))
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ottla") && *metadata.level() <= Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push((*event.metadata().level(), text.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// All in one test: it is the listener of its thread.
#[tokio::test]
async fn joining_and_giving_up_are_info_trouble_is_a_warning_and_steady_reading_is_silent() {
    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 100);
    let hook = |rebalance| async move {
        if let Rebalance::Lost(_) = rebalance {
            panic!("a mistake in a hook");
        }
    };
    let mut reader =
        member(&broker).session_timeout(Duration::from_secs(1)).on_rebalance(hook).open().unwrap();
    let control = reader.control();
    owns(&control, 1).await;
    let message = next(&mut reader).await;
    reader.ack(&message).unwrap();
    commits(&broker, 0, 1).await;
    let said = listener.take();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].0 == Level::INFO && said[0].1.contains("reading t 0"), "{said:?}");

    for offset in 1..20 {
        let message = next(&mut reader).await;
        soon("commit", reader.commit(&message)).await.unwrap();
        assert_eq!(message.offset(), offset);
    }
    let beats = broker.with(|c| c.requests(ApiKey::Heartbeat));
    eventually("more heartbeats", || broker.with(|c| c.requests(ApiKey::Heartbeat)) > beats + 3).await;
    let said = listener.take();
    assert!(said.is_empty(), "{said:?}");

    control.rejoin().unwrap();
    eventually("giving up is told", || listener.has(Level::INFO, "giving up")).await;
    eventually("joining is told", || listener.has(Level::INFO, "reading t 0")).await;
    let refused = Fault::partition_error(ApiKey::OffsetCommit, Code::TOPIC_AUTHORIZATION_FAILED).always();
    let refused = broker.with(|c| c.fault(refused));
    let message = next(&mut reader).await;
    reader.ack(&message).unwrap();
    eventually("the refusal is told", || listener.has(Level::WARN, "TOPIC_AUTHORIZATION_FAILED")).await;
    broker.with(|c| c.clear_fault(refused));

    broker.with(|c| c.fault(Fault::silence(ApiKey::Heartbeat).always()));
    eventually("the loss is told", || listener.has(Level::WARN, "lost")).await;
    eventually("the hook's panic is told", || listener.has(Level::ERROR, "a rebalance hook panicked")).await;
}
