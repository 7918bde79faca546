//! Shards of one node share its folders.

mod support;

use engine_record::ShardId;
use engine_store::Store;
use futures_lite::future::zip;
use support::{EPOCH, Machine, partition};

/// Two shards open partitions of a new topic at the same time: both write the topic's name.
#[test]
fn partitions_of_a_new_topic_open_on_all_shards_at_once() {
    for seed in 0..50 {
        let machine = Machine::new(seed);
        let io = machine.node.io();
        machine.run(async {
            let mut configs = [machine.config.clone(), machine.config.clone()];
            for (config, shard) in configs.iter_mut().zip(0..) {
                config.shard = ShardId(shard);
                config.shards = 2;
            }
            let [first, second] = configs;
            let (first, _) = Store::open(&io, first).await.unwrap();
            let (second, _) = Store::open(&io, second).await.unwrap();
            let opening = |store, number| {
                Store::open_partition(store, partition(number), "topic", machine.log_config, EPOCH)
            };
            let (zero, one) = zip(opening(&first, 0), opening(&second, 1)).await;
            assert!(zero.is_ok() && one.is_ok(), "seed {seed}: {:?} {:?}", zero.err(), one.err());
        });
    }
}
