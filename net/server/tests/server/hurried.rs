//! Fetches that wait for records while others wait for memory that is held with them or behind them: those are answered
//! early, and no others.

use core::time::Duration;

use net_server::config::{Config, Limits};
use net_wire::messages::metadata::MetadataRequestTopic;
use net_wire::messages::{FetchRequest, MetadataRequest, ProduceRequest};
use net_wire::{ErrorCode, Uuid};

use crate::batches::{large, read};
use crate::calls::{FETCH, Fetch, Produce, Topic, produce};
use crate::client::Client;
use crate::node::{Node, config, on_node};
use crate::unread_replies::{BY_NAME, clients_that_do_not_read, of_nothing};

const SECOND: Duration = Duration::from_secs(1);
/// Less than anybody waits in vain.
const SOON: Duration = Duration::from_secs(3);
const LONG_MS: i32 = 60_000;
/// A version that names topics by name.
const METADATA: i16 = 9;

fn with(limits: Limits) -> Config {
    Config { limits, ..config(1) }
}

fn little_reply_memory() -> Config {
    with(Limits { reply_bytes: 4 << 20, ..Limits::default() })
}

/// Sends a fetch that waits for records that nobody writes, and `behind` behind it.
async fn wait_before(client: &mut Client, topic: &Topic, behind: &[Vec<u8>]) {
    let poll = client.frame(FETCH, &Fetch::at(topic, 1, 0).waiting(LONG_MS, 1).request());
    client.send_bytes([&[poll], behind].concat().concat()).await;
}

/// A produce with much to say of it and nothing to append.
fn talkative(client: &mut Client, topic: &Topic) -> Vec<u8> {
    client.frame(BY_NAME, &of_nothing(topic, 8_000))
}

/// A question for so many topics that aren't there.
fn asks_for(names: &[String]) -> MetadataRequest<'_> {
    let topic = |name| MetadataRequestTopic { name: Some(name), topic_id: Uuid::ZERO };
    let topics = names.iter().map(String::as_str).map(topic).collect();
    MetadataRequest { topics: Some(topics), ..MetadataRequest::default() }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:0100}")).collect()
}

