//! Several log directories: partitions lie in one of them each, and one that is lost takes only its own along.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use engine_io::Io;
use engine_record::{NodeId, TopicId};
use net_server::format::{Unformatted, prepare};
use net_server::log_directories::{self, DirectoryError, Named};
use net_server::node::NodeError;
use net_wire::ErrorCode;
use net_wire::messages::DescribeLogDirsRequest;
use net_wire::messages::describe_log_dirs::DescribableLogDirTopic;
use sim::{CrashMode, Sim, SimIo};

use crate::batches::batch;
use crate::calls::{Fetch, PRODUCE, Produce, Topic, produce, read_all};
use crate::create_partitions::grows;
use crate::errors::errors_logged;
use crate::node::{Node, config, config_with, on_node_with_directories, start};

const TWO: [&str; 2] = ["/d1", "/d2"];
const SECOND: Duration = Duration::from_secs(1);

fn partitions(topic: &Topic) -> impl Iterator<Item = i32> {
    (0..).zip(&topic.leaders).map(|(partition, _)| partition)
}

fn shard_of(topic: &Topic, partition: i32) -> u16 {
    u16::try_from(topic.leaders[usize::try_from(partition).unwrap()] - 1000).unwrap()
}

/// In which directory an open partition lies.
async fn directory_of(node: &Node, topic: &Topic, partition: i32) -> PathBuf {
    let mut client = node.connect_to_leader(topic, partition).await;
    let asked = DescribableLogDirTopic { topic: &topic.name, partitions: vec![partition] };
    let answer =
        client.ask(4, &DescribeLogDirsRequest { topics: Some(vec![asked]), count_segments: false }).await;
    let all = answer.body();
    let mut holding = all.results.iter().filter(|told| !told.topics.is_empty());
    let holder = holding.next().expect("the partition lies somewhere").log_dir;
    assert!(holding.next().is_none(), "and nowhere else");
    holder.into()
}

async fn directories_of(node: &Node, topic: &Topic) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for partition in partitions(topic) {
        all.push(directory_of(node, topic, partition).await);
    }
    all
}

/// Produces one record to each partition, which has `before` already.
async fn fill(node: &Node, topic: &Topic, before: i64) {
    for partition in partitions(topic) {
        let mut client = node.connect_to_leader(topic, partition).await;
        let offset =
            produce(&mut client, topic, partition, &batch(&[&format!("{partition} {before}")])).await;
        assert_eq!(offset, before);
    }
}

async fn holds(node: &Node, topic: &Topic, partition: i32, count: i64) {
    let mut client = node.connect_to_leader(topic, partition).await;
    let expected: Vec<_> = (0..count).map(|offset| (offset, format!("{partition} {offset}"))).collect();
    assert_eq!(read_all(&mut client, topic, partition).await, expected);
}

async fn all_hold(node: &Node, topic: &Topic, count: i64) {
    for partition in partitions(topic) {
        holds(node, topic, partition, count).await;
    }
}

/// What a produce and a fetch of a partition are answered.
async fn answers(node: &Node, topic: &Topic, partition: i32) -> [ErrorCode; 2] {
    let mut client = node.connect_to_leader(topic, partition).await;
    let produced = Produce::new(topic, partition, &batch(&["x"])).call(&mut client).await;
    let fetched = Fetch::at(topic, partition, 0).call(&mut client).await.only();
    [produced.error, fetched.error]
}

const LOST: [ErrorCode; 2] = [ErrorCode::KAFKA_STORAGE_ERROR; 2];

#[test]
fn partitions_are_spread_and_found_again() {
    on_node_with_directories(1, config(2), &TWO, async |node| {
        let topic = node.topic("t", 8).await;
        fill(&node, &topic, 0).await;
        let places = directories_of(&node, &topic).await;
        for (shard, directory) in [(0, "/d1"), (0, "/d2"), (1, "/d1"), (1, "/d2")] {
            let here = partitions(&topic).zip(&places);
            let here = here.filter(|(at, place)| {
                (shard_of(&topic, *at), place.as_path()) == (shard, Path::new(directory))
            });
            assert_eq!(here.count(), 2, "{places:?}");
        }
        let data = node.machine().io().list_folder(Path::new("/data")).await.unwrap();
        assert!(!data.contains(&"topics".into()) && data.contains(&"directories.toml".into()), "{data:?}");
        let node = node.restart().await;
        for shard in node.opened() {
            assert!(shard.is_clean && shard.scanned_bytes == 0 && shard.offline == 0, "{shard:?}");
        }
        assert_eq!(directories_of(&node, &topic).await, places);
        all_hold(&node, &topic, 1).await;
        fill(&node, &topic, 1).await;
        let later = node.topic("later", 4).await;
        let places = directories_of(&node, &later).await;
        assert_eq!(places.iter().filter(|place| place.ends_with("d1")).count(), 2, "{places:?}");
    });
}

