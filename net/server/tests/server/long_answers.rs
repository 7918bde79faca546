//! Answers that take the shard a while to make.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, Task};
use net_server::config::{Config, Limits};
use net_wire::ErrorCode;
use net_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use net_wire::messages::{ListOffsetsRequest, MetadataRequest};
use sim::SimTask;

use crate::batches::timed;
use crate::calls::{FETCH, Fetch, Topic, produce};
use crate::node::{Node, config, on_node};

const SECOND: Duration = Duration::from_secs(1);
/// The newest version.
const METADATA: i16 = 13;
const LIST_OFFSETS: i16 = 10;

fn all_topics() -> MetadataRequest<'static> {
    MetadataRequest { topics: None, ..MetadataRequest::default() }
}

/// Topics that take a while to be told of, and more than half of what a connection's network holds.
async fn many_partitions(node: &Node) {
    for number in 0..11 {
        node.topic(&format!("t{number}"), 500).await;
    }
}

/// Made side by side they would all be there at the end, and whoever asks for little would wait for a piece of each.
#[test]
fn long_answers_are_made_one_after_the_other() {
    on_node(1, config(1), async |node| {
        for number in 0..40 {
            node.topic(&format!("t{number}"), 512).await;
        }
        let _others = node.others(300);
        let took = Rc::new(RefCell::new(Vec::<Duration>::new()));
        let mut asking = Vec::new();
        for _ in 0..20 {
            let (mut client, took) = (node.connect(0).await, Rc::clone(&took));
            asking.push(node.setting().io.spawn(async move {
                let begun_at = client.now();
                client.ask(METADATA, &all_topics()).await;
                took.borrow_mut().push(client.now().since(begun_at));
            }));
        }
        for client in asking {
            client.join().await;
        }
        let mut took = took.borrow_mut();
        took.sort_unstable();
        assert!(took[0] < took[19] / 3, "{took:?}");
    });
}

/// Its next answer is begun while the one before is sent, and has the turn or waits for it.
#[test]
fn a_client_that_takes_no_answer_keeps_no_turn_that_others_wait_for() {
    on_node(2, config(1), async |node| {
        many_partitions(&node).await;
        let mut stuck = Vec::new();
        for _ in 0..5 {
            let mut client = node.connect(0).await;
            let requests =
                (0..200).map(|_| client.frame(METADATA, &all_topics())).collect::<Vec<_>>().concat();
            client.send_bytes(requests).await;
            stuck.push(client);
        }
        node.pause(SECOND).await;
        for _ in 0..3 {
            let mut client = node.connect(0).await;
            let begun_at = client.now();
            assert_eq!(client.ask(METADATA, &all_topics()).await.body().topics.len(), 11);
            let took = client.now().since(begun_at);
            assert!(took < SECOND, "{took:?}");
        }
        drop(stuck);
    });
}

/// It is driven while the answer before it is sent.
#[test]
fn a_long_poll_behind_an_answer_that_nobody_takes_holds_no_turn_that_others_wait_for() {
    let limits = Limits { list_bytes: 40_000, ..Limits::default() };
    on_node(3, Config { limits, ..config(1) }, async |node| {
        many_partitions(&node).await;
        let topic = node.topic("t", 2).await;
        let many = Fetch::new(&topic, &[(1, 0); 1_500]);
        let mut stuck = node.connect(0).await;
        // All the others are there before it is over.
        let pause = stuck.frame(FETCH, &Fetch::at(&topic, 1, 0).waiting(100, 1).request());
        let untaken = [(); 2].map(|()| stuck.frame(METADATA, &all_topics())).concat();
        let poll = stuck.frame(FETCH, &many.clone().waiting(60_000, 1).request());
        stuck.send_bytes([pause, untaken, poll].concat()).await;
        node.pause(SECOND).await;
        let mut other = node.connect(0).await;
        let begun_at = other.now();
        assert_eq!(many.call(&mut other).await.partitions.len(), 1_500);
        let took = other.now().since(begun_at);
        assert!(took < SECOND, "{took:?}");
        drop(stuck);
    });
}

/// A request for the record at a time that the last record of `topic` has.
fn at_the_end(topic: &Topic) -> ListOffsetsRequest<'_> {
    let partition = ListOffsetsPartition { partition_index: 0, current_leader_epoch: -1, timestamp: LATE };
    let topics = vec![ListOffsetsTopic { name: &topic.name, partitions: vec![partition] }];
    ListOffsetsRequest { replica_id: -1, topics, ..ListOffsetsRequest::default() }
}

const LATE: i64 = 2_000;

/// A topic with a batch of so many records whose last is late.
async fn late_at_the_end(node: &Node, records: usize) -> Topic {
    let topic = node.topic("late", 1).await;
    let mut records = vec![(1_000, ""); records];
    records.push((LATE, ""));
    produce(&mut node.connect(0).await, &topic, 0, &timed(&records)).await;
    topic
}

/// Counts the turns of a task that always wants one, on the node's machine. Dropping it ends it.
fn count_turns(node: &Node) -> (SimTask, Rc<Cell<usize>>) {
    let (io, turns) = (node.machine().io(), Rc::new(Cell::new(0)));
    let counted = Rc::clone(&turns);
    let on = io.clone();
    let task = on.spawn(async move {
        loop {
            counted.set(counted.get() + 1);
            io.yield_now().await;
        }
    });
    (task, turns)
}

/// Side by side they would hold a batch each, and all of them have a turn of the shard while others have one.
#[test]
fn times_are_looked_for_one_after_the_other_and_others_have_as_many_turns() {
    on_node(4, config(1), async |node| {
        let topic = late_at_the_end(&node, 100_000).await;
        let _others = node.others(300);
        let (_counting, turns) = count_turns(&node);
        let took = Rc::new(RefCell::new(Vec::<Duration>::new()));
        let mut asking = Vec::new();
        for _ in 0..40 {
            let (mut client, took, topic) = (node.connect(0).await, Rc::clone(&took), topic.clone());
            asking.push(async move {
                let begun_at = client.now();
                let answer = client.ask(LIST_OFFSETS, &at_the_end(&topic)).await;
                let partition = &answer.body().topics[0].partitions[0];
                assert_eq!((partition.error_code, partition.offset), (ErrorCode::NONE, 100_000));
                took.borrow_mut().push(client.now().since(begun_at));
            });
        }
        let before = turns.get();
        let asking: Vec<_> = asking.into_iter().map(|client| node.setting().io.spawn(client)).collect();
        for client in asking {
            client.join().await;
        }
        let mut took = took.borrow_mut();
        took.sort_unstable();
        assert!(took[0] < took[39] / 3, "{took:?}");
        // A batch of 100,000 records is a dozen turns.
        assert!(turns.get() - before > 40 * 10, "{}", turns.get() - before);
    });
}
