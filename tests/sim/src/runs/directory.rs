//! Who leads what: asked from the node itself, again and again.

use std::net::SocketAddr;
use std::rc::Rc;

use net_wire::messages::list_offsets::{EARLIEST, ListOffsetsPartition, ListOffsetsTopic};
use net_wire::messages::metadata::{MetadataRequestTopic, MetadataResponse};
use net_wire::messages::{ListOffsetsRequest, MetadataRequest};
use net_wire::{ApiKey, ErrorCode, Uuid};

use super::history::{Event, Log};
use super::setting::Setting;
use super::wire::{Lost, Wire};

/// From this version on answers carry topic ids.
const IDS_FROM: i16 = 10;
const EPOCHS_FROM: i16 = 7;

/// A topic of a run. Its name is never used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) id: Uuid,
    pub(super) partitions: i32,
}

impl Topic {
    pub(super) fn log(&self, partition: i32) -> Log {
        Log { topic: self.id, partition }
    }
}

/// A connection to a partition's leader.
pub(super) struct Led {
    pub(super) wire: Wire,
    /// The leader's epoch; -1 where the version asked in doesn't tell.
    pub(super) epoch: i32,
}

/// Why there is no connection to a leader.
pub(super) enum NoLeader {
    /// Not now.
    Now,
    /// The topic is gone, which somebody asked for.
    Gone,
}

impl From<Lost> for NoLeader {
    fn from(Lost: Lost) -> Self {
        Self::Now
    }
}

fn ask_for(name: &str) -> MetadataRequest<'_> {
    let topic = MetadataRequestTopic { topic_id: Uuid::ZERO, name: Some(name) };
    MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    }
}

/// The topic by its name; `None` where there is none.
pub(super) async fn find(setting: &Rc<Setting>, name: &str) -> Result<Option<Topic>, Lost> {
    let mut wire = Wire::connect(setting, setting.some_address()).await?;
    let version = setting.chance.version(IDS_FROM, ApiKey::Metadata.versions().max);
    let answer = wire.ask(version, &ask_for(name)).await?;
    let body = answer.body();
    Ok(body.topics.iter().find(|topic| topic.error_code.is_none()).map(|topic| Topic {
        name: name.to_owned(),
        id: topic.topic_id,
        partitions: i32::try_from(topic.partitions.len()).expect("partitions are few"),
    }))
}

/// Every topic there is.
pub(super) async fn all(setting: &Rc<Setting>) -> Result<Vec<Topic>, Lost> {
    let mut wire = Wire::connect(setting, setting.some_address()).await?;
    let request = MetadataRequest { topics: None, ..MetadataRequest::default() };
    let answer = wire.ask(ApiKey::Metadata.versions().max, &request).await?;
    let topics = answer.body().topics;
    Ok(topics
        .iter()
        .map(|topic| Topic {
            name: topic.name.unwrap_or_default().to_owned(),
            id: topic.topic_id,
            partitions: i32::try_from(topic.partitions.len()).expect("partitions are few"),
        })
        .collect())
}

/// Connects to the leader of a partition.
pub(super) async fn leader(setting: &Rc<Setting>, topic: &Topic, partition: i32) -> Result<Led, NoLeader> {
    let mut wire = Wire::connect(setting, setting.some_address()).await?;
    let version = setting.chance.version(EPOCHS_FROM, ApiKey::Metadata.versions().max);
    // Versions below 4 would create the topic.
    let answer = wire.ask(version, &ask_for(&topic.name)).await?;
    let body = answer.body();
    let error = body.topics.first().map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |topic| topic.error_code);
    if !error.is_none() {
        return Err(without_topic(setting, topic, "Metadata", error));
    }
    let (address, epoch) = address_of(&body, partition).ok_or(NoLeader::Now)?;
    Ok(Led { wire: Wire::connect(setting, address).await?, epoch })
}

/// Where a partition's log starts, of its leader, or what it says instead.
pub(super) async fn log_start(
    setting: &Setting,
    leader: &mut Wire,
    topic: &Topic,
    partition: i32,
) -> Result<Result<i64, ErrorCode>, Lost> {
    let asked =
        ListOffsetsPartition { partition_index: partition, timestamp: EARLIEST, ..Default::default() };
    let topics = vec![ListOffsetsTopic { name: &topic.name, partitions: vec![asked] }];
    let request = ListOffsetsRequest { replica_id: -1, topics, ..ListOffsetsRequest::default() };
    let range = ApiKey::ListOffsets.versions();
    let answer = leader.ask(setting.chance.version(range.min, range.max), &request).await?;
    let body = answer.body();
    let told = body.topics.first().and_then(|topic| topic.partitions.first());
    let told =
        told.map(|told| if told.error_code.is_none() { Ok(told.offset) } else { Err(told.error_code) });
    Ok(told.unwrap_or(Err(ErrorCode::UNKNOWN_SERVER_ERROR)))
}

/// A topic that isn't there may only be missing where somebody has asked for its deletion.
pub(super) fn without_topic(
    setting: &Setting,
    topic: &Topic,
    request: &'static str,
    error: ErrorCode,
) -> NoLeader {
    let missing = [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::UNKNOWN_TOPIC_ID];
    if missing.contains(&error) && setting.history.is_deletion_asked(topic.id) {
        return NoLeader::Gone;
    }
    setting.history.note(Event::Forbidden { request, error, log: Some(topic.log(0)) });
    NoLeader::Now
}

fn address_of(body: &MetadataResponse<'_>, partition: i32) -> Option<(SocketAddr, i32)> {
    let partitions = &body.topics.first()?.partitions;
    let led = partitions.iter().find(|led| led.partition_index == partition)?;
    let broker = body.brokers.iter().find(|broker| broker.node_id == led.leader_id)?;
    let address = SocketAddr::new(broker.host.parse().ok()?, u16::try_from(broker.port).ok()?);
    Some((address, led.leader_epoch))
}
