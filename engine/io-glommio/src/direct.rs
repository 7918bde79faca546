//! Opening files for direct I/O, and getting to know the drives they lie on.
//!
//! The runtime's own open is not used on a path, for three reasons. It asks the file system by path afterwards and
//! panics where the name has gone meanwhile. It falls back to buffered I/O on tmpfs without a word. And the first file
//! opened on a drive decides, by a polled read, how the thread drives that drive for ever: on an empty file the read
//! gives 0 bytes, which it takes for "polling works", and then every read fails and every write burns a core.
//!
//! So: a pool thread opens the file and checks what must hold; the first time on a drive, the shard lets the runtime
//! probe a full file; then the runtime opens the descriptor again through `/proc/self/fd`.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use engine_io::{OpenMode, is_no_descriptor, is_storage_full};
use glommio::io::{DmaFile, OpenOptions};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use crate::blocking::Pool;
use crate::error;
use crate::folder;

/// A file system's number for tmpfs, as `statfs` gives it.
const TMPFS: i64 = 0x0102_1994;

/// What the names of files made for a probe begin with.
const PROBE_PREFIX: &str = ".probe-";

/// Covers the largest logical block of any drive.
pub(crate) const PROBE_BYTES: usize = 64 << 10;

/// A file that may be used for direct I/O.
pub(crate) struct Opened {
    pub(crate) descriptor: OwnedFd,
    /// The drive it lies on.
    pub(crate) device: u64,
}

/// Opens a file and checks that it can be used. Runs on a pool thread.
pub(crate) fn open(path: &Path, mode: OpenMode) -> io::Result<Opened> {
    let new = mode == OpenMode::New;
    let file = fs::OpenOptions::new().read(true).write(true).create_new(new).open(path)?;
    let opened = check(file);
    if new && opened.is_err() {
        // The refusal is what matters to the caller; that the empty file could not be removed is not.
        let _left_behind = fs::remove_file(path);
    }
    opened
}

fn check(file: File) -> io::Result<Opened> {
    let descriptor = OwnedFd::from(file);
    require_direct(&descriptor)?;
    let device = rustix::fs::fstat(&descriptor)?.st_dev;
    require_readable_drive(device)?;
    Ok(Opened { descriptor, device })
}

fn require_direct(descriptor: &OwnedFd) -> io::Result<()> {
    if rustix::fs::fstatfs(descriptor)?.f_type == TMPFS {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "tmpfs has no direct I/O"));
    }
    match rustix::fs::fcntl_setfl(descriptor, OFlags::DIRECT) {
        Ok(()) => Ok(()),
        Err(Errno::INVAL) => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "the file system has no direct I/O"))
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Refuses a drive that the runtime would panic on: it reads these files unchecked, and always those of minor 0.
fn require_readable_drive(device: u64) -> io::Result<()> {
    const NUMBERS: [&str; 7] = [
        "rotational",
        "minimum_io_size",
        "optimal_io_size",
        "logical_block_size",
        "physical_block_size",
        "max_sectors_kb",
        "max_segment_size",
    ];
    let drive = PathBuf::from(format!("/sys/dev/block/{}:0", rustix::fs::major(device)));
    let drive = match fs::canonicalize(drive) {
        Ok(drive) => drive,
        // Not a plain drive (btrfs, overlay, nfs): the runtime then assumes nothing about it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let queue = drive.join("queue");
    let mut is_readable = unless_unreadable(fs::read_dir(drive.join("slaves")))?.is_some();
    for name in NUMBERS {
        is_readable &= is_number(&queue.join(name))?;
    }
    let cache = unless_unreadable(fs::read_to_string(queue.join("write_cache")))?;
    if is_readable && cache.is_some_and(|text| text.starts_with("write ")) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "the drive's properties in /sys/dev/block can't be read"))
}

fn is_number(path: &Path) -> io::Result<bool> {
    let text = unless_unreadable(fs::read_to_string(path))?;
    Ok(text.is_some_and(|text| text.trim_matches('\n').parse::<isize>().is_ok()))
}

