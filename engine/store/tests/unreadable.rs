//! Segments that someone damages under a running store: their records are refused, and an operator is told once.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod support;

use engine_io::{DirectFile, Io, OpenMode};
use engine_store::{ReadBound, ReadError, ReadRequest};
use support::client::Client;
use support::lines::lines_of;
use support::model::Model;
use support::{Machine, SimLog, SimStore, at, batch, partition};

const RECORDS: i64 = 60;

/// A log of several closed segments, of which nothing is in memory.
fn written(seed: u64) -> (Machine, SimStore, SimLog, Model) {
    let mut machine = Machine::new(seed);
    machine.log_config.segment_bytes = 200_000;
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..RECORDS.unsigned_abs() {
        let bytes = batch(seed, 1, 10_000);
        model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    }
    machine.pause(machine.config.idle_after * 4);
    (machine, store, log, model)
}

/// Lets the first segment end at `bytes`, and then with zeros where it ended before.
fn replace_by_zeros(machine: &Machine, bytes: u64) {
    let io = machine.node.io();
    machine.run(async {
        let file = io.open(&machine.segment(partition(0), 0), OpenMode::Existing).await.unwrap();
        let size = file.size().await.unwrap();
        file.truncate(bytes).await.unwrap();
        file.truncate(size).await.unwrap();
    });
}

fn request(offset: i64, max_bytes: u32) -> ReadRequest {
    ReadRequest { offset: at(offset), max_bytes, at_least_one: true, bound: ReadBound::LogEnd }
}

/// Reads from every offset, by pieces of many sizes; how many reads were refused. What is read is what was appended.
fn read_everywhere(machine: &Machine, log: &SimLog, model: &Model) -> u32 {
    let mut client = machine.run(Client::connect(&machine.node));
    let mut refused = 0;
    for max_bytes in [1, 60_000, 1 << 20] {
        for offset in (0..RECORDS).step_by(3) {
            match machine.run(log.read(request(offset, max_bytes))) {
                Ok(read) => {
                    let bytes = machine.run(client.receive(&read));
                    model.check_prefix(read.first_offset, &bytes);
                }
                Err(ReadError::Corrupt { file, .. }) => {
                    assert_eq!(file, machine.segment(partition(0), 0));
                    refused += 1;
                }
                Err(ReadError::Disk(error)) => {
                    assert_eq!(error.path, machine.segment(partition(0), 0));
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    refused
}

#[test]
fn zeros_in_the_place_of_durable_records_are_never_sent() {
    for seed in 0..3 {
        let (machine, _store, log, model) = written(seed);
        assert_eq!(read_everywhere(&machine, &log, &model), 0);
        replace_by_zeros(&machine, 0);
        assert!(read_everywhere(&machine, &log, &model) > 15, "seed {seed}");
    }
}

#[test]
fn a_segment_that_can_t_be_read_is_told_once_whoever_asks_for_it() {
    let (machine, _store, log, model) = written(30);
    let path = machine.segment(partition(0), 0);
    machine.run(machine.node.io().remove_file(&path)).unwrap();
    let lines = lines_of(|| assert!(read_everywhere(&machine, &log, &model) > 15));
    let [line] = &lines[..] else { panic!("{lines:#?}") };
    let said = format!("error=opening {} failed", path.display());
    assert!(line.starts_with("ERROR records can't be read. Nothing was changed."), "{line}");
    assert!(line.contains(&said), "{line}");
}

#[test]
fn a_shortened_segment_is_told_once_for_each_thing_that_is_wrong() {
    let (machine, _store, log, model) = written(31);
    let path = machine.segment(partition(0), 0);
    let io = machine.node.io();
    machine.run(async {
        let file = io.open(&path, OpenMode::Existing).await.unwrap();
        file.truncate(100_000).await.unwrap();
    });
    let lines = lines_of(|| assert!(read_everywhere(&machine, &log, &model) > 5));
    let [line] = &lines[..] else { panic!("{lines:#?}") };
    assert!(line.starts_with("ERROR records can't be read."), "{line}");
    assert!(line.contains(&format!("{} ends at byte", path.display())), "{line}");
}
