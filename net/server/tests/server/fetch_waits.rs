//! Fetch: when the answer comes.

use core::time::Duration;

use net_wire::messages::FetchRequest;
use net_wire::{ApiKey, ErrorCode};
use sim::DiskLatency;

use crate::batches::{batch, large, read};
use crate::calls::{FETCH, Fetch, Fetched, Produce, Topic, produce};
use crate::client::Client;
use crate::node::{FIRST_BROKER, config, on_node};
use crate::versions;

const LONG_MS: i32 = 20_000;
const LONG: Duration = Duration::from_millis(20_000);
/// Less than any wait, more than any way there and back.
const SOON: Duration = Duration::from_secs(2);

/// Fetches, and tells how long that took.
async fn timed(client: &mut Client, fetch: &Fetch<'_>) -> (Fetched, Duration) {
    let begun_at = client.now();
    let fetched = fetch.call(client).await;
    (fetched, client.now().since(begun_at))
}

fn records(fetched: Fetched) -> usize {
    fetched.partitions.iter().map(|partition| read(&partition.records).len()).sum()
}

#[test]
fn a_fetch_without_news_waits_its_time() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::Fetch) {
            let fetch = Fetch::at(&topic, 0, 0).version(version).waiting(LONG_MS, 1);
            let (fetched, took) = timed(&mut client, &fetch).await;
            assert!((LONG..LONG + SOON).contains(&took), "v{version}: {took:?}");
            let partition = fetched.only();
            assert_eq!((partition.error, partition.records.len()), (ErrorCode::NONE, 0), "v{version}");
        }
    });
}

#[test]
fn a_fetch_that_may_not_wait_is_answered_at_once() {
    on_node(2, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for (max_wait_ms, min_bytes) in [(0, 1), (-1, 1), (i32::MIN, 1_000), (LONG_MS, 0), (LONG_MS, -1)] {
            let fetch = Fetch::at(&topic, 0, 0).waiting(max_wait_ms, min_bytes);
            let (fetched, took) = timed(&mut client, &fetch).await;
            assert!(took < SOON, "{max_wait_ms} ms for {min_bytes} bytes: {took:?}");
            assert_eq!(fetched.only().error, ErrorCode::NONE);
        }
    });
}

#[test]
fn a_fetch_of_nothing_is_answered_at_once() {
    on_node(3, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::Fetch) {
            let request = FetchRequest { max_wait_ms: LONG_MS, min_bytes: 1, ..FetchRequest::default() };
            let begun_at = client.now();
            let answer = client.ask(version, &request).await;
            assert!(answer.body().responses.is_empty());
            assert!(client.now().since(begun_at) < SOON, "v{version}");
            let (fetched, took) =
                timed(&mut client, &Fetch::new(&topic, &[]).version(version).waiting(LONG_MS, 1)).await;
            assert!(fetched.partitions.is_empty() && took < SOON, "v{version}");
        }
    });
}

#[test]
fn a_waiting_fetch_is_woken_by_what_it_waits_for() {
    on_node(4, config(1), async |node| {
        let topic = node.topic("t", 2).await;
        let (mut reader, mut writer) = (node.connect(0).await, node.connect(0).await);
        for version in versions(ApiKey::Fetch) {
            let from = i64::from(version - 4);
            let fetch = Fetch::new(&topic, &[(0, 0), (1, from)]).version(version).waiting(LONG_MS, 1);
            let begun_at = reader.now();
            reader.send(version, &fetch.request()).await;
            node.pause(SOON).await;
            produce(&mut writer, &topic, 1, &batch(&["news"])).await;
            let fetched = fetch.outcome(&reader.answer(version).await);
            let took = reader.now().since(begun_at);
            assert!((SOON..2 * SOON).contains(&took), "v{version}: {took:?}");
            assert_eq!(records(fetched), 1, "v{version}");
        }
    });
}

#[test]
fn a_waiting_fetch_is_not_woken_by_less_than_it_wants() {
    on_node(5, config(1), async |node| {
        let topic = node.topic("t", 2).await;
        let (mut reader, mut writer) = (node.connect(0).await, node.connect(0).await);
        let size = large(1000).len();
        let min_bytes = i32::try_from(3 * size).unwrap();
        let fetch = Fetch::new(&topic, &[(0, 0), (1, 0)]).waiting(LONG_MS, min_bytes);
        let begun_at = reader.now();
        reader.send(FETCH, &fetch.request()).await;
        for partition in [0, 1, 0] {
            node.pause(SOON).await;
            produce(&mut writer, &topic, partition, &large(1000)).await;
        }
        let fetched = fetch.outcome(&reader.answer(FETCH).await);
        let took = reader.now().since(begun_at);
        assert!((3 * SOON..4 * SOON).contains(&took), "both partitions count together: {took:?}");
        assert_eq!(records(fetched), 3);
    });
}