#[test]
fn the_data_folder_may_be_one_of_them_and_others_be_added_later() {
    on_node_with_directories(2, config(1), &["/data"], async |node| {
        let topic = node.topic("t", 2).await;
        fill(&node, &topic, 0).await;
        let (setting, config) = node.stop().await;
        let io = setting.machine.io();
        let (identity, _) = prepare(&io, Path::new("/data"), NodeId(1), Unformatted::Refuse).await.unwrap();
        let named = [Named::new("/data"), Named::new("/d1")];
        let made = log_directories::format(&io, &identity, Path::new("/data"), &named).await.unwrap();
        assert_eq!(made, [("/data".into(), false), ("/d1".into(), true)]);
        setting.set_directories(&["/data", "/d1"]);
        let node = start(setting, config).await.unwrap();
        all_hold(&node, &topic, 1).await;
        let next = node.topic("next", 2).await;
        assert_eq!(directories_of(&node, &next).await, [Path::new("/d1"); 2], "it had fewer");
        fill(&node, &next, 0).await;
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        all_hold(&node, &topic, 1).await;
        all_hold(&node, &next, 1).await;
    });
}

#[test]
fn nothing_acknowledged_is_lost_in_any_crash() {
    let modes = [CrashMode::LoseAllUnflushed, CrashMode::KeepRandomSectors, CrashMode::KeepAll];
    for (seed, mode) in (10..).zip(modes) {
        on_node_with_directories(seed, config(2), &TWO, async |mut node| {
            let topic = node.topic("t", 4).await;
            for round in 0..3 {
                fill(&node, &topic, round).await;
                node = node.restart_after(mode).await;
                assert!(node.opened().iter().all(|shard| !shard.is_clean && shard.offline == 0));
                all_hold(&node, &topic, round + 1).await;
            }
            assert_eq!(node.describe("t").await.epochs, [3; 4], "an unclean directory raises all epochs");
        });
    }
}

#[test]
fn a_directory_whose_flush_fails_is_lost_alone_and_on_all_shards() {
    let errors = errors_logged(|| {
        on_node_with_directories(20, config(2), &TWO, async |node| {
            let topic = node.topic("t", 4).await;
            fill(&node, &topic, 0).await;
            let places = directories_of(&node, &topic).await;
            node.machine().disk().fail_flushes(|path| path.starts_with("/d1/topics"));
            let lost =
                partitions(&topic).find(|at| places[usize::try_from(*at).unwrap()].ends_with("d1")).unwrap();
            let mut client = node.connect_to_leader(&topic, lost).await;
            let produced = Produce::new(&topic, lost, &batch(&["lost"])).call(&mut client).await;
            assert_eq!(produced.error, ErrorCode::KAFKA_STORAGE_ERROR);
            node.pause(SECOND).await;
            for (partition, place) in partitions(&topic).zip(&places) {
                if place.ends_with("d1") {
                    assert_eq!(answers(&node, &topic, partition).await, LOST, "{partition}");
                } else {
                    holds(&node, &topic, partition, 1).await;
                    let mut client = node.connect_to_leader(&topic, partition).await;
                    let records = batch(&[&format!("{partition} 1")]);
                    assert_eq!(produce(&mut client, &topic, partition, &records).await, 1);
                }
            }
            for shard in 0..2 {
                let views = node.snapshot(shard).await.log_directories;
                assert_eq!(views.iter().map(|view| view.is_online).collect::<Vec<_>>(), [false, true]);
            }
            let new = node.topic("new", 4).await;
            fill(&node, &new, 0).await;
            assert_eq!(directories_of(&node, &new).await, [Path::new("/d2"); 4]);
            // An orderly stop, and a drive in order again.
            node.machine().disk().heal();
            let node = node.restart().await;
            assert!(node.opened().iter().all(|shard| shard.offline == 0));
            all_hold(&node, &new, 1).await;
            for (partition, place) in partitions(&topic).zip(&places) {
                let mut client = node.connect_to_leader(&topic, partition).await;
                let read = read_all(&mut client, &topic, partition).await;
                let least = if place.ends_with("d1") { 1 } else { 2 };
                assert!(read.len() >= least && read[0].1 == format!("{partition} 0"), "{read:?}");
            }
        });
    });
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("/d1"), "{errors:?}");
}

