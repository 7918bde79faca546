//! What is told of partitions beside their records: that nothing comes of one, and what was deleted before it was read.

use std::collections::BTreeMap;

use engine_record::{Offset, PartitionIndex};
use net_client::{ErrorCode, Stalled};

/// Remembers where each partition was read last, to tell what was deleted before it was read: the consumer goes on behind that
/// without a record.
#[derive(Debug, Default)]
pub(super) struct Passed(BTreeMap<PartitionIndex, Offset>);

impl Passed {
    pub(super) fn moved(&mut self, partition: PartitionIndex, to: Offset) {
        self.0.insert(partition, to);
    }

    /// A line where the position is ahead of where it was left.
    pub(super) fn over(
        &mut self,
        topic: &str,
        partition: PartitionIndex,
        position: Offset,
    ) -> Option<String> {
        let before = self.0.insert(partition, position).filter(|before| *before < position)?;
        Some(format!(
            "{topic}/{partition}: reading goes on at offset {position}: what began at {before} was deleted before it was read"
        ))
    }
}

/// Remembers which stalls have been told.
#[derive(Debug, Default)]
pub(super) struct StallWatch(BTreeMap<PartitionIndex, ErrorCode>);

impl StallWatch {
    /// A line for each partition that stalls newly or for another reason, or goes on.
    pub(super) fn news(&mut self, stalled: &[Stalled]) -> Vec<String> {
        let told = std::mem::take(&mut self.0);
        self.0 = stalled.iter().map(|stalled| (stalled.partition, stalled.code)).collect();
        let ended = told.keys().filter(|&partition| !self.0.contains_key(partition));
        let ended = ended.map(|partition| format!("partition {partition} can be read again"));
        let news = stalled.iter().filter(|stalled| told.get(&stalled.partition) != Some(&stalled.code));
        let news = news.map(|Stalled { topic, partition, position, code, .. }| {
            let at = position.map_or_else(String::new, |position| format!(" at offset {position}"));
            format!("{topic}/{partition}: nothing can be read{at}: {code}; trying on")
        });
        news.chain(ended).collect()
    }
}
