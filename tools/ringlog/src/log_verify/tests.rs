use std::fs;

use engine_log::{SegmentId, SegmentIndex, SegmentSummary, encode_sidecar};
use engine_record::{BatchBuilder, Compression, LeaderEpoch, NewRecord, Offset, Timestamp, assign};
use tempfile::TempDir;

use super::*;

fn offset(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

fn batch(base: i64, epoch: i32, compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new().with_compression(compression);
    for value in [&b"one"[..], b"two"] {
        builder
            .push(&NewRecord { timestamp: Timestamp(base + 1), value: Some(value), ..NewRecord::default() })
            .unwrap();
    }
    let mut bytes = builder.build().unwrap();
    assign(&mut bytes, offset(base), LeaderEpoch(epoch));
    bytes
}

/// A data folder with a partition of two segments, four records in each, and an index for the first.
struct Data {
    folder: TempDir,
}

impl Data {
    fn new() -> Self {
        let data = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(data.partition()).unwrap();
        fs::write(data.folder.path().join(LOCK), "").unwrap();
        let first = [batch(0, 0, Compression::None), batch(2, 1, Compression::Lz4)].concat();
        fs::write(data.segment(0), &first).unwrap();
        let second = [batch(4, 1, Compression::Zstd), batch(6, 1, Compression::None), vec![0; 500]].concat();
        fs::write(data.segment(4), second).unwrap();
        fs::write(data.segment(0).with_extension("index"), data.index(first.len(), Timestamp(3))).unwrap();
        fs::write(data.partition().join("next.segment"), "not a segment").unwrap();
        data
    }

    fn index(&self, bytes: usize, max_timestamp: Timestamp) -> Vec<u8> {
        let segment = SegmentId(offset(0));
        let summary = SegmentSummary {
            segment,
            end_offset: offset(4),
            end_position: u32::try_from(bytes).unwrap(),
            max_timestamp,
            first_append: Some(Timestamp(1)),
            last_append: Some(Timestamp(2)),
        };
        encode_sidecar(&summary, &SegmentIndex::of_first_batch(segment))
    }

    fn partition(&self) -> PathBuf {
        self.folder.path().join("topics/9L2kMbtHQzWx8bq1fWTQyA/0")
    }

    fn segment(&self, base: u64) -> PathBuf {
        self.partition().join(format!("{base:020}.log"))
    }

    fn change(&self, base: u64, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.segment(base)).unwrap();
        change(&mut bytes);
        fs::write(self.segment(base), bytes).unwrap();
    }

    fn verify(&self, path: &Path, writer: Writer) -> Report {
        let mut report = Report::default();
        for partition in partitions(path).unwrap() {
            verify_partition(&partition, writer, &mut report).unwrap();
        }
        report
    }

    /// What is wrong, each as `file: what`.
    fn wrong(&self) -> Vec<String> {
        let report = self.verify(self.folder.path(), Writer::Gone);
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        report.damages.iter().map(|damage| format!("{}: {}", name(&damage.file), damage.what)).collect()
    }
}

#[test]
fn a_sound_folder_is_found_at_every_level() {
    let data = Data::new();
    let partition = data.partition();
    let paths =
        [data.folder.path(), &data.folder.path().join("topics"), partition.parent().unwrap(), &partition];
    for path in paths {
        let report = data.verify(path, Writer::Gone);
        assert_eq!(
            (report.partitions, report.segments, report.batches, report.records),
            (1, 2, 4, 8),
            "{path:?}"
        );
        assert_eq!(report.damages, []);
    }
    let one = data.verify(&data.segment(4), Writer::Gone);
    assert_eq!((one.segments, one.records, one.damages.len()), (1, 4, 0));
    let told = as_text(&one, false);
    assert!(
        told.starts_with("1 partition, 1 segment, 2 batches, 4 records, ")
            && told.ends_with(" bytes: no damage"),
        "{told}"
    );
    let empty = tempfile::tempdir().unwrap();
    assert!(partitions(empty.path()).unwrap_err().to_string().contains("holds no segments"));
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let whole = Data::new();
    let bytes = fs::read(whole.segment(0)).unwrap().len();
    for at in 0..bytes {
        let data = Data::new();
        data.change(0, |bytes| bytes[at] ^= 0x10);
        assert!(!data.wrong().is_empty(), "byte {at}");
    }
}