#[test]
fn produces_under_way_to_a_directory_that_fails_are_never_acknowledged() {
    for (seed, acks) in (30..34).zip([-1, 1, -1, 1]) {
        on_node_with_directories(seed, config(1), &TWO, async |node| {
            let topic = node.topic("t", 2).await;
            fill(&node, &topic, 0).await;
            let places = directories_of(&node, &topic).await;
            node.machine().disk().fail_writes(|path| path.starts_with("/d2/topics"), 0);
            let (mut clients, records) = (Vec::new(), batch(&["x"]));
            for partition in [0, 1, 0, 1, 0, 1] {
                let mut client = node.connect(0).await;
                let produce = Produce { acks, ..Produce::new(&topic, partition, &records) };
                client.send(PRODUCE, &produce.request()).await;
                clients.push((partition, client));
            }
            for (partition, mut client) in clients {
                let answer = client.answer(PRODUCE).await;
                let outcome = Produce::new(&topic, partition, &records).outcome(&answer);
                let is_lost = places[usize::try_from(partition).unwrap()].ends_with("d2");
                let expected = if is_lost { ErrorCode::KAFKA_STORAGE_ERROR } else { ErrorCode::NONE };
                assert_eq!(outcome.error, expected, "seed {seed}, partition {partition}");
            }
            node.stop().await;
        });
    }
}

#[test]
fn a_fetch_that_waits_on_a_directory_that_fails_is_answered() {
    on_node_with_directories(35, config(1), &TWO, async |node| {
        let topic = node.topic("t", 2).await;
        fill(&node, &topic, 0).await;
        let mut waiting = node.connect(0).await;
        let fetch = Fetch::at(&topic, 0, 1).waiting(60_000, 1);
        waiting.send(crate::calls::FETCH, &fetch.request()).await;
        node.pause(SECOND).await;
        node.machine().disk().fail_writes(|path| path.starts_with("/d1/topics"), 0);
        let begun_at = node.setting().io.now();
        assert_eq!(answers(&node, &topic, 0).await, LOST);
        let fetched = fetch.outcome(&waiting.answer(crate::calls::FETCH).await).only();
        assert_eq!(fetched.error, ErrorCode::KAFKA_STORAGE_ERROR);
        assert!(node.setting().io.now().since(begun_at) < SECOND);
    });
}

#[test]
fn the_node_ends_once_no_directory_is_left() {
    on_node_with_directories(40, config(2), &TWO, async |mut node| {
        let topic = node.topic("t", 4).await;
        fill(&node, &topic, 0).await;
        node.machine().disk().fail_flushes(|path| path.starts_with("/d1") || path.starts_with("/d2"));
        for partition in partitions(&topic) {
            let mut client = node.connect_to_leader(&topic, partition).await;
            client.send(PRODUCE, &Produce::new(&topic, partition, &batch(&["x"])).request()).await;
        }
        let ended = node.ended().await;
        assert!(matches!(ended.result, Err(NodeError::Store { .. })), "{ended:?}");
    });
}

#[test]
fn what_is_missing_at_a_start_is_offline_emptied_nowhere_and_back_with_its_directory() {
    let errors = errors_logged(|| {
        on_node_with_directories(50, config(2), &TWO, async |node| {
            let topic = node.topic("t", 4).await;
            fill(&node, &topic, 0).await;
            let places = directories_of(&node, &topic).await;
            let (setting, config) = node.stop().await;
            setting.machine.io().rename(Path::new("/d2"), Path::new("/away")).await.unwrap();
            let node = start(Rc::clone(&setting), config).await.unwrap();
            assert_eq!(node.opened().iter().map(|shard| shard.offline).collect::<Vec<_>>(), [1, 1]);
            let new = node.topic("new", 2).await;
            for round in 0..2 {
                for (partition, place) in partitions(&topic).zip(&places) {
                    if place.ends_with("d2") {
                        assert_eq!(answers(&node, &topic, partition).await, LOST, "{partition}");
                    } else {
                        holds(&node, &topic, partition, 1).await;
                    }
                }
                fill(&node, &new, round).await;
                node.pause(60 * SECOND).await;
            }
            let (setting, config) = node.stop().await;
            assert!(
                setting.machine.io().list_folder(Path::new("/d2")).await.is_err(),
                "nothing was made there"
            );
            setting.machine.io().rename(Path::new("/away"), Path::new("/d2")).await.unwrap();
            let node = start(setting, config).await.unwrap();
            assert!(node.opened().iter().all(|shard| shard.offline == 0 && shard.is_clean));
            all_hold(&node, &topic, 1).await;
            all_hold(&node, &new, 2).await;
        });
    });
    assert_eq!(errors.len(), 3, "one for the directory, one for the topic on each shard: {errors:?}");
    assert!(errors[0].contains("/d2"), "{errors:?}");
}

