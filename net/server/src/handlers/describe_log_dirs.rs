//! DescribeLogDirs: what this shard has in each log directory. Clients ask every broker, and each tells its own.

use core::mem::size_of;
use std::collections::BTreeSet;
use std::rc::Rc;

use engine_io::{FileSystemSpace, Io};
use engine_record::{PartitionIndex, ShardId, TopicId, TopicPartition};
use net_wire::ErrorCode;
use net_wire::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeLogDirsResult,
    DescribeLogDirsTopic,
};

use crate::dispatch::Request;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::partition::Partition;
use crate::reply_memory;
use crate::response::{CloseReason, Response};
use crate::shard::{DirectoryLogs, Shard};
use crate::turns::Turns;

/// What is told of a directory. Where its space isn't known it isn't in use any more.
struct Told {
    path: String,
    space: Option<FileSystemSpace>,
    topics: Vec<ToldTopic>,
}

struct ToldTopic {
    name: String,
    partitions: Vec<DescribeLogDirsPartition>,
}

pub(crate) async fn handle<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    let body: DescribeLogDirsRequest<'_> = request.decode()?;
    let Decision::Allowed = authorize(&request.connection.principal, Operation::Describe, Resource::Cluster);
    let asked = each_once(shard, &body).await;
    let mut directories = Vec::new();
    for directory in shard.log_directories() {
        // Why it isn't known is logged by who watches it. One that is offline has nobody to ask.
        let space = if directory.is_online { shard.io().space(&directory.path).await.ok() } else { None };
        directories.push((wanted(shard, directory, asked.as_ref()).await, space));
    }
    let bytes = directories.iter().map(|(directory, _)| told_bytes(shard, directory)).sum();
    let memory = reply_memory::reserve_list(shard, bytes).await.ok_or(CloseReason::NoMemory)?;
    let _turn = shard.turn_to_make(bytes).await;
    let mut told = Vec::with_capacity(directories.len());
    for (directory, space) in directories {
        let topics = match space {
            Some(_) => topics(shard, &directory, &body).await,
            None => Vec::new(),
        };
        told.push(Told { path: directory.path.display().to_string(), space, topics });
    }
    let results = told.iter().map(answer).collect();
    let response = DescribeLogDirsResponse { results, ..DescribeLogDirsResponse::default() };
    Ok(request.answer(&response).counted(memory))
}

/// The partitions asked for, each once; `None` for all. Of what isn't here nothing is told, as in Apache's broker.
async fn each_once<I: Io>(
    shard: &Shard<I>,
    body: &DescribeLogDirsRequest<'_>,
) -> Option<BTreeSet<TopicPartition>> {
    let mut asked = BTreeSet::new();
    let mut turns = Turns::new(shard.io());
    for topic in body.topics.as_ref()? {
        turns.step().await;
        let Some(id) = shard.topic_id(topic.topic) else { continue };
        for &partition in &topic.partitions {
            turns.step().await;
            asked.insert(TopicPartition { topic: id, partition: PartitionIndex(partition) });
        }
    }
    Some(asked)
}

/// The directory with those of its partitions that are asked for.
async fn wanted<I: Io>(
    shard: &Shard<I>,
    directory: DirectoryLogs<I>,
    asked: Option<&BTreeSet<TopicPartition>>,
) -> DirectoryLogs<I> {
    let Some(asked) = asked else { return directory };
    let mut partitions = Vec::with_capacity(asked.len().min(directory.partitions.len()));
    let mut turns = Turns::new(shard.io());
    for partition in directory.partitions {
        turns.step().await;
        if asked.contains(&partition.log().topic_partition()) {
            partitions.push(partition);
        }
    }
    DirectoryLogs { partitions, ..directory }
}

/// What a directory takes in the answer while that is made, at most, in bytes.
fn told_bytes<I: Io>(shard: &Shard<I>, directory: &DirectoryLogs<I>) -> u64 {
    let image = shard.image();
    let topics = by_topic(directory)
        .map(|(id, partitions)| (image.topic(id).map_or(0, |topic| topic.name.len()), partitions.len()));
    bytes_of(directory.path.as_os_str().len(), topics) as u64
}

/// The same of one whose path has so many bytes, with the bytes of each topic's name and how many partitions it has here: what
/// is found, put into an answer and encoded, which counts twice since it grows.
fn bytes_of(path: usize, topics: impl Iterator<Item = (usize, usize)>) -> usize {
    /// A partition, and a topic or directory but for its name, as they are encoded.
    const ENCODED_BYTES: usize = 32;
    let partition = 2 * size_of::<DescribeLogDirsPartition>() + 2 * ENCODED_BYTES;
    let topic = size_of::<ToldTopic>() + size_of::<DescribeLogDirsTopic<'_>>() + 2 * ENCODED_BYTES;
    let head = size_of::<Told>() + size_of::<DescribeLogDirsResult<'_>>() + 2 * ENCODED_BYTES;
    let topics = topics.map(|(name, partitions)| topic + 3 * name + partitions * partition);
    head + 3 * path + topics.sum::<usize>()
}

