//! Durable appends of the store beside durable writes of fio.
//!
//! What equals what: a *depth* of n is n batches of 128 KiB outstanding, each followed by the next only once it is
//! durable. In the store those are n tasks of one shard that append and wait for the flush; in fio, n threads that
//! write and flush in turn (`numjobs`, psync), each in a part of the files of its own. fio's `iodepth` on `io_uring` is
//! the same number of requests, but every second one is a flush, and whether a flush there waits for the writes queued
//! before it has not been established: it stands beside the others and isn't taken as their equal.
//!
//! The store's log grows into space that no one has written before; the file system then notes at each flush which of it
//! is written now. fio's files are written beforehand, as a log's would be that uses old segments again. So fio is
//! measured on unwritten space as well: what is lost between its two rows is the space's doing, not the store's.
//! A warmed log has grown for as long as a measurement takes, so that its space comes in the largest steps. A written log
//! has been brought where fio's files are: all the space it will use was written with zeros before.
//!
//! Between the two stands what the runtime alone makes of fio's job: tasks of one shard that write one buffer over and
//! over and flush after each write. Nobody validates, copies or groups there. With one outstanding it is the most that
//! any store on this runtime can reach; with more, the store flushes once for many and may pass it.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use engine_io::{Io, Task};
use engine_io_glommio::{GlommioIo, ShardSpec};
use engine_record::{LeaderEpoch, PartitionIndex, ShardId, TopicId, TopicPartition, validate_client_batch};
use engine_store::{AppendOrigin, FlushScope, LogConfig, PartitionLog, Store, StoreConfig};

use crate::Arguments;
use crate::error::{CompareError, file};
use crate::fio::{self, Engine, Files};
use crate::processors::Processors;
use crate::report::{Section, per_second, ratio};
use crate::rounds::{Figures, in_turn};
use crate::writes::Writes;

/// One batch, and one write of fio's.
pub(crate) const BATCH_BYTES: usize = 128 << 10;
/// Memory the shard registers for direct I/O, as the broker does.
const IO_MEMORY_BYTES: usize = 4 << 20;
const EPOCH: LeaderEpoch = LeaderEpoch(0);
/// How much is written before, for each second of the measurement. On a drive that makes more durable it ends earlier, when
/// so much of it is used.
const WRITTEN_BYTES_PER_SECOND: u64 = 1 << 30;
const WRITTEN_TENTHS_USED: u64 = 9;
/// How long between two looks at how much that is.
const LOOK_AT_USED: Duration = Duration::from_millis(5);
/// Space comes in multiples of this.
const SPACE_STEP: u32 = 1 << 20;
/// How long to wait for zeros between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Batches outstanding.
const DEPTHS: [usize; 3] = [1, 8, 16];
/// Logs, or files, that they go to.
const PARTITIONS: [usize; 2] = [1, 8];

/// Who appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The store, into a log that has just been made.
    New,
    /// The store, into a log that has grown for a while.
    Warmed,
    /// The store, into a log whose space has been written before.
    Written,
    /// No store: as many tasks write and flush in turn through the seam, files written before.
    Seam,
    /// fio, threads, files written before.
    Jobs,
    /// fio, a queue, files written before.
    Ring,
    /// fio, threads, files with space that was never written.
    Unwritten,
}

impl Way {
    const ALL: [Self; 7] =
        [Self::New, Self::Warmed, Self::Written, Self::Seam, Self::Jobs, Self::Ring, Self::Unwritten];
}

#[derive(Clone, Copy, Debug)]
struct Row {
    partitions: usize,
    depth: usize,
    way: Way,
}

/// Measures all rows and lays the store's beside fio's.
pub(crate) fn compare(arguments: &Arguments, folder: &Path) -> Result<Section, CompareError> {
    let rows: Vec<Row> = PARTITIONS
        .into_iter()
        .flat_map(|partitions| DEPTHS.into_iter().map(move |depth| (partitions, depth)))
        .flat_map(|(partitions, depth)| Way::ALL.into_iter().map(move |way| Row { partitions, depth, way }))
        .collect();
    let written = Files::written(&folder.join("written"))?;
    let shard = ShardOfOne { folder: folder.to_owned(), cpu: Processors::choose()?.server };
    let seconds = arguments.seconds;
    let measured = in_turn(arguments.rounds, &rows, |row| {
        let rate = match row.way {
            Way::New | Way::Warmed | Way::Written => shard.append(row, seconds),
            Way::Seam => shard.write(&written.first(row.partitions), row.depth, seconds),
            Way::Jobs => fio::write(&written.first(row.partitions), Engine::Jobs(row.depth), seconds),
            Way::Ring => fio::write(&written.first(row.partitions), Engine::Ring(row.depth), seconds),
            Way::Unwritten => {
                let files = Files::unwritten(&folder.join("unwritten"), row.partitions)?;
                fio::write(&files, Engine::Jobs(row.depth), seconds)
            }
        };
        Ok([rate?])
    })?;
    Ok(section(&rows, &measured))
}