/// That there is no descriptor at the moment says nothing of the drive.
fn unless_unreadable<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if is_no_descriptor(error.raw_os_error()) => Err(error),
        read => Ok(read.ok()),
    }
}

/// Hands a checked descriptor to the runtime.
pub(crate) async fn adopt(pool: &Pool, descriptor: OwnedFd) -> io::Result<DmaFile> {
    let open = async move {
        let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        let file = OpenOptions::new().read(true).write(true).dma_open(&path).await.map_err(error::system);
        // Until here: the path names whatever has this number.
        drop(descriptor);
        file
    };
    pool.finish(open).await
}

/// Lets the runtime probe the drive that `folder` lies on with a full file, which leaves no trace. Gives the drive.
pub(crate) async fn probe(pool: &Pool, folder: &Path) -> io::Result<u64> {
    let folder = folder.to_owned();
    let opened = pool.run(move || probe_file(&folder)).await?;
    let file = adopt(pool, opened.descriptor).await?;
    close(pool, file).await?;
    Ok(opened.device)
}

fn probe_file(folder: &Path) -> io::Result<Opened> {
    instead_of_new(new_probe_file(folder), folder)
}

/// A full drive has no space for a new file: then a full file that is there is as good, since it is only read.
fn instead_of_new(new: io::Result<Opened>, folder: &Path) -> io::Result<Opened> {
    match new {
        Err(full) if is_storage_full(full.kind()) => check(open_full_file(folder)?.ok_or(full)?),
        new => new,
    }
}

/// A file in the folder or below it that is large enough for the probe, the nearest first. What other shards make
/// and remove meanwhile, such as files for their own probes, is passed over.
fn open_full_file(folder: &Path) -> io::Result<Option<File>> {
    let mut folders = VecDeque::from([folder.to_owned()]);
    while let Some(folder) = folders.pop_front() {
        for name in unless_gone(folder::list_folder(&folder))?.into_iter().flatten() {
            if name.as_os_str().as_encoded_bytes().starts_with(PROBE_PREFIX.as_bytes()) {
                continue;
            }
            let path = folder.join(name);
            let Some(metadata) = unless_gone(fs::symlink_metadata(&path))? else { continue };
            if metadata.is_dir() {
                folders.push_back(path);
            } else if metadata.is_file() && metadata.len() >= PROBE_BYTES as u64 {
                let opened = unless_gone(fs::OpenOptions::new().read(true).write(true).open(path))?;
                if let Some(file) = opened
                    && begins_with_data(&file)?
                {
                    return Ok(Some(file));
                }
            }
        }
    }
    Ok(None)
}