/// The partitions of a directory, topic by topic.
fn by_topic<I: Io>(directory: &DirectoryLogs<I>) -> impl Iterator<Item = (TopicId, &[Rc<Partition<I>>])> {
    let topic_of = |partition: &Rc<Partition<I>>| partition.log().topic_partition().topic;
    let each = directory.partitions.chunk_by(move |one, next| topic_of(one) == topic_of(next));
    each.filter_map(move |partitions| Some((topic_of(partitions.first()?), partitions)))
}

async fn topics<I: Io>(
    shard: &Shard<I>,
    directory: &DirectoryLogs<I>,
    body: &DescribeLogDirsRequest<'_>,
) -> Vec<ToldTopic> {
    let mut topics = Vec::new();
    let mut turns = Turns::new(shard.io());
    for (id, partitions) in by_topic(directory) {
        turns.step().await;
        // It may have been deleted meanwhile.
        let Some(name) = shard.image().topic(id).map(|topic| topic.name.clone()) else { continue };
        let mut told = Vec::with_capacity(partitions.len());
        for partition in partitions {
            turns.step().await;
            told.push(tell(partition, shard.id(), body));
        }
        topics.push(ToldTopic { name, partitions: told });
    }
    topics
}

/// A log lies in one place, and nobody but its leader has it. Segments and shard are told of to nobody else than who asked for
/// them: no other client sees a byte that Apache's broker wouldn't send.
fn tell<I: Io>(
    partition: &Partition<I>,
    shard: ShardId,
    body: &DescribeLogDirsRequest<'_>,
) -> DescribeLogDirsPartition {
    let log = partition.log();
    let segments = body.count_segments.then(|| log.segment_count());
    DescribeLogDirsPartition {
        shard: if body.count_segments { shard.0.into() } else { -1 },
        partition_index: log.topic_partition().partition.0,
        partition_size: whole(log.size_bytes()),
        offset_lag: 0,
        is_future_key: false,
        segment_count: segments.map_or(-1, |count| i32::try_from(count).unwrap_or(i32::MAX)),
    }
}

fn answer(told: &Told) -> DescribeLogDirsResult<'_> {
    let Some(space) = told.space else {
        let error_code = ErrorCode::KAFKA_STORAGE_ERROR;
        return DescribeLogDirsResult { error_code, log_dir: &told.path, ..DescribeLogDirsResult::default() };
    };
    let topics = told
        .topics
        .iter()
        .map(|topic| DescribeLogDirsTopic { name: &topic.name, partitions: topic.partitions.clone() });
    DescribeLogDirsResult {
        error_code: ErrorCode::NONE,
        log_dir: &told.path,
        topics: topics.collect(),
        total_bytes: whole(space.total_bytes),
        usable_bytes: whole(space.free_bytes),
    }
}

/// The protocol's numbers end earlier than some file systems.
fn whole(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(topics: usize, partitions: usize) -> Told {
        let partition =
            DescribeLogDirsPartition { partition_index: 1, segment_count: 1, ..Default::default() };
        let topic = || ToldTopic { name: "x".repeat(249), partitions: vec![partition; partitions] };
        let space = Some(FileSystemSpace { total_bytes: 1_000, free_bytes: u64::MAX });
        Told {
            path: "/data".to_owned(),
            space,
            topics: core::iter::repeat_with(topic).take(topics).collect(),
        }
    }

    #[test]
    fn a_directory_takes_no_more_than_is_expected() {
        for (topics, partitions) in [(0, 0), (1, 1), (1, 1_000), (1_000, 1), (100, 10)] {
            let told = told(topics, partitions);
            let answered = answer(&told);
            let partition = size_of::<DescribeLogDirsPartition>();
            let made = size_of::<Told>() + size_of::<DescribeLogDirsResult<'_>>() + told.path.capacity();
            let made = topics
                * (size_of::<ToldTopic>()
                    + size_of::<DescribeLogDirsTopic<'_>>()
                    + 249
                    + 2 * partitions * partition)
                + made;
            let response =
                DescribeLogDirsResponse { results: vec![answered], ..DescribeLogDirsResponse::default() };
            for version in 1..=4 {
                let mut frame = Vec::new();
                net_wire::frame::encode_response(&mut frame, 1, version, &response).unwrap();
                let expected = bytes_of(5, core::iter::repeat_n((249, partitions), topics));
                assert!(made + 2 * frame.len() <= expected + 100, "{topics} of {partitions}: {expected}");
            }
        }
    }

    #[test]
    fn a_directory_whose_drive_does_not_answer_says_so_and_no_number_is_negative() {
        let gone = Told { space: None, ..told(1, 1) };
        let answered = answer(&gone);
        assert_eq!((answered.error_code, answered.log_dir), (ErrorCode::KAFKA_STORAGE_ERROR, "/data"));
        assert_eq!((answered.topics.len(), answered.total_bytes, answered.usable_bytes), (0, -1, -1));
        let told = told(0, 0);
        let answered = answer(&told);
        assert_eq!((answered.total_bytes, answered.usable_bytes), (1_000, i64::MAX));
    }
}