#[test]
fn a_topic_grows_while_a_directory_is_missing_and_only_its_new_partitions_are_made() {
    on_node_with_directories(53, config(1), &TWO, async |node| {
        let topic = node.topic("t", 2).await;
        fill(&node, &topic, 0).await;
        let (setting, config) = node.stop().await;
        setting.machine.io().rename(Path::new("/d2"), Path::new("/away")).await.unwrap();
        let node = start(Rc::clone(&setting), config).await.unwrap();
        grows(&node, "t", 4).await;
        let grown = node.describe("t").await;
        assert_eq!(answers(&node, &grown, 1).await, LOST);
        for partition in [2, 3] {
            assert_eq!(directory_of(&node, &grown, partition).await, Path::new("/d1"));
            let mut client = node.connect(0).await;
            let records = batch(&[&format!("{partition} 0")]);
            assert_eq!(produce(&mut client, &grown, partition, &records).await, 0);
        }
        let (setting, config) = node.stop().await;
        setting.machine.io().rename(Path::new("/away"), Path::new("/d2")).await.unwrap();
        let node = start(setting, config).await.unwrap();
        all_hold(&node, &grown, 1).await;
    });
}

#[test]
fn each_directory_is_described_and_one_that_is_lost_says_so() {
    on_node_with_directories(54, config(1), &TWO, async |node| {
        let topic = node.topic("t", 2).await;
        fill(&node, &topic, 0).await;
        let mut client = node.connect(0).await;
        let request = DescribeLogDirsRequest { topics: None, count_segments: true };
        let answer = client.ask(4, &request).await;
        for (told, path) in answer.body().results.iter().zip(TWO) {
            assert_eq!((told.error_code, told.log_dir, told.topics.len()), (ErrorCode::NONE, path, 1));
            let [partition] = &told.topics[0].partitions[..] else { panic!("one partition: {told:?}") };
            assert_eq!(partition.segment_count, 1);
        }
        node.machine().disk().fail_writes(|path| path.starts_with("/d2/topics"), 0);
        assert_eq!(answers(&node, &topic, 1).await, LOST);
        let answer = client.ask(4, &request).await;
        let told: Vec<_> =
            answer.body().results.iter().map(|told| (told.error_code, told.topics.len())).collect();
        assert_eq!(told, [(ErrorCode::NONE, 1), (ErrorCode::KAFKA_STORAGE_ERROR, 0)]);
    });
}

/// Of what is deleted in one directory nothing is looked for in the other.
#[test]
fn old_segments_go_in_every_directory() {
    let old = [("log.retention.ms", "1000"), ("log.retention.check.interval.ms", "1000")];
    on_node_with_directories(55, config_with(1, &old), &TWO, async |node| {
        let topic = node.topic("t", 2).await;
        fill(&node, &topic, 0).await;
        node.pause(120 * SECOND).await;
        for partition in partitions(&topic) {
            let mut client = node.connect(0).await;
            let fetched = Fetch::at(&topic, partition, 0).call(&mut client).await.only();
            assert_eq!(fetched.error, ErrorCode::OFFSET_OUT_OF_RANGE, "{partition}");
        }
        let node = node.restart().await;
        fill(&node, &topic, 1).await;
    });
}

