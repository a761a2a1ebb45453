//! A member of a classic group by hand, over a plain connection: it joins alone and assigns everything to itself.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of this")]

use bytes::Bytes;
use ottla::{Address, Options, raw::Connection};
use ottla_wire::{
    Output,
    code::Code,
    message::{
        ConsumerProtocolAssignment, ConsumerProtocolSubscription, FindCoordinatorRequest, JoinGroupRequest,
        JoinGroupResponse, LeaveGroupRequest, Message, SyncGroupRequest, consumer_protocol_assignment,
        join_group_request::JoinGroupRequestProtocol, sync_group_request::SyncGroupRequestAssignment,
    },
};

/// Its session lasts as long as a test.
const SESSION_MS: i32 = 45_000;

pub struct RawMember {
    connection: Connection,
    group: String,
    pub id: String,
}

impl RawMember {
    /// The only member of this group, with these partitions of the topic.
    pub async fn alone(bootstrap: &str, group: &str, client: &str, topic: &str, partitions: &[i32]) -> Self {
        let connection = coordinator(bootstrap, group, client).await;
        let mut member = Self { connection, group: group.to_owned(), id: String::new() };
        let joined = member.join(topic).await;
        member.sync(joined.generation_id, topic, partitions).await;
        member
    }

    async fn join(&mut self, topic: &str) -> JoinGroupResponse {
        loop {
            let subscription = ConsumerProtocolSubscription {
                topics: vec![topic.to_owned()],
                ..ConsumerProtocolSubscription::default()
            };
            let protocol =
                JoinGroupRequestProtocol { name: "range".to_owned(), metadata: versioned(&subscription) };
            let request = JoinGroupRequest {
                group_id: self.group.clone(),
                session_timeout_ms: SESSION_MS,
                rebalance_timeout_ms: SESSION_MS,
                member_id: self.id.clone(),
                protocol_type: "consumer".to_owned(),
                protocols: vec![protocol],
                ..JoinGroupRequest::default()
            };
            let response = self.connection.call(&request).await.expect("an answer");
            self.id.clone_from(&response.member_id);
            match Code(response.error_code) {
                Code::NONE => return response,
                Code::MEMBER_ID_REQUIRED => {}
                code => panic!("join: {code}"),
            }
        }
    }

    async fn sync(&mut self, generation: i32, topic: &str, partitions: &[i32]) {
        let assigned = consumer_protocol_assignment::TopicPartition {
            topic: topic.to_owned(),
            partitions: partitions.to_vec(),
        };
        let assignment = ConsumerProtocolAssignment { assigned_partitions: vec![assigned], user_data: None };
        let of_member =
            SyncGroupRequestAssignment { member_id: self.id.clone(), assignment: versioned(&assignment) };
        let request = SyncGroupRequest {
            group_id: self.group.clone(),
            generation_id: generation,
            member_id: self.id.clone(),
            protocol_type: Some("consumer".to_owned()),
            protocol_name: Some("range".to_owned()),
            assignments: vec![of_member],
            ..SyncGroupRequest::default()
        };
        let response = self.connection.call(&request).await.expect("an answer");
        assert_eq!(Code(response.error_code), Code::NONE);
    }

    pub async fn leave(mut self) {
        let request = LeaveGroupRequest {
            group_id: self.group.clone(),
            member_id: self.id.clone(),
            ..LeaveGroupRequest::default()
        };
        // From version 3 on several members leave at once.
        let response = self.connection.call_at_most(&request, 2).await.expect("an answer");
        assert_eq!(Code(response.error_code), Code::NONE);
    }
}

/// A connection to the group's coordinator, once there is one.
async fn coordinator(bootstrap: &str, group: &str, client: &str) -> Connection {
    let options = Options { client_id: client.to_owned(), ..Options::default() };
    let address: Address = bootstrap.split(',').next().expect("an address").parse().expect("an address");
    let mut connection = Connection::dial(&address, &options).await.expect("a broker");
    let request = FindCoordinatorRequest { key: group.to_owned(), ..FindCoordinatorRequest::default() };
    loop {
        // From version 4 on several groups are asked about at once.
        let found = connection.call_at_most(&request, 3).await.expect("an answer");
        if Code(found.error_code) == Code::NONE {
            let address = Address { host: found.host.clone(), port: found.port as u16 };
            return Connection::dial(&address, &options).await.expect("a coordinator");
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

fn versioned(message: &impl Message) -> Bytes {
    let mut output = Output::new();
    message.encode(&mut output, 0).expect("a good message");
    [&0_i16.to_be_bytes()[..], output.bytes()].concat().into()
}