/// A row for each shape: a column for each way, then the store's ratios.
fn section(rows: &[Row], measured: &[[Figures; 1]]) -> Section {
    let ways = Way::ALL.len();
    let lines = rows.chunks(ways).zip(measured.chunks(ways)).map(|(rows, measured)| {
        let rate = |way: Way| {
            let at = rows.iter().position(|row| row.way == way).expect("every shape has every way");
            &measured[at][0]
        };
        let mut line = vec![rows[0].partitions.to_string(), rows[0].depth.to_string()];
        line.extend(Way::ALL.map(|way| per_second(rate(way))));
        line.push(ratio(rate(Way::Written), rate(Way::Jobs)));
        line.push(ratio(rate(Way::Written), rate(Way::Ring)));
        line.push(ratio(rate(Way::Written), rate(Way::Seam)));
        line.push(ratio(rate(Way::Seam), rate(Way::Jobs)));
        line.push(ratio(rate(Way::Warmed), rate(Way::Jobs)));
        line.push(ratio(rate(Way::Warmed), rate(Way::Unwritten)));
        line
    });
    Section {
        title: "Durable appends of 128 KiB: the store beside fio (MB/s)",
        goal: "written store / fio threads, written >= 0.7",
        header: &[
            "partitions",
            "depth",
            "store, new log",
            "store, warmed",
            "store, written",
            "seam, written",
            "fio threads, written",
            "fio queue, written",
            "fio threads, unwritten",
            "**written / written threads**",
            "written / written queue",
            "written / seam",
            "seam / written threads",
            "warmed / written threads",
            "warmed / unwritten threads",
        ],
        lines: lines.collect(),
    }
}

/// Where the store runs.
struct ShardOfOne {
    folder: PathBuf,
    cpu: usize,
}

impl ShardOfOne {
    /// Bytes a second that one shard makes durable.
    fn append(&self, row: &Row, seconds: u32) -> Result<f64, CompareError> {
        let folder = self.folder.join("store");
        std::fs::create_dir_all(&folder).map_err(file(&folder))?;
        let scope = match tuning::flush_covers_other_files(Path::new("/"), &folder) {
            tuning::FlushScope::Device => FlushScope::Device,
            tuning::FlushScope::PerFile(_) => FlushScope::PerFile,
        };
        let mut config = StoreConfig::new(&folder, ShardId(0), 1);
        config.flush_scope = scope;
        let mut log_config = LogConfig::default();
        if row.way == Way::Written {
            write_all_ahead(&mut config, &mut log_config, row.partitions, seconds);
        }
        let time = Duration::from_secs(seconds.into());
        let load = Load { config, log_config, row: *row, time };
        let outcome = self.run(&folder, move |_, io| load.clone().carry_out(io));
        std::fs::remove_dir_all(&folder).map_err(file(&folder))?;
        outcome
    }

    /// Bytes a second that `depth` tasks of one shard make durable without a store.
    fn write(&self, files: &Files, depth: usize, seconds: u32) -> Result<f64, CompareError> {
        let time = Duration::from_secs(seconds.into());
        let writes = Writes { paths: files.paths(), file_bytes: files.each_bytes(), depth, time };
        self.run(&self.folder, move |_, io| writes.clone().carry_out(io))
    }

    /// As the broker runs a shard that has its processor to itself.
    fn run<F: Future<Output = Result<f64, CompareError>> + 'static>(
        &self,
        folder: &Path,
        make: impl Fn(usize, GlommioIo) -> F + Clone + Send + 'static,
    ) -> Result<f64, CompareError> {
        let spec = ShardSpec { name: "shard-0".to_owned(), cpu: Some(self.cpu), dedicated: true };
        let running = engine_io_glommio::run(vec![spec], IO_MEMORY_BYTES, folder, make)?;
        let outcome = running.join().pop().unwrap_or_else(|| Ok(Err(CompareError::Panicked)));
        outcome.map_err(|_panic| CompareError::Panicked)?
    }
}

/// Gives a segment all its space at once, enough for `seconds`, and has zeros written to all of it.
fn write_all_ahead(config: &mut StoreConfig, log: &mut LogConfig, partitions: usize, seconds: u32) {
    let bytes = u64::from(seconds) * WRITTEN_BYTES_PER_SECOND / partitions as u64;
    log.segment_bytes = u32::try_from(bytes.min(2 << 30)).unwrap_or(u32::MAX) / SPACE_STEP * SPACE_STEP;
    config.allocation_bytes_min = log.segment_bytes;
    config.allocation_bytes_max = log.segment_bytes;
    config.zero_ahead_bytes = log.segment_bytes;
    config.zero_ahead_write_bytes_max = usize::MAX;
}

/// What the shard does.
#[derive(Clone)]
struct Load {
    config: StoreConfig,
    log_config: LogConfig,
    row: Row,
    /// How long it is measured.
    time: Duration,
}

/// What the producers tell.
#[derive(Default)]
pub(crate) struct Progress {
    durable_bytes: Cell<u64>,
    is_over: Cell<bool>,
    failure: RefCell<Option<CompareError>>,
}

