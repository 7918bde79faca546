//! A folder for one run, below the folder the command was given in: benches measure the drive one stands on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Holds the folders of all runs.
const PARENT: &str = "ringlog-bench";
/// Runs of one process number whose folders are still there, at most.
const LEFTOVERS_MAX: u32 = 1_000;

/// What becomes of the folder when the run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It stays.
    Yes,
    /// It is removed, with everything in it.
    No,
}

/// A folder that nothing else uses.
#[derive(Clone, Debug)]
pub(crate) struct BenchFolder {
    path: PathBuf,
    keep: Keep,
}

impl BenchFolder {
    /// Makes one in `below`.
    pub(crate) fn create(below: &Path, keep: Keep) -> Result<Self, Failure> {
        let parent = below.join(PARENT);
        let failed = |error: io::Error| Failure::machine(format!("{}: {error}", parent.display()));
        fs::create_dir_all(&parent).map_err(failed)?;
        let parent = parent.canonicalize().map_err(failed)?;
        for number in 0..LEFTOVERS_MAX {
            let path = parent.join(format!("{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, keep }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(Failure::machine(format!("{} is full of folders of old runs; remove them", parent.display())))
    }

    /// Absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, unless it is to be kept. One that is gone is fine.
    ///
    /// # Errors
    /// As the system says, also where something is still written into it.
    pub(crate) fn clean_up(&self) -> io::Result<()> {
        if self.keep == Keep::Yes {
            return Ok(());
        }
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if let Some(parent) = self.path.parent() {
            // Another run, or a folder that was kept, may be in it.
            let _still_used = fs::remove_dir(parent);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_own_folder_and_leaves_nothing_unless_it_is_kept() {
        let below = tempfile::tempdir().unwrap();
        let first = BenchFolder::create(below.path(), Keep::No).unwrap();
        let second = BenchFolder::create(below.path(), Keep::Yes).unwrap();
        assert_ne!(first.path(), second.path());
        fs::write(first.path().join("data"), "x").unwrap();
        let (gone, kept) = (first.path().to_owned(), second.path().to_owned());
        first.clean_up().unwrap();
        second.clean_up().unwrap();
        assert!(!gone.exists() && kept.exists());
        first.clean_up().unwrap();
        let third = BenchFolder::create(below.path(), Keep::No).unwrap();
        fs::remove_dir(&kept).unwrap();
        third.clean_up().unwrap();
        assert!(!below.path().join(PARENT).exists());
    }
}
