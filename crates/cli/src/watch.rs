//! Follows what happens inside a reader, and gives up if no broker is ever reached.

use std::time::Duration;

use ottla::{Address, Event, Events};

use crate::{news::News, tell::Failure};

/// How long a command waits for the first broker.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Passes notes on to `tell`. Ends only when no broker was reached in time; once one was, outages are waited through.
pub(crate) async fn watch(events: Events, bootstrap: &[Address], tell: impl Fn(&str)) -> Failure {
    watch_all(events, bootstrap, tell, |_| {}).await
}

/// The same, and shows each event to `see`.
pub(crate) async fn watch_all(
    mut events: Events,
    bootstrap: &[Address],
    tell: impl Fn(&str),
    see: impl Fn(&Event),
) -> Failure {
    let mut news = News::default();
    let mut patience = std::pin::pin!(tokio::time::sleep(PATIENCE));
    loop {
        tokio::select! {
            biased;
            event = events.next() => match event {
                Some(event) => {
                    see(&event);
                    if let Some(note) = news.tell(event) { tell(&note) }
                }
                None => std::future::pending().await,
            },
            () = &mut patience, if !news.reached() => return unreached(&news, bootstrap),
        }
    }
}

/// Why the command fails.
pub(crate) fn unreached(news: &News, bootstrap: &[Address]) -> Failure {
    let (seconds, why) = (PATIENCE.as_secs(), news.why_unreached(bootstrap));
    let tip = if_elsewhere(bootstrap).unwrap_or("; ottla doctor looks closer");
    Failure(format!("no broker could be reached within {seconds} s: {why}{tip}"))
}

/// What is to be said to who did not say where the cluster is.
pub(crate) fn if_elsewhere(bootstrap: &[Address]) -> Option<&'static str> {
    let is_default = matches!(bootstrap, [Address { host, port: 9092 }] if host == "localhost");
    is_default.then_some("; if the cluster is elsewhere, say where with -b HOST:PORT or in KAFKA_BROKERS")
}
