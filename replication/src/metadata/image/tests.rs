use super::*;
use crate::codec::DecodeError;
use crate::metadata::commands::{
    AlterTopic, BumpReason, Command, CreatePartitions, CreateTopic, OtherConfigs, PartitionAssignment,
    RegisterNode,
};
use crate::metadata::reply::{AssignmentError, RegistrationError, Reply, TopicNameError};
use engine_record::ProducerId;
use proptest::prelude::*;

fn registration(node: i32, incarnation: u128) -> RegisterNode {
    RegisterNode {
        node: NodeId(node),
        directory_id: u128::from(node.unsigned_abs()) + 100,
        incarnation: Incarnation(incarnation),
        shards: 2,
        endpoints: vec![endpoint("CLIENT", 1), endpoint("CLIENT", 0), endpoint("PEER", 0)],
        clean_start: true,
    }
}

fn endpoint(listener: &str, shard: u16) -> ListenerEndpoint {
    ListenerEndpoint {
        listener: listener.to_owned(),
        shard: ShardId(shard),
        host: "localhost".to_owned(),
        port: 9092 + shard,
    }
}

fn topic(name: &str, id: u8, replicas: &[&[i32]]) -> CreateTopic {
    let partition = |nodes: &&[i32]| PartitionAssignment {
        replicas: nodes.iter().map(|node| NodeId(*node)).collect(),
        lane: Lane::new(5).unwrap(),
    };
    CreateTopic {
        name: name.to_owned(),
        id: TopicId([id; 16]),
        partitions: replicas.iter().map(partition).collect(),
        configs: vec![("retention.ms".to_owned(), "1000".to_owned())],
    }
}

fn apply(image: &mut Image, command: Command) -> Reply {
    image.apply(image.applied() + 1, &command)
}

/// Nodes 1 and 2, each registered by process 1, at indexes 1 and 2.
fn two_nodes() -> Image {
    let mut image = Image::new(ClusterId([9; 16]));
    for node in [1, 2] {
        apply(&mut image, Command::RegisterNode(registration(node, 1)));
    }
    image
}

#[test]
fn a_node_registers_once_however_often_its_process_asks() {
    let mut image = two_nodes();
    let again = apply(&mut image, Command::RegisterNode(registration(1, 1)));
    assert_eq!(again, Reply::NodeRegistered { epoch: 1 }, "the same broker epoch as before");
    let restarted = apply(&mut image, Command::RegisterNode(registration(1, 2)));
    assert_eq!(restarted, Reply::NodeRegistered { epoch: 4 });
    let late = apply(&mut image, Command::RegisterNode(registration(1, 1)));
    assert_eq!(late, Reply::StaleIncarnation, "a late copy of the earlier process");
    assert_eq!(image.node(NodeId(1)).unwrap().incarnation, Incarnation(2));
}

#[test]
fn a_known_node_with_an_empty_disk_is_refused() {
    let mut image = two_nodes();
    let stranger = RegisterNode { directory_id: 666, ..registration(1, 2) };
    let before = image.node(NodeId(1)).cloned();
    let refused = apply(&mut image, Command::RegisterNode(stranger));
    assert_eq!(refused, Reply::InvalidRegistration(RegistrationError::DirectoryMismatch));
    assert_eq!(image.node(NodeId(1)).cloned(), before);
}

#[test]
fn a_registration_that_breaks_a_rule_is_refused_with_the_rule() {
    let mut image = two_nodes();
    let mut refuse = |change: &dyn Fn(&mut RegisterNode), expected: RegistrationError| {
        let mut wrong = registration(3, 1);
        change(&mut wrong);
        let reply = apply(&mut image, Command::RegisterNode(wrong));
        assert_eq!(reply, Reply::InvalidRegistration(expected));
    };
    refuse(&|node| node.shards = 0, RegistrationError::ShardCount(0));
    refuse(&|node| node.shards = 1_001, RegistrationError::ShardCount(1_001));
    refuse(&|node| node.shards = 1, RegistrationError::UnknownShard(ShardId(1)));
    refuse(
        &|node| node.node = NodeId(NODE_ID_MAX.0 + 1),
        RegistrationError::NodeIdOutOfRange(NodeId(NODE_ID_MAX.0 + 1)),
    );
    refuse(
        &|node| node.endpoints.push(endpoint("PEER", 0)),
        RegistrationError::DuplicateEndpoint(ShardId(0)),
    );
    assert_eq!(image.nodes().len(), 2);
}

