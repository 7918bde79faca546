//! From a request's bytes to the handler of its API and version.

use core::future::ready;
use std::rc::Rc;

use engine_io::Io;
use engine_record::Instant;
use net_wire::messages::api_versions::ApiVersionsResponse;
use net_wire::messages::{DeleteRecordsRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest};
use net_wire::{ApiKey, DecodeError, Message, Reader, RequestHeader};

use crate::connection::Connection;
use crate::forward;
use crate::frame_reader::RequestFrame;
use crate::handlers;
use crate::metrics::Stage;
use crate::reply_memory;
use crate::reply_queue::PendingReply;
use crate::request_limits;
use crate::request_memory::Held;
use crate::response::{CloseReason, Response};
use crate::shard::Shard;
use crate::throttle;

/// A request whose header has been read.
pub(crate) struct Request<I: Io> {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) connection: Rc<Connection<I>>,
    /// When its last byte was here.
    pub(crate) received_at: Instant,
    /// How long the client is told to wait, in milliseconds: its connection is muted for as long.
    pub(crate) throttle_time_ms: i32,
    frame: Vec<u8>,
    /// Where the body begins in `frame`.
    body: usize,
    memory: Held,
}

impl<I: Io> Request<I> {
    fn parse(
        frame: RequestFrame,
        connection: &Rc<Connection<I>>,
        received_at: Instant,
    ) -> Result<Self, CloseReason> {
        let mut reader = Reader::new(&frame.bytes);
        let header = RequestHeader::decode(&mut reader)?;
        Ok(Self {
            api: header.api,
            version: header.version,
            correlation_id: header.correlation_id,
            connection: Rc::clone(connection),
            received_at,
            throttle_time_ms: 0,
            body: frame.bytes.len() - reader.remaining(),
            frame: frame.bytes,
            memory: frame.memory,
        })
    }

    /// The body's bytes.
    pub(crate) fn body(&self) -> &[u8] {
        &self.frame[self.body..]
    }

    /// The whole of it, without its size.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// The same, with its memory.
    pub(crate) fn into_frame(self) -> (Vec<u8>, Held) {
        (self.frame, self.memory)
    }

    /// Whose it is, and how long the client is told to wait: what an owner of partitions is told of it.
    pub(crate) fn asker(&self) -> (&Connection<I>, i32) {
        (&self.connection, self.throttle_time_ms)
    }

    /// Decodes the body.
    pub(crate) fn decode<'a, M: Message<'a>>(&'a self) -> Result<M, CloseReason> {
        Ok(decode_front(self.body(), self.version)?)
    }

    /// Encodes the answer.
    pub(crate) fn answer<'m, M: Message<'m>>(&self, message: &M) -> Response<I> {
        Response::encode(self.correlation_id, self.version, message)
    }
}

/// Runs the request's first stage, which fixes its order. What is left is the reply, to be driven in turn.
pub(crate) async fn start<I: Io>(
    shard: &Rc<Shard<I>>,
    connection: &Rc<Connection<I>>,
    frame: RequestFrame,
) -> PendingReply<I> {
    match Request::parse(frame, connection, shard.io().now()) {
        Ok(mut request) => {
            hold_back(shard, &mut request);
            begin(shard, request).await
        }
        Err(reason) => Box::pin(ready(Response::Close(reason))),
    }
}

/// The same for what another shard forwards, which has told its client to wait so long.
pub(crate) async fn start_forwarded<I: Io>(
    shard: &Rc<Shard<I>>,
    connection: &Rc<Connection<I>>,
    frame: RequestFrame,
    throttle_time_ms: i32,
) -> PendingReply<I> {
    match Request::parse(frame, connection, shard.io().now()) {
        Ok(request) => begin(shard, Request { throttle_time_ms, ..request }).await,
        Err(reason) => Box::pin(ready(Response::Close(reason))),
    }
}

async fn begin<I: Io>(shard: &Rc<Shard<I>>, request: Request<I>) -> PendingReply<I> {
    if !request.api.versions().contains(request.version) {
        return Box::pin(ready(unsupported_version(&request)));
    }
    if let Err(reason) = request_limits::check(&request) {
        return Box::pin(ready(Response::Close(reason)));
    }
    // A produce's first stage takes kilobytes while it runs: in a place of its own, which an idle connection doesn't have.
    if request.api == ApiKey::Produce && forward::forwards(shard, &request.connection) {
        Box::pin(forward::produce::start(shard, request)).await
    } else if request.api == ApiKey::Produce {
        Box::pin(handlers::produce::start(shard, request)).await
    } else {
        Box::pin(finish(Rc::clone(shard), request))
    }
}

/// Mutes the connection where the shard is short of memory for requests and this client holds much of it.
fn hold_back<I: Io>(shard: &Shard<I>, request: &mut Request<I>) {
    let held = request.connection.request_memory().used();
    let pause = throttle::pause(shard.request_load(), held);
    if !pause.is_zero() && matches!(request.api, ApiKey::Produce | ApiKey::Fetch) {
        request.throttle_time_ms = throttle::told(pause);
        request.connection.mute(shard.io().now().after(pause));
    }
}

