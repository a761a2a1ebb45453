//! CreateTopics, versions 2 to 7.
//!
//! - Any node answers, and the topic is there at once. -1 partitions or replicas are one.
//! - Configurations: `message.timestamp.type` and `max.message.bytes` are heeded, all others accepted and ignored.
//! - Manual assignments name the replicas; the first is the leader. A topic named twice: INVALID_REQUEST, once.
//!
//! Not imitated: NOT_CONTROLLER, policies, checks of configurations' names; the configurations in the reply are an empty
//! list.

use super::{Asks, Call, Serve, Served};
use crate::Refused;
use crate::fault::Place;
use crate::store::{Store, TopicOptions};
use ottla_wire::Uuid;
use ottla_wire::code::Code;
use ottla_wire::message::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use ottla_wire::message::create_topics_response::CreatableTopicResult;
use ottla_wire::message::{CreateTopicsRequest, CreateTopicsResponse};

impl Asks for CreateTopicsRequest {
    fn asks_for(&self, _store: &Store, place: &Place) -> bool {
        self.topics.iter().any(|topic| place.has_topic(&topic.name))
    }
}

impl Serve for CreateTopicsRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<CreateTopicsResponse> {
        let is_named_in =
            |topics: &[CreatableTopic], name: &str| topics.iter().any(|topic| topic.name == name);
        let mut topics = Vec::new();
        for (at, topic) in self.topics.iter().enumerate() {
            let made = match call.errors.at_topic(&topic.name) {
                _ if is_named_in(&self.topics[..at], &topic.name) => continue,
                Some(code) => Err(Refused::new(code, code.sentence())),
                None if is_named_in(&self.topics[at + 1..], &topic.name) => {
                    Err(Refused::new(Code::INVALID_REQUEST, "Duplicate topic name."))
                }
                None => create(store, topic, self.validate_only),
            };
            topics.push(result(topic, made));
        }
        Served::Reply(CreateTopicsResponse { topics, ..Default::default() })
    }
}

struct Created {
    id: Uuid,
    partitions: i32,
    replication: i16,
}

fn create(store: &mut Store, topic: &CreatableTopic, only_check: bool) -> Result<Created, Refused> {
    let options = options(topic)?;
    store.check_topic(&topic.name, &options)?;
    let replicas = match topic.assignments.is_empty() {
        true => store.place(0..options.partitions, options.replication)?,
        false => assigned(store, &topic.assignments)?,
    };
    let (partitions, replication) = (options.partitions, options.replication);
    let id = match only_check {
        true => Uuid::ZERO,
        false => store.create_topic_on(&topic.name, options, replicas),
    };
    Ok(Created { id, partitions, replication })
}

fn options(topic: &CreatableTopic) -> Result<TopicOptions, Refused> {
    let mut options = TopicOptions::new(if topic.num_partitions == -1 { 1 } else { topic.num_partitions });
    if topic.replication_factor != -1 {
        options.replication = topic.replication_factor;
    }
    if let Some(first) = topic.assignments.first() {
        if topic.num_partitions != -1 || topic.replication_factor != -1 {
            let message = "A manual partition assignment was specified, but partitions or replication factor \
                           were not set to -1.";
            return Err(Refused::new(Code::INVALID_REQUEST, message));
        }
        options.partitions = topic.assignments.len() as i32;
        options.replication = first.broker_ids.len() as i16;
    }
    for config in &topic.configs {
        configure(&mut options, &config.name, config.value.as_deref().unwrap_or_default())?;
    }
    Ok(options)
}

fn configure(options: &mut TopicOptions, name: &str, value: &str) -> Result<(), Refused> {
    let wrong = || {
        let message = format!("Invalid value {value} for configuration {name}");
        Refused::new(Code::INVALID_CONFIG, message)
    };
    match (name, value) {
        ("message.timestamp.type", "CreateTime") => options.append_time = false,
        ("message.timestamp.type", "LogAppendTime") => options.append_time = true,
        ("message.timestamp.type", _) => return Err(wrong()),
        ("max.message.bytes", _) => options.max_message_bytes = value.parse().map_err(|_| wrong())?,
        _ => {}
    }
    Ok(())
}

/// The replicas of partition 0, 1, .. as the request names them.
fn assigned(store: &Store, assignments: &[CreatableReplicaAssignment]) -> Result<Vec<Vec<i32>>, Refused> {
    let wrong = |message: &str| Refused::new(Code::INVALID_REPLICA_ASSIGNMENT, message);
    let mut sorted: Vec<_> = assignments.iter().collect();
    sorted.sort_by_key(|assignment| assignment.partition_index);
    if sorted.iter().zip(0..).any(|(assignment, index)| assignment.partition_index != index) {
        return Err(wrong("partitions should be a consecutive 0-based integer sequence"));
    }
    sorted.into_iter().map(|assignment| check_replicas(store, &assignment.broker_ids)).collect()
}

/// Checks the replicas named for one partition.
pub(super) fn check_replicas(store: &Store, ids: &[i32]) -> Result<Vec<i32>, Refused> {
    let wrong = |message: &str| Refused::new(Code::INVALID_REPLICA_ASSIGNMENT, message);
    if ids.is_empty() {
        return Err(wrong("The manual partition assignment includes an empty replica list."));
    }
    if ids.iter().any(|id| store.node(*id).is_none()) {
        return Err(wrong("The manual partition assignment includes an unknown broker."));
    }
    if (1..ids.len()).any(|at| ids[..at].contains(&ids[at])) {
        return Err(wrong("The manual partition assignment includes a broker more than once."));
    }
    Ok(ids.to_vec())
}

fn result(topic: &CreatableTopic, made: Result<Created, Refused>) -> CreatableTopicResult {
    let name = topic.name.clone();
    match made {
        Ok(created) => CreatableTopicResult {
            name,
            topic_id: created.id,
            num_partitions: created.partitions,
            replication_factor: created.replication,
            configs: Some(Vec::new()),
            ..Default::default()
        },
        Err(refused) => CreatableTopicResult {
            name,
            error_code: refused.code.0,
            error_message: Some(refused.message),
            ..Default::default()
        },
    }
}
