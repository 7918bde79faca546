//! Files, crashes and faults.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use engine_io::{BLOCK_BYTES, Buffer, DirectFile, FileSystemSpace, Io, OpenMode, SendFile, deadline};
use sim::{CrashMode, DiskLatency, Sim, SimBuffer, SimFile, SimIo, SimNode};

const BLOCK: u64 = BLOCK_BYTES as u64;
const PATH: &str = "/data/log";

fn filled(io: &SimIo, blocks: usize, byte: u8) -> Rc<SimBuffer> {
    let mut buffer = io.buffer(blocks * BLOCK_BYTES);
    buffer.as_mut_slice().fill(byte);
    Rc::new(buffer)
}

/// A file of eight blocks that is wholly durable.
async fn durable_file(io: &SimIo) -> SimFile {
    io.create_folder(Path::new("/data")).await.unwrap();
    let file = io.open(Path::new(PATH), OpenMode::New).await.unwrap();
    file.allocate(0, 8 * BLOCK).await.unwrap();
    file.flush().await.unwrap();
    io.flush_folder(Path::new("/data")).await.unwrap();
    file
}

/// The first byte of each block.
fn blocks(content: &[u8]) -> Vec<u8> {
    content.chunks(BLOCK_BYTES).map(|block| block[0]).collect()
}

fn world(seed: u64) -> (Sim, SimNode, SimIo) {
    let sim = Sim::new(seed);
    let node = sim.node();
    let io = node.io();
    (sim, node, io)
}

