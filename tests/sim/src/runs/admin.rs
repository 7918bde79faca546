//! Topics come, grow and go; each brings producers and consumers of its own, and some a client that changes settings.

use core::ops::Range;
use std::rc::Rc;

use engine_io::{Io, Task};
use net_wire::messages::create_topics::CreatableTopic;
use net_wire::messages::delete_topics::DeleteTopicState;
use net_wire::messages::{CreateTopicsRequest, DeleteTopicsRequest};
use net_wire::{ApiKey, ErrorCode};
use sim::SimTask;

use super::consumer::{consume, read_whole};
use super::directory::{self, Topic};
use super::growth::grow;
use super::history::Event;
use super::producer::produce;
use super::scenario::Scenario;
use super::setting::Setting;
use super::settings::alter;
use super::wire::{Lost, Wire};

/// In these versions deletion names ids.
const DELETE_BY_ID: i16 = 6;

/// What a client may be told in passing; it tries again.
pub(super) const PASSING: [ErrorCode; 2] = [ErrorCode::NOT_CONTROLLER, ErrorCode::THROTTLING_QUOTA_EXCEEDED];

/// How often a node is asked that serves in peace before it counts as one that doesn't.
const TRIES_IN_PEACE: usize = 100;

/// Begins the run's work: the task ends when all clients have.
pub(super) fn begin(setting: &Rc<Setting>, scenario: &Scenario) -> SimTask {
    let working = work(Rc::clone(setting), scenario.topics, scenario.partitions_max, scenario.batches);
    setting.io.spawn(working)
}

async fn work(setting: Rc<Setting>, topics: u64, partitions_max: u64, batches: u64) {
    let mut clients = Vec::new();
    let mut made = 0;
    loop {
        let partitions = i32::try_from(setting.chance.pick(1..=partitions_max)).expect("partitions are few");
        let topic = create(&setting, format!("topic-{made}"), partitions).await;
        made += 1;
        clients.extend(serve(&setting, &topic, 0..topic.partitions, batches));
        if setting.chance.one_in(3) {
            clients.push(setting.io.spawn(grow(Rc::clone(&setting), topic.clone(), batches)));
        }
        if setting.chance.one_in(2) {
            clients.push(setting.io.spawn(alter(Rc::clone(&setting), topic.clone())));
        }
        if made > topics && setting.chance.one_in(2) {
            let deleting = delete_later(Rc::clone(&setting), topic);
            clients.push(setting.io.spawn(deleting));
        }
        if made >= topics {
            setting.pause(100..=3_000).await;
        }
        if setting.is_settling() {
            break;
        }
    }
    for client in clients {
        client.join().await;
    }
}

/// Producers and consumers for each of these partitions.
pub(super) fn serve(
    setting: &Rc<Setting>,
    topic: &Topic,
    partitions: Range<i32>,
    batches: u64,
) -> Vec<SimTask> {
    let mut clients = Vec::new();
    for partition in partitions {
        for _ in 0..setting.chance.pick(1..=2) {
            let producing = produce(Rc::clone(setting), topic.clone(), partition, batches);
            clients.push(setting.io.spawn(producing));
        }
        for _ in 0..setting.chance.pick(0..=2) {
            let consuming = consume(Rc::clone(setting), topic.clone(), partition);
            clients.push(setting.io.spawn(consuming));
        }
    }
    clients
}

/// Creates a topic, however often that must be tried.
async fn create(setting: &Rc<Setting>, name: String, partitions: i32) -> Topic {
    loop {
        if let Ok(true) = try_create(setting, &name, partitions).await
            && let Some(topic) = found(setting, &name).await
        {
            setting.history.note(Event::TopicCreated { topic: topic.id });
            return topic;
        }
        setting.pause(1..=200).await;
    }
}

/// Whether the topic is there now, by this call or by one whose answer was lost.
async fn try_create(setting: &Rc<Setting>, name: &str, num_partitions: i32) -> Result<bool, Lost> {
    let topic = CreatableTopic {
        name,
        num_partitions,
        replication_factor: -1,
        assignments: Vec::new(),
        configs: Vec::new(),
    };
    // Counts by default come with version 4.
    let version = setting.chance.version(4, ApiKey::CreateTopics.versions().max);
    let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    let mut wire = Wire::connect(setting, setting.some_address()).await?;
    let answer = wire.ask(version, &request).await?;
    let error = answer.body().topics.first().map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |t| t.error_code);
    if error.is_none() || error == ErrorCode::TOPIC_ALREADY_EXISTS {
        return Ok(true);
    }
    if !PASSING.contains(&error) {
        setting.history.note(Event::Forbidden { request: "CreateTopics", error, log: None });
    }
    Ok(false)
}

/// The created topic: one that can't be found any more is a broken promise.
async fn found(setting: &Rc<Setting>, name: &str) -> Option<Topic> {
    match directory::find(setting, name).await {
        Ok(Some(topic)) => Some(topic),
        Ok(None) => {
            let error = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            setting.history.note(Event::Forbidden { request: "Metadata", error, log: None });
            None
        }
        Err(Lost) => None,
    }
}

async fn delete_later(setting: Rc<Setting>, topic: Topic) {
    setting.pause(10..=4_000).await;
    setting.history.note(Event::DeletionAsked { topic: topic.id });
    while !matches!(try_delete(&setting, &topic).await, Ok(true)) {
        setting.pause(1..=200).await;
    }
    setting.history.note(Event::TopicDeleted { topic: topic.id });
}

/// Whether the topic is gone now.
async fn try_delete(setting: &Rc<Setting>, topic: &Topic) -> Result<bool, Lost> {
    let range = ApiKey::DeleteTopics.versions();
    let version = setting.chance.version(range.min, range.max);
    let mut request = DeleteTopicsRequest { timeout_ms: 10_000, ..DeleteTopicsRequest::default() };
    if version >= DELETE_BY_ID {
        request.topics = vec![DeleteTopicState { name: None, topic_id: topic.id }];
    } else {
        request.topic_names = vec![&topic.name];
    }
    let mut wire = Wire::connect(setting, setting.some_address()).await?;
    let answer = wire.ask(version, &request).await?;
    let error = answer.body().responses.first().map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |t| t.error_code);
    let gone = [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::UNKNOWN_TOPIC_ID];
    if !gone.contains(&error) && !PASSING.contains(&error) {
        setting.history.note(Event::Forbidden { request: "DeleteTopics", error, log: None });
    }
    Ok(gone.contains(&error))
}

/// Notes all topics and all logs as they are in the end.
pub(super) async fn take_stock(setting: &Rc<Setting>) -> Result<(), Lost> {
    let mut topics = directory::all(setting).await;
    for _ in 0..TRIES_IN_PEACE {
        // The address drawn may be that of a shard the node doesn't have now.
        if topics.is_err() {
            topics = directory::all(setting).await;
        }
    }
    let topics = topics?;
    setting.history.note(Event::FinalTopics { topics: topics.iter().map(|topic| topic.id).collect() });
    for topic in &topics {
        for partition in 0..topic.partitions {
            let mut read = read_whole(setting, topic, partition).await;
            for _ in 0..TRIES_IN_PEACE {
                if read.is_err() {
                    read = read_whole(setting, topic, partition).await;
                }
            }
            read?;
        }
    }
    Ok(())
}