#[test]
fn a_directory_that_moved_is_known_by_its_id() {
    on_node_with_directories(51, config(1), &TWO, async |node| {
        let topic = node.topic("t", 4).await;
        fill(&node, &topic, 0).await;
        let (setting, config) = node.stop().await;
        setting.machine.io().rename(Path::new("/d2"), Path::new("/new")).await.unwrap();
        setting.set_directories(&["/new", "/d1"]);
        let node = start(setting, config).await.unwrap();
        all_hold(&node, &topic, 1).await;
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        all_hold(&node, &topic, 1).await;
    });
}

#[test]
fn a_damaged_checkpoint_takes_its_directory_offline_and_no_other() {
    on_node_with_directories(52, config(2), &TWO, async |node| {
        let topic = node.topic("t", 4).await;
        fill(&node, &topic, 0).await;
        let places = directories_of(&node, &topic).await;
        let (setting, config) = node.stop().await;
        let io = setting.machine.io();
        for shard in 0..2 {
            // Without its first slot a second one says that something is lost.
            io.remove_file(Path::new(&format!("/d1/checkpoints/{shard}.0"))).await.unwrap();
            io.write_file(Path::new(&format!("/d1/checkpoints/{shard}.1")), vec![1; 4096]).await.unwrap();
        }
        let node = start(setting, config).await.unwrap();
        for (partition, place) in partitions(&topic).zip(&places) {
            if place.ends_with("d1") {
                assert_eq!(answers(&node, &topic, partition).await, LOST);
            } else {
                holds(&node, &topic, partition, 1).await;
            }
        }
    });
}

#[test]
fn a_partition_in_two_directories_is_left_as_it_is_in_both() {
    let errors = errors_logged(|| {
        on_node_with_directories(60, config(1), &TWO, async |node| {
            let topic = node.topic("t", 2).await;
            fill(&node, &topic, 0).await;
            assert_eq!(directories_of(&node, &topic).await, [Path::new("/d1"), Path::new("/d2")]);
            let (setting, config) = node.stop().await;
            let copy = PathBuf::from(format!("/d2/topics/{}/0", TopicId(topic.id.0)));
            let io = setting.machine.io();
            io.create_folder(&copy).await.unwrap();
            let node = start(setting, config).await.unwrap();
            assert_eq!(answers(&node, &topic, 0).await, LOST);
            holds(&node, &topic, 1, 1).await;
            let (setting, config) = node.stop().await;
            let io = setting.machine.io();
            assert!(io.list_folder(&copy).await.unwrap().is_empty());
            io.remove_folder(&copy).await.unwrap();
            let node = start(setting, config).await.unwrap();
            all_hold(&node, &topic, 1).await;
        });
    });
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("/d1") && errors[0].contains("/d2"), "{errors:?}");
}

async fn topics_in(io: &SimIo, directory: &str) -> Vec<PathBuf> {
    io.list_folder(&Path::new(directory).join("topics")).await.unwrap()
}

#[test]
fn a_topic_is_deleted_in_all_directories() {
    on_node_with_directories(70, config(2), &TWO, async |node| {
        let topic = node.topic("t", 4).await;
        fill(&node, &topic, 0).await;
        let io = node.machine().io();
        assert_eq!((topics_in(&io, "/d1").await.len(), topics_in(&io, "/d2").await.len()), (1, 1));
        assert!(node.delete(&topic).await.is_none());
        node.pause(20 * SECOND).await;
        assert_eq!((topics_in(&io, "/d1").await.len(), topics_in(&io, "/d2").await.len()), (0, 0));
        let views = node.snapshot(0).await.log_directories;
        assert!(views.iter().all(|view| view.partitions == 0));
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        assert!(node.opened().iter().all(|shard| shard.partitions == 0));
    });
}

#[test]
fn what_a_lost_directory_has_of_a_deleted_topic_goes_once_it_is_back() {
    on_node_with_directories(71, config(2), &TWO, async |node| {
        let topic = node.topic("t", 4).await;
        fill(&node, &topic, 0).await;
        node.machine().disk().fail_writes(|path| path.starts_with("/d1/topics"), 0);
        assert_eq!(answers(&node, &topic, 0).await, LOST);
        assert!(node.delete(&topic).await.is_none());
        node.pause(20 * SECOND).await;
        let io = node.machine().io();
        assert_eq!((topics_in(&io, "/d1").await.len(), topics_in(&io, "/d2").await.len()), (1, 0));
        node.machine().disk().heal();
        let node = node.restart().await;
        node.pause(20 * SECOND).await;
        let io = node.machine().io();
        assert_eq!(topics_in(&io, "/d1").await.len(), 0);
    });
}

