//! Shards of one node share its folders.

mod support;

use core::time::Duration;
use std::io::ErrorKind;

use engine_io::Io;
use engine_record::ShardId;
use engine_store::{Store, StoreError};
use futures_lite::future::zip;
use sim::SimIo;
use support::{EPOCH, Machine, append, batch, partition};

/// The stores of two shards of a machine.
async fn stores(machine: &Machine) -> [Store<SimIo>; 2] {
    let io = machine.node.io();
    let configs = [0, 1].map(|shard| {
        let mut config = machine.config.clone();
        (config.shard, config.shards) = (ShardId(shard), 2);
        config
    });
    let [first, second] = configs.map(|config| Store::open(&io, config));
    let (first, second) = zip(first, second).await;
    [first, second].map(|opened| opened.expect("the store opens").0)
}

/// Two shards open partitions of a new topic at the same time: both write the topic's name.
#[test]
fn partitions_of_a_new_topic_open_on_all_shards_at_once() {
    for seed in 0..50 {
        let machine = Machine::new(seed);
        machine.run(async {
            let [first, second] = stores(&machine).await;
            let opening = |store, number| {
                Store::open_partition(store, partition(number), "topic", machine.log_config, EPOCH)
            };
            let (zero, one) = zip(opening(&first, 0), opening(&second, 1)).await;
            assert!(zero.is_ok() && one.is_ok(), "seed {seed}: {:?} {:?}", zero.err(), one.err());
        });
    }
}

/// Each shard removes its partitions of a topic, and then the topic's folder, where it is the last.
#[test]
fn a_topic_is_deleted_on_all_shards_at_once_whoever_removes_its_folder() {
    for seed in 0..300 {
        let machine = Machine::new(seed);
        machine.run(async {
            let [first, second] = stores(&machine).await;
            for (store, number) in [(&first, 0), (&second, 1)] {
                let opened = store.open_partition(partition(number), "topic", machine.log_config, EPOCH);
                append(&opened.await.unwrap(), &batch(0, 1, 100)).await.unwrap();
            }
            let delete = async |store: &Store<SimIo>, number, after| {
                machine.node.io().sleep(after).await;
                store.delete_partition(partition(number)).await?;
                match store.delete_topic_folder(partition(number).topic).await {
                    Err(StoreError::Disk(error)) if error.kind == ErrorKind::DirectoryNotEmpty => Ok(()),
                    deleted => deleted,
                }
            };
            let (early, late) = (Duration::ZERO, Duration::from_micros(seed * 2));
            let deleted = zip(delete(&first, 0, early), delete(&second, 1, late)).await;
            assert_eq!(deleted, (Ok(()), Ok(())), "seed {seed}");
        });
        let folder = machine.config.folder.join("topics").join(partition(0).topic.to_string());
        let left = machine.run(machine.node.io().list_folder(&folder));
        assert_eq!(left.map_err(|error| error.kind()), Err(ErrorKind::NotFound), "seed {seed}");
    }
}
