//! Folders and small files: plain blocking calls, each a job of the pool.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use engine_io::FileSystemSpace;
use rustix::fs::Advice;

use crate::shrink;

/// Reads a file of at most `bytes_max` bytes.
pub(crate) fn read_file(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Reads up to `bytes` bytes of a file from `position` on.
pub(crate) fn read_range(path: &Path, position: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    // What lies around is not wanted: without this the system would read much of it ahead.
    rustix::fs::fadvise(&file, 0, None, Advice::Random)?;
    file.seek(SeekFrom::Start(position))?;
    let limit = u64::try_from(bytes).unwrap_or(u64::MAX);
    let mut read = Vec::new();
    file.take(limit).read_to_end(&mut read)?;
    Ok(read)
}

/// Replaces a file's content: neighbour, flush, rename, flush the folder.
///
/// Several shards may replace the same file at once: they take turns, since they would meet in the neighbour.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let _alone = Replacing::alone(path);
    let mut neighbour = path.as_os_str().to_owned();
    neighbour.push(".tmp");
    let neighbour = PathBuf::from(neighbour);
    // Before anything is changed: later there may be no descriptor for it.
    let folder = File::open(parent(path))?;
    let renamed = write_flushed(&neighbour, bytes).and_then(|()| fs::rename(&neighbour, path));
    if let Err(error) = renamed {
        // On a full drive it would keep the space that it has got.
        let _removed_or_not = fs::remove_file(&neighbour);
        return Err(error);
    }
    folder.sync_all()
}

fn write_flushed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The files being replaced by any thread of the process.
static BEING_REPLACED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static REPLACED: Condvar = Condvar::new();

/// The right to replace one file.
struct Replacing<'a>(&'a Path);

impl<'a> Replacing<'a> {
    fn alone(path: &'a Path) -> Self {
        let replacing = BEING_REPLACED.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = REPLACED.wait_while(replacing, |replacing| replacing.contains(path));
        wait.unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        Self(path)
    }
}

impl Drop for Replacing<'_> {
    fn drop(&mut self) {
        BEING_REPLACED.lock().unwrap_or_else(PoisonError::into_inner).remove(self.0);
        REPLACED.notify_all();
    }
}

/// Makes a folder and what lies above it, each flushed into its parent.
///
/// A folder that exists is flushed into its parent too: whoever made it may have crashed before doing so.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    match create_or_find(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && parent(path) != path => {
            create_folder(parent(path))?;
            create_or_find(path)?;
        }
        found => found?,
    }
    flush_folder(parent(path))
}

/// Several shards may make the same folder at once: to find it made is as good as making it.
fn create_or_find(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        result => result,
    }
}

/// The names in a folder, sorted.
pub(crate) fn list_folder(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(PathBuf::from(entry?.file_name()));
    }
    names.sort_unstable();
    Ok(names)
}

/// The files in a folder and their sizes, sorted.
pub(crate) fn list_files(path: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) if metadata.is_file() => {
                files.push((PathBuf::from(entry.file_name()), metadata.len()))
            }
            Ok(_) => {}
            // Removed since the folder was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The space of the file system on which `path` lies.
pub(crate) fn space(path: &Path) -> io::Result<FileSystemSpace> {
    let found = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok(FileSystemSpace { total_bytes: bytes(found.f_blocks), free_bytes: bytes(found.f_bavail) })
}

/// Makes a folder's entries durable.
pub(crate) fn flush_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Removes a file's name. Where its space is large and nobody else's, gives the file and its size, so that the caller
/// frees the space in steps; else the system frees it.
///
/// The name goes first: a crash in between leaves no shortened file under it.
pub(crate) fn unlink(path: &Path) -> io::Result<Option<(Arc<OwnedFd>, u64)>> {
    let bytes = fs::symlink_metadata(path)?.len();
    let large = bytes > shrink::step_bytes();
    let file = if large { OpenOptions::new().write(true).open(path).ok() } else { None };
    fs::remove_file(path)?;
    Ok(file.filter(|file| names_left(file) == Some(0)).map(|file| (Arc::new(file.into()), bytes)))
}

fn names_left(file: &File) -> Option<u64> {
    file.metadata().ok().map(|metadata| metadata.nlink())
}

/// The folder a path lies in.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn a_folder_made_by_several_threads_at_once_is_there_for_all() {
        let root = tempfile::tempdir().unwrap();
        for turn in 0..40 {
            let deep = root.path().join(format!("{turn}/a/b"));
            let start = Barrier::new(4);
            thread::scope(|scope| {
                for child in 0..4 {
                    let (deep, start) = (&deep, &start);
                    scope.spawn(move || {
                        start.wait();
                        create_folder(&deep.join(child.to_string())).unwrap();
                    });
                }
            });
        }
    }

    #[test]
    fn a_file_replaced_by_several_threads_at_once_is_whole_whenever_it_is_read() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("name");
        let contents = [b'a', b'b', b'c', b'd'].map(|byte| vec![byte; 3_000]);
        write_file(&path, &contents[0]).unwrap();
        thread::scope(|scope| {
            for content in &contents {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..50 {
                        write_file(path, content).unwrap();
                        let read = read_file(path, 3_000).unwrap();
                        assert!(read.len() == 3_000 && read.iter().all(|byte| *byte == read[0]));
                    }
                });
            }
        });
        assert_eq!(list_folder(root.path()).unwrap(), [PathBuf::from("name")]);
    }
}
