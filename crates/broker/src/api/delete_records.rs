//! DeleteRecords, versions 0 to 2.
//!
//! - Moves the start of the log up to the offset; -1 is the high watermark, beyond that OFFSET_OUT_OF_RANGE. The batch
//!   that the start falls into stays whole.
//!
//! Not imitated: waiting for replicas; POLICY_VIOLATION on compacted topics.

use super::{Asks, Call, Serve, Served};
use crate::fault::Place;
use crate::store::Store;
use ottla_wire::code::Code;
use ottla_wire::message::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use ottla_wire::message::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use ottla_wire::message::{DeleteRecordsRequest, DeleteRecordsResponse};

impl Asks for DeleteRecordsRequest {
    fn asks_for(&self, _store: &Store, place: &Place) -> bool {
        let has = |topic: &DeleteRecordsTopic| {
            topic.partitions.iter().any(|partition| place.has(&topic.name, partition.partition_index))
        };
        self.topics.iter().any(has)
    }
}

impl Serve for DeleteRecordsRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<DeleteRecordsResponse> {
        let topic = |topic: &DeleteRecordsTopic| DeleteRecordsTopicResult {
            name: topic.name.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|asked| answer(store, call, &topic.name, asked))
                .collect(),
        };
        let topics = self.topics.iter().map(topic).collect();
        Served::Reply(DeleteRecordsResponse { topics, ..Default::default() })
    }
}

fn answer(
    store: &mut Store,
    call: &Call,
    topic: &str,
    asked: &DeleteRecordsPartition,
) -> DeleteRecordsPartitionResult {
    let deleted = delete(store, call, topic, asked);
    DeleteRecordsPartitionResult {
        partition_index: asked.partition_index,
        error_code: super::code(&deleted),
        low_watermark: deleted.unwrap_or(-1),
    }
}

fn delete(store: &mut Store, call: &Call, topic: &str, asked: &DeleteRecordsPartition) -> Result<i64, Code> {
    let index = asked.partition_index;
    if let Some(code) = call.errors.at(topic, index) {
        return Err(code);
    }
    let end = store.led(call.node, topic, index, -1)?.log.high_watermark();
    let start = if asked.offset == -1 { end } else { asked.offset };
    store.delete_records(topic, index, start).map_err(|refused| refused.code)
}
