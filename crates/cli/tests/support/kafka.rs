//! Topics on a real Apache Kafka.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::disallowed_methods, reason = "tests look at the clock")]
#![allow(unreachable_pub, reason = "a test file has no outside")]
#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

use std::time::{SystemTime, UNIX_EPOCH};

use ottla::{Address, Error, Options, raw::Connection};
use ottla_wire::message::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest, Request,
    create_partitions_request::CreatePartitionsTopic,
    create_topics_request::{CreatableTopic, CreatableTopicConfig},
    delete_topics_request::DeleteTopicState,
    metadata_request::MetadataRequestTopic,
};

use crate::support::{Ottla, ottla, until};

/// A topic of its own for each test, deleted at its end.
pub struct Topic {
    broker: String,
    pub name: String,
}

impl Topic {
    /// A name that nobody has; nothing is created yet.
    pub fn new(name: &str) -> Self {
        Self::at("OTTLA_TEST_KAFKA", name)
    }

    /// The same on the broker that this variable names.
    pub fn at(variable: &str, name: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        Self { broker: environment(variable), name: format!("cli-{name}-{now}") }
    }

    pub fn created(name: &str, partitions: i32) -> Self {
        Self::new(name).create(partitions, &[])
    }

    pub fn create(self, partitions: i32, configs: &[(&str, &str)]) -> Self {
        let config = |(name, value): &(&str, &str)| CreatableTopicConfig {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
        };
        let topic = CreatableTopic {
            name: self.name.clone(),
            num_partitions: partitions,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: configs.iter().map(config).collect(),
        };
        let response = ask(
            &self.broker,
            &CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, validate_only: false },
        );
        assert_eq!(response.topics[0].error_code, 0, "{response:?}");
        self.wait_for(partitions);
        self
    }

    /// What the controller has created is known to the broker a moment later.
    fn wait_for(&self, partitions: i32) {
        let topic = MetadataRequestTopic { name: Some(self.name.clone()), ..MetadataRequestTopic::default() };
        let request = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        until("all partitions have leaders", || {
            let response = ask(&self.broker, &request);
            let leaders = response.topics[0].partitions.iter().filter(|partition| partition.error_code == 0);
            leaders.count() == partitions as usize
        });
    }

    pub fn add_partitions(&self, count: i32) {
        let topic = CreatePartitionsTopic { name: self.name.clone(), count, assignments: None };
        let request =
            CreatePartitionsRequest { topics: vec![topic], timeout_ms: 30_000, validate_only: false };
        let response = ask(&self.broker, &request);
        assert_eq!(response.results[0].error_code, 0, "{response:?}");
        self.wait_for(count);
    }

    /// `ottla COMMAND TOPIC OPTIONS`.
    pub fn ottla(&self, command: &str, options: &str) -> Ottla {
        ottla(&format!("{command} {} {options}", self.name)).broker(&self.broker)
    }

    pub fn produce(&self, options: &str, input: &str) {
        self.ottla("produce", options).run_with(input.as_bytes()).done();
    }

    pub fn read(&self, options: &str) -> Vec<String> {
        let ended = self.ottla("read", options).run().quietly();
        ended.sorted().iter().map(ToString::to_string).collect()
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        let state = DeleteTopicState { name: Some(self.name.clone()), ..DeleteTopicState::default() };
        let request =
            DeleteTopicsRequest { topics: vec![state], timeout_ms: 30_000, ..DeleteTopicsRequest::default() };
        // Where the test fails because the broker is gone, that is what it should tell.
        let _ = try_ask(&self.broker, &request);
    }
}

fn ask<R: Request>(broker: &str, request: &R) -> R::Response {
    try_ask(broker, request).unwrap()
}

fn try_ask<R: Request>(broker: &str, request: &R) -> Result<R::Response, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address: Address = broker.parse().unwrap();
    runtime.block_on(async { Connection::dial(&address, &Options::default()).await?.call(request).await })
}

/// What `cargo xtask test` tells a test.
pub fn environment(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set; run cargo xtask test"))
}