#[test]
fn what_came_until_the_time_ran_out_is_answered() {
    on_node(6, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let (mut reader, mut writer) = (node.connect(0).await, node.connect(0).await);
        let fetch = Fetch::at(&topic, 0, 0).waiting(LONG_MS, 1_000_000);
        reader.send(FETCH, &fetch.request()).await;
        let begun_at = reader.now();
        produce(&mut writer, &topic, 0, &batch(&["little"])).await;
        let fetched = fetch.outcome(&reader.answer(FETCH).await);
        assert!(reader.now().since(begun_at) >= LONG - SOON);
        assert_eq!(records(fetched), 1);
    });
}

#[test]
fn enough_bytes_are_answered_at_once() {
    on_node(7, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &large(1000)).await;
        let min_bytes = i32::try_from(large(1000).len()).unwrap();
        let (fetched, took) = timed(&mut client, &Fetch::at(&topic, 0, 0).waiting(LONG_MS, min_bytes)).await;
        assert!(took < SOON, "{took:?}");
        assert_eq!(records(fetched), 1);
    });
}

#[test]
fn an_error_in_any_partition_is_answered_at_once_beside_the_records_of_others() {
    on_node(8, config(2), async |node| {
        let topic = node.topic("t", 2).await;
        let own = topic.partition_of(FIRST_BROKER);
        let mut client = node.connect(0).await;
        for (partition, offset) in [(own, 99), (7, 0), (1 - own, 0)] {
            let fetch = Fetch::new(&topic, &[(own, 0), (partition, offset)]).waiting(LONG_MS, 1_000_000);
            let (fetched, took) = timed(&mut client, &fetch).await;
            assert!(took < SOON, "{took:?}");
            let errors: Vec<_> =
                fetched.partitions.iter().map(|partition| !partition.error.is_none()).collect();
            assert_eq!(errors, [false, true]);
        }
        let (_, took) = timed(&mut client, &Fetch::at(&Topic::missing(), 0, 0).waiting(LONG_MS, 1)).await;
        assert!(took < SOON, "{took:?}");
    });
}

/// Nobody but the reader waits for the flush then: without it, data stay unflushed for a while.
#[test]
fn a_waiting_reader_has_what_acks_1_wrote_flushed_at_once() {
    on_node(10, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let (mut reader, mut writer) = (node.connect(0).await, node.connect(0).await);
        produce(&mut writer, &topic, 0, &batch(&["first"])).await;
        let records = batch(&["next"]);
        for offset in 1..5 {
            let fetch = Fetch::at(&topic, 0, offset).waiting(LONG_MS, 1);
            reader.send(FETCH, &fetch.request()).await;
            node.pause(SOON).await;
            let produce = Produce { acks: 1, ..Produce::new(&topic, 0, &records) };
            assert_eq!(produce.call(&mut writer).await.base_offset, offset);
            let begun_at = writer.now();
            let fetched = fetch.outcome(&reader.answer(FETCH).await).only();
            assert_eq!(read(&fetched.records).len(), 1);
            let took = reader.now().since(begun_at);
            assert!(took < Duration::from_millis(50), "{took:?}");
        }
    });
}

#[test]
fn a_reader_never_sees_what_is_not_flushed() {
    on_node(9, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let second = Duration::from_secs(1);
        let (mut reader, mut writer) = (node.connect(0).await, node.connect(0).await);
        // The first record makes the segment's file, which is flushed before anything is written to it.
        produce(&mut writer, &topic, 0, &batch(&["first"])).await;
        let latency = DiskLatency { flush: 5 * second..=5 * second, ..DiskLatency::default() };
        node.machine().disk().set_latency(latency);
        let records = batch(&["slow"]);
        let begun_at = writer.now();
        let produce = Produce { acks: 1, ..Produce::new(&topic, 0, &records) };
        assert_eq!(produce.call(&mut writer).await.base_offset, 1);
        assert!(writer.now().since(begun_at) < second, "acks=1 waits for the write only");
        let fetched = Fetch::at(&topic, 0, 1).call(&mut reader).await.only();
        assert_eq!((fetched.error, fetched.high_watermark, fetched.records.len()), (ErrorCode::NONE, 1, 0));
        let woken = Fetch::at(&topic, 0, 1).waiting(LONG_MS, 1).call(&mut reader).await.only();
        assert_eq!((woken.high_watermark, read(&woken.records).len()), (2, 1));
        assert!(reader.now().since(begun_at) >= 5 * second);
    });
}
