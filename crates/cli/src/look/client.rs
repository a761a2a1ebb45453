//! Questions to brokers, for commands that look at a cluster.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use ottla::{Address, Code, Event, Options, Peer, TopicPartition, raw::Connection};
use ottla_wire::message::{
    ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse, Request,
    list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    metadata_request::MetadataRequestTopic,
};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    news::News,
    tell::{self, Failure},
    watch::{PATIENCE, unreached},
};

/// How the protocol asks for the beginning and the end of a log.
pub(crate) const BEGIN: i64 = -2;
pub(crate) const END: i64 = -1;

const PAUSE: Duration = Duration::from_millis(200);
/// So often a leader that is none any more, or not yet, is looked up and asked again.
const ATTEMPTS: u32 = 5;
/// No broker gets longer for one answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The brokers, as far as they are known, and connections to them.
#[derive(Debug)]
pub(crate) struct Client {
    bootstrap: Vec<Address>,
    options: Options,
    news: News,
    nodes: BTreeMap<i32, Address>,
    connections: HashMap<Address, Connection>,
    /// Who did not answer, and why: nobody waits for them twice.
    silent: HashMap<Address, String>,
}

/// Where a partition's log begins or ends, or what is there at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Below zero if no record is that late.
    pub(crate) offset: i64,
    /// Of the record there, in ms since 1970; below zero where nobody knows.
    pub(crate) timestamp: i64,
}

/// By partition: what was found, or why nothing was.
pub(crate) type Answers = BTreeMap<TopicPartition, Result<Found, String>>;

impl Client {
    pub(crate) fn new(bootstrap: &[Address]) -> Self {
        Self {
            bootstrap: bootstrap.to_vec(),
            options: options(),
            news: News::default(),
            nodes: BTreeMap::new(),
            connections: HashMap::new(),
            silent: HashMap::new(),
        }
    }