#[test]
fn what_came_of_a_produce_behind_a_long_poll_holds_no_memory_that_others_wait_for() {
    on_node(1, little_reply_memory(), async |node| {
        let topic = node.topic("t", 2).await;
        let mut holder = node.connect(0).await;
        let behind = talkative(&mut holder, &topic);
        wait_before(&mut holder, &topic, &[behind]).await;
        node.pause(SECOND).await;
        assert!(node.snapshot(0).await.reply_bytes > 500_000, "it is held");
        let mut other = node.connect(0).await;
        let begun_at = other.now();
        other.send(BY_NAME, &of_nothing(&topic, 8_000)).await;
        let polled = Fetch::at(&topic, 1, 0).outcome(&holder.answer::<FetchRequest<'_>>(FETCH).await).only();
        assert_eq!((polled.error, polled.records.len()), (ErrorCode::NONE, 0));
        for client in [&mut holder, &mut other] {
            let answer = client.answer::<ProduceRequest<'_>>(BY_NAME).await;
            assert_eq!(answer.body().responses[0].partition_responses.len(), 8_000);
        }
        assert!(other.now().since(begun_at) < SOON, "{:?}", other.now().since(begun_at));
    });
}

/// Nobody of them reads.
#[test]
fn fetches_have_records_while_all_others_have_produces_wait_behind_long_polls() {
    on_node(2, little_reply_memory(), async |node| {
        let topic = node.topic("t", 2).await;
        produce(&mut node.connect(0).await, &topic, 0, &large(900_000)).await;
        let poll = Fetch::at(&topic, 1, 0).waiting(LONG_MS, 1);
        let _holders = clients_that_do_not_read(&node, 60, |client| {
            let pair = |client: &mut Client| {
                [client.frame(FETCH, &poll.request()), client.frame(BY_NAME, &of_nothing(&topic, 3_000))]
            };
            (0..10).flat_map(|_| pair(client)).collect()
        })
        .await;
        let mut reader = node.connect(0).await;
        for _ in 0..60 {
            let begun_at = reader.now();
            let fetched = Fetch::at(&topic, 0, 0).call(&mut reader).await.only();
            assert_eq!(read(&fetched.records).len(), 1);
            let took = reader.now().since(begun_at);
            assert!(took < SECOND / 5, "no earlier answer of theirs is waited for: {took:?}");
            node.pause(SECOND / 13).await;
        }
    });
}

#[test]
fn a_fetch_that_holds_nothing_keeps_its_wait_where_memory_is_short() {
    on_node(3, little_reply_memory(), async |node| {
        let topic = node.topic("t", 2).await;
        let (mut waiting, mut producing) = (node.connect(0).await, node.connect(0).await);
        let begun_at = waiting.now();
        waiting.send(FETCH, &Fetch::at(&topic, 1, 0).waiting(20_000, 1).request()).await;
        wait_before(&mut producing, &topic, &[]).await;
        let mut holders = Vec::new();
        for _ in 0..3 {
            let mut holder = node.connect(0).await;
            let behind = talkative(&mut holder, &topic);
            wait_before(&mut holder, &topic, &[behind]).await;
            holders.push(holder);
        }
        for holder in &mut holders {
            holder.receive().await.expect("an answer");
            assert!(holder.now().since(begun_at) < 5 * SECOND);
        }
        waiting.receive().await.expect("an answer");
        assert!(waiting.now().since(begun_at) >= 20 * SECOND);
        producing.receive().await.expect("an answer");
        assert!(producing.now().since(begun_at) >= 60 * SECOND);
    });
}

/// One of those that wait may go beyond the limit, so there are two.
#[test]
fn requests_behind_a_long_poll_hold_no_memory_that_others_wait_for() {
    let limits = Limits { request_bytes: 200_000, frame_bytes: 100_000, ..Limits::default() };
    on_node(4, with(limits), async |node| {
        let topic = node.topic("t", 2).await;
        let names = names(800);
        let mut holders = Vec::new();
        for _ in 0..3 {
            let mut holder = node.connect(0).await;
            let behind = holder.frame(METADATA, &asks_for(&names));
            wait_before(&mut holder, &topic, &[behind]).await;
            holders.push(holder);
            node.pause(SECOND / 10).await;
        }
        let mut other = node.connect(0).await;
        let begun_at = other.now();
        produce(&mut other, &topic, 0, &large(90_000)).await;
        assert!(other.now().since(begun_at) < SOON, "{:?}", other.now().since(begun_at));
        for holder in &mut holders {
            holder.receive().await.expect("an early answer of the fetch");
            let answer = holder.answer::<MetadataRequest<'_>>(METADATA).await;
            assert_eq!(answer.body().topics.len(), 800);
        }
    });
}

#[test]
fn a_long_poll_of_many_partitions_holds_no_turn_that_others_wait_for() {
    on_node(5, with(Limits { list_bytes: 40_000, ..Limits::default() }), async |node| {
        let topic = node.topic("t", 2).await;
        let mut holder = node.connect(0).await;
        let many = Fetch::new(&topic, &[(1, 0); 1_500]).waiting(LONG_MS, 1);
        holder.send(FETCH, &many.request()).await;
        node.pause(SECOND).await;
        let mut other = node.connect(0).await;
        let names = names(300);
        let begun_at = other.now();
        let answer = other.ask(METADATA, &asks_for(&names)).await;
        assert_eq!(answer.body().topics.len(), 300);
        assert!(other.now().since(begun_at) < SOON, "{:?}", other.now().since(begun_at));
        let polled = many.outcome(&holder.answer::<FetchRequest<'_>>(FETCH).await);
        assert_eq!(polled.partitions.len(), 1_500);
    });
}

/// Clients that have fetched and don't read hold all the memory.
async fn hold_all(node: &Node, topic: &Topic) -> Vec<Client> {
    let mut holders = Vec::new();
    for _ in 0..5 {
        let mut holder = node.connect(0).await;
        holder.send(FETCH, &Fetch::at(topic, 0, 0).request()).await;
        holders.push(holder);
    }
    node.pause(SECOND).await;
    holders
}

#[test]
fn small_answers_wait_for_no_memory() {
    on_node(6, little_reply_memory(), async |node| {
        let topic = node.topic("t", 2).await;
        let mut other = node.connect(0).await;
        produce(&mut other, &topic, 0, &large(1_040_000)).await;
        let _holders = hold_all(&node, &topic).await;
        let begun_at = other.now();
        // So long a list isn't answered from files where there is no memory.
        let many = Fetch::new(&topic, &[(0, 0); 200]);
        let fetched = many.call(&mut other).await.partitions.remove(0);
        assert!(fetched.records.is_empty() && other.now().since(begun_at) > 4 * SECOND, "all of it is held");
        let mut queued = node.connect(0).await;
        queued.send(FETCH, &many.request()).await;
        node.pause(SECOND / 10).await;
        let begun_at = other.now();
        let known = vec![topic.name.clone()];
        assert_eq!(other.ask(METADATA, &asks_for(&known)).await.body().topics[0].partitions.len(), 2);
        assert_eq!(Fetch::at(&topic, 1, 0).call(&mut other).await.only().error, ErrorCode::NONE);
        let records = large(100);
        assert_eq!(Produce::new(&topic, 0, &records).call(&mut other).await.error, ErrorCode::NONE);
        assert!(other.now().since(begun_at) < SOON, "{:?}", other.now().since(begun_at));
    });
}
