//! The data folder: found, locked against other processes, identified.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use engine_io_glommio::ShardSpec;
use engine_record::NodeId;
use net_server::format::{Identity, PrepareError, Unformatted};

use crate::failure::Failure;

/// Held by the process that uses the folder.
const LOCK: &str = "ringlog.lock";
/// Written last when a folder is formatted.
const FORMAT: &str = "format.toml";
/// Memory for the direct I/O of an executor that does little, in bytes.
const SMALL_IO_MEMORY: usize = 256 << 10;

/// A folder that is this process's while this lives.
pub(crate) struct DataFolder {
    /// Absolute, without symbolic links.
    pub(crate) path: PathBuf,
    _lock: File,
}

impl DataFolder {
    /// Takes the folder for this process. It is made where that is allowed and it isn't there.
    pub(crate) fn take(path: &Path, unformatted: Unformatted) -> Result<Self, Failure> {
        if fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
            let path = path.display();
            return Err(Failure::machine(format!(
                "data folder {path} is a file, not a folder; name another"
            )));
        }
        if unformatted == Unformatted::Refuse && !path.join(FORMAT).exists() {
            return Err(Failure::machine(PrepareError::Unformatted(path.to_owned())));
        }
        let failed = |error| Failure::machine(format!("data folder {}: {error}", path.display()));
        fs::create_dir_all(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let lock = File::create(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Failure::machine(format!(
                "data folder {} is in use by another process; stop that one, or choose another folder",
                path.display()
            ))),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// Reads whose folder it is, or makes it a new cluster's; the second value tells whether it is new.
pub(crate) fn prepare(
    folder: &DataFolder,
    node: NodeId,
    unformatted: Unformatted,
) -> Result<(Identity, bool), Failure> {
    let spec = ShardSpec { name: "format".to_owned(), cpu: None, dedicated: false };
    let path = folder.path.clone();
    let running = engine_io_glommio::run(vec![spec], SMALL_IO_MEMORY, &folder.path, move |_, io| {
        let path = path.clone();
        async move { net_server::format::prepare(&io, &path, node, unformatted).await }
    })
    .map_err(Failure::machine)?;
    let mut outcomes = running.join();
    match outcomes.pop() {
        Some(Ok(outcome)) => outcome.map_err(Failure::machine),
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => unreachable!("one executor was started"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_data_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "x").unwrap();
        for unformatted in [Unformatted::Create, Unformatted::Refuse] {
            let failure = DataFolder::take(&path, unformatted).err().unwrap();
            assert_eq!(failure.code(), 3);
            assert!(failure.to_string().contains("is a file, not a folder"), "{failure}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "x");
    }
}