    /// What the first broker that answers knows of its cluster and of these topics; of all of them for `None`.
    ///
    /// # Errors
    ///
    /// No broker was reached in time; each address with its reason.
    pub(crate) async fn metadata(&mut self, topics: Option<&[String]>) -> Result<MetadataResponse, Failure> {
        let request = metadata_request(topics);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match tokio::time::timeout_at(deadline, self.ask_any(&request)).await {
                Ok(Some(response)) => {
                    self.nodes = addresses(&response);
                    return Ok(response);
                }
                Ok(None) => tokio::time::sleep(PAUSE).await,
                Err(_) => return Err(unreached(&self.news, &self.bootstrap)),
            }
        }
    }

    /// Asks all addresses at a time, and takes the first answer: those that are dead cost nothing then.
    async fn ask_any<R>(&mut self, request: &R) -> Option<R::Response>
    where
        R: Request + Clone + Send + Sync + 'static,
        R::Response: Send + 'static,
    {
        for (address, mut connection) in std::mem::take(&mut self.connections) {
            if let Ok(response) = connection.call(request).await {
                self.connections.insert(address, connection);
                return Some(response);
            }
        }
        let mut asking = JoinSet::new();
        for address in self.bootstrap.iter().cloned() {
            let (options, request) = (self.options.clone(), request.clone());
            asking.spawn(async move {
                let answer = dial_and_ask(&address, &options, &request).await;
                (address, answer)
            });
        }
        let mut failed = Vec::new();
        while let Some(Ok((address, answer))) = asking.join_next().await {
            match answer {
                Ok((connection, response)) => {
                    self.connections.insert(address, connection);
                    return Some(response);
                }
                Err(error) => failed.push((address, error)),
            }
        }
        failed.into_iter().for_each(|(address, error)| self.note_lost(address, &error));
        None
    }

    fn note_lost(&mut self, address: Address, error: &str) {
        let reason = error.strip_prefix(&format!("{address}: ")).unwrap_or(error).to_owned();
        let event = Event::Retrying { peer: Peer::Seed(0), address, reason, pause: PAUSE };
        self.news.tell(event).iter().for_each(tell::note);
    }

    /// Asks the leaders of these partitions about one moment, [`BEGIN`] or [`END`]; where a leader moved, the new one.
    pub(crate) async fn offsets(&mut self, of: &[TopicPartition], moment: i64) -> Result<Answers, Failure> {
        let mut topics: Vec<String> = of.iter().map(|at| at.topic.to_string()).collect();
        topics.dedup();
        let mut answers = Answers::new();
        let mut open = of.to_vec();
        for attempt in 1..=ATTEMPTS {
            let metadata = self.metadata(Some(&topics)).await?;
            for (leader, partitions) in by_leader(&metadata, &open, &mut answers) {
                self.ask_leader(leader, &partitions, moment, &mut answers).await;
            }
            open.retain(|at| matches!(answers.get(at), None | Some(Err(_))) && self.may_pass(&answers, at));
            if open.is_empty() || attempt == ATTEMPTS {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(answers)
    }

    /// A broker that said something may say something else soon; one that is silent has cost enough already.
    fn may_pass(&self, answers: &Answers, at: &TopicPartition) -> bool {
        let Some(Err(why)) = answers.get(at) else { return true };
        why.contains(NOT_LEADER) && self.silent.is_empty()
    }

    async fn ask_leader(
        &mut self,
        leader: i32,
        partitions: &[TopicPartition],
        moment: i64,
        answers: &mut Answers,
    ) {
        match self.ask_node(leader, &offsets_request(partitions, moment)).await {
            Ok(response) => take_offsets(&response, partitions, answers),
            Err(why) => {
                answers.extend(partitions.iter().map(|at| (at.clone(), Err(format!("{at}: {why}")))));
            }
        }
    }

    async fn ask_node<R: Request>(&mut self, node: i32, request: &R) -> Result<R::Response, String> {
        let address = self.nodes.get(&node).cloned();
        let address = address.ok_or_else(|| format!("its leader, broker {node}, has no address"))?;
        if let Some(why) = self.silent.get(&address) {
            return Err(why.clone());
        }
        let answer = self.converse(&address, request).await;
        answer.map_err(|why| {
            let why = format!("its leader, broker {node}, cannot be reached: {why}");
            self.silent.insert(address, why.clone());
            why
        })
    }

    async fn converse<R: Request>(&mut self, address: &Address, request: &R) -> Result<R::Response, String> {
        let mut connection = match self.connections.remove(address) {
            Some(connection) => connection,
            None => Connection::dial(address, &self.options).await.map_err(|error| error.to_string())?,
        };
        let response = connection.call(request).await.map_err(|error| error.to_string())?;
        self.connections.insert(address.clone(), connection);
        Ok(response)
    }
}

/// How a command that looks at a cluster connects.
pub(crate) fn options() -> Options {
    Options { client_id: "ottla-cli".to_owned(), request_timeout: ANSWER_LIMIT, ..Options::default() }
}

async fn dial_and_ask<R: Request>(
    address: &Address,
    options: &Options,
    request: &R,
) -> Result<(Connection, R::Response), String> {
    let mut connection = Connection::dial(address, options).await.map_err(|error| error.to_string())?;
    let response = connection.call(request).await.map_err(|error| error.to_string())?;
    Ok((connection, response))
}

/// Asks for these topics, or for all.
pub(crate) fn metadata_request(topics: Option<&[String]>) -> MetadataRequest {
    let topic = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
    MetadataRequest {
        topics: topics.map(|names| names.iter().map(topic).collect()),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    }
}

/// Brokers by their ids.
pub(crate) fn addresses(metadata: &MetadataResponse) -> BTreeMap<i32, Address> {
    let brokers = metadata.brokers.iter().filter_map(|broker| {
        let port = u16::try_from(broker.port).ok()?;
        Some((broker.node_id, Address { host: broker.host.clone(), port }))
    });
    brokers.collect()
}

/// A partition without a leader has its answer.
fn by_leader(
    metadata: &MetadataResponse,
    partitions: &[TopicPartition],
    answers: &mut Answers,
) -> BTreeMap<i32, Vec<TopicPartition>> {
    let mut leaders = BTreeMap::<i32, Vec<_>>::new();
    for at in partitions {
        let topic = metadata.topics.iter().find(|topic| topic.name.as_deref() == Some(&*at.topic));
        let of = |index: i32| topic?.partitions.iter().find(|partition| partition.partition_index == index);
        match of(at.partition).map(|partition| partition.leader_id) {
            Some(leader) if leader >= 0 => leaders.entry(leader).or_default().push(at.clone()),
            _ => _ = answers.insert(at.clone(), Err(format!("{at} has no leader"))),
        }
    }
    leaders
}

fn offsets_request(partitions: &[TopicPartition], moment: i64) -> ListOffsetsRequest {
    let mut topics = BTreeMap::<String, Vec<ListOffsetsPartition>>::new();
    for at in partitions {
        let partition = ListOffsetsPartition {
            partition_index: at.partition,
            current_leader_epoch: -1,
            timestamp: moment,
        };
        topics.entry(at.topic.to_string()).or_default().push(partition);
    }
    let topics = topics.into_iter().map(|(name, partitions)| ListOffsetsTopic { name, partitions });
    ListOffsetsRequest { replica_id: -1, topics: topics.collect(), ..ListOffsetsRequest::default() }
}

const NOT_LEADER: &str = "NOT_LEADER_OR_FOLLOWER";

fn take_offsets(response: &ListOffsetsResponse, partitions: &[TopicPartition], answers: &mut Answers) {
    for at in partitions {
        let topic = response.topics.iter().find(|topic| *topic.name == *at.topic);
        let found = topic.and_then(|t| t.partitions.iter().find(|p| p.partition_index == at.partition));
        let answer = match found.map(|found| (found, Code(found.error_code))) {
            Some((found, Code::NONE)) => Ok(Found { offset: found.offset, timestamp: found.timestamp }),
            Some((_, code)) => Err(format!("{at}: the broker answered {code}")),
            None => Err(format!("{at}: the broker left it out")),
        };
        answers.insert(at.clone(), answer);
    }
}
