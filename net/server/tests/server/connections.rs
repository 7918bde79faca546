//! Connections: frames, order, limits, and clients that go away.

use core::time::Duration;

use net_server::config::{Config, Limits};
use net_wire::messages::{ApiVersionsRequest, FetchRequest, MetadataRequest, ProduceRequest};
use net_wire::{ErrorCode, Reader};

use crate::batches::{batch, large, read};
use crate::calls::{FETCH, Fetch, PRODUCE, Produce, produce};
use crate::client::Client;
use crate::node::{config, on_node};

const SECOND: Duration = Duration::from_secs(1);

fn with_limits(limits: Limits) -> Config {
    Config { limits, ..config(1) }
}

fn api_versions() -> ApiVersionsRequest<'static> {
    ApiVersionsRequest { client_software_name: "test", client_software_version: "1" }
}

/// The client is served.
async fn is_served(client: &mut Client) {
    assert_eq!(client.ask(3, &api_versions()).await.body().error_code, ErrorCode::NONE);
}

/// The correlation id of the next answer.
async fn next_id(client: &mut Client) -> i32 {
    Reader::new(&client.receive().await.expect("an answer")).i32().unwrap()
}

#[test]
fn ten_requests_in_one_write_are_answered_in_order_around_a_long_poll() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 2).await;
        let mut client = node.connect(0).await;
        let records = batch(&["a"]);
        let produce = Produce::new(&topic, 0, &records);
        let poll = Fetch::at(&topic, 1, 0).waiting(5_000, 1);
        let mut frames = Vec::new();
        for _ in 0..4 {
            frames.extend(client.frame(PRODUCE, &produce.request()));
        }
        frames.extend(client.frame(3, &api_versions()));
        frames.extend(client.frame(FETCH, &poll.request()));
        frames.extend(client.frame(13, &MetadataRequest::default()));
        for _ in 0..3 {
            frames.extend(client.frame(PRODUCE, &produce.request()));
        }
        let begun_at = client.now();
        client.send_bytes(frames).await;
        for id in 1..=5 {
            assert_eq!(next_id(&mut client).await, id);
        }
        assert!(client.now().since(begun_at) < SECOND, "what came before the long poll doesn't wait for it");
        for id in 6..=10 {
            assert_eq!(next_id(&mut client).await, id);
        }
        assert!(client.now().since(begun_at) >= 5 * SECOND, "what came after the long poll does");
        let fetched = Fetch::at(&topic, 0, 0).call(&mut client).await.only();
        assert_eq!(fetched.high_watermark, 7);
    });
}

#[test]
fn a_produce_behind_a_long_poll_is_appended_at_once_and_ends_the_poll() {
    on_node(2, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let poll = Fetch::at(&topic, 0, 0).waiting(60_000, 1);
        let records = batch(&["news"]);
        let produce = Produce::new(&topic, 0, &records);
        let frames = [client.frame(FETCH, &poll.request()), client.frame(PRODUCE, &produce.request())];
        let begun_at = client.now();
        client.send_bytes(frames.concat()).await;
        let fetched = poll.outcome(&client.answer::<FetchRequest<'_>>(FETCH).await).only();
        assert_eq!(read(&fetched.records).len(), 1);
        let produced = produce.outcome(&client.answer::<ProduceRequest<'_>>(PRODUCE).await);
        assert_eq!(produced.base_offset, 0);
        assert!(client.now().since(begun_at) < SECOND);
    });
}

#[test]
fn no_more_requests_are_read_than_may_be_in_flight() {
    on_node(3, with_limits(Limits { requests_in_flight: 2, ..Limits::default() }), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let poll = Fetch::at(&topic, 0, 0).waiting(5_000, 1);
        let records = batch(&["not yet"]);
        let produce = Produce::new(&topic, 0, &records);
        let frames = [
            client.frame(FETCH, &poll.request()),
            client.frame(3, &api_versions()),
            client.frame(PRODUCE, &produce.request()),
        ];
        let begun_at = client.now();
        client.send_bytes(frames.concat()).await;
        let fetched = poll.outcome(&client.answer::<FetchRequest<'_>>(FETCH).await).only();
        assert!(client.now().since(begun_at) >= 5 * SECOND, "the third request was read too early");
        assert!(fetched.records.is_empty());
        assert_eq!((next_id(&mut client).await, next_id(&mut client).await), (2, 3));
    });
}

#[test]
fn a_request_may_come_byte_by_byte() {
    on_node(4, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let records = batch(&["slowly"]);
        let produce = Produce::new(&topic, 0, &records);
        for byte in client.frame(PRODUCE, &produce.request()) {
            client.send_bytes(vec![byte]).await;
            node.pause(Duration::from_millis(3)).await;
        }
        let answer = client.answer::<ProduceRequest<'_>>(PRODUCE).await;
        assert_eq!(produce.outcome(&answer).base_offset, 0);
    });
}