#[test]
fn an_endpoint_is_found_by_listener_and_shard() {
    let image = two_nodes();
    let node = image.node(NodeId(2)).unwrap();
    assert_eq!(node.endpoint("CLIENT", ShardId(1)), Some(&endpoint("CLIENT", 1)));
    assert_eq!(node.endpoint("PEER", ShardId(1)), None);
}

#[test]
fn a_topic_is_found_by_name_and_id_until_it_is_deleted() {
    let mut image = two_nodes();
    let id = TopicId([1; 16]);
    let created = apply(&mut image, Command::CreateTopic(topic("orders", 1, &[&[1, 2], &[2, 1]])));
    assert_eq!(created, Reply::TopicCreated { id });
    let found = image.topic_named("orders").unwrap();
    assert_eq!(found.id, id);
    assert_eq!(found.configs["retention.ms"], "1000");
    let partition = found.partition(PartitionIndex(1)).unwrap();
    assert_eq!((partition.leader, partition.leader_epoch), (Some(NodeId(2)), LeaderEpoch(0)));
    assert_eq!(partition.isr, partition.replicas);
    assert_eq!(image.owner(NodeId(2), partition.lane), Some(ShardId(1)));
    assert_eq!(found.partition(PartitionIndex(2)), None);
    assert_eq!(found.partition(PartitionIndex(-1)), None);
    let deleted = apply(&mut image, Command::DeleteTopic { id });
    assert_eq!(deleted, Reply::TopicDeleted { name: "orders".to_owned() });
    assert!(image.topic_named("orders").is_none() && image.topic(id).is_none());
    assert_eq!(apply(&mut image, Command::DeleteTopic { id }), Reply::UnknownTopic);
}

#[test]
fn a_name_created_again_is_another_topic() {
    let mut image = two_nodes();
    apply(&mut image, Command::CreateTopic(topic("orders", 1, &[&[1]])));
    let taken = apply(&mut image, Command::CreateTopic(topic("orders", 2, &[&[1]])));
    assert_eq!(taken, Reply::TopicAlreadyExists { id: TopicId([1; 16]) });
    apply(&mut image, Command::DeleteTopic { id: TopicId([1; 16]) });
    let again = apply(&mut image, Command::CreateTopic(topic("orders", 2, &[&[1]])));
    assert_eq!(again, Reply::TopicCreated { id: TopicId([2; 16]) });
    assert!(image.topic(TopicId([1; 16])).is_none());
}

#[test]
fn a_topic_that_breaks_a_rule_is_refused_and_nothing_changes() {
    let mut image = two_nodes();
    apply(&mut image, Command::CreateTopic(topic("orders", 1, &[&[1]])));
    let before = image.clone();
    let mut refuse = |wrong: CreateTopic, expected: Reply| {
        assert_eq!(apply(&mut image, Command::CreateTopic(wrong)), expected);
    };
    refuse(topic("a", 1, &[&[1]]), Reply::InvalidTopicId);
    refuse(topic("a", 0, &[&[1]]), Reply::InvalidTopicId);
    refuse(topic("a/b", 2, &[&[1]]), Reply::InvalidTopicName(TopicNameError::Character('/')));
    refuse(topic("a", 2, &[]), Reply::InvalidAssignment(AssignmentError::NoPartitions));
    refuse(
        topic("a", 2, &[&[1], &[3]]),
        Reply::InvalidAssignment(AssignmentError::UnknownNode { partition: 1, node: NodeId(3) }),
    );
    refuse(
        topic("a", 2, &[&[1, 1]]),
        Reply::InvalidAssignment(AssignmentError::DuplicateNode { partition: 0, node: NodeId(1) }),
    );
    let mut doubled = topic("a", 2, &[&[1]]);
    doubled.configs = vec![doubled.configs[0].clone(), doubled.configs[0].clone()];
    refuse(doubled, Reply::DuplicateConfig);
    image.applied = before.applied;
    assert_eq!(image, before);
}

fn alteration(id: u8, others: OtherConfigs, changes: &[(&str, Option<&str>)]) -> Command {
    let owned =
        |&(name, value): &(&str, Option<&str>)| (name.to_owned(), value.map(|value: &str| value.to_owned()));
    Command::AlterTopic(AlterTopic {
        id: TopicId([id; 16]),
        others,
        changes: changes.iter().map(owned).collect(),
    })
}

