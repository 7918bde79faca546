//! The store on a real drive: what the simulated seam promises holds there too.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says where")]

use std::path::PathBuf;

use engine_io::{Io, ListenMode, Listener, Stream, StreamReader, StreamWriter};
use engine_io_glommio::{GlommioIo, ShardSpec, run};
use engine_record::{
    BatchBuilder, LeaderEpoch, NewRecord, Offset, PartitionIndex, RecordBatch, ShardId, Timestamp, TopicId,
    TopicPartition,
};
use engine_store::{
    AppendOrigin, LogConfig, PartitionLog, Piece, ReadBound, ReadRequest, Store, StoreConfig,
};

const EPOCH: LeaderEpoch = LeaderEpoch(0);
const BATCHES: i64 = 300;

fn batch(number: i64) -> Vec<u8> {
    let value = vec![u8::try_from(number % 251).unwrap(); 500 + usize::try_from(number).unwrap() * 17];
    let mut builder = BatchBuilder::new();
    builder
        .push(&NewRecord { timestamp: Timestamp(number), value: Some(&value), ..NewRecord::default() })
        .unwrap();
    builder.build().unwrap()
}

fn partition(number: i32) -> TopicPartition {
    TopicPartition { topic: TopicId([1; 16]), partition: PartitionIndex(number) }
}

async fn open(io: &GlommioIo, folder: &std::path::Path) -> (Store<GlommioIo>, bool) {
    let mut config = StoreConfig::new(folder, ShardId(0), 1);
    config.tail_bytes_per_partition = 256 << 10;
    let (store, report) = Store::open(io, config).await.unwrap();
    (store, report.is_clean)
}

async fn open_log(store: &Store<GlommioIo>, number: i32) -> PartitionLog<GlommioIo> {
    let config = LogConfig { segment_bytes: 300 << 10, ..LogConfig::default() };
    store.open_partition(partition(number), "topic", config, EPOCH).await.unwrap()
}

async fn append_all(log: &PartitionLog<GlommioIo>) {
    for number in 0..BATCHES {
        let bytes = batch(number);
        let (parsed, _) = RecordBatch::parse(&bytes).unwrap();
        let appended = log.append(parsed, AppendOrigin::Client, EPOCH).await.unwrap();
        assert_eq!(appended.base_offset.value(), number);
        if number % 50 == 0 {
            log.flushed(Offset::new(number + 1).unwrap()).await.unwrap();
        }
    }
    log.flushed(Offset::new(BATCHES).unwrap()).await.unwrap();
}

/// Reads the whole log, files by way of a socket, and checks every batch.
async fn check_all(io: &GlommioIo, log: &PartitionLog<GlommioIo>) {
    let listener = io.listen("127.0.0.1:0".parse().unwrap(), ListenMode::Exclusive).await.unwrap();
    let near = io.connect(listener.local_address()).await.unwrap();
    let far = listener.accept().await.unwrap();
    let (_near_reader, mut writer) = near.split();
    let (mut reader, _far_writer) = far.split();
    let mut bytes = Vec::new();
    let mut offset = Offset::ZERO;
    loop {
        let request =
            ReadRequest { offset, max_bytes: 100_000, at_least_one: true, bound: ReadBound::LogEnd };
        let read = log.read(request).await.unwrap();
        if read.is_empty() {
            break;
        }
        for piece in &read.pieces {
            match piece {
                Piece::Memory(memory) => bytes.extend(memory.as_slice()),
                Piece::File { file, position, bytes: count } => {
                    writer.send_file(file, *position, *count).await.unwrap();
                    let (result, all) = reader.receive_exactly(bytes, usize::try_from(*count).unwrap()).await;
                    result.unwrap();
                    bytes = all;
                }
            }
        }
        offset = read.next_offset;
    }
    let mut rest = bytes.as_slice();
    for number in 0..BATCHES {
        let (found, behind) = RecordBatch::parse(rest).unwrap();
        assert_eq!(found.header().base_offset, number);
        let sent = batch(number);
        assert_eq!(found.bytes()[16..], sent[16..]);
        rest = behind;
    }
    assert!(rest.is_empty());
}

/// One shard, in a folder beside the test's program: build folders lie on a drive, `/tmp` may not.
fn on_shard<F: Future<Output = ()> + 'static>(
    body: impl Fn(GlommioIo, PathBuf) -> F + Clone + Send + 'static,
) {
    let program = std::env::current_exe().unwrap();
    let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
    let owned = folder.path().to_owned();
    let spec = ShardSpec { name: "store".to_owned(), cpu: None, dedicated: false };
    let make = move |_, io| body(io, owned.clone());
    let running = run(vec![spec], 64 << 10, folder.path(), make).unwrap();
    for ended in running.join() {
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

#[test]
fn a_log_on_a_drive_is_appended_to_read_closed_and_found_again() {
    on_shard(|io, folder| async move {
        let (store, _) = open(&io, &folder).await;
        let log = open_log(&store, 0).await;
        append_all(&log).await;
        check_all(&io, &log).await;
        store.shutdown().await.unwrap();
        drop((store, log));

        let (store, is_clean) = open(&io, &folder).await;
        assert!(is_clean);
        let log = open_log(&store, 0).await;
        assert_eq!(log.offsets().log_end.value(), BATCHES);
        check_all(&io, &log).await;
        let found = log.find_timestamp(Timestamp(123)).await.unwrap().unwrap();
        assert_eq!(found.offset.value(), 123);
        log.truncate(Offset::new(200).unwrap()).await.unwrap();
        assert_eq!(log.offsets().log_end.value(), 200);
        store.delete_partition(partition(0)).await.unwrap();
        store.delete_topic_folder(partition(0).topic).await.unwrap();
        store.shutdown().await.unwrap();
    });
}
