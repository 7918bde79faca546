//! How large a request may be, by what it asks for.
//!
//! A produce carries records, which are read in place. Everything else is a list of names and numbers that takes many
//! times its size in memory once it is decoded and answered: up to 24 times for the entries, and as much again for what
//! is found and said of each. So such a request may be no larger than a list that makes sense, and those under way
//! together have a limit.

use core::time::Duration;

use engine_io::{Io, deadline};
use net_wire::ApiKey;
use net_wire::produce::ProduceView;

use crate::budget::Share;
use crate::dispatch::Request;
use crate::response::CloseReason;
use crate::shard::Shard;

/// A list of topics or partitions, in bytes: 60,000 partitions to fetch from one shard, or 40,000 topics with names of 50
/// characters. A hundred times what the largest clusters ask of one broker at once.
pub(crate) const LIST_BYTES_MAX: usize = 2 << 20;
/// A request without a list, in bytes: its strings have at most 32 KiB.
const PLAIN_BYTES_MAX: usize = 64 << 10;
/// Partitions in one produce. They aren't a matter of bytes: without records, one takes 7.
const PRODUCE_PARTITIONS_MAX: usize = 50_000;

/// From this size on a list waits for its part of [`Limits::list_bytes`](crate::config::Limits::list_bytes). A list below
/// is 500 partitions long, and there is one a connection.
const LARGE_BYTES: usize = 16 << 10;
/// How long it waits.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The largest body; `None` where the frame's own limit is enough.
const fn body_bytes_max(api: ApiKey) -> Option<usize> {
    match api {
        ApiKey::Produce => None,
        ApiKey::Fetch
        | ApiKey::ListOffsets
        | ApiKey::Metadata
        | ApiKey::CreateTopics
        | ApiKey::DeleteTopics
        | ApiKey::DeleteRecords
        | ApiKey::OffsetForLeaderEpoch
        | ApiKey::DescribeConfigs
        | ApiKey::AlterConfigs
        | ApiKey::CreatePartitions
        | ApiKey::DescribeLogDirs
        | ApiKey::DescribeTopicPartitions
        | ApiKey::ListConfigResources
        | ApiKey::IncrementalAlterConfigs => Some(LIST_BYTES_MAX),
        ApiKey::ApiVersions | ApiKey::InitProducerId | ApiKey::DescribeCluster => Some(PLAIN_BYTES_MAX),
    }
}

/// Refuses what is larger than it may be, before it is decoded.
pub(crate) fn check<I: Io>(request: &Request<I>) -> Result<(), CloseReason> {
    let (api, bytes) = (request.api, request.body().len());
    match body_bytes_max(api) {
        Some(most) if bytes > most => Err(CloseReason::TooLarge { api, bytes, most }),
        Some(_) | None => Ok(()),
    }
}

/// Refuses a produce of more partitions than there can be records for.
pub(crate) fn check_produce(view: &ProduceView<'_>) -> Result<(), CloseReason> {
    let mut left = PRODUCE_PARTITIONS_MAX;
    // One for the topic itself: it may have no partition.
    for entries in view.topics().map(|topic| 1 + topic.partitions().len()) {
        left = left.checked_sub(entries).ok_or(CloseReason::TooManyPartitions(PRODUCE_PARTITIONS_MAX))?;
    }
    Ok(())
}

/// Waits for the turn of a large list; the turn ends when the share is dropped.
pub(crate) async fn admit<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
) -> Result<Option<Share>, CloseReason> {
    let bytes = request.body().len();
    // A part of a list has its turn where the list was read: two shards that wait for each other's would wait in a circle.
    if bytes < LARGE_BYTES || request.connection.is_forwarded() {
        return Ok(None);
    }
    let lists = shard.list_memory();
    let until = shard.io().now().after(WAIT_MAX);
    let turn = deadline(shard.io(), until, lists.take((bytes as u64).min(lists.total()))).await;
    turn.map(Some).ok_or(CloseReason::NoMemory)
}