fn names(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[test]
fn a_read_gives_what_was_written_and_less_at_the_end() {
    let (sim, _node, io) = world(1);
    sim.block_on(async {
        let file = durable_file(&io).await;
        file.write(2 * BLOCK, filled(&io, 2, 5)).await.unwrap();
        let bytes = file.read(BLOCK, 3 * BLOCK_BYTES).await.unwrap();
        assert_eq!(blocks(bytes.as_ref()), [0, 5, 5]);
        assert_eq!(file.read(6 * BLOCK, 8 * BLOCK_BYTES).await.unwrap().as_ref().len(), 2 * BLOCK_BYTES);
        assert_eq!(file.size().await.unwrap(), 8 * BLOCK);
        file.truncate(BLOCK + 7).await.unwrap();
        assert_eq!(file.read(BLOCK, BLOCK_BYTES).await.unwrap().as_ref().len(), 7);
        file.close().await.unwrap();
    });
}

#[test]
fn crash_loses_exactly_what_was_not_flushed() {
    for seed in 0..50 {
        let (sim, node, io) = world(seed);
        sim.block_on(async {
            let file = durable_file(&io).await;
            file.write(0, filled(&io, 1, 1)).await.unwrap();
            file.flush().await.unwrap();
            file.write(BLOCK, filled(&io, 1, 2)).await.unwrap();
            assert_eq!(blocks(&node.disk().live(PATH).unwrap())[..3], [1, 2, 0]);
            assert_eq!(blocks(&node.disk().durable(PATH).unwrap())[..3], [1, 0, 0]);
            node.crash(CrashMode::LoseAllUnflushed);
        });
        let io = node.io();
        let bytes = sim.block_on(async { io.read_file(Path::new(PATH), 1 << 20).await.unwrap() });
        assert_eq!(blocks(&bytes), [1, 0, 0, 0, 0, 0, 0, 0]);
    }
}

#[test]
fn a_flush_covers_only_writes_that_had_resolved_before_it_started() {
    let (sim, node, io) = world(3);
    let micros = |count| Duration::from_micros(count)..=Duration::from_micros(count);
    node.disk().set_latency(DiskLatency {
        write: micros(100),
        flush: micros(1_000),
        ..DiskLatency::default()
    });
    sim.block_on(async {
        let file = Rc::new(durable_file(&io).await);
        file.write(0, filled(&io, 1, 1)).await.unwrap();
        let (flushing, writing, buffer) = (Rc::clone(&file), Rc::clone(&file), filled(&io, 1, 2));
        let flush = io.spawn(async move { flushing.flush().await.unwrap() });
        io.sleep(Duration::from_micros(50)).await;
        let write = io.spawn(async move { writing.write(BLOCK, buffer).await.unwrap() });
        engine_io::Task::join(write).await;
        engine_io::Task::join(flush).await;
        assert_eq!(blocks(&node.disk().durable(PATH).unwrap())[..2], [1, 0]);
        file.flush().await.unwrap();
        assert_eq!(blocks(&node.disk().durable(PATH).unwrap())[..2], [1, 2]);
    });
}

#[test]
fn a_crash_can_tear_a_write_between_sectors_never_within_one() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..60 {
        let (sim, node, io) = world(seed);
        sim.block_on(async {
            let file = durable_file(&io).await;
            file.write(0, filled(&io, 1, 1)).await.unwrap();
            node.crash(CrashMode::KeepRandomSectors);
        });
        let content = node.disk().live(PATH).unwrap();
        let sectors: Vec<&[u8]> = content[..BLOCK_BYTES].chunks(512).collect();
        assert!(sectors.iter().all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        outcomes.insert(sectors.iter().map(|sector| sector[0]).collect::<Vec<u8>>());
    }
    let kept = |outcome: &Vec<u8>| outcome.iter().filter(|byte| **byte == 1).count();
    assert!(outcomes.iter().any(|outcome| kept(outcome) == 0), "all of it can be lost");
    assert!(outcomes.iter().any(|outcome| kept(outcome) == 8), "all of it can be kept");
    assert!(
        outcomes
            .iter()
            .any(|outcome| outcome.is_sorted_by(|one, next| one >= next) && (1..8).contains(&kept(outcome))),
        "a first part can be kept"
    );
    assert!(
        outcomes.iter().any(|outcome| outcome.windows(2).any(|pair| pair == [0, 1])),
        "there can be holes"
    );
}

#[test]
fn a_crash_can_keep_a_later_write_and_lose_an_earlier_one() {
    let keeps_only_the_later = |seed| {
        let (sim, node, io) = world(seed);
        sim.block_on(async {
            let file = durable_file(&io).await;
            file.write(0, filled(&io, 1, 1)).await.unwrap();
            file.write(BLOCK, filled(&io, 1, 2)).await.unwrap();
            node.crash(CrashMode::KeepRandomSectors);
        });
        blocks(&node.disk().live(PATH).unwrap())[..2] == [0, 2]
    };
    assert!((0..60).any(keeps_only_the_later));
}

#[test]
fn a_write_in_flight_at_a_crash_may_be_kept_or_lost() {
    let outcome = |seed| {
        let (sim, node, io) = world(seed);
        let file = sim.block_on(durable_file(&io));
        let buffer = filled(&io, 1, 1);
        let write = io.spawn(async move { file.write(0, buffer).await.unwrap() });
        sim.run_for(Duration::from_micros(10));
        assert!(!engine_io::Task::is_finished(&write));
        assert_eq!(node.disk().live(PATH).unwrap()[0], 0);
        node.crash(CrashMode::KeepRandomSectors);
        let left = node.disk().live(PATH).unwrap()[0];
        sim.run_for(Duration::from_millis(10));
        assert_eq!(node.disk().live(PATH).unwrap()[0], left, "nothing happens after the crash");
        left
    };
    let outcomes: BTreeSet<u8> = (0..40).map(outcome).collect();
    assert_eq!(outcomes, BTreeSet::from([0, 1]));
}

#[test]
fn a_write_whose_future_is_dropped_still_happens() {
    let (sim, node, io) = world(5);
    sim.block_on(async {
        let file = durable_file(&io).await;
        let at = io.now().after(Duration::from_micros(1));
        assert!(deadline(&io, at, file.write(0, filled(&io, 1, 9))).await.is_none());
        drop(file);
        io.sleep(Duration::from_millis(1)).await;
    });
    assert_eq!(node.disk().live(PATH).unwrap()[0], 9);
}

#[test]
fn a_process_that_dies_loses_nothing_it_wrote() {
    let (sim, node, io) = world(6);
    sim.block_on(async {
        let file = durable_file(&io).await;
        file.write(0, filled(&io, 2, 1)).await.unwrap();
        io.rename(Path::new(PATH), Path::new("/data/other")).await.unwrap();
        node.crash(CrashMode::KeepAll);
    });
    assert_eq!(blocks(&node.disk().live("/data/other").unwrap())[..3], [1, 1, 0]);
    assert_eq!(node.disk().live(PATH), None);
}

#[test]
fn a_new_name_is_lost_without_a_flush_of_its_folder() {
    let (sim, node, io) = world(7);
    sim.block_on(async {
        io.create_folder(Path::new("/data")).await.unwrap();
        let file = io.open(Path::new(PATH), OpenMode::New).await.unwrap();
        file.write(0, filled(&io, 1, 1)).await.unwrap();
        file.flush().await.unwrap();
        node.crash(CrashMode::LoseAllUnflushed);
    });
    let io = node.io();
    let listed = sim.block_on(async { io.list_folder(Path::new("/data")).await.unwrap() });
    assert_eq!(listed, names(&[]));
    sim.block_on(durable_file(&io));
    node.crash(CrashMode::LoseAllUnflushed);
    assert_eq!(node.disk().live(PATH).unwrap().len(), 8 * BLOCK_BYTES);
}

#[test]
fn names_that_were_not_flushed_are_kept_or_lost_one_by_one() {
    let outcome = |seed| {
        let (sim, node, io) = world(seed);
        sim.block_on(async {
            io.create_folder(Path::new("/data")).await.unwrap();
            for name in ["/data/a", "/data/b"] {
                io.open(Path::new(name), OpenMode::New).await.unwrap();
            }
            node.crash(CrashMode::KeepRandomSectors);
        });
        let io = node.io();
        sim.block_on(async { io.list_folder(Path::new("/data")).await.unwrap() })
    };
    let outcomes: BTreeSet<Vec<PathBuf>> = (0..40).map(outcome).collect();
    let all = [names(&[]), names(&["a"]), names(&["b"]), names(&["a", "b"])];
    assert_eq!(outcomes, BTreeSet::from(all));
}

#[test]
fn a_rename_is_wholly_kept_or_wholly_lost() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..40 {
        let (sim, node, io) = world(seed);
        sim.block_on(async {
            let file = durable_file(&io).await;
            file.write(0, filled(&io, 1, 1)).await.unwrap();
            file.flush().await.unwrap();
            io.create_folder(Path::new("/other")).await.unwrap();
            io.rename(Path::new(PATH), Path::new("/other/log")).await.unwrap();
            node.crash(CrashMode::KeepRandomSectors);
        });
        let first = |path| node.disk().live(path).map(|content| content[0]);
        let outcome = (first(PATH), first("/other/log"));
        assert!(outcome == (Some(1), None) || outcome == (None, Some(1)), "{outcome:?}");
        outcomes.insert(outcome);
    }
    assert_eq!(outcomes.len(), 2);
}

