//! Asks brokers one question at a time, over connections that are kept, until an answer helps or the time is up.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use ottla_core::Address;
use ottla_wire::{
    code::Code,
    message::{
        FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse, Request,
        metadata_request::MetadataRequestTopic,
    },
};

use super::Coordinator;
use crate::{error::Error, options::Options, raw::Connection};

/// Why a question has no answer yet.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Asking again may help: a connection broke, or the broker said so.
    Passing { what: String, code: Option<Code> },
    /// Nobody answers; the reasons, address by address.
    Unreached(String),
    /// Asking again does not help.
    Final(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// The brokers, as far as they are known. Each operation starts with [`begin`](Self::begin): all that it asks counts
/// against one deadline.
///
/// A connection is taken out while it is used and put back only after an answer, so whoever drops an operation midway
/// leaves none behind that still owes one.
#[derive(Debug)]
pub(super) struct Cluster {
    bootstrap: Vec<Address>,
    pub(super) options: Options,
    pub(super) limit: Duration,
    deadline: Instant,
    pause: Duration,
    nodes: BTreeMap<i32, Address>,
    coordinators: HashMap<String, Coordinator>,
    connections: HashMap<Address, Connection>,
    /// What was in the way the last time, in this operation.
    troubles: HashMap<Address, String>,
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Who names no limit has no more patience than this with one answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The highest version without a list of keys.
const ONE_KEY: i16 = 3;

impl Cluster {
    pub(super) fn new(bootstrap: Vec<Address>, limit: Duration) -> Self {
        Self {
            bootstrap,
            options: Options { request_timeout: ANSWER_LIMIT, ..Options::default() },
            limit,
            deadline: Instant::now(),
            pause: SHORTEST_PAUSE,
            nodes: BTreeMap::new(),
            coordinators: HashMap::new(),
            connections: HashMap::new(),
            troubles: HashMap::new(),
        }
    }

    pub(super) fn begin(&mut self) {
        self.deadline = Instant::now() + self.limit;
        self.pause = SHORTEST_PAUSE;
        self.troubles.clear();
    }

    /// Pauses before the next attempt, each time longer.
    ///
    /// # Errors
    ///
    /// Another attempt is of no use, or there is no time for one.
    pub(super) async fn again(&mut self, trouble: Trouble) -> Result<(), Error> {
        let late = Instant::now() + self.pause >= self.deadline;
        let limit = seconds(self.limit);
        match trouble {
            Trouble::Final(error) => return Err(error),
            Trouble::Unreached(why) if late => {
                return Err(Error::connection(format!("no broker could be reached within {limit}: {why}")));
            }
            Trouble::Passing { what, code: Some(code) } if late => {
                return Err(Error::refused(format!("{what} (tried for {limit})"), code));
            }
            Trouble::Passing { what, code: None } if late => {
                return Err(Error::connection(format!("{what} (tried for {limit})")));
            }
            Trouble::Passing { .. } | Trouble::Unreached(_) => {}
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    /// Asks for the brokers, and for these topics.
    pub(super) async fn metadata(&mut self, topics: &[&str]) -> Result<MetadataResponse, Error> {
        let topic = |name: &&str| MetadataRequestTopic {
            name: Some((*name).to_owned()),
            ..MetadataRequestTopic::default()
        };
        let request = MetadataRequest {
            topics: Some(topics.iter().map(topic).collect()),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let response = self.ask_any(|_| request.clone()).await?;
        self.take_nodes(&response);
        Ok(response)
    }

    /// Brokers by their ids, as metadata named them last.
    pub(super) fn nodes(&self) -> &BTreeMap<i32, Address> {
        &self.nodes
    }

    fn take_nodes(&mut self, response: &MetadataResponse) {
        let nodes = response.brokers.iter().filter_map(|broker| {
            Some((broker.node_id, Address { host: broker.host.clone(), port: port(broker.port)? }))
        });
        self.nodes = nodes.collect();
    }

    /// Asks whichever broker answers; `request` is told the version.
    async fn ask_any<R: Request>(&mut self, request: impl Fn(i16) -> R) -> Result<R::Response, Error> {
        loop {
            let mut reasons = Vec::new();
            for address in self.known() {
                match self.ask(&address, i16::MAX, &request).await {
                    Ok(response) => return Ok(response),
                    Err(Trouble::Passing { what, .. } | Trouble::Unreached(what)) => reasons.push(what),
                    Err(Trouble::Final(error)) => return Err(error),
                }
            }
            self.again(Trouble::Unreached(reasons.join("; "))).await?;
        }
    }

    /// Those first that there is a connection to.
    fn known(&self) -> Vec<Address> {
        let mut known: Vec<Address> = Vec::new();
        for address in self.nodes.values().chain(&self.bootstrap) {
            if !known.contains(address) {
                known.push(address.clone());
            }
        }
        known.sort_by_key(|address| !self.connections.contains_key(address));
        known
    }

    /// Asks one broker once, in a version up to `cap`.
    pub(super) async fn ask<R: Request>(
        &mut self,
        address: &Address,
        cap: i16,
        request: impl Fn(i16) -> R,
    ) -> Result<R::Response, Trouble> {
        let deadline = self.deadline.into();
        let answer = tokio::time::timeout_at(deadline, self.converse(address, cap, request)).await;
        match &answer {
            Ok(Err(Trouble::Passing { what, .. })) => _ = self.troubles.insert(address.clone(), what.clone()),
            Ok(_) => _ = self.troubles.remove(address),
            Err(_) => {}
        }
        answer.unwrap_or_else(|_| {
            // An attempt for which little time was left says less than the one before it.
            let earlier = self.troubles.get(address).cloned();
            let what =
                earlier.unwrap_or_else(|| format!("{address}: no answer to {} in time", R::KEY.name()));
            Err(Trouble::Passing { what, code: None })
        })
    }

    async fn converse<R: Request>(
        &mut self,
        address: &Address,
        cap: i16,
        request: impl Fn(i16) -> R,
    ) -> Result<R::Response, Trouble> {
        let lost = |error: Error| Trouble::Passing { what: error.to_string(), code: None };
        let mut connection = match self.connections.remove(address) {
            Some(connection) => connection,
            None => Connection::dial(address, &self.options).await.map_err(lost)?,
        };
        let version = match connection.version::<R>(cap) {
            Ok(version) => version,
            Err(error) => {
                self.connections.insert(address.clone(), connection);
                return Err(error.into());
            }
        };
        let response = connection.call_at_most(&request(version), version).await.map_err(lost)?;
        self.connections.insert(address.clone(), connection);
        Ok(response)
    }

    /// Asks the group's coordinator once, and finds it first if need be.
    pub(super) async fn ask_coordinator<R: Request>(
        &mut self,
        group: &str,
        cap: i16,
        request: impl Fn(i16) -> R,
    ) -> Result<R::Response, Trouble> {
        let coordinator = self.coordinator(group).await?;
        let answer = self.ask(&coordinator.address, cap, request).await;
        if answer.is_err() {
            self.coordinators.remove(group); // it may have moved
        }
        answer
    }

    /// Who coordinates the group.
    pub(super) async fn coordinator(&mut self, group: &str) -> Result<Coordinator, Trouble> {
        if let Some(coordinator) = self.coordinators.get(group) {
            return Ok(coordinator.clone());
        }
        let response = self.ask_any(|version| find(group, version)).await?;
        let (code, told, coordinator) = found(&response);
        if code != Code::NONE {
            return Err(trouble(&format!("finding the coordinator of group {group}"), code, told));
        }
        let coordinator = coordinator.ok_or_else(|| {
            Error::refused(format!("group {group}: the broker named no coordinator of sense"), None)
        })?;
        self.coordinators.insert(group.to_owned(), coordinator.clone());
        Ok(coordinator)
    }

    /// What the coordinator's refusal means; if it may have moved it is looked for again.
    pub(super) fn refused(&mut self, group: &str, code: Code, told: Option<&str>) -> Trouble {
        let coordinator = match code.is_retriable() {
            true => self.coordinators.remove(group),
            false => self.coordinators.get(group).cloned(),
        };
        let at = coordinator.map_or(String::new(), |coordinator| format!("{}: ", coordinator.address));
        trouble(&format!("{at}group {group}"), code, told)
    }
}

/// What a broker's error code means for a question about `what`.
pub(super) fn trouble(what: &str, code: Code, told: Option<&str>) -> Trouble {
    let told = told.filter(|told| !told.is_empty()).map_or(String::new(), |told| format!(" ({told})"));
    let what = format!("{what}: the broker answered {code}{told}{}", advice(code));
    match code.is_retriable() {
        true => Trouble::Passing { what, code: Some(code) },
        false => Trouble::Final(Error::refused(what, code)),
    }
}

/// What somebody can do about it, where the code's own sentence does not say.
fn advice(code: Code) -> &'static str {
    match code {
        Code::GROUP_AUTHORIZATION_FAILED => {
            "; allow this client to Describe the group, to Read it for setting offsets, to Delete it for deleting"
        }
        Code::TOPIC_AUTHORIZATION_FAILED => "; allow this client to Describe the topic, and to Read it",
        Code::COORDINATOR_NOT_AVAILABLE => "; has the topic __consumer_offsets a leader?",
        _ => "",
    }
}

fn find(group: &str, version: i16) -> FindCoordinatorRequest {
    let (key, coordinator_keys) = match version <= ONE_KEY {
        true => (group.to_owned(), Vec::new()),
        false => (String::new(), vec![group.to_owned()]),
    };
    FindCoordinatorRequest { key, key_type: 0, coordinator_keys, ..FindCoordinatorRequest::default() }
}

fn found(response: &FindCoordinatorResponse) -> (Code, Option<&str>, Option<Coordinator>) {
    let coordinator = |node, host: &str, number| {
        Some(Coordinator { node, address: Address { host: host.to_owned(), port: port(number)? } })
    };
    match response.coordinators.first() {
        Some(of) => {
            (Code(of.error_code), of.error_message.as_deref(), coordinator(of.node_id, &of.host, of.port))
        }
        None => (
            Code(response.error_code),
            response.error_message.as_deref(),
            coordinator(response.node_id, &response.host, response.port),
        ),
    }
}

fn port(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|&port| port != 0)
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
