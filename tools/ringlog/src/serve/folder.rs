//! The data folder: found, locked against other processes, identified.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use engine_io_glommio::{GlommioIo, ShardSpec, StartError};
use engine_record::NodeId;
use net_server::format::{Identity, PrepareError, Unformatted};
use net_server::log_directories::{self, DirectoryError, Named, Prepared};

use super::log_folders::{self, LogFolders};
use crate::failure::{Failure, to_make};

/// Held by the process that uses the folder.
const LOCK: &str = "ringlog.lock";
/// Written last when a folder is formatted.
pub(super) const FORMAT: &str = "format.toml";
/// Memory for the direct I/O of an executor that does little, in bytes.
const SMALL_IO_MEMORY: usize = 256 << 10;

/// How the files of a broker are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileIo {
    /// Past the page cache.
    Direct,
    /// Through it, for development: nothing is promised of what is kept.
    BufferedDev,
}

impl FileIo {
    /// What `--buffered-dev` says.
    pub(crate) const fn of(is_buffered_dev: bool) -> Self {
        if is_buffered_dev { Self::BufferedDev } else { Self::Direct }
    }
}

/// Why no executor starts, and what else can be done where it is for the lack of direct I/O.
pub(super) fn not_started(error: StartError) -> Failure {
    if matches!(error, StartError::Folder { .. }) {
        return Failure::machine(format!(
            "{error}. For development, --buffered-dev goes without it; nothing is durable then"
        ));
    }
    Failure::machine(error)
}

/// A folder that is this process's while this lives. Where nothing but the lock came into it meanwhile, it is left as it
/// was found: a start that is refused leaves no trace.
pub(crate) struct DataFolder {
    /// Absolute, without symbolic links.
    pub(crate) path: PathBuf,
    /// The folders that weren't there before, the innermost first.
    made: Vec<PathBuf>,
    /// Whether it held nothing.
    was_empty: bool,
    _lock: File,
}

impl DataFolder {
    /// Takes the folder for this process. It is made where that is allowed and it isn't there.
    pub(crate) fn take(path: &Path, unformatted: Unformatted) -> Result<Self, Failure> {
        let is_folder = fs::metadata(path).map_or(true, |found| found.is_dir());
        if is_folder && unformatted == Unformatted::Refuse && !path.join(FORMAT).exists() {
            return Err(Failure::machine(PrepareError::Unformatted(path.to_owned())));
        }
        Self::make("data folder", path)
    }

    /// Takes a folder for this process that is a `what`, and makes it where it isn't there.
    fn make(what: &str, path: &Path) -> Result<Self, Failure> {
        if fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
            let path = path.display();
            return Err(Failure::machine(format!("{what} {path} is a file, not a folder; name another")));
        }
        let failed =
            |error| Failure::machine(format!("{what} {}: {error}{}", path.display(), to_make(&error)));
        let made = missing(path);
        fs::create_dir_all(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let was_empty = is_empty(&path).map_err(failed)?;
        let lock = lock(&path).map_err(|error| match error {
            TryLockError::WouldBlock => Failure::machine(format!(
                "{what} {} is in use by another process; stop that one, or choose another folder",
                path.display()
            )),
            TryLockError::Error(error) => failed(error),
        })?;
        Ok(Self { path, made, was_empty, _lock: lock })
    }
}

impl Drop for DataFolder {
    /// The lock is still held: nobody else writes into the folder.
    fn drop(&mut self) {
        let holds_lock_only = || {
            let mut entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
            entries.all(|entry| entry.file_name() == LOCK)
        };
        if self.was_empty && holds_lock_only() {
            // What stays behind is in nobody's way.
            let _left = fs::remove_file(self.path.join(LOCK));
            let _left = self.made.iter().try_for_each(fs::remove_dir);
        }
    }
}

/// Takes the lock of a folder. Whoever held it before may have removed it since it was opened: what counts is the file
/// that others find.
pub(super) fn lock(folder: &Path) -> Result<File, TryLockError> {
    let path = folder.join(LOCK);
    loop {
        let lock = File::create(&path).map_err(TryLockError::Error)?;
        lock.try_lock()?;
        if is_named(&lock, &path).map_err(TryLockError::Error)? {
            return Ok(lock);
        }
    }
}

/// Whether this is the file that the path leads to.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The folders of a path that aren't there, the innermost first.
fn missing(path: &Path) -> Vec<PathBuf> {
    let named = path.ancestors().filter(|folder| !folder.as_os_str().is_empty());
    named.take_while(|folder| !folder.exists()).map(Path::to_owned).collect()
}

fn is_empty(folder: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(folder)?.next().is_none())
}

/// What a start finds.
pub(super) struct Found {
    pub(super) identity: Identity,
    /// Whether it is a new cluster.
    pub(super) is_new: bool,
    pub(super) log_directories: Vec<Prepared>,
}

/// Reads whose folder it is, or makes it a new cluster's, and finds its log directories.
pub(super) fn prepare(
    folder: &DataFolder,
    logs: &LogFolders,
    node: NodeId,
    unformatted: Unformatted,
    file_io: FileIo,
) -> Result<Found, Failure> {
    let (path, named) = (folder.path.clone(), logs.named.clone());
    on_executor((&folder.path, file_io), async move |io| {
        let prepared = net_server::format::prepare(&io, &path, node, unformatted).await;
        let (identity, is_new) = prepared.map_err(Failure::machine)?;
        let directories = log_directories::prepare(&io, &identity, &path, &named).await;
        Ok(Found { identity, is_new, log_directories: directories.map_err(refused)? })
    })
}

