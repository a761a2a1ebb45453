//! CreatePartitions, versions 0 to 3.
//!
//! - Any node answers, and the partitions are there at once. Fewer or as many as there are: INVALID_PARTITIONS.
//!
//! Not imitated: NOT_CONTROLLER, reassignments under way, quotas.

use super::create_topics::check_replicas;
use super::{Asks, Call, Serve, Served};
use crate::Refused;
use crate::fault::Place;
use crate::store::Store;
use ottla_wire::code::Code;
use ottla_wire::message::create_partitions_request::CreatePartitionsTopic;
use ottla_wire::message::create_partitions_response::CreatePartitionsTopicResult;
use ottla_wire::message::{CreatePartitionsRequest, CreatePartitionsResponse};

impl Asks for CreatePartitionsRequest {
    fn asks_for(&self, _store: &Store, place: &Place) -> bool {
        self.topics.iter().any(|topic| place.has_topic(&topic.name))
    }
}

impl Serve for CreatePartitionsRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<CreatePartitionsResponse> {
        let answer = |topic: &CreatePartitionsTopic| {
            let made = match call.errors.at_topic(&topic.name) {
                Some(code) => Err(Refused::new(code, code.sentence())),
                None => create(store, topic, self.validate_only),
            };
            let refused = made.err();
            CreatePartitionsTopicResult {
                name: topic.name.clone(),
                error_code: refused.as_ref().map_or(Code::NONE, |refused| refused.code).0,
                error_message: refused.map(|refused| refused.message),
            }
        };
        let results = self.topics.iter().map(answer).collect();
        Served::Reply(CreatePartitionsResponse { results, ..Default::default() })
    }
}

fn create(store: &mut Store, topic: &CreatePartitionsTopic, only_check: bool) -> Result<(), Refused> {
    let mut replicas = store.check_more_partitions(&topic.name, topic.count)?;
    if let Some(assignments) = &topic.assignments {
        if assignments.len() != replicas.len() {
            let message = format!(
                "Attempted to add {} additional partition(s), but only {} assignment(s) were specified.",
                replicas.len(),
                assignments.len()
            );
            return Err(Refused::new(Code::INVALID_REPLICA_ASSIGNMENT, message));
        }
        let named = assignments.iter().map(|assignment| check_replicas(store, &assignment.broker_ids));
        replicas = named.collect::<Result<_, _>>()?;
    }
    if only_check { Ok(()) } else { store.add_partitions(&topic.name, replicas) }
}