#[test]
fn frames_of_every_size_around_the_receive_buffers_pass() {
    on_node(5, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let sizes = [1, 100, 150, 200, 16_000, 16_200, 16_300, 16_384, 20_000, 100_000, 700_000];
        for (offset, bytes) in (0..).zip(sizes) {
            assert_eq!(produce(&mut client, &topic, 0, &large(bytes)).await, offset);
        }
        let mut frames = Vec::new();
        for bytes in sizes {
            let records = large(bytes);
            frames.extend(client.frame(PRODUCE, &Produce::new(&topic, 0, &records).request()));
        }
        client.send_bytes(frames).await;
        for offset in 11..22 {
            let answer = client.answer::<ProduceRequest<'_>>(PRODUCE).await;
            assert_eq!(Produce::new(&topic, 0, &[]).outcome(&answer).base_offset, offset);
        }
    });
}

#[test]
fn what_is_no_request_closes_its_connection_and_no_other() {
    on_node(6, config(1), async |node| {
        let mut bystander = node.connect(0).await;
        let limit = 100 << 20;
        for size in [-1, i32::MIN, i32::MAX, limit + 1] {
            let mut client = node.connect(0).await;
            client.send_bytes(size.to_be_bytes().to_vec()).await;
            client.is_closed().await;
        }
        // An API there isn't, one that is other brokers' business, a body cut short, one of nonsense.
        let bodies: [(i16, i16, &[u8]); 4] =
            [(999, 0, &[]), (4, 0, &[]), (3, 1, &[0, 0]), (3, 9, &[0xff; 30])];
        for (api, version, body) in bodies {
            let mut client = node.connect(0).await;
            let frame = client.odd_frame(api, version, body);
            client.send_bytes(frame).await;
            client.is_closed().await;
        }
        for frame in [vec![0; 4], vec![0, 0, 0, 3, 0, 18, 0], vec![0, 0, 0, 8, 0, 18, 0, 0, 0, 0, 0, 1]] {
            let mut client = node.connect(0).await;
            client.send_bytes(frame).await;
            client.is_closed().await;
        }
        is_served(&mut bystander).await;
        node.connections_become(0, 1).await;
        assert_eq!(node.snapshot(0).await.request_bytes, 0, "refused requests give their memory back");
    });
}

#[test]
fn what_came_before_nonsense_is_answered_before_the_end() {
    on_node(7, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let records = batch(&["before"]);
        let produce = Produce::new(&topic, 0, &records);
        let frames = [
            client.frame(PRODUCE, &produce.request()),
            client.odd_frame(999, 0, &[]),
            client.frame(3, &api_versions()),
        ];
        client.send_bytes(frames.concat()).await;
        let answer = client.answer::<ProduceRequest<'_>>(PRODUCE).await;
        assert_eq!(produce.outcome(&answer).base_offset, 0);
        client.is_closed().await;
    });
}

#[test]
fn a_client_that_goes_leaves_nothing_behind_wherever_it_stood() {
    on_node(8, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        node.connections_become(0, 0).await;
        let poll = Fetch::at(&topic, 0, 0).waiting(i32::MAX, 1);
        let records = batch(&["a"]);
        for cut in 0..5 {
            let mut client = node.connect(0).await;
            let waiting = client.frame(FETCH, &poll.request());
            let behind = client
                .frame(PRODUCE, &Produce { partition: 9, ..Produce::new(&topic, 0, &records) }.request());
            let sent = match cut {
                0 => Vec::new(),
                1 => waiting,
                2 => [waiting, behind].concat(),
                // Each of them holds memory of its request until it is answered.
                3 => [0; 5].into_iter().flat_map(|_| client.frame(FETCH, &poll.request())).collect(),
                _ => [&waiting[..], &behind[..20]].concat(),
            };
            client.send_bytes(sent).await;
            node.pause(SECOND).await;
            assert_eq!(node.snapshot(0).await.connections, 1);
            drop(client);
            node.connections_become(0, 0).await;
            assert_eq!(node.snapshot(0).await.request_bytes, 0);
        }
    });
}

#[test]
fn nonsense_behind_a_long_poll_does_not_hold_the_connection_for_a_client_that_is_gone() {
    on_node(14, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        node.connections_become(0, 0).await;
        let poll = Fetch::at(&topic, 0, 0).waiting(i32::MAX, 1);
        for nonsense in [(-1_i32).to_be_bytes().to_vec(), vec![0, 0, 0, 4, 3, 0xe7, 0, 0]] {
            let mut client = node.connect(0).await;
            let sent = [client.frame(FETCH, &poll.request()), nonsense].concat();
            client.send_bytes(sent).await;
            node.pause(SECOND).await;
            drop(client);
            node.connections_become(0, 0).await;
        }
    });
}

/// The largest frame needs all the memory that a client may hold, which requests behind nonsense would keep if they were
/// kept: nobody answers them.
#[test]
fn a_frame_of_the_largest_size_waits_for_no_request_behind_nonsense() {
    on_node(12, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        node.connections_become(0, 0).await;
        let mut client = node.connect(0).await;
        // Holds the nonsense back until all the rest is there.
        let poll = client.frame(FETCH, &Fetch::at(&topic, 0, 0).waiting(1_000, 1).request());
        let nonsense = client.odd_frame(200, 0, &[]);
        let behind = client.frame(3, &api_versions());
        let largest = [&config(1).limits.frame_bytes.to_be_bytes()[..], &[0; 20]].concat();
        client.send_bytes([poll, nonsense, behind, largest].concat()).await;
        while client.receive().await.is_some() {}
        node.connections_become(0, 0).await;
    });
}