/// What a format has made.
pub(crate) struct Formatted {
    pub(crate) identity: Identity,
    /// Whether it is a new cluster.
    pub(crate) is_new: bool,
    /// The log directories besides the data folder, and whether each is new.
    pub(crate) log_directories: Vec<(PathBuf, bool)>,
}

/// Makes the folder a new cluster's, and log directories of those that `log_dirs` names. What is formatted already stays.
pub(crate) fn format(
    folder: &DataFolder,
    log_dirs: &[PathBuf],
    node: NodeId,
    file_io: FileIo,
) -> Result<Formatted, Failure> {
    let paths = log_folders::paths(&folder.path, log_dirs)?;
    let apart = paths.iter().filter(|path| **path != folder.path);
    // Held until all is formatted; then they hold something, and stay.
    let taken: Vec<_> =
        apart.map(|path| DataFolder::make("log directory", path)).collect::<Result<_, _>>()?;
    for taken in &taken {
        // What holds logs must have direct I/O, which an executor looks at before it starts.
        on_executor((&taken.path, file_io), async |_| Ok(()))?;
    }
    let path = folder.path.clone();
    on_executor((&folder.path, file_io), async move |io| {
        let prepared = net_server::format::prepare(&io, &path, node, Unformatted::Create).await;
        let (identity, is_new) = prepared.map_err(Failure::machine)?;
        let named: Vec<_> = paths.iter().map(Named::new).collect();
        let made = log_directories::format(&io, &identity, &path, &named).await.map_err(refused)?;
        let log_directories = made.into_iter().filter(|(made, _)| *made != path).collect();
        Ok(Formatted { identity, is_new, log_directories })
    })
}

fn refused(error: DirectoryError) -> Failure {
    if error.is_configuration() { Failure::usage(error) } else { Failure::machine(error) }
}

/// Carries something out on an executor of its own, whose drive is that of `folder`.
fn on_executor<T: Send + 'static>(
    (folder, file_io): (&Path, FileIo),
    work: impl AsyncFnOnce(GlommioIo) -> Result<T, Failure> + Clone + Send + 'static,
) -> Result<T, Failure> {
    let spec = ShardSpec { name: "format".to_owned(), cpu: None, dedicated: false };
    let live = move |_, io| {
        let work = work.clone();
        async move { work(io).await }
    };
    let running = match file_io {
        FileIo::Direct => engine_io_glommio::run(vec![spec], SMALL_IO_MEMORY, folder, live),
        FileIo::BufferedDev => engine_io_glommio::run_buffered(vec![spec], SMALL_IO_MEMORY, live),
    };
    match running.map_err(not_started)?.join().pop() {
        Some(Ok(outcome)) => outcome,
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

    #[test]
    fn where_no_folder_can_be_made_the_next_step_is_told() {
        let failure = DataFolder::take(Path::new("/proc/x"), Unformatted::Create).err().unwrap();
        assert_eq!(failure.code(), 3);
        assert!(failure.to_string().contains("nothing can be made there: name another"), "{failure}");
    }

    fn take(path: &Path) -> DataFolder {
        DataFolder::take(path, Unformatted::Create).unwrap_or_else(|failure| panic!("{failure}"))
    }

    #[test]
    fn a_folder_into_which_nothing_came_is_left_as_it_was_found() {
        let below = tempfile::tempdir().unwrap();
        drop(take(&below.path().join("made/for/this")));
        assert!(is_empty(below.path()).unwrap(), "none of it was there");
        drop(take(below.path()));
        assert!(is_empty(below.path()).unwrap(), "it was there, and empty");
        let used = take(&below.path().join("used"));
        fs::write(used.path.join(FORMAT), "x").unwrap();
        let path = used.path.clone();
        drop(used);
        assert!(path.join(LOCK).exists() && path.join(FORMAT).exists(), "something came into it");
        fs::remove_file(path.join(FORMAT)).unwrap();
        drop(take(&path));
        assert!(path.join(LOCK).exists(), "the lock was there");
    }

    #[test]
    fn a_folder_is_one_processs_until_it_lets_go() {
        let below = tempfile::tempdir().unwrap();
        let first = take(below.path());
        let refused = DataFolder::take(below.path(), Unformatted::Create).err().unwrap();
        assert!(refused.to_string().contains("in use by another process"), "{refused}");
        assert!(below.path().join(LOCK).exists(), "it isn't the refused one's to remove");
        drop(first);
        drop(take(below.path()));
    }

    /// Two processes would hold the folder: one the file that was removed, one the next of that name.
    #[test]
    fn a_lock_whose_file_is_gone_is_none() {
        let below = tempfile::tempdir().unwrap();
        let path = below.path().join(LOCK);
        let old = File::create(&path).unwrap();
        assert!(is_named(&old, &path).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!is_named(&old, &path).unwrap());
        let _new = File::create(&path).unwrap();
        assert!(!is_named(&old, &path).unwrap());
    }
}
