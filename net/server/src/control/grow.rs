//! From a wish for more partitions to the command that makes them.

use replication::metadata::commands::{CreatePartitions, PartitionAssignment};
use replication::metadata::image::{Image, Topic};
use replication::metadata::lanes::{deal_more, manual};
use replication::metadata::reply::AssignmentError;

use super::channel::{ControlError, MorePartitions};
use super::create::{nodes, targets};
use crate::settings::PARTITIONS_MAX;

/// Makes the command for `wish`. What holds of `image` now is checked again when the command is applied.
pub(crate) fn plan(image: &Image, wish: &MorePartitions) -> Result<CreatePartitions, ControlError> {
    let topic = image.topic_named(&wish.name).ok_or(ControlError::UnknownTopic)?;
    let has = topic.partitions.len();
    let wanted = usize::try_from(wish.count).unwrap_or(0);
    if wanted <= has {
        return Err(ControlError::NotMorePartitions { has, asked: wish.count });
    }
    if u32::try_from(wanted).map_or(true, |wanted| wanted > PARTITIONS_MAX) {
        return Err(ControlError::TooManyPartitions(wish.count));
    }
    let partitions = match &wish.assignments {
        None => deal_more(image, topic, wanted - has, &nodes(image)).map_err(ControlError::InvalidAssignment),
        Some(named) => place(image, topic, wanted - has, named),
    }?;
    let first = u32::try_from(has).expect("a topic that may have more partitions has few");
    Ok(CreatePartitions { id: topic.id, first, partitions })
}

fn place(
    image: &Image,
    topic: &Topic,
    added: usize,
    named: &[Vec<i32>],
) -> Result<Vec<PartitionAssignment>, ControlError> {
    if named.len() != added {
        return Err(ControlError::AssignmentCount { added, named: named.len() });
    }
    let has = topic.partitions.len();
    let counted = |error: AssignmentError| ControlError::InvalidAssignment(error.counted_from(has));
    let partitions = manual(image, &targets(image, named)?).map_err(counted)?;
    image.check_more(topic, &partitions).map_err(ControlError::InvalidAssignment)?;
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use engine_record::{NodeId, ShardId, TopicId};
    use replication::metadata::commands::{Command, CreateTopic};
    use replication::metadata::lanes::Lane;
    use replication::metadata::reply::Reply;

    use super::*;
    use crate::examples::cluster;

    /// Node 1 with two shards, and a topic with one partition on its shard 1.
    fn image() -> Image {
        let mut image = cluster([1], 2);
        let lane = Lane::new(1).unwrap();
        let partitions = vec![PartitionAssignment { replicas: vec![NodeId(1)], lane }];
        let topic =
            CreateTopic { name: "t".to_owned(), id: TopicId([7; 16]), partitions, configs: Vec::new() };
        image.apply(2, &Command::CreateTopic(topic));
        image
    }

    fn wish(count: i32, assignments: Option<Vec<Vec<i32>>>) -> MorePartitions {
        MorePartitions { name: "t".to_owned(), count, assignments, validate_only: false }
    }

    fn owners(growth: &CreatePartitions) -> Vec<u16> {
        growth.partitions.iter().map(|partition| partition.lane.owner(2).0).collect()
    }

    #[test]
    fn a_topic_grows_level_from_where_it_is() {
        let mut image = image();
        let growth = plan(&image, &wish(4, None)).unwrap();
        assert_eq!((growth.id, growth.first), (TopicId([7; 16]), 1));
        let mut all = owners(&growth);
        all.sort_unstable();
        assert_eq!(all, [0, 0, 1]);
        let reply = image.apply(3, &Command::CreatePartitions(growth));
        assert_eq!(reply, Reply::PartitionsCreated);
        assert_eq!(plan(&image, &wish(5, None)).unwrap().first, 4);
    }

    #[test]
    fn brokers_named_for_new_partitions_are_nodes_and_shards() {
        let growth = plan(&image(), &wish(3, Some(vec![vec![1_001], vec![1_000]]))).unwrap();
        assert_eq!(owners(&growth), [1, 0]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        let image = image();
        let refused = |wish| plan(&image, &wish).unwrap_err();
        let unknown = MorePartitions { name: "u".to_owned(), ..wish(2, None) };
        assert_eq!(refused(unknown), ControlError::UnknownTopic);
        for asked in [i32::MIN, -1, 0, 1] {
            assert_eq!(refused(wish(asked, None)), ControlError::NotMorePartitions { has: 1, asked });
        }
        for asked in [10_001, i32::MAX] {
            assert_eq!(refused(wish(asked, None)), ControlError::TooManyPartitions(asked));
        }
        assert!(plan(&image, &wish(10_000, None)).is_ok());
        for named in [vec![], vec![vec![1_000]; 2]] {
            let expected = ControlError::AssignmentCount { added: 1, named: named.len() };
            assert_eq!(refused(wish(2, Some(named))), expected);
        }
        assert_eq!(refused(wish(2, Some(vec![vec![-5]]))), ControlError::UnknownBroker(-5));
        let (partition, node) = (2, NodeId(1));
        let cases = [
            (vec![], AssignmentError::NoReplicas { partition }),
            (vec![1_000, 1_001], AssignmentError::UnevenReplicas { partition }),
            (vec![1_000, 1_000], AssignmentError::UnevenReplicas { partition }),
            (vec![2_000], AssignmentError::UnknownNode { partition, node: NodeId(2) }),
            (vec![1_002], AssignmentError::UnknownShard { partition, node, shard: ShardId(2) }),
        ];
        for (brokers, error) in cases {
            let named = vec![vec![1_000], brokers];
            assert_eq!(refused(wish(3, Some(named))), ControlError::InvalidAssignment(error));
        }
    }
}
