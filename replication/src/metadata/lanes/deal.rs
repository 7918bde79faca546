//! Placing the partitions of a new topic: nodes in turn, and on each node the lanes that keep its shards level.

use core::ops::Range;
use std::collections::BTreeMap;

use engine_record::{NodeId, ShardId};

use super::Lane;
use crate::metadata::commands::PartitionAssignment;
use crate::metadata::image::Image;
use crate::metadata::reply::AssignmentError;

/// A replica as an operator names it: by a node and one of its shards, the two parts of a broker id, or by a node alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaTarget {
    /// The node.
    pub node: NodeId,
    /// The shard that shall own it; `None` for any.
    pub shard: Option<ShardId>,
}

/// Places `partitions` partitions with `factor` replicas each on `order`, and deals them their lanes.
///
/// The nodes of `order` lead in turn, so whoever calls draws the first one and keeps racks apart by the order. Followers
/// shift by one with each turn, so that the partitions of a lost node spread over all that remain. Up to
/// [`Lane::COUNT`] partitions of the topic on one node, its shards differ by at most one, also after the node's shard
/// count has changed; beyond, by at most one more for each further [`Lane::COUNT`].
///
/// # Errors
///
/// No partitions, a factor that the nodes cannot carry, or a node in `order` that isn't registered or is there twice.
pub fn deal(
    image: &Image,
    partitions: usize,
    factor: usize,
    order: &[NodeId],
) -> Result<Vec<PartitionAssignment>, AssignmentError> {
    let mut placed = place(image, 0..partitions, factor, order)?;
    deal_lanes(image, &mut placed);
    image.check_assignment(&placed)?;
    assert_eq!(placed.len(), partitions, "every partition is placed");
    Ok(placed)
}

/// Places these partitions of a topic on the nodes of `order`. Their lanes are still to be dealt.
pub(super) fn place(
    image: &Image,
    partitions: Range<usize>,
    factor: usize,
    order: &[NodeId],
) -> Result<Vec<PartitionAssignment>, AssignmentError> {
    if partitions.is_empty() {
        return Err(AssignmentError::NoPartitions);
    }
    if factor == 0 || factor > order.len() {
        return Err(AssignmentError::ReplicationFactor { factor, nodes: order.len() });
    }
    image.check_assignment(&[PartitionAssignment { replicas: order.to_vec(), lane: Lane::default() }])?;
    let placed = |partition| PartitionAssignment {
        replicas: replicas_of(partition, factor, order),
        lane: Lane::default(),
    };
    Ok(partitions.map(placed).collect())
}

/// The leader is the next node in turn; the followers come after it, one step further apart with each turn.
fn replicas_of(partition: usize, factor: usize, order: &[NodeId]) -> Vec<NodeId> {
    let nodes = order.len();
    assert!((1..=nodes).contains(&factor), "a factor that the nodes can carry");
    let leader = partition % nodes;
    let others = nodes.saturating_sub(1).max(1);
    let turn = partition / nodes;
    let follower = |nth: usize| (leader + 1 + (turn + nth) % others) % nodes;
    let places = core::iter::once(leader).chain((0..factor - 1).map(follower));
    let replicas: Vec<_> = places.filter_map(|place| order.get(place).copied()).collect();
    assert_eq!(replicas.len(), factor, "every replica has a node");
    replicas
}

fn deal_lanes(image: &Image, placed: &mut [PartitionAssignment]) {
    let mut loads = lane_loads(image);
    for (leader, assignments) in led(placed) {
        let shards = image.node(leader).expect("the leader was found registered").shards;
        let load = loads.remove(&leader).unwrap_or_default();
        let start = load.start(assignments.len(), shards);
        for (nth, assignment) in assignments.into_iter().enumerate() {
            assignment.lane = start.forward(nth);
        }
    }
}

/// What each node is to lead.
pub(super) fn led(placed: &mut [PartitionAssignment]) -> BTreeMap<NodeId, Vec<&mut PartitionAssignment>> {
    let mut led: BTreeMap<NodeId, Vec<&mut PartitionAssignment>> = BTreeMap::new();
    for assignment in placed {
        let leader = *assignment.replicas.first().expect("a placed partition has a leader");
        led.entry(leader).or_default().push(assignment);
    }
    led
}

/// How many partitions one node leads on each lane.
pub(super) struct LaneLoad {
    partitions: Vec<u64>,
}

impl Default for LaneLoad {
    fn default() -> Self {
        Self { partitions: vec![0; usize::from(Lane::COUNT)] }
    }
}

pub(super) fn lane_loads(image: &Image) -> BTreeMap<NodeId, LaneLoad> {
    let mut loads: BTreeMap<NodeId, LaneLoad> = BTreeMap::new();
    for partition in image.topics().flat_map(|topic| &topic.partitions) {
        if let Some(leader) = partition.leader {
            loads.entry(leader).or_default().add(partition.lane);
        }
    }
    loads
}

