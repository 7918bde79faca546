//! fio as the measure of what the device can make durable.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Advice, FallocateFlags};
use serde_json::Value;

use crate::append::{BATCH_BYTES, share};
use crate::error::{CompareError, file};

/// Bytes of all files together: more than a measurement writes to unwritten space on a fast device.
const TOTAL_BYTES: u64 = 4 << 30;
/// The most files a row uses.
const FILES_MAX: usize = 8;
/// Files are written in pieces of this size before they are measured.
const FILL_BYTES: usize = 1 << 20;

/// The files fio writes to.
pub(crate) struct Files {
    folder: PathBuf,
    count: usize,
    each_bytes: u64,
    /// Whether fio may go round them again: then their space was written before.
    is_written: bool,
    is_owner: bool,
}

impl Files {
    /// Files whose space has been written and flushed.
    pub(crate) fn written(folder: &Path) -> Result<Self, CompareError> {
        let files = Self::make(folder, FILES_MAX, true)?;
        (0..FILES_MAX).try_for_each(|index| fill(&folder.join(name(index)), files.each_bytes))?;
        Ok(files)
    }

    /// Files with space that no one has written.
    pub(crate) fn unwritten(folder: &Path, count: usize) -> Result<Self, CompareError> {
        let files = Self::make(folder, count, false)?;
        for index in 0..count {
            let path = folder.join(name(index));
            let reserve = |made: File| {
                rustix::fs::fallocate(&made, FallocateFlags::empty(), 0, files.each_bytes)?;
                made.sync_all()
            };
            File::create(&path).and_then(reserve).map_err(file(&path))?;
        }
        Ok(files)
    }

    /// The first `count` of them.
    pub(crate) fn first(&self, count: usize) -> Self {
        Self { folder: self.folder.clone(), count: count.min(self.count), is_owner: false, ..*self }
    }

    /// Where they are.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        (0..self.count).map(|index| self.folder.join(name(index))).collect()
    }

    /// The length of each.
    pub(crate) fn each_bytes(&self) -> u64 {
        self.each_bytes
    }

    fn make(folder: &Path, count: usize, is_written: bool) -> Result<Self, CompareError> {
        fs::create_dir_all(folder).map_err(file(folder))?;
        let each_bytes = TOTAL_BYTES / count as u64;
        Ok(Self { folder: folder.to_owned(), count, each_bytes, is_written, is_owner: true })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if self.is_owner {
            // What stays behind goes with the run's folder.
            let _left = fs::remove_dir_all(&self.folder);
        }
    }
}

fn name(index: usize) -> String {
    format!("file-{index}")
}

/// Writes the file whole and forgets it: direct writes then find no pages to drop.
fn fill(path: &Path, bytes: u64) -> Result<(), CompareError> {
    let piece = vec![0xa5; FILL_BYTES];
    let write = || {
        let mut made = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        (0..bytes / FILL_BYTES as u64).try_for_each(|_| made.write_all(&piece))?;
        made.sync_all()?;
        Ok(rustix::fs::fadvise(&made, 0, None, Advice::DontNeed)?)
    };
    write().map_err(file(path))
}

/// How fio keeps requests outstanding.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Engine {
    /// So many threads, each writing and flushing in turn.
    Jobs(usize),
    /// One thread with a queue so deep.
    Ring(usize),
}

/// Bytes a second that fio makes durable: direct writes of a batch's size, a flush after each.
pub(crate) fn write(files: &Files, engine: Engine, seconds: u32) -> Result<f64, CompareError> {
    let mut fio = Command::new("fio");
    fio.current_dir(&files.folder).args(["--output-format=json", "--group_reporting", "--thread"]);
    fio.args(["--direct=1", "--fdatasync=1", "--rw=write", "--fallocate=none", "--allow_file_create=0"]);
    fio.arg(format!("--bs={BATCH_BYTES}")).arg(format!("--runtime={seconds}"));
    if files.is_written {
        fio.args(["--time_based", "--overwrite=1"]);
    }
    match engine {
        Engine::Jobs(jobs) => {
            fio.arg("--ioengine=psync");
            (0..jobs).for_each(|job| add_job(&mut fio, files, jobs, job));
        }
        Engine::Ring(depth) => {
            fio.args(["--ioengine=io_uring", &format!("--iodepth={depth}")]);
            add_job(&mut fio, files, 1, 0);
        }
    }
    bandwidth(&run(&mut fio)?)
}

/// A thread of fio's: its files, and the part of them that is its own.
fn add_job(fio: &mut Command, files: &Files, jobs: usize, job: usize) {
    let own = share(files.count, jobs, job);
    let sharers = (jobs / files.count).max(1) as u64;
    let part_bytes = files.each_bytes / sharers / BATCH_BYTES as u64 * BATCH_BYTES as u64;
    let part = (job / files.count) as u64 % sharers;
    let names: Vec<String> = own.iter().map(|index| name(*index)).collect();
    fio.arg(format!("--name=job-{job}"));
    fio.arg(format!("--filename={}", names.join(":")));
    fio.arg(format!("--offset={}", part * part_bytes));
    fio.arg(format!("--size={}", part_bytes * own.len() as u64));
}

fn run(fio: &mut Command) -> Result<Value, CompareError> {
    let output = fio.output().map_err(|source| CompareError::Program { program: "fio", source })?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(CompareError::Failed { program: "fio", words });
    }
    // A remark may stand before the figures.
    let begin = output.stdout.iter().position(|byte| *byte == b'{').unwrap_or(0);
    serde_json::from_slice(&output.stdout[begin..])
        .map_err(|_| CompareError::Unexpected { program: "fio", what: "its figures as JSON" })
}

fn bandwidth(figures: &Value) -> Result<f64, CompareError> {
    let unexpected = CompareError::Unexpected { program: "fio", what: "how many bytes it wrote" };
    let jobs = figures["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rates: Option<Vec<f64>> = jobs.iter().map(|job| job["write"]["bw_bytes"].as_f64()).collect();
    let rate: f64 = rates.unwrap_or_default().iter().sum();
    if rate > 0.0 { Ok(rate) } else { Err(unexpected) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn files(count: usize) -> Files {
        let (folder, each_bytes) = (PathBuf::new(), 1 << 30);
        Files { folder, count, each_bytes, is_written: true, is_owner: false }
    }

    fn arguments(files: &Files, jobs: usize, job: usize) -> Vec<String> {
        let mut fio = Command::new("fio");
        add_job(&mut fio, files, jobs, job);
        fio.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn jobs_of_one_file_write_to_different_parts() {
        let half = 1_u64 << 29;
        let of = |job| arguments(&files(8), 16, job)[1..].to_vec();
        assert_eq!(of(3), ["--filename=file-3", "--offset=0", &format!("--size={half}")]);
        assert_eq!(of(11), ["--filename=file-3", &format!("--offset={half}"), &format!("--size={half}")]);
    }

    #[test]
    fn a_single_job_writes_to_all_files() {
        let of = arguments(&files(2), 1, 0);
        assert_eq!(of[1..], ["--filename=file-0:file-1", "--offset=0", &format!("--size={}", 1_u64 << 31)]);
    }

    #[test]
    fn figures_without_bytes_are_an_error() {
        assert!(bandwidth(&json!({ "jobs": [{ "write": { "bw_bytes": 5 } }] })).is_ok());
        assert!(bandwidth(&json!({ "jobs": [] })).is_err());
        assert!(bandwidth(&json!({ "jobs": [{ "write": {} }] })).is_err());
    }
}
