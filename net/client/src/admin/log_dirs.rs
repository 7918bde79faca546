//! What the logs of partitions take on the drives of their leaders.

use std::collections::BTreeMap;

use engine_io::Io;
use engine_record::PartitionIndex;
use net_wire::messages::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse,
};

use super::Admin;
use crate::client::{ClientError, Purpose};
use crate::metadata::BrokerId;

/// How much a log has on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSize {
    /// Bytes of its segments.
    pub bytes: u64,
    /// How many segments it has, the active one included; `None` where its broker isn't Ringlog, which alone tells.
    pub segments: Option<u32>,
    /// The shard of its leader that has it, from 0 on; `None` likewise.
    pub shard: Option<u16>,
}

impl<I: Io> Admin<I> {
    /// The size of the log of each of these partitions at this broker, as far as it tells; each broker is asked once. A broker
    /// that doesn't know the question, or can't be reached, tells of none.
    pub async fn log_sizes(
        &self,
        topic: &str,
        partitions: &[(PartitionIndex, BrokerId)],
    ) -> BTreeMap<PartitionIndex, LogSize> {
        let mut by_broker: BTreeMap<BrokerId, Vec<i32>> = BTreeMap::new();
        for (partition, broker) in partitions {
            by_broker.entry(*broker).or_default().push(partition.0);
        }
        let mut told = BTreeMap::new();
        for (broker, partitions) in by_broker {
            match self.log_sizes_at(topic, broker, partitions).await {
                Ok(sizes) => told.extend(sizes),
                Err(error) => tracing::debug!(broker = broker.0, %error, "sizes of logs aren't told"),
            }
        }
        told
    }

    async fn log_sizes_at(
        &self,
        topic: &str,
        broker: BrokerId,
        partitions: Vec<i32>,
    ) -> Result<BTreeMap<PartitionIndex, LogSize>, ClientError> {
        let connection = self.client.broker(broker, Purpose::Control).await?;
        let topics = Some(vec![DescribableLogDirTopic { topic, partitions }]);
        let request = DescribeLogDirsRequest { topics, count_segments: true };
        let answer = self.client.ask(&connection, &request).await?;
        let response: DescribeLogDirsResponse<'_> = answer.decode()?;
        let topics = response.results.iter().flat_map(|directory| &directory.topics);
        let of_topic = topics.filter(|told| told.name == topic).flat_map(|told| &told.partitions);
        // What is on its way to another directory is there twice for a while.
        let in_use = of_topic.filter(|partition| !partition.is_future_key);
        Ok(in_use.filter_map(|told| Some((PartitionIndex(told.partition_index), size(told)?))).collect())
    }
}

fn size(told: &DescribeLogDirsPartition) -> Option<LogSize> {
    let bytes = u64::try_from(told.partition_size).ok()?;
    let (segments, shard) = (u32::try_from(told.segment_count).ok(), u16::try_from(told.shard).ok());
    Some(LogSize { bytes, segments, shard })
}
