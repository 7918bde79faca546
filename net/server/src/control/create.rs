//! From a wish for a topic to the command that makes it: checks what can be checked now, and places the partitions.

use engine_record::{NodeId, ShardId, TopicId};
use replication::metadata::commands::{CreateTopic, PartitionAssignment};
use replication::metadata::image::{Image, broker_id_parts, check_topic_name};
use replication::metadata::lanes::{ReplicaTarget, deal, manual};

use super::channel::{ControlError, CreatedTopic, NewTopic, Placement};

/// The replication factor of a topic that doesn't say: three, or as many nodes as there are.
const REPLICATION_FACTOR_DEFAULT: usize = 3;

/// Makes the command for `topic` under the fresh id `id`. What holds of `image` now is checked again when the command is
/// applied. `planned` is the image with what has been proposed since, where something has.
pub(crate) fn plan(
    image: &Image,
    planned: Option<&Image>,
    topic: NewTopic,
    id: TopicId,
) -> Result<CreateTopic, ControlError> {
    check_topic_name(&topic.name).map_err(ControlError::InvalidTopicName)?;
    if image.topic_named(&topic.name).is_some() {
        return Err(ControlError::TopicAlreadyExists(topic.name));
    }
    let planned = planned.unwrap_or(image);
    check_collision(planned, &topic.name)?;
    let partitions = place(planned, &topic.placement)?;
    Ok(CreateTopic { name: topic.name, id, partitions, configs: topic.configs })
}

/// What the client is told of the topic the command makes.
pub(crate) fn created(command: &CreateTopic, id: TopicId) -> CreatedTopic {
    let factor = command.partitions.first().map_or(0, |partition| partition.replicas.len());
    CreatedTopic {
        id,
        partitions: u32::try_from(command.partitions.len()).unwrap_or(u32::MAX),
        replication_factor: u16::try_from(factor).unwrap_or(u16::MAX),
    }
}

/// Names that differ only in `.` and `_` become one in the names of metrics.
fn check_collision(image: &Image, name: &str) -> Result<(), ControlError> {
    if !name.contains(['.', '_']) {
        return Ok(());
    }
    let plain = |name: &str| name.replace('.', "_");
    let own = plain(name);
    match image.topics_by_name().find(|topic| plain(&topic.name) == own && topic.name != name) {
        Some(other) => {
            Err(ControlError::TopicNameCollides { name: name.to_owned(), other: other.name.clone() })
        }
        None => Ok(()),
    }
}

fn place(image: &Image, placement: &Placement) -> Result<Vec<PartitionAssignment>, ControlError> {
    match placement {
        Placement::Dealt { partitions, replication_factor } => {
            let nodes = nodes(image);
            let factor = replication_factor.map_or(REPLICATION_FACTOR_DEFAULT.min(nodes.len()), usize::from);
            let partitions = usize::try_from(*partitions).unwrap_or(usize::MAX);
            deal(image, partitions, factor, &nodes).map_err(ControlError::InvalidAssignment)
        }
        Placement::Named(partitions) => {
            manual(image, &targets(image, partitions)?).map_err(ControlError::InvalidAssignment)
        }
    }
}

/// The nodes in the order in which they lead the partitions of a topic.
pub(super) fn nodes(image: &Image) -> Vec<NodeId> {
    image.nodes().map(|node| node.id).collect()
}

/// What broker ids name, partition by partition.
pub(super) fn targets(
    image: &Image,
    partitions: &[Vec<i32>],
) -> Result<Vec<Vec<ReplicaTarget>>, ControlError> {
    let of_partition = |brokers: &Vec<i32>| brokers.iter().map(|broker| target(image, *broker)).collect();
    partitions.iter().map(of_partition).collect()
}