async fn finish<I: Io>(shard: Rc<Shard<I>>, request: Request<I>) -> Response<I> {
    let (api, received_at) = (request.api, request.received_at);
    let _turn = match request_limits::admit(&shard, &request).await {
        Ok(turn) => turn,
        Err(reason) => return Response::Close(reason),
    };
    let answered = match forwarded(&shard, &request).await {
        Ok(Some(response)) => Ok(response),
        Ok(None) => handle(&shard, &request).await,
        Err(reason) => Err(reason),
    };
    shard.metrics().stage(Stage::of(api), received_at, shard.io().now());
    reply_memory::paid(&shard, api, answered.unwrap_or_else(Response::Close)).await
}

/// What other shards answer, where all accept clients from one port and not all is this shard's own.
async fn forwarded<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Option<Response<I>>, CloseReason> {
    if !forward::forwards(shard, &request.connection) {
        return Ok(None);
    }
    match request.api {
        ApiKey::ListOffsets => {
            forward::request::handle::<I, ListOffsetsRequest<'_>>(shard, request).await
        }
        ApiKey::DeleteRecords => {
            forward::request::handle::<I, DeleteRecordsRequest<'_>>(shard, request).await
        }
        ApiKey::OffsetForLeaderEpoch => {
            forward::request::handle::<I, OffsetForLeaderEpochRequest<'_>>(shard, request).await
        }
        ApiKey::DescribeLogDirs => forward::gather::log_dirs(shard, request).await.map(Some),
        // Has its own way, by its session.
        ApiKey::Fetch
        // Any shard answers these.
        | ApiKey::Metadata
        | ApiKey::ApiVersions
        | ApiKey::CreateTopics
        | ApiKey::CreatePartitions
        | ApiKey::DeleteTopics
        | ApiKey::InitProducerId
        | ApiKey::DescribeConfigs
        | ApiKey::AlterConfigs
        | ApiKey::IncrementalAlterConfigs
        | ApiKey::DescribeCluster
        | ApiKey::DescribeTopicPartitions
        | ApiKey::ListConfigResources
        | ApiKey::Produce => Ok(None),
    }
}

async fn handle<I: Io>(shard: &Rc<Shard<I>>, request: &Request<I>) -> Result<Response<I>, CloseReason> {
    match request.api {
        ApiKey::Fetch => handlers::fetch::handle(shard, request).await,
        ApiKey::ListOffsets => handlers::list_offsets::handle(shard, request).await,
        ApiKey::Metadata => handlers::metadata::handle(shard, request).await,
        ApiKey::ApiVersions => handlers::api_versions::handle(request),
        ApiKey::CreateTopics => handlers::create_topics::handle(shard, request).await,
        ApiKey::DeleteTopics => handlers::delete_topics::handle(shard, request).await,
        ApiKey::DeleteRecords => handlers::delete_records::handle(shard, request).await,
        ApiKey::InitProducerId => handlers::init_producer_id::handle(shard, request).await,
        ApiKey::OffsetForLeaderEpoch => handlers::offset_for_leader_epoch::handle(shard, request).await,
        ApiKey::DescribeConfigs => handlers::describe_configs::handle(shard, request).await,
        ApiKey::AlterConfigs => handlers::alter_configs::handle(shard, request).await,
        ApiKey::IncrementalAlterConfigs => handlers::alter_configs::handle_incremental(shard, request).await,
        ApiKey::CreatePartitions => handlers::create_partitions::handle(shard, request).await,
        ApiKey::DescribeLogDirs => handlers::describe_log_dirs::handle(shard, request).await,
        ApiKey::DescribeCluster => handlers::describe_cluster::handle(shard, request).await,
        ApiKey::DescribeTopicPartitions => handlers::describe_topic_partitions::handle(shard, request).await,
        ApiKey::ListConfigResources => handlers::list_config_resources::handle(shard, request).await,
        ApiKey::Produce => unreachable!("a produce request has a first stage of its own"),
    }
}

/// Only ApiVersions can be answered in a version the broker doesn't know: with what it does know, in version 0.
fn unsupported_version<I: Io>(request: &Request<I>) -> Response<I> {
    if request.api == ApiKey::ApiVersions {
        return Response::encode(request.correlation_id, 0, &ApiVersionsResponse::unsupported_version());
    }
    Response::Close(CloseReason::UnsupportedVersion { api: request.api, version: request.version })
}

/// Decodes the message at the front of `body`. As in Apache's broker, nothing looks at what follows its last field,
/// and librdkafka depends on that: from version 9 of Metadata on, it asks for all topics with a count of four bytes,
/// whose first alone already says null. A produce is read by rules of its own, and to its last byte.
fn decode_front<'a, M: Message<'a>>(body: &'a [u8], version: i16) -> Result<M, DecodeError> {
    match M::decode(&mut Reader::new(body), version) {
        Err(DecodeError::Trailing { at, .. }) => M::decode(&mut Reader::new(&body[..at.position]), version),
        decoded => decoded,
    }
}

#[cfg(test)]
mod tests {
    use net_wire::messages::MetadataRequest;

    use super::*;

    /// As confluent-kafka 2.16 sends it in version 13: four bytes for null, automatic creation, authorized
    /// operations, no tagged fields.
    #[test]
    fn librdkafka_may_ask_for_all_topics_in_its_own_way() {
        let body = [0, 0, 0, 0, 1, 0, 0];
        let request: MetadataRequest<'_> = decode_front(&body, 13).unwrap();
        assert_eq!(request.topics, None);
        assert!(!request.allow_auto_topic_creation);
    }

    #[test]
    fn a_body_that_ends_too_early_is_refused() {
        assert!(decode_front::<MetadataRequest<'_>>(&[0, 0], 13).is_err());
    }
}
