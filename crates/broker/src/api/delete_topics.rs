//! DeleteTopics, versions 1 to 6.
//!
//! - By name, from version 6 on also by id. The topic and its records are gone at once.
//!
//! Not imitated: NOT_CONTROLLER, TOPIC_DELETION_DISABLED, the time a real cluster takes.

use super::{Asks, Call, Serve, Served};
use crate::Refused;
use crate::fault::Place;
use crate::store::Store;
use ottla_wire::code::Code;
use ottla_wire::message::delete_topics_request::DeleteTopicState;
use ottla_wire::message::delete_topics_response::DeletableTopicResult;
use ottla_wire::message::{DeleteTopicsRequest, DeleteTopicsResponse};

impl Asks for DeleteTopicsRequest {
    fn asks_for(&self, store: &Store, place: &Place) -> bool {
        let by_id = |id| store.topic_by_id(id).map(|topic| topic.name.clone());
        let named = |topic: &DeleteTopicState| topic.name.clone().or_else(|| by_id(topic.topic_id));
        self.topic_names.iter().any(|name| place.has_topic(name))
            || self.topics.iter().filter_map(named).any(|name| place.has_topic(&name))
    }
}

impl Serve for DeleteTopicsRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<DeleteTopicsResponse> {
        let by_name = |name: String| DeleteTopicState { name: Some(name), ..Default::default() };
        let asked = self.topic_names.into_iter().map(by_name).chain(self.topics);
        let responses = asked.map(|topic| answer(store, call, topic)).collect();
        Served::Reply(DeleteTopicsResponse { responses, ..Default::default() })
    }
}

fn answer(store: &mut Store, call: &Call, asked: DeleteTopicState) -> DeletableTopicResult {
    let mut result =
        DeletableTopicResult { name: asked.name, topic_id: asked.topic_id, ..Default::default() };
    match delete(store, call, &mut result) {
        Ok(()) => result,
        Err(refused) => DeletableTopicResult {
            error_code: refused.code.0,
            error_message: Some(refused.message),
            ..result
        },
    }
}

fn delete(store: &mut Store, call: &Call, topic: &mut DeletableTopicResult) -> Result<(), Refused> {
    if topic.name.is_none() {
        let missing = || Refused::new(Code::UNKNOWN_TOPIC_ID, Code::UNKNOWN_TOPIC_ID.sentence());
        let found = store.topic_by_id(topic.topic_id).ok_or_else(missing)?;
        topic.name = Some(found.name.clone());
    }
    let name = topic.name.as_deref().unwrap_or_default();
    if let Some(code) = call.errors.at_topic(name) {
        return Err(Refused::new(code, code.sentence()));
    }
    topic.topic_id = store.delete_topic(name)?;
    Ok(())
}
