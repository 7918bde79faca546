//! Stores of several folders on one shard: they share memory and descriptors, and fail one by one.

mod support;

use std::path::Path;

use engine_io::Io;
use engine_record::PartitionIndex;
use engine_store::{AppendError, Resources, Store, StoreError, StoreMetrics};
use futures_lite::future::{poll_once, zip};
use sim::{CrashMode, SimIo};
use support::{EPOCH, Machine, SimLog, SimStore, append, at, batch, end_of, partition};

/// Stores in two folders, and a partition in each.
async fn stores(machine: &Machine) -> [(SimStore, SimLog); 2] {
    let io = machine.node.io();
    let resources = Resources::new(&machine.config);
    [open(machine, &io, &resources, 0).await, open(machine, &io, &resources, 1).await]
}

async fn open(
    machine: &Machine,
    io: &SimIo,
    resources: &Resources<SimIo>,
    number: i32,
) -> (SimStore, SimLog) {
    let mut config = machine.config.clone();
    config.folder = format!("d{number}").into();
    let (store, _) = Store::open_sharing(io, config, resources).await.expect("the store opens");
    let log = store.open_partition(partition(number), "topic", machine.log_config, EPOCH).await;
    let log = log.expect("the partition opens");
    (store, log)
}

/// So that two large batches are all there is room for.
fn short_of_memory(seed: u64) -> Machine {
    let mut machine = Machine::new(seed);
    machine.config.pool_bytes = 7 << 20;
    machine.config.tail_bytes_per_partition = 7 << 20;
    (machine.config.allocation_bytes_min, machine.config.allocation_bytes_max) = (64 << 20, 64 << 20);
    machine.log_config.segment_bytes = 64 << 20;
    machine
}

#[test]
fn memory_goes_to_whoever_needs_it_in_whichever_folder() {
    let machine = short_of_memory(1);
    machine.run(async {
        let [(first, busy), (second, quiet)] = stores(&machine).await;
        for number in 0..10 {
            append(&busy, &batch(number, 1, 900_000)).await.unwrap();
        }
        assert!(first.metrics().pool_bytes_now > 3 << 20, "the tail takes what is there");
        for number in 0..10 {
            let appended = append(&quiet, &batch(number, 1, 900_000)).await.unwrap();
            quiet.flushed(end_of(&appended)).await.unwrap();
        }
        assert_eq!(second.metrics().pool_bytes_now, first.metrics().pool_bytes_now);
        let together = first.metrics().with(second.metrics());
        assert_eq!((together.appends, together.pool_bytes_now), (20, first.metrics().pool_bytes_now));
    });
}

#[test]
fn a_store_that_fails_gives_back_its_memory_and_descriptors_and_the_other_goes_on() {
    let machine = short_of_memory(2);
    machine.run(async {
        let [(first, lost), (second, kept)] = stores(&machine).await;
        append(&kept, &batch(0, 1, 100)).await.unwrap();
        machine.disk().fail_writes(|path| path.starts_with("d0/topics"), 0);
        let batches: Vec<_> = (0..12).map(|number| batch(number, 1, 900_000)).collect();
        let mut waiting = Vec::new();
        for bytes in &batches {
            let mut appended = Box::pin(append(&lost, bytes));
            // Each stands in line behind those before it, the last ones for memory.
            let _in_line = poll_once(&mut appended).await;
            waiting.push(appended);
        }
        let failure = first.failed();
        let appends = async {
            for appended in waiting {
                if let Ok(appended) = appended.await {
                    lost.flushed(end_of(&appended)).await.unwrap_err();
                }
            }
        };
        let (failure, ()) = zip(failure, appends).await;
        assert!(matches!(append(&lost, &batches[0]).await, Err(AppendError::Failed(why)) if why == failure));
        machine.node.io().sleep(core::time::Duration::from_secs(1)).await;
        let held = second.metrics();
        assert_eq!(held.descriptors_now, 1, "what is open is the other's");
        assert!(held.pool_bytes_now < 1 << 20, "{} bytes", held.pool_bytes_now);
        for bytes in &batches {
            let appended = append(&kept, bytes).await.unwrap();
            kept.flushed(end_of(&appended)).await.unwrap();
        }
        assert!(matches!(first.shutdown().await, Err(StoreError::Failed(_))));
        second.shutdown().await.unwrap();
    });
}

#[test]
fn a_store_told_to_fail_acknowledges_nothing_more_and_keeps_its_own_reason() {
    let machine = Machine::new(3);
    machine.run(async {
        let [(first, one), (second, other)] = stores(&machine).await;
        let appended = append(&one, &batch(0, 1, 100)).await.unwrap();
        one.flushed(end_of(&appended)).await.unwrap();
        machine.disk().fail_next_flush();
        let appended = append(&one, &batch(1, 1, 100)).await.unwrap();
        one.flushed(end_of(&appended)).await.unwrap_err();
        let failure = first.failed().await;
        let appended = append(&other, &batch(0, 1, 100)).await.unwrap();
        second.fail(failure.clone());
        other.written(end_of(&appended)).await.unwrap_err();
        machine.node.io().sleep(core::time::Duration::from_secs(1)).await;
        assert_eq!((other.offsets().written, other.offsets().flushed), (at(0), at(0)));
        let own = second.failed().await;
        first.fail(engine_store::StoreFailure(engine_store::DiskError { code: Some(1), ..own.0.clone() }));
        assert_eq!(first.failed().await, failure);
    });
}

#[test]
fn the_partitions_of_a_topic_are_found_where_they_lie() {
    let machine = Machine::new(4);
    machine.run(async {
        let [(first, one), (second, _)] = stores(&machine).await;
        append(&one, &batch(0, 1, 100)).await.unwrap();
        first.shutdown().await.unwrap();
        second.shutdown().await.unwrap();
    });
    machine.crash(CrashMode::KeepAll);
    machine.run(async {
        let io = machine.node.io();
        let resources = Resources::new(&machine.config);
        let found = async |folder: &str| {
            let config = engine_store::StoreConfig { folder: folder.into(), ..machine.config.clone() };
            let (store, report) = Store::open_sharing(&io, config, &resources).await.unwrap();
            assert!(report.is_clean, "{folder}");
            store.partitions_of(partition(0).topic).await.unwrap().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(found("d0").await, [PartitionIndex(0)]);
        assert_eq!(found("d1").await, [PartitionIndex(1)]);
        io.rename(Path::new("d0/topics"), Path::new("d0/lost")).await.unwrap();
        assert_eq!(found("d0").await, [PartitionIndex(0)], "the checkpoint knows it");
        assert_eq!(StoreMetrics::default(), StoreMetrics::default().with(StoreMetrics::default()));
    });
}