#[test]
fn a_removed_file_may_come_back_until_its_folder_is_flushed() {
    let (sim, node, io) = world(8);
    sim.block_on(async {
        durable_file(&io).await;
        io.remove_file(Path::new(PATH)).await.unwrap();
        io.create_folder(Path::new("/other")).await.unwrap();
        io.flush_folder(Path::new("/other")).await.unwrap();
        assert_eq!(node.disk().live(PATH), None);
        node.crash(CrashMode::LoseAllUnflushed);
        assert!(node.disk().live(PATH).is_some());
        let io = node.io();
        io.remove_file(Path::new(PATH)).await.unwrap();
        io.flush_folder(Path::new("/data")).await.unwrap();
        node.crash(CrashMode::LoseAllUnflushed);
        assert_eq!(node.disk().live(PATH), None);
    });
}

/// Crashes at any moment of replacing a small file.
#[test]
fn a_small_file_is_replaced_at_once_and_for_good() {
    let path = Path::new("/data/format");
    let mut outcomes = BTreeSet::new();
    for seed in 0..150 {
        let (sim, node, io) = world(seed);
        sim.block_on(async {
            io.create_folder(Path::new("/data")).await.unwrap();
            io.write_file(path, b"old".to_vec()).await.unwrap();
        });
        let own = io.clone();
        let task = io.spawn(async move { own.write_file(path, b"newer".to_vec()).await.unwrap() });
        sim.run_for(Duration::from_micros(20 * seed));
        let is_done = engine_io::Task::is_finished(&task);
        node.crash(if seed % 2 == 0 { CrashMode::LoseAllUnflushed } else { CrashMode::KeepRandomSectors });
        let content = node.disk().live(path).unwrap();
        assert!(content == b"newer" || (content == b"old" && !is_done), "{content:?} after {is_done}");
        outcomes.insert((content, is_done));
    }
    assert_eq!(outcomes.len(), 3, "old, new and unknown, new and known: {outcomes:?}");
}

