//! Follows what happens inside a reader, and gives up if no broker is ever reached, or only one that leads astray.

use std::{fmt::Display, time::Duration};

use ottla::{Address, Event, Events};
use tokio::time::Instant;

use crate::{news::News, tell::Failure};

/// How long a command waits for the first broker.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

const DOCTOR: &str = "; ottla doctor looks closer";

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
    let mut astray = false;
    loop {
        if news.astray() && !astray {
            patience.as_mut().reset(Instant::now() + PATIENCE);
        }
        astray = news.astray();
        tokio::select! {
            biased;
            event = events.next() => match event {
                Some(event) => {
                    see(&event);
                    if let Some(note) = news.tell(event) { tell(&note) }
                }
                None => std::future::pending().await,
            },
            () = &mut patience, if astray || !news.reached() => return unreached(&news, bootstrap),
        }
    }
}

/// Why the command fails.
pub(crate) fn unreached(news: &News, bootstrap: &[Address]) -> Failure {
    if news.astray() {
        return astray(news.why_down());
    }
    let (seconds, why) = (PATIENCE.as_secs(), news.why_unreached(bootstrap));
    let tip = if_elsewhere(bootstrap).unwrap_or(DOCTOR);
    Failure(format!("no broker could be reached within {seconds} s: {why}{tip}"))
}

/// Why the command fails where a bootstrap address answers, and the brokers that it tells of do not.
pub(crate) fn astray(why: impl Display) -> Failure {
    let seconds = PATIENCE.as_secs();
    Failure(format!(
        "no broker could be reached within {seconds} s where the cluster says that it is: {why}{DOCTOR}"
    ))
}

/// What is to be said to who did not say where the cluster is.
pub(crate) fn if_elsewhere(bootstrap: &[Address]) -> Option<&'static str> {
    let is_default = matches!(bootstrap, [Address { host, port: 9092 }] if host == "localhost");
    is_default.then_some("; if the cluster is elsewhere, say where with -b HOST:PORT or in KAFKA_BROKERS")
}