impl LaneLoad {
    fn add(&mut self, lane: Lane) {
        let partitions = self.partitions.get_mut(usize::from(lane.value()));
        *partitions.expect("a lane is below the number of lanes") += 1;
    }

    pub(super) fn of(&self, lane: Lane) -> u64 {
        self.partitions.get(usize::from(lane.value())).copied().unwrap_or_default()
    }

    /// The best first lane for `count` more partitions on a node with `shards` shards.
    ///
    /// First the shards of today shall be level: `count` consecutive lanes give every shard the same, and some one more;
    /// those shall be the ones with the least to do. Then the lanes themselves shall be level, so that another number of
    /// shards finds the partitions spread too. The last lane is never passed where that can be had, since the run would
    /// break there for shard counts that don't divide the number of lanes.
    pub(super) fn start(&self, count: usize, shards: u16) -> Lane {
        assert!(count > 0, "there is something to deal");
        let lanes = usize::from(Lane::COUNT);
        let extra_lanes = count % lanes;
        let by_shard = self.by_shard(shards);
        let extra_shards = count % usize::from(shards);
        let crowd = |start: usize| -> u64 {
            (start..start + extra_shards).filter_map(|at| by_shard.get(at % usize::from(shards))).sum()
        };
        let (mut best, mut best_cost) = (0, (u64::MAX, u64::MAX));
        let mut covered: u64 = self.partitions.iter().take(extra_lanes).sum();
        for start in 0..=(lanes - extra_lanes).min(lanes - 1) {
            let cost = (crowd(start), covered);
            if cost < best_cost {
                (best, best_cost) = (start, cost);
            }
            let leaving = self.partitions.get(start).copied().unwrap_or_default();
            let coming = self.partitions.get(start + extra_lanes).copied().unwrap_or_default();
            covered = covered + coming - leaving;
        }
        Lane::default().forward(best)
    }

    pub(super) fn by_shard(&self, shards: u16) -> Vec<u64> {
        let mut by_shard = vec![0; usize::from(shards)];
        for (lane, partitions) in self.partitions.iter().enumerate() {
            let shard = by_shard.get_mut(lane % usize::from(shards));
            *shard.expect("a remainder is below its divisor") += partitions;
        }
        by_shard
    }
}

/// The assignment that an operator wrote down, each replica by its broker id's parts; the first one leads.
///
/// All replicas of a partition share one lane, so the shards named must have one in common; of several, the one with the
/// fewest partitions on the leader is taken.
///
/// # Errors
///
/// The first partition that breaks a rule, and the rule.
pub fn manual(
    image: &Image,
    partitions: &[Vec<ReplicaTarget>],
) -> Result<Vec<PartitionAssignment>, AssignmentError> {
    let nodes = |targets: &Vec<ReplicaTarget>| targets.iter().map(|target| target.node).collect();
    let mut placed: Vec<PartitionAssignment> = partitions
        .iter()
        .map(|targets| PartitionAssignment { replicas: nodes(targets), lane: Lane::default() })
        .collect();
    image.check_assignment(&placed)?;
    let mut loads = lane_loads(image);
    for (partition, (assignment, targets)) in placed.iter_mut().zip(partitions).enumerate() {
        let shards = shards_of(image, partition, targets)?;
        let leader = targets.first().expect("a checked assignment has a leader").node;
        let load = loads.entry(leader).or_default();
        assignment.lane = common_lane(load, &shards).ok_or(AssignmentError::NoCommonLane { partition })?;
        load.add(assignment.lane);
    }
    Ok(placed)
}

/// For each target its shard, and how many shards its node has.
fn shards_of(
    image: &Image,
    partition: usize,
    targets: &[ReplicaTarget],
) -> Result<Vec<(Option<ShardId>, u16)>, AssignmentError> {
    let one = |target: &ReplicaTarget| {
        let ReplicaTarget { node, shard } = *target;
        let known = image.node(node).ok_or(AssignmentError::UnknownNode { partition, node })?;
        if let Some(shard) = shard
            && shard.0 >= known.shards
        {
            return Err(AssignmentError::UnknownShard { partition, node, shard });
        }
        Ok((shard, known.shards))
    };
    targets.iter().map(one).collect()
}

fn common_lane(load: &LaneLoad, shards: &[(Option<ShardId>, u16)]) -> Option<Lane> {
    let lanes = (0..Lane::COUNT).filter_map(Lane::new);
    let fits = |lane: &Lane| {
        shards.iter().all(|(shard, count)| shard.is_none_or(|shard| lane.owner(*count) == shard))
    };
    lanes.filter(fits).min_by_key(|lane| load.of(*lane))
}