impl Progress {
    /// Bytes a second over `time`, or until so many are durable. Then the producers end.
    pub(crate) async fn rate<I: Io>(
        &self,
        io: &I,
        (time, bytes_max): (Duration, u64),
        producers: Vec<I::Task>,
    ) -> Result<f64, CompareError> {
        let (bytes, since) = (self.durable_bytes.get(), io.now());
        let until = since.after(time);
        while io.now() < until && self.durable_bytes.get() < bytes_max {
            io.sleep(LOOK_AT_USED.min(until.since(io.now()))).await;
        }
        let (bytes, took) = (self.durable_bytes.get() - bytes, io.now().since(since));
        self.is_over.set(true);
        for producer in producers {
            producer.join().await;
        }
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(bytes as f64 / took.as_secs_f64()),
        }
    }

    /// Counts what one more producer made durable, or keeps why it could not. Whether to go on.
    pub(crate) fn note(&self, outcome: Result<usize, CompareError>) -> bool {
        match outcome {
            Ok(bytes) => self.durable_bytes.set(self.durable_bytes.get() + bytes as u64),
            Err(error) => {
                self.failure.replace(Some(error));
                return false;
            }
        }
        !self.is_over.get()
    }
}

impl Load {
    async fn carry_out<I: Io>(self, io: I) -> Result<f64, CompareError> {
        let (store, _) = Store::open(&io, self.config.clone()).await?;
        let mut logs = Vec::new();
        for index in 0..self.row.partitions {
            let partition = PartitionIndex(i32::try_from(index).unwrap_or(i32::MAX));
            let at = TopicPartition { topic: TopicId([1; 16]), partition };
            logs.push(store.open_partition(at, "appends", self.log_config, EPOCH).await?);
        }
        if self.row.way == Way::Written {
            self.wait_for_zeros(&io, &store, &logs).await?;
        }
        let rate = self.time(&io, &logs).await?;
        store.shutdown().await?;
        Ok(rate)
    }

    /// Appends now and then, so that space is prepared, until all of it is written.
    async fn wait_for_zeros<I: Io>(
        &self,
        io: &I,
        store: &Store<I>,
        logs: &[PartitionLog<I>],
    ) -> Result<(), CompareError> {
        let batch = benches::batch(BATCH_BYTES);
        while store.metrics().bytes_zeroed < self.written_bytes() / 10 * 9 {
            for log in logs {
                append(log, &batch).await?;
            }
            io.sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    async fn time<I: Io>(&self, io: &I, logs: &[PartitionLog<I>]) -> Result<f64, CompareError> {
        let (batch, progress) = (Rc::new(benches::batch(BATCH_BYTES)), Rc::new(Progress::default()));
        let depth = self.row.depth;
        let producers: Vec<I::Task> = (0..depth)
            .map(|number| {
                let own = share(logs.len(), depth, number).into_iter().map(|log| logs[log].clone());
                io.spawn(produce(own.collect(), Rc::clone(&batch), Rc::clone(&progress)))
            })
            .collect();
        if self.row.way == Way::Warmed {
            io.sleep(self.time).await;
        }
        let is_written = self.row.way == Way::Written;
        let bytes_max = if is_written { self.written_bytes() / 10 * WRITTEN_TENTHS_USED } else { u64::MAX };
        progress.rate(io, (self.time, bytes_max), producers).await
    }

    /// How much space was written before, where that was asked for.
    fn written_bytes(&self) -> u64 {
        u64::from(self.log_config.segment_bytes) * self.row.partitions as u64
    }
}

/// Which of `count` logs or files producer `number` of `depth` uses: one, or its share where there are more of them.
pub(crate) fn share(count: usize, depth: usize, number: usize) -> Vec<usize> {
    if depth >= count { vec![number % count] } else { (number..count).step_by(depth).collect() }
}

/// Appends to `logs` in turn, each batch once the last one is durable.
async fn produce<I: Io>(logs: Vec<PartitionLog<I>>, batch: Rc<Vec<u8>>, progress: Rc<Progress>) {
    for log in logs.iter().cycle() {
        if !progress.note(append(log, &batch).await.map(|()| batch.len())) {
            return;
        }
    }
}

async fn append<I: Io>(log: &PartitionLog<I>, batch: &[u8]) -> Result<(), CompareError> {
    // As the broker does with every batch.
    let batch = validate_client_batch(batch, &benches::RULES).map_err(|_| CompareError::Mismatch)?;
    let appended = log.append(batch, AppendOrigin::Client, EPOCH).await?;
    let end = appended.last_offset.checked_add(1).ok_or(CompareError::Mismatch)?;
    Ok(log.flushed(end).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_log_has_a_producer_and_every_producer_a_log() {
        assert_eq!(share(1, 16, 5), [0]);
        assert_eq!(share(8, 16, 13), [5]);
        assert_eq!(share(8, 1, 0), (0..8).collect::<Vec<_>>());
        assert_eq!(share(8, 3, 2), [2, 5]);
    }
}