#[test]
fn shards_that_replace_one_file_at_once_take_turns() {
    let path = Path::new("/data/format");
    for seed in 0..50 {
        let (sim, node, io) = world(seed);
        sim.block_on(async { io.create_folder(Path::new("/data")).await.unwrap() });
        let write = |own: SimIo, content: &'static str| {
            io.spawn(async move { own.write_file(path, content.into()).await.unwrap() })
        };
        let writing = [write(node.io(), "one"), write(node.io(), "another")];
        sim.block_on(async {
            for task in writing {
                engine_io::Task::join(task).await;
            }
        });
        node.crash(CrashMode::LoseAllUnflushed);
        let content = node.disk().live(path).unwrap();
        assert!(content == b"one" || content == b"another", "seed {seed}: {content:?}");
    }
}

#[test]
fn a_created_folder_is_durable_with_its_parents() {
    let (sim, node, io) = world(9);
    sim.block_on(async {
        io.create_folder(Path::new("/a/b/c")).await.unwrap();
        io.create_folder(Path::new("/a/b")).await.unwrap();
        node.crash(CrashMode::LoseAllUnflushed);
        let io = node.io();
        assert_eq!(io.list_folder(Path::new("/a/b")).await.unwrap(), names(&["c"]));
        let not_empty = io.remove_folder(Path::new("/a/b")).await.unwrap_err();
        assert_eq!(not_empty.kind(), ErrorKind::DirectoryNotEmpty);
        io.remove_folder(Path::new("/a/b/c")).await.unwrap();
        assert_eq!(io.list_folder(Path::new("/a/b")).await.unwrap(), names(&[]));
    });
}

#[test]
fn what_cannot_be_opened_says_why() {
    let (sim, _node, io) = world(10);
    sim.block_on(async {
        durable_file(&io).await;
        let kind = async |path: &str, mode| io.open(Path::new(path), mode).await.err().unwrap().kind();
        assert_eq!(kind("/data/none", OpenMode::Existing).await, ErrorKind::NotFound);
        assert_eq!(kind(PATH, OpenMode::New).await, ErrorKind::AlreadyExists);
        assert_eq!(kind("/none/log", OpenMode::New).await, ErrorKind::NotFound);
        assert_eq!(kind("/data", OpenMode::Existing).await, ErrorKind::IsADirectory);
        assert_eq!(kind("/data/log/x", OpenMode::New).await, ErrorKind::NotADirectory);
        let too_large = io.read_file(Path::new(PATH), 8 * BLOCK_BYTES - 1).await.unwrap_err();
        assert_eq!(too_large.kind(), ErrorKind::FileTooLarge);
    });
}