#[test]
fn a_topics_own_settings_change_by_name_or_as_a_whole() {
    use OtherConfigs::{Go, Stay};
    let mut image = two_nodes();
    apply(&mut image, Command::CreateTopic(topic("orders", 1, &[&[1]])));
    apply(&mut image, Command::CreateTopic(topic("other", 2, &[&[1]])));
    let untouched = Arc::clone(image.topic_named("other").unwrap());
    let mut configs_after = |others, changes: &[(&str, Option<&str>)]| {
        assert_eq!(apply(&mut image, alteration(1, others, changes)), Reply::TopicAltered);
        let configs = image.topic_named("orders").unwrap().configs.iter();
        configs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    let added = [("a", Some("1")), ("b", Some("")), ("none", None)];
    assert_eq!(configs_after(Stay, &added), ["a=1", "b=", "retention.ms=1000"]);
    assert_eq!(configs_after(Stay, &[("retention.ms", None), ("a", Some("2")), ("b", None)]), ["a=2"]);
    assert_eq!(configs_after(Stay, &[]), ["a=2"]);
    assert_eq!(configs_after(Go, &[("b", Some("1")), ("a", None)]), ["b=1"]);
    assert_eq!(configs_after(Go, &[]), [""; 0]);
    assert!(Arc::ptr_eq(&untouched, image.topic_named("other").unwrap()));
    assert_eq!(Image::decode(&image.encode()), Ok(image));
}

#[test]
fn a_change_of_settings_that_makes_no_sense_is_refused_and_one_that_changes_nothing_copies_nothing() {
    let mut image = two_nodes();
    apply(&mut image, Command::CreateTopic(topic("orders", 1, &[&[1]])));
    let before = image.clone();
    let twice = [("a", Some("1")), ("b", None), ("a", None)];
    let refused = apply(&mut image, alteration(1, OtherConfigs::Stay, &twice));
    assert_eq!(refused, Reply::DuplicateConfig);
    let unknown = apply(&mut image, alteration(2, OtherConfigs::Go, &[]));
    assert_eq!(unknown, Reply::UnknownTopic);
    let same = [("retention.ms", Some("1000"))];
    assert_eq!(apply(&mut image, alteration(1, OtherConfigs::Go, &same)), Reply::TopicAltered);
    let topic = |image: &Image| Arc::clone(image.topic_named("orders").unwrap());
    assert!(Arc::ptr_eq(&topic(&image), &topic(&before)));
    image.applied = before.applied;
    assert_eq!(image, before);
}

fn growth(id: u8, first: u32, replicas: &[&[i32]]) -> Command {
    let partitions = topic("", 1, replicas).partitions;
    Command::CreatePartitions(CreatePartitions { id: TopicId([id; 16]), first, partitions })
}

#[test]
fn a_topic_gets_more_partitions_and_those_it_has_stay_as_they_are() {
    let mut image = two_nodes();
    apply(&mut image, Command::CreateTopic(topic("orders", 1, &[&[1]])));
    apply(&mut image, Command::CreateTopic(topic("other", 2, &[&[1]])));
    let bump = Command::BumpLeaderEpochs { node: NodeId(1), reason: BumpReason::UncleanStart };
    apply(&mut image, bump);
    let before = Arc::clone(image.topic_named("orders").unwrap());
    let untouched = Arc::clone(image.topic_named("other").unwrap());
    assert_eq!(apply(&mut image, growth(1, 1, &[&[2], &[1]])), Reply::PartitionsCreated);
    let grown = image.topic_named("orders").unwrap();
    assert_eq!(grown.partitions.len(), 3);
    assert_eq!(grown.partitions[0], before.partitions[0]);
    let partition = grown.partition(PartitionIndex(1)).unwrap();
    assert_eq!((partition.leader, partition.leader_epoch), (Some(NodeId(2)), LeaderEpoch(0)));
    assert_eq!((&grown.name, grown.id, &grown.configs), (&before.name, before.id, &before.configs));
    assert!(Arc::ptr_eq(&untouched, image.topic_named("other").unwrap()));
    assert_eq!(Image::decode(&image.encode()), Ok(image));
}

#[test]
fn partitions_that_break_a_rule_or_build_on_another_number_of_them_are_refused_and_nothing_changes() {
    let mut image = two_nodes();
    apply(&mut image, Command::CreateTopic(topic("orders", 1, &[&[1], &[2]])));
    let before = image.clone();
    let mut refuse = |wrong: Command, expected: Reply| assert_eq!(apply(&mut image, wrong), expected);
    refuse(growth(2, 2, &[&[1]]), Reply::UnknownTopic);
    for first in [0, 1, 3, u32::MAX] {
        refuse(growth(1, first, &[&[1]]), Reply::PartitionsChanged { partitions: 2 });
    }
    refuse(growth(1, 2, &[]), Reply::InvalidAssignment(AssignmentError::NoPartitions));
    let uneven = AssignmentError::UnevenReplicas { partition: 2 };
    refuse(growth(1, 2, &[&[1, 2]]), Reply::InvalidAssignment(uneven));
    let unknown = AssignmentError::UnknownNode { partition: 3, node: NodeId(3) };
    refuse(growth(1, 2, &[&[1], &[3]]), Reply::InvalidAssignment(unknown));
    let none = AssignmentError::NoReplicas { partition: 2 };
    refuse(growth(1, 2, &[&[]]), Reply::InvalidAssignment(none));
    image.applied = before.applied;
    assert_eq!(image, before);
}

#[test]
fn topic_names_follow_kafkas_rules() {
    assert_eq!(check_topic_name("a.B_9-"), Ok(()));
    assert_eq!(check_topic_name(&"x".repeat(249)), Ok(()));
    assert_eq!(check_topic_name(&"x".repeat(250)), Err(TopicNameError::TooLong(250)));
    assert_eq!(check_topic_name(""), Err(TopicNameError::Empty));
    assert_eq!(check_topic_name("."), Err(TopicNameError::Dots));
    assert_eq!(check_topic_name(".."), Err(TopicNameError::Dots));
    assert_eq!(check_topic_name("größe"), Err(TopicNameError::Character('ö')));
}

#[test]
fn an_unclean_start_bumps_the_epochs_of_what_the_node_leads_and_of_nothing_else() {
    let mut image = two_nodes();
    apply(&mut image, Command::CreateTopic(topic("orders", 1, &[&[1, 2], &[2, 1]])));
    apply(&mut image, Command::CreateTopic(topic("other", 2, &[&[2]])));
    let untouched = Arc::clone(image.topic_named("other").unwrap());
    apply(&mut image, Command::RegisterNode(RegisterNode { clean_start: false, ..registration(1, 2) }));
    let epochs = |image: &Image| -> Vec<(i32, i32)> {
        let orders = &image.topic_named("orders").unwrap().partitions;
        orders.iter().map(|partition| (partition.leader_epoch.0, partition.partition_epoch)).collect()
    };
    assert_eq!(epochs(&image), [(1, 1), (0, 0)]);
    assert!(Arc::ptr_eq(&untouched, image.topic_named("other").unwrap()));
    apply(&mut image, Command::RegisterNode(RegisterNode { clean_start: false, ..registration(1, 2) }));
    assert_eq!(epochs(&image), [(1, 1), (0, 0)], "a repeated registration bumps nothing");
    let bump = Command::BumpLeaderEpochs { node: NodeId(1), reason: BumpReason::UncleanStart };
    assert_eq!(apply(&mut image, bump), Reply::LeaderEpochsBumped { partitions: 1 });
    assert_eq!(epochs(&image), [(2, 2), (0, 0)]);
    let nobody = Command::BumpLeaderEpochs { node: NodeId(7), reason: BumpReason::UncleanStart };
    assert_eq!(apply(&mut image, nobody), Reply::UnknownNode(NodeId(7)));
}

#[test]
fn producer_ids_are_given_once_and_only_to_the_running_process() {
    let mut image = two_nodes();
    let ask = |node, incarnation, count| Command::AllocateProducerIds {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        count,
    };
    let block =
        |first, count| Reply::ProducerIds(super::super::ProducerIdBlock { first: ProducerId(first), count });
    assert_eq!(apply(&mut image, ask(1, 1, 1_000)), block(0, 1_000));
    assert_eq!(apply(&mut image, ask(2, 1, 10)), block(1_000, 10));
    assert_eq!(apply(&mut image, ask(1, 1, 1_000)), block(1_010, 1_000));
    assert_eq!(apply(&mut image, ask(1, 2, 1_000)), Reply::StaleIncarnation);
    assert_eq!(apply(&mut image, ask(4, 1, 1_000)), Reply::UnknownNode(NodeId(4)));
    assert_eq!(apply(&mut image, ask(1, 1, 0)), Reply::InvalidProducerIdCount);
    assert_eq!(apply(&mut image, ask(1, 1, u32::MAX)), Reply::InvalidProducerIdCount);
    image.next_producer_id = i64::MAX - 5;
    assert_eq!(apply(&mut image, ask(1, 1, 6)), Reply::InvalidProducerIdCount);
    assert_eq!(apply(&mut image, ask(1, 1, 5)), block(i64::MAX - 5, 5));
}

#[test]
#[should_panic(expected = "is applied after")]
fn a_command_is_never_applied_twice() {
    let mut image = two_nodes();
    image.apply(2, &Command::DeleteTopic { id: TopicId([1; 16]) });
}

#[test]
fn a_cluster_id_is_shown_as_kafka_shows_it() {
    assert_eq!(ClusterId([0xff; 16]).to_string(), "_____________________w");
}

#[test]
fn a_broker_id_names_a_node_and_a_shard() {
    assert_eq!(broker_id(NodeId(3), ShardId(17)), 3_017);
    assert_eq!(broker_id_parts(3_017), Some((NodeId(3), ShardId(17))));
    assert_eq!(broker_id_parts(broker_id(NODE_ID_MAX, ShardId(999))), Some((NODE_ID_MAX, ShardId(999))));
    assert_eq!(broker_id_parts(-1), None);
    assert_eq!(broker_id_parts(i32::MAX), None);
}

fn command() -> impl Strategy<Value = Command> {
    let node = 1..4_i32;
    let names = prop::sample::select(vec!["a", "b", "c", "", "no/way"]);
    let names_of_configs = prop::sample::select(vec!["retention.ms", "a", "b"]);
    prop_oneof![
        (node.clone(), 1..4_u128, any::<bool>()).prop_map(|(node, incarnation, clean_start)| {
            Command::RegisterNode(RegisterNode { clean_start, ..registration(node, incarnation) })
        }),
        (names, 0..4_u8, prop::collection::vec(prop::collection::vec(1..4_i32, 1..3), 1..4)).prop_map(
            |(name, id, replicas)| {
                let replicas: Vec<&[i32]> = replicas.iter().map(Vec::as_slice).collect();
                Command::CreateTopic(topic(name, id, &replicas))
            }
        ),
        (0..4_u8).prop_map(|id| Command::DeleteTopic { id: TopicId([id; 16]) }),
        node.clone().prop_map(|node| Command::BumpLeaderEpochs {
            node: NodeId(node),
            reason: BumpReason::UncleanStart
        }),
        (
            0..4_u8,
            any::<bool>(),
            prop::collection::vec((names_of_configs, prop::option::of("[0-9]{0,2}")), 0..3)
        )
            .prop_map(|(id, others_go, changes)| {
                let others = if others_go { OtherConfigs::Go } else { OtherConfigs::Stay };
                let changes: Vec<_> = changes.iter().map(|(name, value)| (*name, value.as_deref())).collect();
                alteration(id, others, &changes)
            }),
        (0..4_u8, 0..4_u32, prop::collection::vec(prop::collection::vec(1..4_i32, 1..3), 1..3)).prop_map(
            |(id, first, replicas)| {
                let replicas: Vec<&[i32]> = replicas.iter().map(Vec::as_slice).collect();
                growth(id, first, &replicas)
            }
        ),
        (node, 1..4_u128, 0..3_u32).prop_map(|(node, incarnation, count)| Command::AllocateProducerIds {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
            count,
        }),
    ]
}

proptest! {
    #[test]
    fn any_commands_keep_the_invariants_and_every_copy_of_the_image_comes_out_equal(
        commands in prop::collection::vec(command(), 0..40),
        snapshot_at in any::<prop::sample::Index>(),
    ) {
        let (mut image, mut replies) = (Image::new(ClusterId([1; 16])), Vec::new());
        let mut copy = image.clone();
        let restart = snapshot_at.index(commands.len() + 1);
        for (at, command) in commands.iter().enumerate() {
            if at == restart {
                copy = Image::decode(&image.encode()).unwrap();
            }
            let index = u64::try_from(at).unwrap() + 1;
            replies.push(image.apply(index, command));
            image.check();
            if at >= restart {
                prop_assert_eq!(Some(&copy.apply(index, command)), replies.last());
            }
        }
        let decoded = Image::decode(&image.encode()).unwrap();
        prop_assert_eq!(&decoded, &image);
        if restart < commands.len() {
            prop_assert_eq!(copy.encode(), image.encode());
        }
    }

    #[test]
    fn damaged_bytes_are_an_image_that_keeps_the_rules_or_an_error(
        commands in prop::collection::vec(command(), 0..20),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut image = Image::new(ClusterId([1; 16]));
        for command in commands {
            apply(&mut image, command);
        }
        let mut bytes = image.encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(read) = Image::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }
}

#[test]
fn a_newer_image_is_refused() {
    assert_eq!(Image::decode(&[9]), Err(DecodeError::Version(9)));
}
