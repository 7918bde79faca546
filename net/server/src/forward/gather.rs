//! What clients ask of every broker, where all shards are one: all are asked, and what they say is put together.

use std::collections::BTreeMap;
use std::rc::Rc;

use engine_io::Io;
use engine_record::ShardId;
use net_wire::ErrorCode;
use net_wire::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use net_wire::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use super::Answer;
use super::ask::ask;
use super::request::{NO_ANSWER, decode};
use crate::dispatch::Request;
use crate::response::{CloseReason, Response};
use crate::shard::Shard;

/// The log directories, with what all shards have in them.
pub(crate) async fn log_dirs<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
) -> Result<Response<I>, CloseReason> {
    // What can't be read is refused here; that a shard refuses it isn't told from one that is gone.
    let _can_be_read: DescribeLogDirsRequest<'_> = request.decode()?;
    let mut asked = Vec::new();
    for other in (0..shard.config().shards).map(ShardId) {
        asked.push(ask(shard, request.asker(), other, request.frame().to_vec()).await);
    }
    let mut frames = Vec::new();
    for part in asked {
        match part {
            Some(part) => frames.push(part.beginning().answered().await),
            None => frames.push(None),
        }
    }
    let mut together = DescribeLogDirsResponse::default();
    for frame in &frames {
        match frame {
            Some(Answer::Frame { bytes, .. }) => {
                let said: DescribeLogDirsResponse<'_> = decode(bytes, request.api, request.version)?;
                together.results.extend(said.results);
                together.error_code = first_error(together.error_code, said.error_code);
            }
            Some(Answer::Fetched { .. } | Answer::Nothing | Answer::Close(_)) | None => {
                together.error_code = NO_ANSWER
            }
        }
    }
    together.results = merged(together.results);
    Ok(request.answer(&together))
}

fn first_error(one: ErrorCode, other: ErrorCode) -> ErrorCode {
    if one.is_none() { other } else { one }
}

/// Each directory once, with the topics and partitions that any shard has in it.
fn merged(said: Vec<DescribeLogDirsResult<'_>>) -> Vec<DescribeLogDirsResult<'_>> {
    let mut directories: BTreeMap<&str, (DescribeLogDirsResult<'_>, Topics<'_>)> = BTreeMap::new();
    for mut result in said {
        let topics = core::mem::take(&mut result.topics);
        let (known, known_topics) =
            directories.entry(result.log_dir).or_insert_with(|| (result.clone(), Topics::new()));
        known.error_code = first_error(known.error_code, result.error_code);
        for topic in topics {
            let partitions =
                topic.partitions.into_iter().map(|partition| (partition.partition_index, partition));
            known_topics.entry(topic.name).or_default().extend(partitions);
        }
    }
    directories.into_values().map(|(result, topics)| with_topics(result, topics)).collect()
}

/// What is said of partitions, by topic and number.
type Topics<'r> = BTreeMap<&'r str, BTreeMap<i32, DescribeLogDirsPartition>>;

fn with_topics<'r>(result: DescribeLogDirsResult<'r>, topics: Topics<'r>) -> DescribeLogDirsResult<'r> {
    let topic = |(name, partitions): (&'r str, BTreeMap<_, _>)| DescribeLogDirsTopic {
        name,
        partitions: partitions.into_values().collect(),
    };
    DescribeLogDirsResult { topics: topics.into_iter().map(topic).collect(), ..result }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(
        log_dir: &'static str,
        error: i16,
        partitions: &[(&'static str, i32)],
    ) -> DescribeLogDirsResult<'static> {
        let topic = |&(name, partition_index): &(&'static str, i32)| DescribeLogDirsTopic {
            name,
            partitions: vec![DescribeLogDirsPartition { partition_index, ..Default::default() }],
        };
        DescribeLogDirsResult {
            error_code: ErrorCode(error),
            log_dir,
            topics: partitions.iter().map(topic).collect(),
            total_bytes: 7,
            usable_bytes: 5,
        }
    }

    #[test]
    fn a_directory_has_what_all_shards_have_in_it() {
        let said = vec![
            told("/a", 0, &[("t", 2), ("u", 0)]),
            told("/b", 56, &[]),
            told("/a", 0, &[("t", 0)]),
            told("/b", 0, &[("t", 1)]),
        ];
        let merged = merged(said);
        let seen: Vec<_> = merged
            .iter()
            .map(|result| {
                let topics = result.topics.iter();
                let topics = topics
                    .flat_map(|topic| topic.partitions.iter().map(|one| (topic.name, one.partition_index)));
                (result.log_dir, result.error_code.0, result.total_bytes, topics.collect::<Vec<_>>())
            })
            .collect();
        let expected = [("/a", 0, 7, vec![("t", 0), ("t", 2), ("u", 0)]), ("/b", 56, 7, vec![("t", 1)])];
        assert_eq!(seen, expected);
    }
}
