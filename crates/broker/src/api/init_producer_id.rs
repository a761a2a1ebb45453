//! InitProducerId, versions 0 to 5.
//!
//! - Hands out ids, 0, 1, 2, .., each with epoch 0, for idempotent producers, whose sequence numbers Produce then accepts
//!   as they come.
//!
//! Not imitated: transactional ids, refused with UNSUPPORTED_VERSION, which a client does not try again.

use super::{Asks, Call, Serve, Served};
use crate::store::Store;
use ottla_wire::code::Code;
use ottla_wire::message::{InitProducerIdRequest, InitProducerIdResponse};

impl Asks for InitProducerIdRequest {
    fn has_top_level_error(_version: i16) -> bool {
        true
    }
}

impl Serve for InitProducerIdRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<InitProducerIdResponse> {
        let code = match call.errors.top() {
            Some(code) => code,
            None if self.transactional_id.is_some() => Code::UNSUPPORTED_VERSION,
            None => Code::NONE,
        };
        let (producer_id, producer_epoch) = match code {
            Code::NONE => (store.new_producer_id(), 0),
            _ => (-1, -1),
        };
        Served::Reply(InitProducerIdResponse {
            error_code: code.0,
            producer_id,
            producer_epoch,
            ..Default::default()
        })
    }
}
