//! Restarts on the same disk: after orderly stops, crashes, and with another count of shards.

use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, first};
use net_server::config::Config;
use net_wire::ErrorCode;
use sim::CrashMode;

use crate::batches::{batch, large, sequenced, split};
use crate::calls::{Fetch, Produce, Topic, produce, read_all};
use crate::node::{Node, config, on_node, start};

const CRASHES: [CrashMode; 3] =
    [CrashMode::LoseAllUnflushed, CrashMode::KeepRandomSectors, CrashMode::KeepAll];

/// Produces a batch to each partition: its values name the round.
async fn fill(node: &Node, topic: &Topic, round: i64) {
    for partition in 0..i32::try_from(topic.leaders.len()).unwrap() {
        let mut leader = node.connect_to_leader(topic, partition).await;
        let values = [format!("{round} a"), format!("{round} b")];
        let records = batch(&[&values[0], &values[1]]);
        assert_eq!(produce(&mut leader, topic, partition, &records).await, round * 2);
    }
}

/// Every partition holds what so many rounds put there.
async fn holds(node: &Node, name: &str, rounds: i64) {
    let topic = node.describe(name).await;
    let expected: Vec<_> = (0..rounds * 2)
        .map(|offset| (offset, format!("{} {}", offset / 2, if offset % 2 == 0 { "a" } else { "b" })))
        .collect();
    for partition in 0..i32::try_from(topic.leaders.len()).unwrap() {
        let mut leader = node.connect_to_leader(&topic, partition).await;
        assert_eq!(read_all(&mut leader, &topic, partition).await, expected, "partition {partition}");
    }
}

#[test]
fn all_that_was_acknowledged_is_there_after_any_crash() {
    for (seed, mode) in (1..).zip(CRASHES) {
        on_node(seed, config(2), async |mut node| {
            node.topic("t", 4).await;
            for round in 0..4 {
                fill(&node, &node.describe("t").await, round).await;
                node = node.restart_after(mode).await;
                holds(&node, "t", round + 1).await;
            }
        });
    }
}

#[test]
fn a_crash_raises_the_leader_epoch_and_an_orderly_stop_does_not() {
    on_node(10, config(2), async |node| {
        let mut node = node;
        assert_eq!(node.topic("t", 3).await.epochs, [0, 0, 0]);
        for (epoch, mode) in (0..).zip(CRASHES) {
            fill(&node, &node.describe("t").await, i64::from(epoch) * 2).await;
            node = node.restart().await;
            assert_eq!(node.describe("t").await.epochs, [epoch; 3]);
            fill(&node, &node.describe("t").await, i64::from(epoch) * 2 + 1).await;
            node = node.restart_after(mode).await;
            assert_eq!(node.describe("t").await.epochs, [epoch + 1; 3], "{mode:?}");
        }
        let topic = node.describe("t").await;
        let mut leader = node.connect_to_leader(&topic, 0).await;
        let records = Fetch::at(&topic, 0, 0).call(&mut leader).await.only().records;
        let epochs: Vec<_> = split(&records).iter().map(|batch| batch.header().leader_epoch.0).collect();
        assert_eq!(epochs, [0, 0, 1, 1, 2, 2]);
    });
}

#[test]
fn topics_settings_and_the_clusters_id_survive() {
    on_node(11, config(2), async |node| {
        let strict = node.topic_with("strict", 3, &[("max.message.bytes", "200")]).await;
        let node = node.restart().await;
        assert_eq!(node.describe("strict").await, strict);
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        let again = node.describe("strict").await;
        assert_eq!((again.id, &again.leaders), (strict.id, &strict.leaders));
        let mut leader = node.connect_to_leader(&again, 0).await;
        let records = large(300);
        let refused = Produce::new(&again, 0, &records).call(&mut leader).await;
        assert_eq!(refused.error, ErrorCode::MESSAGE_TOO_LARGE);
    });
}

#[test]
fn a_changed_count_of_shards_keeps_the_data_and_levels_the_load() {
    on_node(12, config(2), async |node| {
        node.topic("t", 12).await;
        let mut node = node;
        for (round, shards) in (0_i64..).zip([3, 1, 4, 2]) {
            fill(&node, &node.describe("t").await, round).await;
            // Every second change follows a crash.
            let (setting, old) =
                if round % 2 == 0 { node.stop().await } else { node.crash(CrashMode::LoseAllUnflushed) };
            node = start(setting, Config { shards, ..old }).await.unwrap();
            let topic = node.describe("t").await;
            for shard in 0..shards {
                let led = topic.leaders.iter().filter(|leader| **leader == 1000 + i32::from(shard)).count();
                assert_eq!(led * usize::from(shards), 12, "{shards} shards: {:?}", topic.leaders);
            }
            holds(&node, "t", round + 1).await;
        }
    });
}

#[test]
fn a_producer_goes_on_where_it_was_after_any_restart() {
    for (seed, mode) in (20..).zip(CRASHES) {
        on_node(seed, config(1), async |node| {
            let topic = node.topic("t", 1).await;
            let producer = node.producer_id(0).await;
            let mut client = node.connect(0).await;
            for number in 0..6_i32 {
                produce(&mut client, &topic, 0, &sequenced(producer, 0, number * 2, 2)).await;
            }
            let mut node = node;
            for orderly in [true, false] {
                node = if orderly { node.restart().await } else { node.restart_after(mode).await };
                let mut client = node.connect(0).await;
                for number in 1..6_i32 {
                    let again = produce(&mut client, &topic, 0, &sequenced(producer, 0, number * 2, 2)).await;
                    assert_eq!(again, i64::from(number) * 2, "{mode:?}, orderly: {orderly}");
                }
                let records = sequenced(producer, 0, 20, 1);
                let gap = Produce::new(&topic, 0, &records).call(&mut client).await;
                assert_eq!(gap.error, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
            }
            let mut client = node.connect(0).await;
            assert_eq!(produce(&mut client, &topic, 0, &sequenced(producer, 0, 12, 1)).await, 12);
            assert_eq!(read_all(&mut client, &topic, 0).await.len(), 13);
        });
    }
}

#[test]
fn what_only_the_leader_wrote_survives_the_death_of_its_process() {
    on_node(30, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for offset in 0..20 {
            let records = batch(&["written"]);
            let produced = Produce { acks: 1, ..Produce::new(&topic, 0, &records) }.call(&mut client).await;
            assert_eq!(produced.base_offset, offset);
        }
        let node = node.restart_after(CrashMode::KeepAll).await;
        assert_eq!(read_all(&mut node.connect(0).await, &topic, 0).await.len(), 20);
    });
}

#[test]
fn a_crash_during_recovery_loses_nothing() {
    on_node(31, config(2), async |node| {
        node.topic("t", 4).await;
        let mut node = node;
        for round in 0..3 {
            fill(&node, &node.describe("t").await, round).await;
            let (setting, old) = node.crash(CrashMode::KeepRandomSectors);
            for _ in 0..5 {
                let pause = Duration::from_micros(500 + 700 * u64::try_from(round).unwrap());
                let cut = first(start(Rc::clone(&setting), old.clone()), setting.io.sleep(pause)).await;
                setting.machine.crash(CrashMode::KeepRandomSectors);
                assert!(cut.is_err(), "the start is cut short");
            }
            node = start(setting, old).await.unwrap();
            holds(&node, "t", round + 1).await;
        }
    });
}
