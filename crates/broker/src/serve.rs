//! From a frame to a reply, one request at a time and connection.

use crate::api::fetch::Fetch;
use crate::api::{self, Asks, Call, Serve, Served, Wait, api_versions, join_group};
use crate::connection::{Parked, Phase, ReplyTo};
use crate::fault::{Effects, Place};
use crate::groups::{Answer, Reply};
use crate::{Cluster, ConnectionId, Output};
use bytes::Bytes;
use ottla_wire::api::ApiKey;
use ottla_wire::frame::{RequestHeader, decode_request_header, encode_response};
use ottla_wire::message::{
    ApiVersionsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest,
    DeleteRecordsRequest, DeleteTopicsRequest, DescribeGroupsRequest, FetchRequest, FindCoordinatorRequest,
    HeartbeatRequest, InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest,
    ListOffsetsRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest,
    OffsetForLeaderEpochRequest, ProduceRequest, SyncGroupRequest,
};
use ottla_wire::{DecodeError, EncodeError, Input};
use std::time::{Duration, Instant};

impl Cluster {
    /// Serves what waits on a connection, until a request has to wait.
    pub(crate) fn serve_queue(&mut self, connection: ConnectionId) {
        loop {
            let Some(open) = self.connections.get_mut(&connection) else { return };
            let Phase::Idle = open.phase else { return };
            let Some(frame) = open.queue.pop_front() else { return };
            let node = open.node;
            self.serve_frame(connection, node, &frame);
        }
    }

    /// Answers the parked fetches that a change has made ready, and the members that a coordinator answers, until nothing
    /// changes any more.
    pub(crate) fn settle(&mut self) {
        loop {
            if self.store.has_changes() {
                self.finish_fetches();
            } else if let Some(answer) = self.store.groups.take_answer() {
                self.finish_wait(answer);
            } else {
                return;
            }
        }
    }

