//! A topic gets more partitions while it is used; those that were acknowledged are there from then on, whatever befalls the
//! node.

use std::rc::Rc;

use engine_io::Task;
use net_wire::messages::CreatePartitionsRequest;
use net_wire::messages::create_partitions::CreatePartitionsTopic;
use net_wire::{ApiKey, ErrorCode};

use super::admin::{PASSING, serve};
use super::directory::{self, Topic};
use super::history::Event;
use super::setting::Setting;
use super::wire::{Lost, Wire};

/// What came of asking for more partitions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grown {
    /// They are there.
    Done,
    /// The topic was deleted.
    Gone,
    /// They aren't, or it isn't known.
    NotNow,
}

/// Gives the topic more partitions, however often that must be tried, and has them used.
pub(super) async fn grow(setting: Rc<Setting>, topic: Topic, batches: u64) {
    setting.pause(10..=2_000).await;
    let more = i32::try_from(setting.chance.pick(1..=3)).expect("three are few");
    let grown = Topic { partitions: topic.partitions + more, ..topic.clone() };
    let mut is_asked = false;
    loop {
        match try_grow(&setting, &grown, is_asked).await {
            Ok(Grown::Done) => break,
            Ok(Grown::Gone) => return,
            Ok(Grown::NotNow) | Err(Lost) => {}
        }
        is_asked = true;
        setting.pause(1..=200).await;
    }
    for client in serve(&setting, &grown, topic.partitions..grown.partitions, batches) {
        client.join().await;
    }
    look(&setting, &grown).await;
}

/// Asks for as many partitions as `grown` has. Where that was asked before, another answer may have been lost.
async fn try_grow(setting: &Rc<Setting>, grown: &Topic, is_asked: bool) -> Result<Grown, Lost> {
    let range = ApiKey::CreatePartitions.versions();
    let version = setting.chance.version(range.min, range.max);
    let asked = CreatePartitionsTopic { name: &grown.name, count: grown.partitions, assignments: None };
    let request = CreatePartitionsRequest { topics: vec![asked], timeout_ms: 60_000, validate_only: false };
    let mut wire = Wire::connect(setting, setting.some_address()).await?;
    let answer = wire.ask(version, &request).await?;
    let error = answer.body().results.first().map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |told| told.error_code);
    if error.is_none() || (is_asked && error == ErrorCode::INVALID_PARTITIONS) {
        return Ok(Grown::Done);
    }
    if error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && setting.history.is_deletion_asked(grown.id) {
        return Ok(Grown::Gone);
    }
    if !PASSING.contains(&error) {
        let log = Some(grown.log(grown.partitions));
        setting.history.note(Event::Forbidden { request: "CreatePartitions", error, log });
    }
    Ok(Grown::NotNow)
}

/// No partition is taken away.
async fn look(setting: &Rc<Setting>, grown: &Topic) {
    let Ok(Some(found)) = directory::find(setting, &grown.name).await else { return };
    if found.partitions != grown.partitions {
        let (has, had) = (found.partitions, grown.partitions);
        let why = format!("{} has {has} partitions where {had} were acknowledged", grown.name);
        setting.history.note(Event::Nonsense { request: "Metadata", why });
    }
}
