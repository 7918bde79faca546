//! DescribeTopicPartitions: topics and their partitions in the order of their names, a page at a time.

use core::mem::size_of;
use core::ops::Range;
use std::collections::BTreeSet;
use std::rc::Rc;

use engine_io::Io;
use net_wire::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use net_wire::{ErrorCode, Uuid};
use replication::metadata::image::{Image, Partition, Topic};

use crate::dispatch::Request;
use crate::endpoint;
use crate::error_code;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::operations::TOPIC_OPERATIONS;
use crate::reply_memory;
use crate::response::{CloseReason, Response};
use crate::shard::Shard;
use crate::turns::Turns;

/// A page has at most so many partitions, whatever is asked for: Kafka's default.
const PAGE_PARTITIONS_MAX: i32 = 2_000;

/// A topic of the page; `None` where there is none of that name.
struct Row<'a> {
    name: &'a str,
    found: Option<(&'a Topic, Range<usize>)>,
}

/// What is on a page, and where the next one begins.
struct Page<'a> {
    rows: Vec<Row<'a>>,
    next: Option<Cursor<'a>>,
}

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let asked: DescribeTopicPartitionsRequest<'_> = request.decode()?;
    let mut turns = Turns::new(shard.io());
    let names = names(&asked, &mut turns).await;
    let begin = asked.cursor.clone().unwrap_or_default();
    if asked.cursor.is_some() && !is_possible(&begin, &asked, &names) {
        return Ok(request.answer(&refusal(&names)));
    }
    let image = shard.image();
    let limit = asked.response_partition_limit.clamp(1, PAGE_PARTITIONS_MAX);
    let limit = usize::try_from(limit).expect("it is clamped");
    let page = if asked.topics.is_empty() {
        let all = image.topics_by_name_from(begin.topic_name).map(|topic| topic.name.as_str());
        fill(&image, all, &begin, limit, &mut turns).await
    } else {
        fill(&image, names.range(begin.topic_name..).copied(), &begin, limit, &mut turns).await
    };
    let bytes = page.rows.iter().map(row_bytes).sum();
    let memory = reply_memory::reserve_list(shard, bytes).await.ok_or(CloseReason::NoMemory)?;
    let _turn = shard.turn_to_make(bytes).await;
    let mut topics = Vec::with_capacity(page.rows.len());
    for row in &page.rows {
        turns.steps(1 + row.found.as_ref().map_or(0, |(_, partitions)| partitions.len())).await;
        let Decision::Allowed =
            authorize(&request.connection.principal, Operation::Describe, Resource::Topic(row.name));
        topics.push(answer(&image, row));
    }
    let response = DescribeTopicPartitionsResponse { throttle_time_ms: 0, topics, next_cursor: page.next };
    Ok(request.answer(&response).counted(memory))
}

/// The topics asked for, each once.
async fn names<'a, I: Io>(
    asked: &DescribeTopicPartitionsRequest<'a>,
    turns: &mut Turns<'_, I>,
) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for topic in &asked.topics {
        turns.step().await;
        names.insert(topic.name);
    }
    names
}

/// A page begins at a topic that is asked for. Where all are, it may have been deleted since the page before.
fn is_possible(
    cursor: &Cursor<'_>,
    asked: &DescribeTopicPartitionsRequest<'_>,
    names: &BTreeSet<&str>,
) -> bool {
    cursor.partition_index >= 0 && (asked.topics.is_empty() || names.contains(cursor.topic_name))
}

/// As Apache's broker answers a request that makes no sense: with an error for each topic.
fn refusal<'a>(names: &BTreeSet<&'a str>) -> DescribeTopicPartitionsResponse<'a> {
    let topic = |&name| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::INVALID_REQUEST,
        name: Some(name),
        ..DescribeTopicPartitionsResponseTopic::default()
    };
    DescribeTopicPartitionsResponse {
        topics: names.iter().map(topic).collect(),
        ..DescribeTopicPartitionsResponse::default()
    }
}

/// The page of `names`, which rise, that begins at `begin`.
async fn fill<'a, I: Io>(
    image: &'a Image,
    names: impl Iterator<Item = &'a str>,
    begin: &Cursor<'_>,
    limit: usize,
    turns: &mut Turns<'_, I>,
) -> Page<'a> {
    let (mut rows, mut left) = (Vec::new(), limit);
    for name in names {
        turns.step().await;
        if left == 0 {
            let next = Some(Cursor { topic_name: name, partition_index: 0 });
            return Page { rows, next };
        }
        let Some(topic) = image.topic_named(name) else {
            rows.push(Row { name, found: None });
            continue;
        };
        let count = topic.partitions.len();
        let first = if name == begin.topic_name { begin.partition_index } else { 0 };
        let first = usize::try_from(first).unwrap_or(0).min(count);
        let end = count.min(first + left);
        rows.push(Row { name, found: Some((topic, first..end)) });
        left -= end - first;
        if end < count {
            let partition_index = i32::try_from(end).expect("a topic has few partitions");
            return Page { rows, next: Some(Cursor { topic_name: name, partition_index }) };
        }
    }
    Page { rows, next: None }
}