/// A broker id names a shard, or a node where that is one broker to its clients.
fn target(image: &Image, broker: i32) -> Result<ReplicaTarget, ControlError> {
    let (node, shard) = broker_id_parts(broker).ok_or(ControlError::UnknownBroker(broker))?;
    let is_one = image.node(node).is_some_and(|node| node.has_one_address());
    match shard {
        ShardId(0) if is_one => Ok(ReplicaTarget { node, shard: None }),
        _ if is_one => Err(ControlError::UnknownBroker(broker)),
        _ => Ok(ReplicaTarget { node, shard: Some(shard) }),
    }
}

#[cfg(test)]
mod tests {
    use replication::metadata::commands::Command;
    use replication::metadata::reply::AssignmentError;

    use super::*;
    use crate::examples::cluster;

    fn image() -> Image {
        cluster([1], 2)
    }

    fn wish(name: &str, placement: Placement) -> NewTopic {
        NewTopic { name: name.to_owned(), placement, configs: Vec::new(), validate_only: false }
    }

    fn dealt(partitions: u32, replication_factor: Option<u16>) -> Placement {
        Placement::Dealt { partitions, replication_factor }
    }

    #[test]
    fn a_topic_is_placed_level_with_the_factor_the_cluster_can_carry() {
        let command = plan(&image(), None, wish("a", dealt(8, None)), TopicId([7; 16])).unwrap();
        let on_first = command.partitions.iter().filter(|p| p.lane.owner(2).0 == 0).count();
        assert_eq!(on_first, 4);
        assert_eq!(created(&command, command.id).replication_factor, 1);
    }

    #[test]
    fn a_factor_beyond_the_nodes_is_refused() {
        let refused = plan(&image(), None, wish("a", dealt(1, Some(2))), TopicId([7; 16])).unwrap_err();
        assert!(matches!(
            refused,
            ControlError::InvalidAssignment(AssignmentError::ReplicationFactor { .. })
        ));
    }

    #[test]
    fn a_name_that_differs_only_in_dots_and_underscores_is_refused() {
        let mut image = image();
        let command = plan(&image, None, wish("a.b", dealt(1, None)), TopicId([7; 16])).unwrap();
        image.apply(2, &Command::CreateTopic(command));
        let again = plan(&image, None, wish("a.b", dealt(1, None)), TopicId([8; 16])).unwrap_err();
        assert_eq!(again, ControlError::TopicAlreadyExists("a.b".to_owned()));
        let near = plan(&image, None, wish("a_b", dealt(1, None)), TopicId([8; 16])).unwrap_err();
        assert!(matches!(near, ControlError::TopicNameCollides { .. }));
    }

    #[test]
    fn topics_planned_together_are_placed_level_and_do_not_collide() {
        let image = image();
        let mut planned = image.clone();
        let mut owners = Vec::new();
        for number in 0..4_u8 {
            let topic = wish(&format!("t.{number}"), dealt(1, None));
            let command = plan(&image, Some(&planned), topic, TopicId([number + 1; 16])).unwrap();
            owners.push(command.partitions[0].lane.owner(2).0);
            planned.apply(planned.applied() + 1, &Command::CreateTopic(command));
        }
        owners.sort_unstable();
        assert_eq!(owners, [0, 0, 1, 1]);
        let near = plan(&image, Some(&planned), wish("t_1", dealt(1, None)), TopicId([9; 16]));
        assert!(matches!(near, Err(ControlError::TopicNameCollides { .. })));
        let same = plan(&image, Some(&planned), wish("t.1", dealt(1, None)), TopicId([9; 16]));
        assert!(same.is_ok(), "which of the two is created is known when they are applied");
    }

    #[test]
    fn brokers_named_for_partitions_are_nodes_and_shards() {
        let named = Placement::Named(vec![vec![1001], vec![1000]]);
        let command = plan(&image(), None, wish("a", named), TopicId([7; 16])).unwrap();
        let owners: Vec<u16> = command.partitions.iter().map(|p| p.lane.owner(2).0).collect();
        assert_eq!(owners, [1, 0]);
        let unknown = plan(&image(), None, wish("a", Placement::Named(vec![vec![-5]])), TopicId([7; 16]));
        assert_eq!(unknown.unwrap_err(), ControlError::UnknownBroker(-5));
    }
}
