//! DescribeTopicPartitions: pages of topics in the order of their names.

use net_wire::messages::DescribeTopicPartitionsRequest;
use net_wire::messages::describe_topic_partitions::{Cursor, TopicRequest};
use net_wire::{ErrorCode, Uuid};

use crate::calls::impossible_topic_names;
use crate::client::Client;
use crate::node::{FIRST_BROKER, Node, config, on_node};

/// The one version there is.
const VERSION: i16 = 0;
/// What a client may do with a topic: everything there is to allow.
const EVERYTHING: i32 = 0x0df8;

/// Where a page begins.
type Begin<'a> = Option<(&'a str, i32)>;

/// Name, error and partitions of each topic.
type Rows = Vec<(String, ErrorCode, Vec<i32>)>;

fn request<'a>(topics: &[&'a str], limit: i32, begin: Begin<'a>) -> DescribeTopicPartitionsRequest<'a> {
    DescribeTopicPartitionsRequest {
        topics: topics.iter().map(|&name| TopicRequest { name }).collect(),
        response_partition_limit: limit,
        cursor: begin.map(|(topic_name, partition_index)| Cursor { topic_name, partition_index }),
    }
}

/// The page, and where the next one begins.
async fn page(
    client: &mut Client,
    topics: &[&str],
    limit: i32,
    begin: Begin<'_>,
) -> (Rows, Option<(String, i32)>) {
    let answer = client.ask(VERSION, &request(topics, limit, begin)).await;
    let response = answer.body();
    let rows = response.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| partition.partition_index).collect();
        (topic.name.unwrap().to_owned(), topic.error_code, partitions)
    });
    let next = response.next_cursor.as_ref();
    (rows.collect(), next.map(|next| (next.topic_name.to_owned(), next.partition_index)))
}

fn known(name: &str, partitions: core::ops::Range<i32>) -> (String, ErrorCode, Vec<i32>) {
    (name.to_owned(), ErrorCode::NONE, partitions.collect())
}

fn failed(name: &str, error: ErrorCode) -> (String, ErrorCode, Vec<i32>) {
    (name.to_owned(), error, Vec::new())
}

fn begins(name: &str, partition: i32) -> Option<(String, i32)> {
    Some((name.to_owned(), partition))
}

/// Topics `a`, `b` and `c` with 3, 1 and 4 partitions.
async fn with_topics(node: &Node) -> Client {
    for (name, partitions) in [("c", 4), ("a", 3), ("b", 1)] {
        node.topic(name, partitions).await;
    }
    node.connect(0).await
}

#[test]
fn topics_are_told_by_name_with_all_that_there_is_to_say() {
    on_node(1, config(2), async |node| {
        let mut client = with_topics(&node).await;
        let answer = client.ask(VERSION, &request(&["c"], 2_000, None)).await;
        let response = answer.body();
        assert_eq!((response.throttle_time_ms, response.next_cursor.as_ref()), (0, None));
        let [topic] = &response.topics[..] else { panic!("one was asked for: {response:?}") };
        let described = node.describe("c").await;
        assert_eq!((topic.name, topic.topic_id, topic.is_internal), (Some("c"), described.id, false));
        assert_eq!(topic.topic_authorized_operations, EVERYTHING);
        for (partition, leader) in topic.partitions.iter().zip(described.leaders) {
            assert_eq!((partition.error_code, partition.leader_id), (ErrorCode::NONE, leader));
            assert!((FIRST_BROKER..FIRST_BROKER + 2).contains(&leader) && partition.leader_epoch == 0);
            assert_eq!((&partition.replica_nodes, &partition.isr_nodes), (&vec![leader], &vec![leader]));
            assert_eq!(partition.eligible_leader_replicas, Some(Vec::new()));
            assert_eq!(partition.last_known_elr, Some(Vec::new()));
            assert_eq!(partition.offline_replicas, []);
        }
        assert_eq!(topic.partitions.len(), 4);
    });
}

