//! Requests that are announced, begun and never ended: what they hold has a limit, and others go on.

use core::time::Duration;

use engine_io::{Io, Task};
use net_server::config::{Config, Limits};
use net_wire::messages::MetadataRequest;
use sim::SimTask;

use crate::batches::{batch, large};
use crate::calls::{PRODUCE, Produce, Topic, produce};
use crate::client::Client;
use crate::node::{Node, config, on_node};

const SECOND: Duration = Duration::from_secs(1);
const MIB: usize = 1 << 20;

/// Room for 48 MiB of requests beside one of the largest.
pub(crate) fn little_memory() -> Config {
    let limits = Limits { request_bytes: 64 << 20, frame_bytes: 16 << 20, ..Limits::default() };
    Config { limits, ..config(1) }
}

/// Clients that announce a large request, send so many bytes of it, and nothing more. Dropping them ends them.
pub(crate) async fn silent_clients(node: &Node, count: usize, announced: i32, sent: usize) -> Vec<SimTask> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = node.connect(0).await;
        let bytes = [&announced.to_be_bytes()[..], &vec![0; sent]].concat();
        clients.push(node.setting().io.spawn(async move {
            client.send_bytes(bytes).await;
            // Keeps the connection.
            core::future::pending::<()>().await;
        }));
    }
    node.pause(SECOND / 2).await;
    clients
}

/// Clients that announce a large request, send so many bytes of it, and then a little more now and again.
async fn trickling_clients(node: &Node, count: usize, announced: i32, sent: usize) -> Vec<SimTask> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = node.connect(0).await;
        let io = node.setting().io.clone();
        clients.push(node.setting().io.spawn(async move {
            client.send_bytes([&announced.to_be_bytes()[..], &vec![0; sent]].concat()).await;
            loop {
                io.sleep(3 * SECOND / 10).await;
                client.send_bytes(vec![0; 30_000]).await;
            }
        }));
    }
    node.pause(SECOND / 2).await;
    clients
}

/// Small requests of old and new connections are answered at once.
async fn small_requests_pass(node: &Node, topic: &Topic, old: &mut Client) {
    for client in [old, &mut node.connect(0).await] {
        let begun_at = client.now();
        client.ask(13, &MetadataRequest::default()).await;
        produce(client, topic, 0, &batch(&["small"])).await;
        produce(client, topic, 0, &large(16_000)).await;
        assert!(client.now().since(begun_at) < SECOND, "{:?}", client.now().since(begun_at));
    }
}

#[test]
fn what_is_announced_and_not_sent_holds_no_memory() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut old = node.connect(0).await;
        let _silent = silent_clients(&node, 600, 90_000_000, 4).await;
        assert_eq!(node.snapshot(0).await.request_bytes, 0);
        small_requests_pass(&node, &topic, &mut old).await;
        let begun_at = old.now();
        produce(&mut old, &topic, 0, &large(900_000)).await;
        assert!(old.now().since(begun_at) < SECOND);
        assert_eq!(node.snapshot(0).await.connections, 601, "nobody needs their memory");
    });
}

#[test]
fn begun_requests_that_do_not_go_on_make_room_for_others_within_seconds() {
    for sent in [100 << 10, 300 << 10, MIB] {
        on_node(2, little_memory(), async |node| {
            let topic = node.topic("t", 1).await;
            let mut old = node.connect(0).await;
            let _silent = silent_clients(&node, 200, 15_000_000, sent).await;
            let held = node.snapshot(0).await.request_bytes;
            assert!((40 << 20..=64 << 20).contains(&held), "{held} bytes of requests are held");
            for _ in 0..5 {
                small_requests_pass(&node, &topic, &mut old).await;
                node.pause(SECOND / 3).await;
            }
            for _again in 0..3 {
                let begun_at = old.now();
                produce(&mut old, &topic, 0, &large(900_000)).await;
                assert!(old.now().since(begun_at) < 5 * SECOND, "{:?}", old.now().since(begun_at));
                node.pause(10 * SECOND).await;
            }
        });
    }
}

