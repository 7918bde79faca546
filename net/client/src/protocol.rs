//! Plans as requests, and responses as answers: the only place of the client that knows messages and their versions.
//!
//! An answer is put into the order of the plan it belongs to, since brokers may answer in any. What it doesn't mention is
//! `None`.

pub(crate) mod fetch;
pub(crate) mod list_offsets;
pub(crate) mod produce;

use core::time::Duration;
use std::rc::Rc;

use engine_record::{PartitionIndex, TopicId};
use net_wire::Uuid;
use net_wire::messages::{LeaderIdAndEpoch, NodeEndpoint};

use crate::metadata::{BrokerId, Endpoint, LeaderHint, Metadata};

/// What answers say about leaders besides what was asked.
#[derive(Debug, Default)]
pub(crate) struct LeaderNews {
    leaders: Vec<(Rc<str>, PartitionIndex, LeaderHint)>,
    endpoints: Vec<(BrokerId, Endpoint)>,
}

impl LeaderNews {
    fn note_leader(&mut self, topic: &Rc<str>, partition: PartitionIndex, leader: &LeaderIdAndEpoch) {
        if leader.leader_id >= 0 {
            let hint = LeaderHint { leader: BrokerId(leader.leader_id), leader_epoch: leader.leader_epoch };
            self.leaders.push((Rc::clone(topic), partition, hint));
        }
    }

    fn note_endpoints(&mut self, endpoints: &[NodeEndpoint<'_>]) {
        self.endpoints.extend(endpoints.iter().filter_map(|node| {
            let port = u16::try_from(node.port).ok()?;
            Some((BrokerId(node.node_id), Endpoint { host: node.host.into(), port }))
        }));
    }

    /// Tells the metadata; whether anything was news.
    pub(crate) fn apply(self, metadata: &mut Metadata) -> bool {
        for (id, endpoint) in self.endpoints {
            metadata.apply_endpoint(id, endpoint);
        }
        let mut is_news = false;
        for (topic, partition, hint) in self.leaders {
            is_news |= metadata.apply_leader(&topic, partition, hint);
        }
        is_news
    }
}

/// A topic in an answer: by name in old versions, by id in new ones.
#[derive(Clone, Copy)]
struct TopicRef<'a> {
    name: &'a str,
    id: Uuid,
}

impl TopicRef<'_> {
    fn is(&self, name: &str, id: TopicId) -> bool {
        if self.id.is_zero() { self.name == name } else { self.id.0 == id.0 }
    }
}

fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

fn throttle(milliseconds: i32) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

#[cfg(test)]
mod tests;