#[test]
fn topics_come_in_the_order_of_their_names_each_once_and_those_that_are_not_there_with_an_error() {
    on_node(2, config(1), async |node| {
        let mut client = with_topics(&node).await;
        let all = [known("a", 0..3), known("b", 0..1), known("c", 0..4)].to_vec();
        assert_eq!(page(&mut client, &[], 2_000, None).await, (all.clone(), None));
        let asked = ["c", "none", "a", "c", "b", "a"];
        let mut rows = all;
        rows.push(failed("none", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        assert_eq!(page(&mut client, &asked, 2_000, None).await, (rows, None));
        for name in &impossible_topic_names() {
            let expected = vec![failed(name, ErrorCode::INVALID_TOPIC_EXCEPTION)];
            assert_eq!(page(&mut client, &[name], 2_000, None).await, (expected, None));
        }
        let answer = client.ask(VERSION, &request(&["none"], 1, None)).await;
        assert_eq!(answer.body().topics[0].topic_id, Uuid::ZERO);
        assert!(node.try_describe("none").await.is_err(), "no topic is created for being asked for");
    });
}

#[test]
fn a_page_ends_at_its_limit_and_the_next_one_goes_on_from_there() {
    on_node(3, config(1), async |node| {
        let mut client = with_topics(&node).await;
        for topics in [&[][..], &["a", "b", "c"]] {
            for (limit, first) in [
                (1, (vec![known("a", 0..1)], begins("a", 1))),
                (3, (vec![known("a", 0..3)], begins("b", 0))),
                (4, (vec![known("a", 0..3), known("b", 0..1)], begins("c", 0))),
                (6, (vec![known("a", 0..3), known("b", 0..1), known("c", 0..2)], begins("c", 2))),
                (8, (vec![known("a", 0..3), known("b", 0..1), known("c", 0..4)], None)),
                (0, (vec![known("a", 0..1)], begins("a", 1))),
                (-5, (vec![known("a", 0..1)], begins("a", 1))),
            ] {
                assert_eq!(page(&mut client, topics, limit, None).await, first, "{limit}");
                let (mut all, mut next) = (Vec::new(), begins("", 0));
                while let Some((name, partition)) = next {
                    let begin = Some((name.as_str(), partition)).filter(|_| !name.is_empty());
                    let (rows, after) = page(&mut client, topics, limit, begin).await;
                    for (name, error, partitions) in rows {
                        assert_eq!(error, ErrorCode::NONE);
                        all.extend(partitions.into_iter().map(|partition| (name.clone(), partition)));
                    }
                    next = after;
                }
                let each = [("a", 3), ("b", 1), ("c", 4)];
                let expected = each.into_iter().flat_map(|(name, count)| (0..count).map(move |p| (name, p)));
                assert!(all.iter().map(|(name, p)| (name.as_str(), *p)).eq(expected), "{limit}: {all:?}");
            }
        }
    });
}

#[test]
fn no_page_is_longer_than_2000_partitions() {
    on_node(4, config(1), async |node| {
        node.topic("large", 2_500).await;
        let mut client = node.connect(0).await;
        let first = (vec![known("large", 0..2_000)], begins("large", 2_000));
        assert_eq!(page(&mut client, &[], i32::MAX, None).await, first);
        let second = (vec![known("large", 2_000..2_500)], None);
        assert_eq!(page(&mut client, &[], i32::MAX, Some(("large", 2_000))).await, second);
    });
}

#[test]
fn a_cursor_is_a_topic_that_is_asked_for_or_any_name_where_all_are() {
    on_node(5, config(1), async |node| {
        let mut client = with_topics(&node).await;
        let invalid = |names: &[&str]| -> Rows {
            names.iter().map(|name| failed(name, ErrorCode::INVALID_REQUEST)).collect()
        };
        let refused = page(&mut client, &["c", "a", "a"], 9, Some(("b", 0))).await;
        assert_eq!(refused, (invalid(&["a", "c"]), None));
        let refused = page(&mut client, &["a"], 9, Some(("a", -1))).await;
        assert_eq!(refused, (invalid(&["a"]), None));
        assert_eq!(page(&mut client, &[], 9, Some(("a", i32::MIN))).await, (Vec::new(), None));
        // One that was deleted since the page before: the next one comes whole.
        let rest = (vec![known("b", 0..1), known("c", 0..4)], None);
        assert_eq!(page(&mut client, &[], 9, Some(("aa", 2))).await, rest);
        assert_eq!(page(&mut client, &[], 9, Some(("d", 0))).await, (Vec::new(), None));
        let beyond = (vec![known("c", 0..0)], None);
        assert_eq!(page(&mut client, &[], 9, Some(("c", 99))).await, beyond);
        let unknown = vec![failed("none", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)];
        assert_eq!(page(&mut client, &["a", "none"], 9, Some(("none", 3))).await, (unknown, None));
    });
}