/// Why a start with these directories is refused.
async fn refusal(io: &SimIo, named: &[&str]) -> DirectoryError {
    prepared(io, named).await.unwrap_err()
}

async fn prepared(io: &SimIo, named: &[&str]) -> Result<Vec<log_directories::Prepared>, DirectoryError> {
    let data = Path::new("/data");
    let (identity, _) = prepare(io, data, NodeId(1), Unformatted::Refuse).await.unwrap();
    let named: Vec<_> = named.iter().map(Named::new).collect();
    log_directories::prepare(io, &identity, data, &named).await
}

async fn formatted(io: &SimIo, named: &[&str]) -> Result<Vec<(PathBuf, bool)>, DirectoryError> {
    let data = Path::new("/data");
    let (identity, _) = prepare(io, data, NodeId(1), Unformatted::Create).await.unwrap();
    let named: Vec<_> = named.iter().map(Named::new).collect();
    log_directories::format(io, &identity, data, &named).await
}

#[test]
fn a_start_that_would_forget_records_is_refused() {
    on_node_with_directories(80, config(1), &["/data", "/d1", "/d2"], async |node| {
        let topic = node.topic("t", 2).await;
        fill(&node, &topic, 0).await;
        let (setting, _) = node.stop().await;
        let io = setting.machine.io();
        let left_out = async |named: &[&str]| {
            let refused = refusal(&io, named).await;
            let DirectoryError::LeftOut(path) = refused else { panic!("{refused}") };
            path
        };
        assert_eq!(left_out(&["/d1", "/d2"]).await, Path::new("/data"));
        assert_eq!(left_out(&["/data", "/d2"]).await, Path::new("/d1"));
        assert_eq!(prepared(&io, &["/data", "/d1"]).await.unwrap().len(), 2, "/d2 holds nothing");
        io.rename(Path::new("/d1"), Path::new("/away")).await.unwrap();
        let unseen = refusal(&io, &["/data"]).await;
        assert!(matches!(unseen, DirectoryError::LeftOutUnseen { .. }), "{unseen}");
        let refused = formatted(&io, &["/data", "/d1"]).await.unwrap_err();
        assert!(matches!(refused, DirectoryError::KnownHere { .. }), "{refused}");
        for error in [unseen, refused] {
            assert!(error.to_string().contains("/data/directories.toml"), "{error}");
        }
        let offline = prepared(&io, &["/data", "/d1"]).await.unwrap();
        assert!(offline[0].offline.is_none() && offline[1].offline.is_some(), "{offline:?}");
    });
}

#[test]
fn only_empty_folders_are_formatted_and_only_formatted_ones_used() {
    let sim = Sim::new(90);
    let io = sim.node().io();
    sim.block_on(async {
        io.create_folder(Path::new("/full/of/something")).await.unwrap();
        let refused = formatted(&io, &["/full"]).await.unwrap_err();
        assert!(matches!(refused, DirectoryError::NotEmpty { .. }), "{refused}");
        let refused = refusal(&io, &["/d1"]).await;
        assert!(matches!(refused, DirectoryError::Unformatted(_)), "{refused}");
        let refused = refusal(&io, &["/data", "/full"]).await;
        assert!(matches!(refused, DirectoryError::Unformatted(_)), "{refused}");
        assert_eq!(formatted(&io, &["/d1"]).await.unwrap(), [("/d1".into(), true)]);
        assert_eq!(formatted(&io, &["/d1"]).await.unwrap(), [("/d1".into(), false)]);
        assert_eq!(prepared(&io, &["/d1"]).await.unwrap().len(), 1);
        io.write_file(Path::new("/data/directories.toml"), b"version = 9".to_vec()).await.unwrap();
        let refused = refusal(&io, &["/d1"]).await;
        assert!(matches!(refused, DirectoryError::Registry { .. }), "{refused}");
        io.remove_file(Path::new("/data/directories.toml")).await.unwrap();
        io.rename(Path::new("/d1"), Path::new("/d2")).await.unwrap();
        prepared(&io, &["/d2"]).await.unwrap();
        io.rename(Path::new("/d2"), Path::new("/d3")).await.unwrap();
        let refused = refusal(&io, &["/d2"]).await;
        assert!(matches!(refused, DirectoryError::NoneOnline(_)), "{refused}");
    });
}
