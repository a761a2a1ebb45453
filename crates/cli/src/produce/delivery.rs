//! Batches on their way to the leaders of their partitions.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bytes::Bytes;
use ottla::{Address, Code, ErrorKind, Event, Options, Peer, raw::Connection};
use ottla_wire::{
    Uuid,
    message::{
        InitProducerIdRequest, MetadataRequest, MetadataResponse, ProduceRequest, ProduceResponse, Request,
        metadata_request::MetadataRequestTopic,
        metadata_response::{MetadataResponseBroker, MetadataResponseTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
        produce_response::PartitionProduceResponse,
    },
};

use super::Batches;
use crate::{
    news::News,
    tell::{self, Failure},
    watch::{PATIENCE, astray, unreached},
};

/// How long a broker may wait for its replicas, in ms; below the time that we wait for its answer.
const ACKS_TIMEOUT_MS: i32 = 25_000;
/// With their pauses these are two minutes (Java's `delivery.timeout.ms`). While no broker can be reached the count
/// stands still.
const ATTEMPTS: u32 = 30;
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// From this version on a topic goes by its id.
const IDS_SINCE: i16 = 13;

/// Writes batches to one topic, as an idempotent producer: what is sent again after a connection broke is not there
/// twice (KIP-98).
///
/// ```text
/// begin: contact -> metadata -> producer id        send: seal -> attempt -> (pause -> metadata -> attempt)*
/// ```
#[derive(Debug)]
pub(crate) struct Delivery {
    bootstrap: Vec<Address>,
    topic: String,
    options: Options,
    news: News,
    cluster: Cluster,
    /// To any broker, for what any broker can answer.
    contact: Option<(Address, Connection)>,
    leaders: BTreeMap<i32, Connection>,
    /// When the first leader failed, as long as none was reached.
    astray: Astray,
    producer: (i64, i16),
    /// Of the next record, by partition.
    sequences: Vec<i32>,
    written: u64,
    refused: u64,
}

/// What metadata said last.
#[derive(Debug, Default)]
struct Cluster {
    nodes: BTreeMap<i32, Address>,
    topic_id: Uuid,
    /// By partition.
    leaders: Vec<Option<i32>>,
}

/// Whether the cluster sends us to brokers that are not there.
#[derive(Debug, Default, Clone, Copy)]
enum Astray {
    #[default]
    Unknown,
    /// None was reached, and this is when the first of them failed.
    Since(Instant),
    /// One was there.
    No,
}

/// A batch as it is sent, over and over if need be.
struct Sealed {
    partition: usize,
    records: u64,
    bytes: Bytes,
}

impl Delivery {
    pub(crate) fn new(bootstrap: &[Address], topic: &str) -> Self {
        Self {
            bootstrap: bootstrap.to_vec(),
            topic: topic.to_owned(),
            options: Options { client_id: "ottla-produce".to_owned(), ..Options::default() },
            news: News::default(),
            cluster: Cluster::default(),
            contact: None,
            leaders: BTreeMap::new(),
            astray: Astray::default(),
            producer: (-1, -1),
            sequences: Vec::new(),
            written: 0,
            refused: 0,
        }
    }

    /// Finds the topic and becomes a producer of it; gives its number of partitions.
    ///
    /// # Errors
    ///
    /// No broker was reached in time, the topic does not exist, or the broker refuses.
    pub(crate) async fn begin(&mut self) -> Result<u32, Failure> {
        let mut trial = Trial::default();
        while let Err(code) = self.look_up().await? {
            if code == Code::UNKNOWN_TOPIC_OR_PARTITION {
                return Err(tell::missing(format!("topic {} does not exist", self.topic)));
            }
            trial.again(&self.refusal(code)).await?;
        }
        self.become_producer().await?;
        Ok(self.sequences.len() as u32)
    }

    /// How many records were acknowledged.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// How many records a broker refused for good.
    pub(crate) fn refused_records(&self) -> u64 {
        self.refused
    }

    /// Sends all batches, and comes back when they are acknowledged by all in-sync replicas.
    ///
    /// # Errors
    ///
    /// A broker refused one for good, or for too long. The others may be written; [`written`](Self::written) knows.
    pub(crate) async fn send(&mut self, batches: &mut Batches) -> Result<(), Failure> {
        let mut open = self.seal(batches)?;
        let mut trial = Trial::default();
        while !open.is_empty() {
            if let Some(reason) = self.attempt(&mut open).await? {
                trial.again(&reason).await?;
                if let Err(code) = self.look_up().await? {
                    trial.again(&self.refusal(code)).await?;
                }
            }
        }
        Ok(())
    }

    fn seal(&mut self, batches: &mut Batches) -> Result<Vec<Sealed>, Failure> {
        let (id, epoch) = self.producer;
        let mut sealed = Vec::new();
        for (partition, mut builder) in batches.take() {
            let partition = partition as usize;
            let sequence = &mut self.sequences[partition];
            builder.producer(id, epoch, *sequence);
            // Sequence numbers begin anew behind the largest (KIP-98).
            *sequence = sequence.wrapping_add(builder.len() as i32) & i32::MAX;
            sealed.push(Sealed { partition, records: builder.len() as u64, bytes: builder.build()?.into() });
        }
        Ok(sealed)
    }

    /// Sends what is open once, and keeps what is still open. The reason says why something is.
    async fn attempt(&mut self, open: &mut Vec<Sealed>) -> Result<Option<String>, Failure> {
        let mut reason = None;
        for (leader, batches) in self.by_leader(std::mem::take(open)) {
            let left = match leader {
                None => Some((batches, format!("topic {} has partitions without a leader", self.topic))),
                Some(leader) => self.ask_leader(leader, batches).await?,
            };
            if let Some((batches, why)) = left {
                open.extend(batches);
                reason = Some(why);
            }
        }
        Ok(reason)
    }

    fn by_leader(&self, batches: Vec<Sealed>) -> BTreeMap<Option<i32>, Vec<Sealed>> {
        let mut by_leader = BTreeMap::<_, Vec<_>>::new();
        for batch in batches {
            let leader = self.cluster.leaders.get(batch.partition).copied().flatten();
            by_leader.entry(leader).or_default().push(batch);
        }
        by_leader
    }

    /// One request to one broker. What comes back is to be sent again, for the reason beside it.
    async fn ask_leader(
        &mut self,
        leader: i32,
        batches: Vec<Sealed>,
    ) -> Result<Option<(Vec<Sealed>, String)>, Failure> {
        let Some(address) = self.cluster.nodes.get(&leader).cloned() else {
            return Ok(Some((batches, format!("broker {leader} has no address"))));
        };
        match self.produce(leader, &address, &batches).await {
            Ok(response) => {
                self.astray = Astray::No;
                self.take_response(batches, &response)
            }
            Err(error) => {
                self.note_lost(&address, &error);
                self.doubt(&error)?;
                Ok(Some((batches, error.to_string())))
            }
        }
    }

    /// Who has written nothing yet does not wait as long as who has.
    fn doubt(&mut self, error: &ottla::Error) -> Result<(), Failure> {
        match self.astray {
            Astray::Unknown => self.astray = Astray::Since(Instant::now()),
            Astray::Since(begin) if begin.elapsed() >= PATIENCE => return Err(astray(error)),
            Astray::Since(_) | Astray::No => {}
        }
        Ok(())
    }

    async fn produce(
        &mut self,
        leader: i32,
        address: &Address,
        batches: &[Sealed],
    ) -> Result<ProduceResponse, ottla::Error> {
        let mut connection = match self.leaders.remove(&leader) {
            Some(connection) => connection,
            None => self.dial(address).await?,
        };
        let cap = if self.cluster.topic_id.is_zero() { IDS_SINCE - 1 } else { i16::MAX };
        let response = connection.call_at_most(&self.request(batches), cap).await?;
        self.leaders.insert(leader, connection);
        Ok(response)
    }

    fn request(&self, batches: &[Sealed]) -> ProduceRequest {
        let partition = |batch: &Sealed| PartitionProduceData {
            index: batch.partition as i32,
            records: Some(batch.bytes.clone()),
        };
        let topic = TopicProduceData {
            name: self.topic.clone(),
            topic_id: self.cluster.topic_id,
            partition_data: batches.iter().map(partition).collect(),
        };
        ProduceRequest {
            acks: -1,
            timeout_ms: ACKS_TIMEOUT_MS,
            topic_data: vec![topic],
            ..ProduceRequest::default()
        }
    }

    fn take_response(
        &mut self,
        batches: Vec<Sealed>,
        response: &ProduceResponse,
    ) -> Result<Option<(Vec<Sealed>, String)>, Failure> {
        let answers = || response.responses.iter().flat_map(|topic| &topic.partition_responses);
        let (mut left, mut reason, mut failure) = (Vec::new(), String::new(), None);
        for batch in batches {
            let answer = answers().find(|answer| answer.index == batch.partition as i32);
            match answer.map_or(Code::UNKNOWN_SERVER_ERROR, |answer| Code(answer.error_code)) {
                // Duplicate: an earlier attempt got through, its acknowledgement did not.
                Code::NONE | Code::DUPLICATE_SEQUENCE_NUMBER => self.written += batch.records,
                code if code.is_retriable() => {
                    reason = self.refused(batch.partition, code, answer);
                    left.push(batch);
                }
                code => {
                    self.refused += batch.records;
                    failure = failure.or(Some(self.refused(batch.partition, code, answer)));
                }
            }
        }
        match failure {
            Some(failure) => Err(Failure(failure)),
            None => Ok((!left.is_empty()).then_some((left, reason))),
        }
    }

    fn refused(&self, partition: usize, code: Code, answer: Option<&PartitionProduceResponse>) -> String {
        let told = answer.and_then(|answer| answer.error_message.as_deref());
        let told = told.map_or(String::new(), |message| format!(" ({message})"));
        let hint = match code {
            Code::UNSUPPORTED_FOR_MESSAGE_FORMAT => {
                "; produce writes in format 0.11 or later (the topic's message.format.version)"
            }
            _ => "",
        };
        format!("{} partition {partition}: the broker answered {code}{told}{hint}", self.topic)
    }

    fn refusal(&self, code: Code) -> String {
        format!("topic {}: the cluster answered {code}", self.topic)
    }

    async fn become_producer(&mut self) -> Result<(), Failure> {
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            producer_id: -1,
            producer_epoch: -1,
            ..InitProducerIdRequest::default()
        };
        let mut trial = Trial::default();
        loop {
            let response = self.ask_any(&request).await?;
            match Code(response.error_code) {
                Code::NONE => {
                    self.producer = (response.producer_id, response.producer_epoch);
                    return Ok(());
                }
                code if code.is_retriable() => trial.again(&format!("no producer id: {code}")).await?,
                code => return Err(Failure(format!("the broker gives out no producer id: {code}"))),
            }
        }
    }

    /// Asks for the cluster and the topic; an error code that may pass is handed back.
    async fn look_up(&mut self) -> Result<Result<(), Code>, Failure> {
        let topic =
            MetadataRequestTopic { name: Some(self.topic.clone()), ..MetadataRequestTopic::default() };
        let request = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let response = self.ask_any(&request).await?;
        let code =
            response.topics.first().map_or(Code::UNKNOWN_TOPIC_OR_PARTITION, |topic| Code(topic.error_code));
        match code {
            Code::NONE => {
                self.take_metadata(&response);
                Ok(Ok(()))
            }
            code if code.is_retriable() => Ok(Err(code)),
            code => Err(Failure(self.refusal(code))),
        }
    }

    fn take_metadata(&mut self, response: &MetadataResponse) {
        let node = |broker: &MetadataResponseBroker| {
            let port = u16::try_from(broker.port).ok()?;
            Some((broker.node_id, Address { host: broker.host.clone(), port }))
        };
        let nodes = response.brokers.iter().filter_map(node).collect();
        // A connection leads to an address; where that is not the broker's any more it is of no use.
        let before = std::mem::replace(&mut self.cluster.nodes, nodes);
        self.leaders.retain(|id, _| before.get(id) == self.cluster.nodes.get(id));
        if let Some(topic) = response.topics.first() {
            self.take_topic(topic);
        }
    }

    fn take_topic(&mut self, topic: &MetadataResponseTopic) {
        self.cluster.topic_id = topic.topic_id;
        // Partitions that were added since the start are left alone: keys would change their places midway.
        let count = if self.sequences.is_empty() { topic.partitions.len() } else { self.sequences.len() };
        self.sequences.resize(count, 0);
        self.cluster.leaders = vec![None; count];
        for partition in topic.partitions.iter().filter(|partition| partition.leader_id >= 0) {
            let index = usize::try_from(partition.partition_index).ok();
            if let Some(leader) = index.and_then(|index| self.cluster.leaders.get_mut(index)) {
                *leader = Some(partition.leader_id);
            }
        }
    }

    /// Asks whichever broker answers. Outages are waited through, once any was reached.
    async fn ask_any<R: Request>(&mut self, request: &R) -> Result<R::Response, Failure> {
        let mut trial = Trial::default();
        loop {
            let (address, mut connection) = self.take_contact().await?;
            match connection.call(request).await {
                Ok(response) => {
                    self.contact = Some((address, connection));
                    return Ok(response);
                }
                Err(error) if error.kind() == ErrorKind::Refused => return Err(error.into()),
                Err(error) => {
                    self.note_lost(&address, &error);
                    trial.again(&error.to_string()).await?;
                }
            }
        }
    }

    async fn take_contact(&mut self) -> Result<(Address, Connection), Failure> {
        if let Some(contact) = self.contact.take() {
            return Ok(contact);
        }
        if self.news.reached() {
            return Ok(self.dial_any().await);
        }
        match tokio::time::timeout(PATIENCE, self.dial_any()).await {
            Ok(contact) => Ok(contact),
            Err(_) => Err(unreached(&self.news, &self.bootstrap)),
        }
    }

    async fn dial_any(&mut self) -> (Address, Connection) {
        let mut pause = PAUSE;
        loop {
            let known: Vec<Address> = self.cluster.nodes.values().chain(&self.bootstrap).cloned().collect();
            for address in known {
                match self.dial(&address).await {
                    Ok(connection) => return (address, connection),
                    Err(error) => self.note_lost(&address, &error),
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn dial(&mut self, address: &Address) -> Result<Connection, ottla::Error> {
        let connection = Connection::dial(address, &self.options).await?;
        let event = Event::Connected { peer: Peer::Seed(0), address: address.clone() };
        self.news.tell(event).iter().for_each(tell::note);
        Ok(connection)
    }

    fn note_lost(&mut self, address: &Address, error: &ottla::Error) {
        let text = error.to_string();
        let reason = text.strip_prefix(&format!("{address}: ")).unwrap_or(&text).to_owned();
        let event =
            Event::Retrying { peer: Peer::Seed(0), address: address.clone(), reason, pause: Duration::ZERO };
        self.news.tell(event).iter().for_each(tell::note);
    }
}

/// How often something was tried.
#[derive(Debug, Default)]
struct Trial {
    failed: u32,
}

impl Trial {
    /// Pauses before the next attempt, each time longer.
    ///
    /// # Errors
    ///
    /// There were enough; `reason` says why the last one failed.
    async fn again(&mut self, reason: &str) -> Result<(), Failure> {
        self.failed += 1;
        if self.failed >= ATTEMPTS {
            return Err(Failure(format!("{reason} (tried {ATTEMPTS} times)")));
        }
        tokio::time::sleep(self.pause()).await;
        Ok(())
    }

    fn pause(&self) -> Duration {
        (PAUSE * 2_u32.pow((self.failed - 1).min(10))).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn attempts_take_two_minutes_and_end_with_the_reason() {
        let started = tokio::time::Instant::now();
        let mut trial = Trial::default();
        let failure = loop {
            if let Err(failure) = trial.again("the dog ate it").await {
                break failure;
            }
        };
        assert_eq!(failure.0, "the dog ate it (tried 30 times)");
        let seconds = started.elapsed().as_secs();
        assert!((110..=130).contains(&seconds), "{seconds}");
    }
}