#[test]
fn what_is_wrong_with_a_batch_is_told_in_words() {
    let data = Data::new();
    data.change(0, |bytes| *bytes.last_mut().unwrap() ^= 1);
    assert!(
        data.wrong()[0].contains("00000000000000000000.log: ") && data.wrong()[0].contains("checksum"),
        "{:?}",
        data.wrong()
    );

    let data = Data::new();
    fs::write(data.segment(4), [batch(5, 1, Compression::None), batch(7, 0, Compression::None)].concat())
        .unwrap();
    let wrong = data.wrong();
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].contains("base offset 5 where 4 comes next"), "{wrong:?}");
    assert!(wrong[1].contains("leader epoch 0 behind one of 1"), "{wrong:?}");

    let data = Data::new();
    fs::remove_file(data.segment(0)).unwrap();
    fs::rename(data.segment(4), data.segment(3)).unwrap();
    assert!(data.wrong()[0].contains("base offset 4 where 3 comes next"), "{:?}", data.wrong());

    let data = Data::new();
    data.change(0, |bytes| bytes.truncate(bytes.len() - 1));
    assert!(data.wrong()[0].contains("can't be told apart"), "{:?}", data.wrong());
    fs::write(data.partition().join("x.log"), "").unwrap();
    assert!(data.wrong().iter().any(|wrong| wrong.contains("no segment has such a name")));

    let data = Data::new();
    let mut builder = BatchBuilder::new();
    builder.push(&NewRecord { timestamp: Timestamp(1), ..NewRecord::default() }).unwrap();
    fs::remove_file(data.segment(4)).unwrap();
    fs::write(data.segment(5), builder.build().unwrap()).unwrap();
    assert!(
        data.wrong()
            .iter()
            .any(|wrong| wrong.contains("it begins at offset 5, and the segment before it ends at 4"))
    );
}

#[test]
fn an_index_is_compared_with_what_it_is_of() {
    let data = Data::new();
    let index = data.segment(0).with_extension("index");
    let bytes = fs::read(data.segment(0)).unwrap().len();
    fs::write(&index, data.index(bytes, Timestamp(99))).unwrap();
    let wrong = data.wrong();
    assert!(wrong[0].contains("latest time 99; it does at") && wrong[0].contains("remove it"), "{wrong:?}");
    fs::write(&index, data.index(bytes - 1, Timestamp(3))).unwrap();
    assert!(data.wrong()[0].contains("ends at offset 4, byte"), "{:?}", data.wrong());
    fs::write(&index, b"RINGLOGI and no more").unwrap();
    assert!(
        data.wrong()[0].contains("00000000000000000000.index: the bytes end early"),
        "{:?}",
        data.wrong()
    );
    fs::remove_file(&index).unwrap();
    assert_eq!(data.wrong(), [""; 0], "it is made anew");
}

#[test]
fn the_end_of_a_log_that_is_written_is_left_open() {
    let data = Data::new();
    data.change(4, |bytes| {
        let end = bytes.len() - 500;
        bytes[end..end + 80].fill(0xaa);
    });
    let report = data.verify(data.folder.path(), Writer::Running);
    assert_eq!((report.damages.len(), report.notes.len()), (0, 1), "{report:?}");
    assert!(report.notes[0].contains("it may be being written"), "{report:?}");
    assert_eq!(data.verify(data.folder.path(), Writer::Gone).damages.len(), 1);
    data.change(0, |bytes| bytes.truncate(100));
    assert_eq!(data.verify(data.folder.path(), Writer::Running).damages.len(), 1, "only the last is written");
}

#[test]
fn a_broker_that_runs_is_known_by_its_lock() {
    let data = Data::new();
    assert_eq!(writer(&data.segment(0)), Writer::Gone);
    let lock = File::create(data.folder.path().join(LOCK)).unwrap();
    lock.try_lock().unwrap();
    assert_eq!(writer(&data.segment(0)), Writer::Running);
    drop(lock);
    assert_eq!(writer(data.folder.path()), Writer::Gone);
}