#[test]
fn a_full_disk_refuses_space_and_nothing_else() {
    let mut sizes = BTreeSet::new();
    for seed in 0..20 {
        let (sim, node, io) = world(seed);
        sim.block_on(async {
            let file = durable_file(&io).await;
            node.disk().set_capacity(10 * BLOCK);
            let space = FileSystemSpace { total_bytes: 10 * BLOCK, free_bytes: 2 * BLOCK };
            assert_eq!(io.space(Path::new("/data")).await.unwrap(), space);
            assert_eq!(file.allocate(8 * BLOCK, 3 * BLOCK).await.unwrap_err().kind(), ErrorKind::StorageFull);
            sizes.insert(file.size().await.unwrap());
            file.write(0, filled(&io, 8, 1)).await.unwrap();
            let full = file.write(16 * BLOCK, filled(&io, 3, 1)).await.unwrap_err();
            assert_eq!(full.kind(), ErrorKind::StorageFull);
            let full = io.write_file(Path::new("/data/big"), vec![1; 3 * BLOCK_BYTES]).await.unwrap_err();
            assert_eq!(full.kind(), ErrorKind::StorageFull);
            assert_eq!(node.disk().live("/data/big"), None);
        });
    }
    assert_eq!(sizes, BTreeSet::from([8 * BLOCK, 10 * BLOCK]), "the file is as it was or partly grown");
}

#[test]
fn space_comes_back_when_a_removed_file_is_closed() {
    let (sim, node, io) = world(11);
    sim.block_on(async {
        let file = durable_file(&io).await;
        io.remove_file(Path::new(PATH)).await.unwrap();
        assert_eq!(node.disk().used_bytes(), 8 * BLOCK);
        file.close().await.unwrap();
        assert_eq!(node.disk().used_bytes(), 0);
    });
}

#[test]
fn a_failed_flush_leaves_the_fate_of_its_writes_to_chance_for_good() {
    let outcome = |seed| {
        let (sim, node, io) = world(seed);
        sim.block_on(async {
            let file = durable_file(&io).await;
            file.write(0, filled(&io, 1, 1)).await.unwrap();
            node.disk().fail_next_flush();
            assert!(file.flush().await.is_err());
            file.flush().await.unwrap();
            assert_eq!(file.read(0, BLOCK_BYTES).await.unwrap().as_ref()[0], 1);
            node.crash(CrashMode::LoseAllUnflushed);
        });
        node.disk().live(PATH).unwrap()[0]
    };
    let outcomes: BTreeSet<u8> = (0..40).map(outcome).collect();
    assert_eq!(outcomes, BTreeSet::from([0, 1]));
}

/// The flush that failed lost the file's growth; what a later flush saved past the old end isn't there when the file
/// grows again.
#[test]
fn space_is_zeros_also_where_a_write_outlived_its_growth() {
    let size_after_crash = |seed| {
        let (sim, node, io) = world(seed);
        sim.block_on(async {
            let file = durable_file(&io).await;
            file.allocate(8 * BLOCK, BLOCK).await.unwrap();
            node.disk().fail_next_flush();
            file.flush().await.unwrap_err();
            file.write(8 * BLOCK, filled(&io, 1, 1)).await.unwrap();
            file.flush().await.unwrap();
            node.crash(CrashMode::LoseAllUnflushed);
            let io = node.io();
            let file = io.open(Path::new(PATH), OpenMode::Existing).await.unwrap();
            let size = file.size().await.unwrap();
            file.allocate(8 * BLOCK, BLOCK).await.unwrap();
            let byte = file.read(8 * BLOCK, BLOCK_BYTES).await.unwrap().as_ref()[0];
            assert_eq!(byte == 0, size == 8 * BLOCK);
            size
        })
    };
    let sizes: BTreeSet<u64> = (0..40).map(size_after_crash).collect();
    assert_eq!(sizes, BTreeSet::from([8 * BLOCK, 9 * BLOCK]));
}

#[test]
fn sizes_that_were_not_flushed_are_lost_from_some_change_on() {
    let size_after_crash = |seed| {
        let (sim, node, io) = world(seed);
        sim.block_on(async {
            let file = durable_file(&io).await;
            file.truncate(4 * BLOCK).await.unwrap();
            file.allocate(0, 6 * BLOCK).await.unwrap();
            node.crash(CrashMode::KeepRandomSectors);
        });
        node.disk().live(PATH).unwrap().len() as u64
    };
    let sizes: BTreeSet<u64> = (0..40).map(size_after_crash).collect();
    assert_eq!(sizes, BTreeSet::from([4 * BLOCK, 6 * BLOCK, 8 * BLOCK]));
}

