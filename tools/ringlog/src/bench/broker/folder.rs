//! A folder for one run, below the folder the command was given in: benches measure the drive one stands on.
//!
//! A run that is killed can't remove its folder, so the next one does. A folder that is to be removed holds a file that
//! its run keeps locked: where the lock can be had, the run is gone. A number of a process would not tell as much, since
//! it may be another's by now, or mean nothing in another container.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::failure::Failure;
use crate::output::tell;

/// Holds the folders of all runs.
const PARENT: &str = "ringlog-bench";
/// Locked by the run that removes the folder; folders without it are kept.
const RUN_LOCK: &str = "bench.lock";
/// Locked by the broker that uses the folder.
const BROKER_LOCK: &str = "data/ringlog.lock";
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
    /// Held for as long as any clone lives; `None` where the folder is kept.
    lock: Option<Arc<File>>,
}

impl BenchFolder {
    /// Makes one in `below`, and removes those of runs that were killed.
    pub(crate) fn create(below: &Path, keep: Keep) -> Result<Self, Failure> {
        let parent = below.join(PARENT);
        let failed = |error: io::Error| {
            let parent = parent.display();
            Failure::machine(format!(
                "{parent}: {error}; run the bench in a folder that this user may write to"
            ))
        };
        fs::create_dir_all(&parent).map_err(failed)?;
        let parent = parent.canonicalize().map_err(failed)?;
        remove_leftovers(&parent).map_err(failed)?;
        for number in 0..LEFTOVERS_MAX {
            let path = parent.join(format!("{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let lock = match keep {
                        Keep::Yes => None,
                        Keep::No => Some(Arc::new(mark(&path).map_err(failed)?)),
                    };
                    return Ok(Self { path, lock });
                }
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
        if self.lock.is_none() {
            return Ok(());
        }
        remove(&self.path)?;
        if let Some(parent) = self.path.parent() {
            // Another run, or a folder that was kept, may be in it.
            let _still_used = fs::remove_dir(parent);
        }
        Ok(())
    }
}

/// Makes a folder one that is to be removed. The lock is held before its file has the name by which it is found.
fn mark(path: &Path) -> io::Result<File> {
    let unnamed = path.join("bench.lock.new");
    let lock = File::create(&unnamed)?;
    lock.lock()?;
    fs::rename(&unnamed, path.join(RUN_LOCK))?;
    Ok(lock)
}

/// Removes the folders whose runs are gone. One that can't be removed, such as another user's, is in nobody's way.
fn remove_leftovers(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        let is_of_run = path.file_name().and_then(|name| name.to_str()).is_some_and(is_of_run);
        if is_of_run
            && is_left(&path)
            && let Err(error) = remove(&path)
        {
            tell(format_args!(
                "ringlog: {}, left by a run that was killed, can't be removed: {error}",
                path.display()
            ));
        }
    }
    Ok(())
}

/// Whether a name is one that runs give to their folders: two numbers.
fn is_of_run(name: &str) -> bool {
    name.split_once('-').is_some_and(|(process, number)| {
        process.parse::<u32>().is_ok() && number.parse::<u32>().is_ok_and(|number| number < LEFTOVERS_MAX)
    })
}

/// Whether neither its run nor its broker holds it any more.
fn is_left(path: &Path) -> bool {
    let is_free = |name: &str| File::open(path.join(name)).is_ok_and(|lock| lock.try_lock().is_ok());
    is_free(RUN_LOCK) && (is_free(BROKER_LOCK) || !path.join(BROKER_LOCK).exists())
}

/// Removes a folder, the mark by which it is known to be removed last. One that is gone is fine.
fn remove(path: &Path) -> io::Result<()> {
    match remove_marked(path) {
        // What is missing may also be a file that the broker has just renamed.
        Err(error) if error.kind() != io::ErrorKind::NotFound || path.exists() => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn remove_marked(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != RUN_LOCK {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir_all(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_removes_what_killed_runs_left_and_nothing_else() {
        let below = tempfile::tempdir().unwrap();
        let folder = |name: &str| below.path().join(PARENT).join(name);
        let make = |name: &str| {
            fs::create_dir_all(folder(name).join("data")).unwrap();
            folder(name)
        };
        // Nobody holds the lock of a run that was killed.
        fs::write(make("4000000-0").join(RUN_LOCK), "").unwrap();
        fs::write(make("4000001-0").join(RUN_LOCK), "").unwrap();
        let broker = File::create(folder("4000001-0").join(BROKER_LOCK)).unwrap();
        broker.lock().unwrap();
        make("4000002-0");
        fs::write(make("mine").join(RUN_LOCK), "").unwrap();
        let running = BenchFolder::create(below.path(), Keep::No).unwrap();
        let kept = BenchFolder::create(below.path(), Keep::Yes).unwrap();
        assert!(!folder("4000000-0").exists(), "its run was killed");
        assert!(folder("4000001-0").exists(), "its broker runs yet");
        assert!(folder("4000002-0").exists(), "it was to be kept");
        assert!(folder("mine").exists(), "no run made it");
        let next = BenchFolder::create(below.path(), Keep::No).unwrap();
        assert!(running.path().exists() && kept.path().exists());
        drop((broker, running));
        let path = next.path().to_owned();
        let last = BenchFolder::create(below.path(), Keep::No).unwrap();
        assert!(!folder("4000001-0").exists() && path.exists());
        last.clean_up().unwrap();
    }

    #[test]
    fn where_no_folder_can_be_made_the_next_step_is_told() {
        let failure = BenchFolder::create(Path::new("/proc"), Keep::No).unwrap_err();
        assert_eq!(failure.code(), 3);
        assert!(failure.to_string().contains("run the bench in a folder that"), "{failure}");
    }

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