/// What a topic takes in the answer while that is made, at most, in bytes: what is found, put into an answer and encoded,
/// which counts twice since it grows.
fn row_bytes(row: &Row<'_>) -> u64 {
    /// A partition encoded, and a topic, but for replicas and name.
    const ENCODED_BYTES: usize = 32;
    let topic = size_of::<Row<'_>>()
        + size_of::<DescribeTopicPartitionsResponseTopic<'_>>()
        + 2 * (ENCODED_BYTES + row.name.len());
    let Some((found, partitions)) = &row.found else { return topic as u64 };
    let replicas = found.partitions.iter().map(|partition| partition.replicas.len()).max().unwrap_or(0);
    // As they grow: those in the vectors of the answer, and encoded.
    let lists = 2 * (size_of::<[i32; 4]>() + 2 * size_of::<i32>() * replicas);
    let encoded = ENCODED_BYTES + 2 * size_of::<i32>() * replicas;
    let partition = size_of::<DescribeTopicPartitionsResponsePartition>() + lists + 2 * encoded;
    (topic + partitions.len() * partition) as u64
}

fn answer<'a>(image: &Image, row: &Row<'a>) -> DescribeTopicPartitionsResponseTopic<'a> {
    let (error_code, topic_id, partitions) = match &row.found {
        Some((topic, partitions)) => {
            let first = i32::try_from(partitions.start).expect("a topic has few partitions");
            let on_page = topic.partitions.get(partitions.clone()).unwrap_or_default();
            let numbered = (first..).zip(on_page);
            let partitions = numbered.map(|(index, partition)| describe(image, index, partition)).collect();
            (ErrorCode::NONE, Uuid(topic.id.0), partitions)
        }
        None => (error_code::of_unknown_topic_name(row.name), Uuid::ZERO, Vec::new()),
    };
    DescribeTopicPartitionsResponseTopic {
        error_code,
        name: Some(row.name),
        topic_id,
        is_internal: false,
        partitions,
        topic_authorized_operations: TOPIC_OPERATIONS,
    }
}

/// A partition. Who may lead though it isn't in sync is nobody here, which is said with empty lists, as by Apache's broker.
fn describe(image: &Image, index: i32, partition: &Partition) -> DescribeTopicPartitionsResponsePartition {
    let owner = |&node| Some((node, image.owner(node, partition.lane)?));
    let broker = |node| owner(node).map(|(node, shard)| endpoint::broker_of(image, node, shard));
    DescribeTopicPartitionsResponsePartition {
        error_code: ErrorCode::NONE,
        partition_index: index,
        leader_id: partition.leader.as_ref().and_then(broker).unwrap_or(-1),
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: partition.replicas.iter().filter_map(broker).collect(),
        isr_nodes: partition.isr.iter().filter_map(broker).collect(),
        eligible_leader_replicas: Some(Vec::new()),
        last_known_elr: Some(Vec::new()),
        offline_replicas: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{cluster, topic};

    /// The bytes of what is made for the row, and of it encoded twice.
    fn bytes_made(image: &Image, row: &Row<'_>) -> usize {
        let answered = answer(image, row);
        let lists = |partition: &DescribeTopicPartitionsResponsePartition| {
            4 * (partition.replica_nodes.capacity() + partition.isr_nodes.capacity())
        };
        let made = size_of::<Row<'_>>()
            + size_of::<DescribeTopicPartitionsResponseTopic<'_>>()
            + answered.partitions.capacity() * size_of::<DescribeTopicPartitionsResponsePartition>()
            + answered.partitions.iter().map(lists).sum::<usize>();
        let topics = vec![answered];
        let response =
            DescribeTopicPartitionsResponse { topics, ..DescribeTopicPartitionsResponse::default() };
        let mut frame = Vec::new();
        net_wire::frame::encode_response(&mut frame, 1, 0, &response).unwrap();
        made + 2 * frame.len()
    }

    #[test]
    fn no_topic_takes_more_than_is_expected() {
        for (partitions, replicas) in [(1, 1), (1_000, 1), (2_000, 3), (1_000, 5), (50, 100)] {
            let (image, topic) = (cluster(0..replicas, 1), topic(partitions, replicas));
            let row = Row { name: &topic.name, found: Some((&topic, 0..partitions)) };
            let (made, expected) = (bytes_made(&image, &row) as u64, row_bytes(&row));
            // Beside the topic, a frame has some bytes of its own.
            assert!(made <= expected + 100, "{made} bytes, not {expected}: {partitions} of {replicas}");
        }
        let name = "x".repeat(249);
        let unknown = Row { name: &name, found: None };
        assert!(bytes_made(&cluster([0], 1), &unknown) as u64 <= row_bytes(&unknown) + 100);
    }
}