/// Whether the file's first bytes were written. What has only been given space is read without a look at the drive, which
/// the runtime would take for a drive that can be polled.
fn begins_with_data(file: &File) -> io::Result<bool> {
    match rustix::fs::seek(file, SeekFrom::Data(0)) {
        Ok(position) => Ok(position == 0),
        Err(Errno::NXIO) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn unless_gone<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn new_probe_file(folder: &Path) -> io::Result<Opened> {
    static PROBES: AtomicU64 = AtomicU64::new(0);
    let number = PROBES.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("{PROBE_PREFIX}{}-{number}", process::id()));
    let mut file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    // Nameless from here on, so no crash leaves it behind.
    fs::remove_file(&path)?;
    file.write_all(&[0; PROBE_BYTES])?;
    // Unwritten pages would make the polled read fail for a reason that is not the drive's.
    file.sync_all()?;
    check(file)
}

/// Closes a file and says how that went.
pub(crate) async fn close(pool: &Pool, file: DmaFile) -> io::Result<()> {
    pool.finish(async move { file.close().await.map_err(error::system) }).await
}

/// Takes back a new file that could not be brought into use.
pub(crate) async fn discard(pool: &Pool, path: &Path) {
    let path = path.to_owned();
    // The first failure is the one that is reported.
    let _left_behind = pool.run(move || folder::unlink(&path)).await;
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use crate::testing::on_shard;

    use super::*;

    fn full() -> io::Result<Opened> {
        Err(ErrorKind::StorageFull.into())
    }

    #[test]
    fn on_a_full_drive_a_file_that_is_there_serves_the_probe_and_stays_as_it_is() {
        on_shard(|io, folder| async move {
            let deep = folder.join("topics/a/0");
            fs::create_dir_all(&deep).unwrap();
            let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(PROBE_BYTES).collect();
            fs::write(folder.join("format.toml"), "small").unwrap();
            fs::write(deep.join("0.log"), &bytes).unwrap();
            let opened = instead_of_new(full(), &folder).unwrap();
            let file = adopt(io.pool(), opened.descriptor).await.unwrap();
            close(io.pool(), file).await.unwrap();
            assert_eq!(fs::read(deep.join("0.log")).unwrap(), bytes);
        })
        .unwrap();
    }

    #[test]
    fn a_full_drive_without_a_file_for_the_probe_is_told_as_full_and_another_failure_as_what_it_is() {
        on_shard(|_, folder| async move {
            fs::write(folder.join("format.toml"), "small").unwrap();
            let kind = |new| instead_of_new(new, &folder).map(|_| ()).unwrap_err().kind();
            assert_eq!(kind(full()), ErrorKind::StorageFull);
            fs::write(folder.join("large"), [0; PROBE_BYTES]).unwrap();
            assert_eq!(kind(Err(ErrorKind::PermissionDenied.into())), ErrorKind::PermissionDenied);
        })
        .unwrap();
    }

    #[test]
    fn a_file_that_was_given_space_and_never_written_serves_no_probe() {
        on_shard(|_, folder| async move {
            let unwritten = File::create(folder.join("filler")).unwrap();
            let allocated =
                rustix::fs::fallocate(&unwritten, rustix::fs::FallocateFlags::empty(), 0, 1 << 20);
            allocated.unwrap();
            unwritten.sync_all().unwrap();
            assert!(open_full_file(&folder).unwrap().is_none(), "the drive isn't asked for what it holds");
            fs::create_dir(folder.join("topics")).unwrap();
            fs::write(folder.join("topics/0.log"), [7; PROBE_BYTES]).unwrap();
            let mut found = open_full_file(&folder).unwrap().expect("there is a written file");
            let mut first = [0];
            found.read_exact(&mut first).unwrap();
            assert_eq!(first, [7]);
        })
        .unwrap();
    }

    #[test]
    fn files_of_other_probes_and_those_removed_meanwhile_are_passed_over() {
        on_shard(|_, folder| async move {
            fs::write(folder.join(".probe-1-0"), [0; PROBE_BYTES]).unwrap();
            assert!(open_full_file(&folder).unwrap().is_none(), "another shard is about to remove it");
            let kept = folder.join("topics");
            fs::create_dir(&kept).unwrap();
            fs::write(kept.join("0.log"), [7; PROBE_BYTES]).unwrap();
            let stop = AtomicBool::new(false);
            let come_and_go = || {
                while !stop.load(Ordering::Relaxed) {
                    for name in [".probe-1-1", "0.tmp"] {
                        fs::write(folder.join(name), "").unwrap();
                        fs::remove_file(folder.join(name)).unwrap();
                    }
                    fs::create_dir(folder.join("leaving")).unwrap();
                    fs::remove_dir(folder.join("leaving")).unwrap();
                }
            };
            let found: io::Result<Vec<_>> = thread::scope(|scope| {
                scope.spawn(come_and_go);
                let found = (0..1_000).map(|_| open_full_file(&folder)).collect();
                stop.store(true, Ordering::Relaxed);
                found
            });
            assert!(found.unwrap().iter().all(Option::is_some));
        })
        .unwrap();
    }
}