#[test]
fn connections_broken_by_the_network_are_let_go() {
    on_node(9, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let poll = Fetch::at(&topic, 0, 0).waiting(i32::MAX, 1);
        let mut clients = Vec::new();
        for _ in 0..5 {
            let mut client = node.connect(0).await;
            client.send(FETCH, &poll.request()).await;
            clients.push(client);
        }
        node.pause(SECOND).await;
        node.setting().sim.network().reset_connections(node.machine());
        node.connections_become(0, 0).await;
        for client in &mut clients {
            client.is_closed().await;
        }
    });
}

#[test]
fn connections_above_the_limit_are_refused_and_counted() {
    on_node(10, with_limits(Limits { connections: 2, ..Limits::default() }), async |node| {
        let (mut first, mut second) = (node.connect(0).await, node.connect(0).await);
        is_served(&mut first).await;
        is_served(&mut second).await;
        let mut third = node.connect(0).await;
        third.is_closed().await;
        let snapshot = node.snapshot(0).await;
        assert_eq!((snapshot.connections, snapshot.connections_refused), (2, 1));
        drop(first);
        node.connections_become(0, 1).await;
        is_served(&mut node.connect(0).await).await;
        is_served(&mut second).await;
    });
}

#[test]
fn one_address_cannot_take_the_places_of_others() {
    on_node(11, with_limits(Limits { connections_per_address: 1, ..Limits::default() }), async |node| {
        let mut first = node.connect(0).await;
        is_served(&mut first).await;
        node.connect(0).await.is_closed().await;
        let elsewhere = node.setting().sim.node().io();
        let mut other = Client::connect(&elsewhere, node.address(0)).await.unwrap();
        is_served(&mut other).await;
        assert_eq!(node.snapshot(0).await.connections_refused, 1);
    });
}

#[test]
fn requests_wait_for_memory_and_none_is_lost() {
    let limits = Limits { request_bytes: 150_000, frame_bytes: 150_000, ..Limits::default() };
    on_node(12, with_limits(limits), async |node| {
        let topic = node.topic("t", 1).await;
        let records = large(100_000);
        let produce = Produce::new(&topic, 0, &records);
        let mut clients = Vec::new();
        for _ in 0..6 {
            let mut client = node.connect(0).await;
            client.send(PRODUCE, &produce.request()).await;
            clients.push(client);
        }
        let mut offsets = Vec::new();
        for client in &mut clients {
            offsets.push(produce.outcome(&client.answer::<ProduceRequest<'_>>(PRODUCE).await).base_offset);
        }
        offsets.sort_unstable();
        assert_eq!(offsets, [0, 1, 2, 3, 4, 5]);
        assert_eq!(node.snapshot(0).await.request_bytes, 0);
    });
}

#[test]
fn a_client_that_does_nothing_or_never_ends_its_frame_is_let_go() {
    on_node(13, config(1), async |node| {
        let mut idle = node.connect(0).await;
        let mut stuck = node.connect(0).await;
        is_served(&mut idle).await;
        stuck.send_bytes(vec![0, 0, 0]).await;
        node.pause(250 * SECOND).await;
        assert_eq!(node.snapshot(0).await.connections, 2);
        node.pause(100 * SECOND).await;
        assert_eq!(node.snapshot(0).await.connections, 1, "a frame takes at most five minutes");
        is_served(&mut idle).await;
        node.pause(550 * SECOND).await;
        is_served(&mut idle).await;
        node.pause(650 * SECOND).await;
        assert_eq!(node.snapshot(0).await.connections, 0, "a client is silent for at most ten minutes");
    });
}

#[test]
fn a_client_that_asks_and_takes_no_answers_is_let_go() {
    on_node(15, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &large(900_000)).await;
        let fetch = Fetch::at(&topic, 0, 0);
        let frames: Vec<u8> = (0..100).flat_map(|_| client.frame(FETCH, &fetch.request())).collect();
        client.send_bytes(frames).await;
        node.pause(250 * SECOND).await;
        assert_eq!(node.snapshot(0).await.connections, 1);
        node.pause(100 * SECOND).await;
        assert_eq!(node.snapshot(0).await.connections, 0, "an answer is taken within five minutes");
    });
}

#[test]
fn no_fetch_waits_for_longer_than_a_minute() {
    on_node(16, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let begun_at = client.now();
        let fetched = Fetch::at(&topic, 0, 0).waiting(3_600_000, 1).call(&mut client).await.only();
        assert!((60 * SECOND..62 * SECOND).contains(&client.now().since(begun_at)));
        assert!(fetched.error.is_none() && fetched.records.is_empty());
    });
}
