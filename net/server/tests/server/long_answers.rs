//! Answers that take the shard a while to make.

use core::cell::RefCell;
use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, Task};
use net_wire::messages::MetadataRequest;

use crate::node::{Node, config, on_node};

const SECOND: Duration = Duration::from_secs(1);
/// The newest version.
const METADATA: i16 = 13;

fn all_topics() -> MetadataRequest<'static> {
    MetadataRequest { topics: None, ..MetadataRequest::default() }
}

/// A node's topics take a while to be told of.
async fn many_partitions(node: &Node) {
    for number in 0..10 {
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
            assert_eq!(client.ask(METADATA, &all_topics()).await.body().topics.len(), 10);
            let took = client.now().since(begun_at);
            assert!(took < SECOND, "{took:?}");
        }
        drop(stuck);
    });
}
