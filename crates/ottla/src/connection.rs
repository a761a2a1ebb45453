//! A task per connection: requests go out, frames come in.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use ottla_core::{Account, Asked, Lost, Reply, Request};
use ottla_wire::{api::ApiVersions, frame};

use crate::{
    caught::caught,
    connect::Transport,
    dial::{Dialled, dial},
    frames::Gate,
    shared::{Dial, Shared},
};

/// Serves a connection from its dialling to its end, and tells the machine how it ended: were it not told, it would wait for
/// answers that cannot come until they are overdue.
pub(crate) async fn run(shared: Arc<Shared>, mut link: Dial) {
    let ended = caught(serve(&shared, &mut link)).await.unwrap_or_else(|panic| Err(panicked(&panic)));
    if let Err(reason) = ended {
        let lost = Lost { address: link.address.clone(), reason };
        shared.lost(&link, &lost);
    }
}

fn panicked(panic: &str) -> String {
    format!("its task panicked, by a mistake of ours or of the transport it was given: {panic}")
}

async fn serve(shared: &Shared, link: &mut Dial) -> Result<(), String> {
    let Dialled { mut socket, mut frames, versions } = dial(&link.address, &shared.options).await?;
    shared.connected(link);
    let gate = Gate { shared, peer: link.peer, lane: link.lane };
    let mut asked = Conversation::new(shared, versions);
    loop {
        tokio::select! {
            request = link.outbox.recv() => match request {
                Some(request) => asked.ask(&mut socket, &request).await?,
                None => return Ok(()), // not wanted any more
            },
            frame = frames.next(&mut socket, &shared.pool, shared.options.max_frame_bytes, Some(&gate)) => {
                let (frame, account) = frame.map_err(|broken| broken.to_string())?;
                asked.answer(frame, &account)?;
            }
        }
    }
}

/// What was asked and not answered yet, in order.
struct Conversation<'a> {
    shared: &'a Shared,
    versions: ApiVersions,
    next_correlation: i32,
    asked: VecDeque<(i32, u64, Asked)>,
}

impl<'a> Conversation<'a> {
    fn new(shared: &'a Shared, versions: ApiVersions) -> Self {
        Self { shared, versions, next_correlation: 1, asked: VecDeque::new() }
    }

    async fn ask(&mut self, socket: &mut Transport, request: &Request) -> Result<(), String> {
        let correlation = self.next_correlation;
        let (bytes, asked) =
            match request.body.encode(&self.versions, correlation, &self.shared.options.client_id) {
                Ok(encoded) => encoded,
                Err(error) => {
                    let what = error.to_string();
                    self.shared.update(|machine, now| machine.handle_unsupported(now, request.id, what));
                    return Ok(());
                }
            };
        self.next_correlation = self.next_correlation.wrapping_add(1);
        self.asked.push_back((correlation, request.id, asked));
        socket.send(&bytes).await
    }

    /// A broker answers in the order in which it was asked.
    fn answer(&mut self, frame: Bytes, account: &Arc<Account>) -> Result<(), String> {
        let correlation = frame::correlation_id(&frame).map_err(|error| senseless(&error))?;
        let (expected, id, asked) =
            self.asked.pop_front().ok_or("the broker sent an answer that nobody asked for")?;
        if correlation != expected {
            return Err(format!("the broker answered request {correlation}, where {expected} was next"));
        }
        let mut reply = asked.decode(frame).map_err(|error| senseless(&error))?;
        if let Reply::Fetch(fetch) = &mut reply {
            fetch.account = Some(account.clone());
        }
        self.shared.update(|machine, now| machine.handle_reply(now, id, reply));
        Ok(())
    }
}

pub(crate) fn senseless(error: &dyn std::fmt::Display) -> String {
    format!("the broker's answer makes no sense: {error}")
}
