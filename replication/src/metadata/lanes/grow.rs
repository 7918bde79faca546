//! Placing more partitions of a topic that is in use: on each node its run of lanes grows, at one end or both.
//!
//! ```text
//! lanes of the topic's partitions on a node    . . 6 7 8 . . .
//! three more are one of                        . . 6 7 8 + + +
//!                                              . + 6 7 8 + + .
//!                                              + + 6 7 8 + . .      whichever leaves the node's shards the most level
//! ```

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use engine_record::NodeId;

use super::Lane;
use super::deal::{LaneLoad, lane_loads, led, place};
use crate::metadata::commands::PartitionAssignment;
use crate::metadata::image::{Image, Topic};
use crate::metadata::reply::AssignmentError;

/// Places `count` more partitions of `topic`, which is of `image`, on `order`, and deals them their lanes.
///
/// They have as many replicas as the topic's others, and the nodes of `order` lead on in turn from where a topic dealt on
/// the same order has come. Up to [`Lane::COUNT`] partitions of a dealt topic on one node, its shards differ by at most
/// one after this too, for any number of shards. Where lanes were named, or there are more partitions than lanes, the
/// new ones alone are dealt so.
///
/// # Errors
///
/// No partitions, more replicas than the nodes of `order` can carry, or a node in it that isn't registered or is there
/// twice.
pub fn deal_more(
    image: &Image,
    topic: &Topic,
    count: usize,
    order: &[NodeId],
) -> Result<Vec<PartitionAssignment>, AssignmentError> {
    let first = topic.partitions.len();
    let factor = topic.partitions.first().map_or(0, |partition| partition.replicas.len());
    let mut placed = place(image, first..first.saturating_add(count), factor, order)?;
    let mut runs = lanes_by_leader(topic);
    let mut loads = lane_loads(image);
    for (leader, assignments) in led(&mut placed) {
        let shards = image.node(leader).expect("the leader was found registered").shards;
        let load = loads.remove(&leader).unwrap_or_default();
        let lanes = load.more(runs.remove(&leader).unwrap_or_default(), assignments.len(), shards);
        assert_eq!(lanes.len(), assignments.len(), "every new partition has a lane");
        for (assignment, lane) in assignments.into_iter().zip(lanes) {
            assignment.lane = lane;
        }
    }
    image.check_more(topic, &placed)?;
    Ok(placed)
}

fn lanes_by_leader(topic: &Topic) -> BTreeMap<NodeId, Vec<usize>> {
    let mut lanes: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    for partition in &topic.partitions {
        if let Some(leader) = partition.leader {
            lanes.entry(leader).or_default().push(usize::from(partition.lane.value()));
        }
    }
    lanes
}

/// The lanes as one run without a gap or a repetition, where they are that.
fn run(mut lanes: Vec<usize>) -> Option<RangeInclusive<usize>> {
    lanes.sort_unstable();
    let is_run = lanes.is_sorted_by(|lane, next| *next == lane + 1);
    Some(*lanes.first()?..=*lanes.last()?).filter(|_| is_run)
}

impl LaneLoad {
    /// The lanes of `count` more partitions of a topic whose others have the lanes `own` on this node.
    fn more(&self, own: Vec<usize>, count: usize, shards: u16) -> Vec<Lane> {
        let fits = own.len().saturating_add(count) <= usize::from(Lane::COUNT);
        match run(own) {
            Some(run) if fits => self.around(&run, count, shards),
            Some(_) | None => {
                let start = self.start(count, shards);
                (0..count).map(|nth| start.forward(nth)).collect()
            }
        }
    }

    /// The `count` lanes before and behind `run`, which with it are one run again. Of those runs it is the one that leaves
    /// the node's shards the most level, then its lanes, then the one that goes on the furthest.
    fn around(&self, run: &RangeInclusive<usize>, count: usize, shards: u16) -> Vec<Lane> {
        let (first, end) = (*run.start(), run.end() + 1);
        let total = end - first + count;
        let (lowest, highest) = (end.saturating_sub(total), first.min(usize::from(Lane::COUNT) - total));
        let mut trial = Trial::new(self, shards);
        (highest..first).chain(end..highest + total).for_each(|lane| trial.add(lane));
        let (mut best, mut best_cost) = (highest, trial.cost());
        for start in (lowest..highest).rev() {
            trial.add(start);
            trial.remove(start + total);
            if trial.cost() < best_cost {
                (best, best_cost) = (start, trial.cost());
            }
        }
        let lanes = (end..best + total).chain((best..first).rev());
        lanes.map(|lane| Lane::default().forward(lane)).collect()
    }
}

/// How level a node would be with some more partitions.
struct Trial<'a> {
    load: &'a LaneLoad,
    by_shard: Vec<u64>,
    /// The sum of the squares of `by_shard`, but for what it was at first.
    uneven: u64,
    /// What is on the lanes of the added ones already.
    covered: u64,
}

impl<'a> Trial<'a> {
    fn new(load: &'a LaneLoad, shards: u16) -> Self {
        Self { load, by_shard: load.by_shard(shards), uneven: 0, covered: 0 }
    }

    fn cost(&self) -> (u64, u64) {
        (self.uneven, self.covered)
    }

    fn shard_of(&mut self, lane: usize) -> &mut u64 {
        let shards = self.by_shard.len();
        self.by_shard.get_mut(lane % shards).expect("a remainder is below its divisor")
    }

    fn add(&mut self, lane: usize) {
        let on_shard = self.shard_of(lane);
        let before = *on_shard;
        *on_shard += 1;
        self.uneven += 2 * before + 1;
        self.covered += self.load.of(Lane::default().forward(lane));
    }

    fn remove(&mut self, lane: usize) {
        let on_shard = self.shard_of(lane);
        *on_shard -= 1;
        let after = *on_shard;
        self.uneven -= 2 * after + 1;
        self.covered -= self.load.of(Lane::default().forward(lane));
    }
}
