//! The log directories of a start: which can be used, and how their drives flush.

use std::path::{Path, PathBuf};

use engine_store::FlushScope;
use net_server::log_directories::{LogDirectory, Prepared};
use tuning::FlushMeasurement;

use super::folder::FileIo;
use super::run::measure_flush;
use crate::failure::Failure;

/// A log directory, looked at.
pub(super) struct Measured {
    pub(super) path: PathBuf,
    pub(super) drive: Drive,
}

/// What is known of a directory's drive.
pub(super) enum Drive {
    /// Why the directory is offline.
    Offline(String),
    /// How it flushes; the time is `None` where it was not measured: the drive is full, or the page cache stands before it.
    Flushes(Option<FlushMeasurement>, tuning::FlushScope),
}

/// Looks at the drives of all directories. One that can't be measured is offline, unless it is the only one.
pub(super) fn measure(prepared: Vec<Prepared>, file_io: FileIo) -> Result<Vec<Measured>, Failure> {
    let is_single = prepared.len() == 1;
    let mut measured = Vec::with_capacity(prepared.len());
    for Prepared { path, offline } in prepared {
        let drive = match offline {
            Some(why) => Drive::Offline(why),
            None => match measure_flush(&path, file_io) {
                Ok(flush) => Drive::Flushes(flush, tuning::flush_covers_other_files(Path::new("/"), &path)),
                Err(failure) if is_single => return Err(failure),
                Err(failure) => {
                    tracing::error!(
                        directory = %path.display(),
                        error = %failure,
                        "a log directory is offline, and so are its partitions. Put its drive in order, and start the \
                         node again"
                    );
                    Drive::Offline(failure.to_string())
                }
            },
        };
        measured.push(Measured { path, drive });
    }
    if measured.iter().all(|measured| matches!(measured.drive, Drive::Offline(_))) {
        return Err(Failure::machine("no log directory can be used; why stands in the lines above"));
    }
    Ok(measured)
}

impl Measured {
    /// As the server takes it.
    pub(super) fn directory(&self) -> LogDirectory {
        match &self.drive {
            Drive::Flushes(_, scope) => LogDirectory::online(&self.path, store_scope(scope)),
            Drive::Offline(why) => {
                let offline = Some(why.clone());
                LogDirectory { offline, ..LogDirectory::online(&self.path, FlushScope::PerFile) }
            }
        }
    }
}

fn store_scope(scope: &tuning::FlushScope) -> FlushScope {
    match scope {
        tuning::FlushScope::Device => FlushScope::Device,
        tuning::FlushScope::PerFile(_) => FlushScope::PerFile,
    }
}