    fn finish_fetches(&mut self) {
        let changes = self.store.take_changes();
        let is_ready = |phase: &Phase| match phase {
            Phase::Parked(parked) => parked.fetch.waits_for(&changes) && parked.fetch.is_ready(&self.store),
            _ => false,
        };
        let ready: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, open)| is_ready(&open.phase))
            .map(|(connection, _)| *connection)
            .collect();
        self.finish(&ready);
    }

    /// A member is answered, if its connection is still there.
    fn finish_wait(&mut self, answer: Answer) {
        let Some(open) = self.connections.get_mut(&answer.to) else { return };
        match (std::mem::replace(&mut open.phase, Phase::Idle), answer.reply) {
            (Phase::Waiting(to), Reply::Joined(response)) => {
                self.reply::<JoinGroupRequest>(join_group::fitting(response, to.version), &to);
            }
            (Phase::Waiting(to), Reply::Synced(response)) => self.reply::<SyncGroupRequest>(response, &to),
            (phase, _) => open.phase = phase,
        }
        self.serve_queue(answer.to);
    }

    /// Ends the phases whose time has come.
    pub(crate) fn finish_due(&mut self, now: Instant) {
        let is_due = |phase: &Phase| phase.deadline().is_some_and(|deadline| deadline <= now);
        let due = self.connections.iter().filter(|(_, open)| is_due(&open.phase));
        let due: Vec<_> = due.map(|(connection, _)| *connection).collect();
        self.finish(&due);
    }

    fn finish(&mut self, connections: &[ConnectionId]) {
        for &connection in connections {
            let Some(open) = self.connections.get_mut(&connection) else { continue };
            match std::mem::replace(&mut open.phase, Phase::Idle) {
                Phase::Parked(parked) => self.answer_fetch(&parked.fetch, &parked.to),
                Phase::Held { outputs, .. } => outputs.into_iter().for_each(|output| self.push(output)),
                phase @ (Phase::Idle | Phase::Waiting(_) | Phase::Silent) => open.phase = phase,
            }
            self.serve_queue(connection);
        }
    }

    /// Closes a connection from this side.
    pub(crate) fn close(&mut self, connection: ConnectionId) {
        if self.connections.contains_key(&connection) {
            self.push(Output::Close { connection });
        }
    }

    /// A frame that cannot be read, or asks for what is not spoken, closes the connection, as Kafka does.
    fn serve_frame(&mut self, connection: ConnectionId, node: i32, frame: &Bytes) {
        if let Err(error) = self.try_frame(connection, node, frame) {
            tracing::debug!(%connection, node, %error, "closing a connection whose request cannot be read");
            self.close(connection);
        }
    }

    fn try_frame(&mut self, connection: ConnectionId, node: i32, frame: &Bytes) -> Result<(), DecodeError> {
        let mut input = Input::new(frame.clone());
        let header = decode_request_header(&mut input)?;
        let now = self.now();
        self.received.push(now, node, connection, &header, frame);
        let is_spoken = api::versions(&self.store, header.api)
            .is_some_and(|(min, max)| (min..=max).contains(&header.version));
        let asked = Asked { connection, node, header: &header };
        match (is_spoken, header.api) {
            (true, _) => self.serve(&asked, input),
            (false, ApiKey::ApiVersions) => {
                self.answer_unsupported(&asked);
                Ok(())
            }
            (false, api) => {
                tracing::debug!(%connection, ?api, header.version, "closing a connection: not spoken");
                self.close(connection);
                Ok(())
            }
        }
    }

    fn serve(&mut self, asked: &Asked<'_>, input: Input) -> Result<(), DecodeError> {
        match asked.header.api {
            ApiKey::Produce => self.answer::<ProduceRequest>(asked, input),
            ApiKey::Fetch => self.begin_fetch(asked, input),
            ApiKey::ListOffsets => self.answer::<ListOffsetsRequest>(asked, input),
            ApiKey::Metadata => self.answer::<MetadataRequest>(asked, input),
            ApiKey::OffsetCommit => self.answer::<OffsetCommitRequest>(asked, input),
            ApiKey::OffsetFetch => self.answer::<OffsetFetchRequest>(asked, input),
            ApiKey::FindCoordinator => self.answer::<FindCoordinatorRequest>(asked, input),
            ApiKey::JoinGroup => self.wait::<JoinGroupRequest>(asked, input),
            ApiKey::Heartbeat => self.answer::<HeartbeatRequest>(asked, input),
            ApiKey::LeaveGroup => self.answer::<LeaveGroupRequest>(asked, input),
            ApiKey::SyncGroup => self.wait::<SyncGroupRequest>(asked, input),
            ApiKey::DescribeGroups => self.answer::<DescribeGroupsRequest>(asked, input),
            ApiKey::ListGroups => self.answer::<ListGroupsRequest>(asked, input),
            ApiKey::ApiVersions => self.answer::<ApiVersionsRequest>(asked, input),
            ApiKey::CreateTopics => self.answer::<CreateTopicsRequest>(asked, input),
            ApiKey::DeleteTopics => self.answer::<DeleteTopicsRequest>(asked, input),
            ApiKey::DeleteRecords => self.answer::<DeleteRecordsRequest>(asked, input),
            ApiKey::InitProducerId => self.answer::<InitProducerIdRequest>(asked, input),
            ApiKey::OffsetForLeaderEpoch => self.answer::<OffsetForLeaderEpochRequest>(asked, input),
            ApiKey::CreatePartitions => self.answer::<CreatePartitionsRequest>(asked, input),
            ApiKey::DeleteGroups => self.answer::<DeleteGroupsRequest>(asked, input),
            _ => {
                self.close(asked.connection);
                Ok(())
            }
        }
    }

    fn answer<R: Serve>(&mut self, asked: &Asked<'_>, input: Input) -> Result<(), DecodeError>
    where
        R::Response: 'static,
    {
        let Some((request, call, to)) = self.receive::<R>(asked, input)? else { return Ok(()) };
        match request.serve(&mut self.store, &call) {
            Served::Nothing => {}
            Served::Hangup => self.close(to.connection),
            Served::Reply(response) => self.reply::<R>(response, &to),
        }
        Ok(())
    }

    fn wait<R: Wait>(&mut self, asked: &Asked<'_>, input: Input) -> Result<(), DecodeError> {
        let Some((request, call, to)) = self.receive::<R>(asked, input)? else { return Ok(()) };
        self.set_phase(asked.connection, Phase::Waiting(Box::new(to)));
        request.begin(&mut self.store, &call);
        Ok(())
    }

    fn begin_fetch(&mut self, asked: &Asked<'_>, input: Input) -> Result<(), DecodeError> {
        let Some((request, call, to)) = self.receive::<FetchRequest>(asked, input)? else { return Ok(()) };
        let now = self.now();
        let fetch = Fetch::new(&request, &self.store, &call, now);
        if fetch.is_ready_at_once(&self.store, now) {
            self.answer_fetch(&fetch, &to);
        } else if let Some(open) = self.connections.get_mut(&asked.connection) {
            open.phase = Phase::Parked(Box::new(Parked { fetch, to }));
        }
        Ok(())
    }

    /// Reads a request and lets the faults have it. `None`: they kept it.
    fn receive<R: Asks>(
        &mut self,
        asked: &Asked<'_>,
        mut input: Input,
    ) -> Result<Option<(R, Call, ReplyTo)>, DecodeError> {
        let &Asked { connection, node, header } = asked;
        let request = R::decode(&mut input, header.version)?;
        input.finish()?;
        let asks_for = |place: &Place| {
            place.group().is_none_or(|group| request.asks_for_group(group))
                && (place.is_any_partition() || request.asks_for(&self.store, place))
        };
        let effects = self.faults.take(R::KEY, node, connection, asks_for);
        let Some(mut effects) = self.admit(connection, effects) else { return Ok(None) };
        let mut errors = std::mem::take(&mut effects.errors);
        if !R::has_top_level_error(header.version) {
            errors = errors.without_top();
        }
        let call = Call {
            node,
            connection,
            client_id: header.client_id.clone(),
            version: header.version,
            now: self.now(),
            wall_ms: self.wall_ms,
            errors,
        };
        Ok(Some((request, call, asked.reply_to(effects))))
    }

    /// Lets faults have a request that is not to be served.
    fn admit(&mut self, connection: ConnectionId, effects: Effects) -> Option<Effects> {
        if effects.close {
            self.close(connection);
        } else if effects.silence {
            self.set_phase(connection, Phase::Silent);
        } else {
            return Some(effects);
        }
        None
    }

    fn answer_unsupported(&mut self, asked: &Asked<'_>) {
        let effects = self.faults.take(asked.header.api, asked.node, asked.connection, |_| false);
        let Some(effects) = self.admit(asked.connection, effects) else { return };
        let response = api_versions::unsupported(&self.store);
        let to = ReplyTo { version: 0, ..asked.reply_to(effects) };
        self.reply::<ApiVersionsRequest>(response, &to);
    }

    fn answer_fetch(&mut self, fetch: &Fetch, to: &ReplyTo) {
        let answer = fetch.answer(&self.store);
        if to.effects.change_the_reply() {
            let response = answer.into_response(&to.effects.corrupt);
            return self.reply::<FetchRequest>(response, to);
        }
        let frame = answer.frame(to.version, to.correlation_id);
        self.deliver(frame, to);
    }

    fn reply<R: Asks>(&mut self, mut response: R::Response, to: &ReplyTo)
    where
        R::Response: 'static,
    {
        to.effects.rewrite(&mut response, to.version);
        let frame = encode_response::<R>(&response, to.version, to.correlation_id);
        self.deliver(frame, to);
    }

    fn deliver(&mut self, frame: Result<Vec<u8>, EncodeError>, to: &ReplyTo) {
        let connection = to.connection;
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(%connection, %error, "closing a connection whose reply cannot be written");
                return self.close(connection);
            }
        };
        let (bytes, closes) = to.effects.mangle(frame.into());
        let send = Output::Send { connection, bytes };
        let outputs = std::iter::once(send).chain(closes.then_some(Output::Close { connection }));
        if to.effects.delay == Duration::ZERO {
            outputs.for_each(|output| self.push(output));
        } else {
            let until = self.now() + to.effects.delay;
            self.set_phase(connection, Phase::Held { until, outputs: outputs.collect() });
        }
    }

    fn push(&mut self, output: Output) {
        if let Output::Close { connection } = &output {
            self.connections.remove(connection);
        }
        self.outputs.push_back(output);
    }

    fn set_phase(&mut self, connection: ConnectionId, phase: Phase) {
        if let Some(open) = self.connections.get_mut(&connection) {
            open.phase = phase;
        }
    }

    /// The latest time told. Requests and their replies come after one was.
    fn now(&self) -> Instant {
        self.now.expect("frames and timeouts tell the time, and nothing is served before one")
    }
}

/// A request, before it is read.
struct Asked<'a> {
    connection: ConnectionId,
    node: i32,
    header: &'a RequestHeader,
}

impl Asked<'_> {
    fn reply_to(&self, effects: Effects) -> ReplyTo {
        let &RequestHeader { version, correlation_id, .. } = self.header;
        ReplyTo { connection: self.connection, version, correlation_id, effects }
    }
}
