//! `ringlog log verify`: checks segments, partitions, topics or all of a data folder.
//!
//! Of each segment it checks every batch (size, magic, checksum, the exact next offset, epochs that never fall), every record,
//! decompressed with a bound, and the index beside it: that each entry points at the beginning of a batch and knows the
//! latest time before it. It only reads, also where a broker runs.

mod found;
mod partition;
mod segment;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use self::found::partitions;
pub(crate) use self::partition::verify_partition;
use crate::failure::Failure;
use crate::log_files::unreadable;
use crate::output::{Counted, print};

/// Held by the process that uses a data folder.
const LOCK: &str = "ringlog.lock";

/// What `ringlog log verify` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  ringlog log verify ringlog-data
  ringlog log verify ringlog-data/topics/9L2kMbtHQzWx8bq1fWTQyA/0 --json")]
pub(crate) struct Arguments {
    /// Data folders, topics' or partitions' folders, or segment files (.log).
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Print one object of JSON.
    #[arg(long)]
    json: bool,
}

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) file: PathBuf,
    /// The first byte of it in the file.
    pub(crate) position: u64,
    pub(crate) what: String,
}

/// Whether a broker may be appending to the files meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// None uses the folder.
    Gone,
    /// One does: the last segment's end may move while it is read.
    Running,
}

/// What was looked at, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) partitions: u64,
    pub(crate) segments: u64,
    pub(crate) batches: u64,
    pub(crate) records: u64,
    /// Of batches.
    pub(crate) bytes: u64,
    pub(crate) damages: Vec<Damage>,
    /// What was left open, since it may be a write that wasn't done yet.
    pub(crate) notes: Vec<String>,
}

impl Report {
    pub(crate) fn damage(&mut self, file: &Path, position: u64, what: impl Into<String>) {
        self.damages.push(Damage { file: file.to_owned(), position, what: what.into() });
    }

    fn summary(&self) -> String {
        let Self { partitions, segments, batches, records, bytes, .. } = self;
        format!(
            "{}, {}, {}, {}, {}",
            Counted(*partitions, "partition"),
            Counted(*segments, "segment"),
            // Whose plural isn't made with an `s` alone.
            Counted(*batches, if *batches == 1 { "batch" } else { "batche" }),
            Counted(*records, "record"),
            Counted(*bytes, "byte"),
        )
    }
}

/// Checks what the paths lead to.
///
/// # Errors
/// Something is damaged, or can't be read.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut report = Report::default();
    let mut is_running = false;
    for path in &arguments.paths {
        let writer = writer(path);
        is_running |= writer == Writer::Running;
        for partition in partitions(path)? {
            verify_partition(&partition, writer, &mut report)
                .map_err(|(path, error)| unreadable(&path, &error))?;
        }
    }
    print(if arguments.json { as_json(&report, is_running) } else { as_text(&report, is_running) })?;
    match report.damages.len() as u64 {
        0 => Ok(()),
        count => Err(Failure::failed(format!("{} found; see the report", Counted(count, "damage")))),
    }
}

fn as_text(report: &Report, is_running: bool) -> String {
    let mut lines: Vec<_> = report
        .damages
        .iter()
        .map(|Damage { file, position, what }| format!("{} at byte {position}: {what}", file.display()))
        .collect();
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    if is_running {
        lines.push(
            "note: a broker uses the folder: the ends of its logs moved while they were read".to_owned(),
        );
    }
    let verdict = if report.damages.is_empty() { "no damage" } else { "DAMAGED" };
    lines.push(format!("{}: {verdict}", report.summary()));
    lines.join("\n")
}

fn as_json(report: &Report, is_running: bool) -> String {
    let damage = |Damage { file, position, what }: &Damage| json!({ "file": file, "position": position, "what": what });
    json!({
        "ok": report.damages.is_empty(),
        "partitions": report.partitions,
        "segments": report.segments,
        "batches": report.batches,
        "records": report.records,
        "bytes": report.bytes,
        "broker_running": is_running,
        "damages": report.damages.iter().map(damage).collect::<Vec<_>>(),
        "notes": report.notes,
    })
    .to_string()
}

/// Whether a process holds the data folder that this path lies in.
fn writer(path: &Path) -> Writer {
    let Ok(path) = path.canonicalize() else { return Writer::Gone };
    let lock = path.ancestors().map(|folder| folder.join(LOCK)).find(|lock| lock.is_file());
    let lock = lock.and_then(|lock| File::open(lock).ok());
    // It is let go at once: a broker that starts meanwhile isn't kept from it.
    match lock.map(|lock| lock.try_lock_shared()) {
        Some(Err(TryLockError::WouldBlock)) => Writer::Running,
        Some(Ok(()) | Err(TryLockError::Error(_))) | None => Writer::Gone,
    }
}

#[cfg(test)]
mod tests;
