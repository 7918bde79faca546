//! What the logs of partitions take on the drives of their leaders.

use std::collections::BTreeMap;

use engine_io::Io;
use engine_record::PartitionIndex;
use net_wire::messages::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResponse,
};

use super::Admin;
use crate::client::{ClientError, Purpose};
use crate::metadata::BrokerId;

impl<I: Io> Admin<I> {
    /// Bytes of the log of each of these partitions at this broker, as far as it tells; each broker is asked once. A broker
    /// that doesn't know the question, or can't be reached, tells of none.
    pub async fn log_bytes(
        &self,
        topic: &str,
        partitions: &[(PartitionIndex, BrokerId)],
    ) -> BTreeMap<PartitionIndex, u64> {
        let mut by_broker: BTreeMap<BrokerId, Vec<i32>> = BTreeMap::new();
        for (partition, broker) in partitions {
            by_broker.entry(*broker).or_default().push(partition.0);
        }
        let mut told = BTreeMap::new();
        for (broker, partitions) in by_broker {
            match self.log_bytes_at(topic, broker, partitions).await {
                Ok(sizes) => told.extend(sizes),
                Err(error) => tracing::debug!(broker = broker.0, %error, "sizes of logs aren't told"),
            }
        }
        told
    }

    async fn log_bytes_at(
        &self,
        topic: &str,
        broker: BrokerId,
        partitions: Vec<i32>,
    ) -> Result<BTreeMap<PartitionIndex, u64>, ClientError> {
        let connection = self.client.broker(broker, Purpose::Control).await?;
        let topics = Some(vec![DescribableLogDirTopic { topic, partitions }]);
        let answer = self.client.ask(&connection, &DescribeLogDirsRequest { topics }).await?;
        let response: DescribeLogDirsResponse<'_> = answer.decode()?;
        let topics = response.results.iter().flat_map(|directory| &directory.topics);
        let of_topic = topics.filter(|told| told.name == topic).flat_map(|told| &told.partitions);
        // What is on its way to another directory is there twice for a while.
        let in_use = of_topic.filter(|partition| !partition.is_future_key);
        Ok(in_use
            .filter_map(|partition| {
                let bytes = u64::try_from(partition.partition_size).ok()?;
                Some((PartitionIndex(partition.partition_index), bytes))
            })
            .collect())
    }
}