#[test]
fn writes_fail_from_the_chosen_one_on_to_the_chosen_files_only() {
    let (sim, node, io) = world(12);
    sim.block_on(async {
        let file = durable_file(&io).await;
        let other = io.open(Path::new("/data/other"), OpenMode::New).await.unwrap();
        node.disk().fail_writes(|path| path.ends_with("log"), 1);
        file.write(0, filled(&io, 1, 1)).await.unwrap();
        assert!(file.write(0, filled(&io, 1, 2)).await.is_err());
        assert!(file.write(0, filled(&io, 1, 3)).await.is_err());
        other.write(0, filled(&io, 1, 4)).await.unwrap();
        node.disk().heal();
        file.write(0, filled(&io, 1, 5)).await.unwrap();
    });
}

#[test]
fn a_flipped_bit_is_read_back_also_after_a_crash() {
    let (sim, node, io) = world(13);
    sim.block_on(async { durable_file(&io).await });
    node.disk().flip_bit(PATH, 700).unwrap();
    node.crash(CrashMode::LoseAllUnflushed);
    assert_eq!(node.disk().live(PATH).unwrap()[699..702], [0, 1, 0]);
}

#[test]
fn ranges_are_resident_or_cold_by_chance_and_resident_after_a_prefetch() {
    let mut first_answers = BTreeSet::new();
    for seed in 0..20 {
        let (sim, _node, io) = world(seed);
        sim.block_on(async {
            durable_file(&io).await;
            let file = io.open_send_file(Path::new(PATH)).await.unwrap();
            first_answers.insert(file.resident(100, BLOCK));
            let mut tries = 0;
            while file.resident(100, BLOCK) < BLOCK {
                file.prefetch(100, BLOCK).await.unwrap();
                tries += 1;
                assert!(tries < 10, "a prefetched range is seldom evicted at once");
            }
            assert_eq!(file.resident(8 * BLOCK, BLOCK), 0, "nothing lies past the end");
        });
    }
    assert_eq!(first_answers, BTreeSet::from([0, BLOCK]));
}

#[test]
fn a_flush_covers_other_files_only_where_told_so_and_only_blocks_written_before() {
    for covers in [false, true] {
        let (sim, node, io) = world(16);
        if covers {
            node.disk().flush_covers_device();
        }
        let other = Path::new("other");
        sim.block_on(async {
            let file = durable_file(&io).await;
            let flushed = io.open(other, OpenMode::New).await.unwrap();
            io.flush_folder(Path::new("")).await.unwrap();
            file.write(0, filled(&io, 1, 3)).await.unwrap();
            file.flush().await.unwrap();
            // One block that is durable, and one that no flush has seen.
            file.write(0, filled(&io, 1, 7)).await.unwrap();
            file.allocate(8 * BLOCK, 8 * BLOCK).await.unwrap();
            file.write(8 * BLOCK, filled(&io, 1, 7)).await.unwrap();
            flushed.flush().await.unwrap();
        });
        let durable = node.disk().durable(PATH).unwrap();
        assert_eq!(durable[0] == 7, covers);
        assert_eq!(durable.get(8 * BLOCK_BYTES), None, "fresh space needs a flush of its own");
    }
}

#[test]
#[should_panic(expected = "isn't of whole blocks")]
fn an_unaligned_write_is_a_bug() {
    let (sim, _node, io) = world(14);
    sim.block_on(async {
        let file = durable_file(&io).await;
        file.write(512, filled(&io, 1, 1)).await.unwrap();
    });
}

#[test]
#[should_panic(expected = "overlaps a write in flight")]
fn writes_in_flight_that_overlap_are_a_bug() {
    let (sim, _node, io) = world(15);
    let file = Rc::new(sim.block_on(durable_file(&io)));
    let tasks: Vec<_> = (0..2)
        .map(|block| {
            let (file, buffer) = (Rc::clone(&file), filled(&io, 2, 1));
            io.spawn(async move { file.write(block * BLOCK, buffer).await.unwrap() })
        })
        .collect();
    sim.run_until_idle();
    drop(tasks);
}
