//! An exchange read as what it is.

use crate::frames::Exchange;
use crate::reread;
use crate::shape::Shape;
use ottla_wire::frame;
use ottla_wire::message::*;

/// The content of both frames.
pub(crate) struct Content {
    pub(crate) request: Shape,
    pub(crate) reply: Option<Shape>,
}

/// Reads both frames, and writes them anew, which has to give the same bytes.
pub(crate) fn read(exchange: &Exchange) -> Result<Content, String> {
    macro_rules! read_as_one_of {
        ($($request:ident),*) => {
            $(if exchange.api == $request::KEY {
                return read_as::<$request>(exchange);
            })*
        };
    }
    read_as_one_of!(
        AddPartitionsToTxnRequest,
        ApiVersionsRequest,
        ConsumerGroupDescribeRequest,
        ConsumerGroupHeartbeatRequest,
        CreatePartitionsRequest,
        CreateTopicsRequest,
        DeleteGroupsRequest,
        DeleteRecordsRequest,
        DeleteTopicsRequest,
        DescribeGroupsRequest,
        EndTxnRequest,
        FetchRequest,
        FindCoordinatorRequest,
        HeartbeatRequest,
        InitProducerIdRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        ListGroupsRequest,
        ListOffsetsRequest,
        MetadataRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        OffsetForLeaderEpochRequest,
        ProduceRequest,
        SaslAuthenticateRequest,
        SaslHandshakeRequest,
        SyncGroupRequest
    );
    Err("it is not in this list".into())
}

pub(crate) fn read_as<R: Request>(exchange: &Exchange) -> Result<Content, String> {
    let (header, request) =
        reread::request::<R>(&exchange.request).map_err(|error| format!("the request: {error}"))?;
    let named = header.client_id.as_deref() == Some(&*exchange.client);
    if header.api != exchange.api || header.version != exchange.version || !named {
        return Err(format!("it stands at the wrong place: {header:?}"));
    }
    let reply = exchange.reply.as_ref().map(|reply| {
        if frame::correlation_id(reply) != Ok(header.correlation_id) {
            return Err("the reply is to another request".into());
        }
        reread::reply::<R>(reply, exchange.reply_version()).map_err(|error| format!("the reply: {error}"))
    });
    let reply = reply.transpose()?;
    Ok(Content { request: Shape::of(&request), reply: reply.map(|reply| Shape::of(&reply)) })
}