/// All the memory is theirs, and they send on without a halt. Who needs little waits for it then, longer than any of
/// those who come after; that is no reason to close them.
#[test]
fn clients_that_trickle_make_room_for_those_that_need_little() {
    on_node(7, little_memory(), async |node| {
        let topic = node.topic("t", 1).await;
        // Each has room for a mebibyte and fills it slowly; the last one waits for more than there is.
        let _holding = trickling_clients(&node, 48, 15_000_000, 300 << 10).await;
        let _beyond = trickling_clients(&node, 1, 15_000_000, 3 * MIB).await;
        let records = large(100_000);
        let mut honest = Vec::new();
        for _ in 0..24 {
            let mut client = node.connect(0).await;
            client.send(PRODUCE, &Produce::new(&topic, 0, &records).request()).await;
            honest.push(client);
        }
        node.pause(SECOND / 10).await;
        let _later = trickling_clients(&node, 100, 15_000_000, 300 << 10).await;
        for client in &mut honest {
            client.receive().await.expect("an answer");
        }
    });
}

#[test]
fn no_more_connections_are_closed_than_others_need() {
    on_node(3, little_memory(), async |node| {
        let topic = node.topic("t", 1).await;
        // Each holds 4 MiB, and together all that there is.
        let _silent = silent_clients(&node, 12, 15_000_000, 3 * MIB).await;
        node.pause(60 * SECOND).await;
        assert_eq!(node.snapshot(0).await.connections, 12, "nobody needs their memory");
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = node.connect(0).await;
            let records = large(900_000);
            client.send(PRODUCE, &Produce::new(&topic, 0, &records).request()).await;
            clients.push(client);
        }
        for client in &mut clients {
            client.receive().await.expect("an answer");
        }
        let left = node.snapshot(0).await.connections;
        assert!((13..=15).contains(&left), "{left} connections are left");
    });
}

#[test]
fn a_slow_client_is_waited_for_while_there_is_memory() {
    on_node(4, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let records = large(900_000);
        let frame = client.frame(PRODUCE, &Produce::new(&topic, 0, &records).request());
        for part in frame.chunks(50_000) {
            client.send_bytes(part.to_vec()).await;
            node.pause(10 * SECOND).await;
        }
        let answer = client.answer(PRODUCE).await;
        assert_eq!(Produce::new(&topic, 0, &records).outcome(&answer).base_offset, 0);
        assert_eq!(node.snapshot(0).await.request_bytes, 0);
    });
}

#[test]
fn large_requests_that_fill_the_memory_together_are_all_served() {
    on_node(5, little_memory(), async |node| {
        let topic = node.topic_with("t", 1, &[("max.message.bytes", "16000000")]).await;
        let records = large(15_000_000);
        let mut clients = Vec::new();
        for _ in 0..12 {
            let mut client = node.connect(0).await;
            let (topic, records) = (topic.clone(), records.clone());
            clients.push(node.setting().io.spawn(async move {
                produce(&mut client, &topic, 0, &records).await;
            }));
        }
        for client in clients {
            client.join().await;
        }
        assert_eq!(produce(&mut node.connect(0).await, &topic, 0, &batch(&["behind"])).await, 12);
        assert_eq!(node.snapshot(0).await.request_bytes, 0);
    });
}

/// What an answer to a produce says of how long to wait, and how long it took.
async fn throttled(client: &mut Client, topic: &Topic, records: &[u8]) -> (i32, Duration) {
    let begun_at = client.now();
    let answer = client.ask(PRODUCE, &Produce::new(topic, 0, records).request()).await;
    (answer.body().throttle_time_ms, client.now().since(begun_at))
}

#[test]
fn who_holds_much_where_memory_is_short_is_told_to_wait_and_kept_to_it() {
    on_node(8, little_memory(), async |node| {
        let topic = node.topic("t", 1).await;
        let [mut heavy, mut light] = [node.connect(0).await, node.connect(0).await];
        let records = large(900_000);
        assert_eq!(throttled(&mut heavy, &topic, &records).await.0, 0, "there is enough");
        let _holding = silent_clients(&node, 44, 15_000_000, MIB).await;
        let (told, took) = throttled(&mut heavy, &topic, &records).await;
        assert!((6..=12).contains(&told), "{told} ms");
        assert!(took < SECOND / 200, "it is told at once: {took:?}");
        let (_, took) = throttled(&mut heavy, &topic, &batch(&["behind"])).await;
        assert!(took > Duration::from_millis(5), "nothing is read before: {took:?}");
        let (told, took) = throttled(&mut light, &topic, &batch(&["little"])).await;
        assert!(told == 0 && took < SECOND / 50, "{told} ms, {took:?}");
    });
}
