//! InitProducerId: an identity for an idempotent producer.

use std::rc::Rc;

use engine_io::Io;
use engine_record::ProducerId;
use net_wire::ErrorCode;
use net_wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use crate::dispatch::Request;
use crate::error_code;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::response::{CloseReason, Response};
use crate::shard::Shard;

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: InitProducerIdRequest<'_> = request.decode()?;
    let Decision::Allowed =
        authorize(&request.connection.principal, Operation::IdempotentWrite, Resource::Cluster);
    // Without a transactional id the identity held already doesn't matter: a fresh one fences nobody.
    let identity = match asked.transactional_id {
        // Half an identity is none.
        None if (ProducerId(asked.producer_id) == ProducerId::NONE) != (asked.producer_epoch == -1) => {
            Err(ErrorCode::INVALID_REQUEST)
        }
        None => shard.next_producer_id().await.map_err(|error| error_code::of_control(&error)),
        Some("") => Err(ErrorCode::INVALID_REQUEST),
        Some(_) => Err(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    };
    let (error_code, ProducerId(producer_id)) = match identity {
        Ok(id) => (ErrorCode::NONE, id),
        Err(error) => (error, ProducerId::NONE),
    };
    let producer_epoch = if error_code.is_none() { 0 } else { -1 };
    Ok(request.answer(&InitProducerIdResponse {
        throttle_time_ms: 0,
        error_code,
        producer_id,
        producer_epoch,
    }))
}
