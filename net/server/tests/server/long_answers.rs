//! Answers that take the shard a while to make.

use core::cell::RefCell;
use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, Task};
use net_wire::messages::MetadataRequest;

use crate::node::{config, on_node};

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
                let all = MetadataRequest { topics: None, ..MetadataRequest::default() };
                client.ask(13, &all).await;
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
