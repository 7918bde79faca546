//! Whether the flush of one file makes the completed writes of the others durable too.
//!
//! A direct write into space that was written before changes no metadata: once it has completed,
//! its bytes are in the drive's cache and wait for nothing but a flush of the drive. On the file
//! systems we know, `fdatasync` of any file sends one. So a core can answer for all its files with
//! one flush, which is worth a factor of two to three with many partitions and small batches.
//!
//! ```text
//! rules:  ext4 or xfs, one plain device with a known cache, no option that changes flushing
//!           no  -> PerFile(why)
//! probe:  write file A, count, flush file B, count; a few times over
//!           a flush of B that no flush of the drive went with -> PerFile(FlushNotSeen)
//!           otherwise -> Device
//! ```
//!
//! The rules decide; the probe may only veto. A counter that moves proves little (others use the
//! drive as well), one that stands still disproves the rules.
//!
//! The answer doesn't hold for a file whose size or extents changed since its last flush: such
//! a file needs a flush of its own on every file system.

use std::path::Path;

use crate::host::{self, unexpected};
use crate::scratch::ScratchFile;
use crate::{BlockDevice, Filesystem, FilesystemKind, TuningError, WriteCache, filesystem_of};

/// How often the probe tries. Each round costs two device requests.
const PROBE_ROUNDS: u32 = 8;
/// The place of completed flushes among the numbers of a disk's `stat`, counted from 0.
const FLUSH_COUNT_FIELD: usize = 15;

/// What a flush (`fdatasync`) of one file covers.
#[derive(Debug)]
pub enum FlushScope {
    /// Every completed direct write into pre-written space on the file system.
    Device,
    /// That file alone, as far as we know, and why.
    PerFile(PerFileReason),
}

/// Why each file must be flushed by itself.
#[derive(Debug, thiserror::Error)]
pub enum PerFileReason {
    /// Only ext4 and xfs are known to flush the device for any file.
    #[error("{0} isn't one of the file systems whose flushing is known (ext4, xfs)")]
    UnknownFilesystem(FilesystemKind),
    /// The file system doesn't lie on one device of its own.
    #[error("the file system has no block device of its own")]
    NoDevice,
    /// The device is made of others, and one flush would have to reach all of them.
    #[error("the device is made of others (LVM, RAID or encryption)")]
    StackedDevice,
    /// The device doesn't say whether its cache is volatile.
    #[error("the device doesn't say whether its cache is volatile")]
    UnknownCache,
    /// A mount option turns flushing off, sends data through the journal, or puts it elsewhere.
    #[error("the mount option {0} changes what a flush does")]
    MountOption(&'static str),
    /// The disk counts no flushes, so the probe has nothing to veto by.
    #[error("the disk doesn't count its flushes")]
    NoCounter,
    /// A file was flushed and the disk counted nothing: the rules don't hold here, or counting is
    /// turned off (`queue/iostats`).
    #[error("a flush of one file was not seen at the disk")]
    FlushNotSeen,
    /// The host could not be read or the probe not made.
    #[error("flushing could not be probed: {0}")]
    NotProbed(#[from] TuningError),
}

/// Decides whether one flush covers all files in `folder`'s file system. `root` is the tree that
/// `/proc` and `/sys` are read from. Blocks the thread for a few flushes of the drive.
#[must_use]
pub fn flush_covers_other_files(root: &Path, folder: &Path) -> FlushScope {
    match decide(root, folder) {
        Ok(()) => FlushScope::Device,
        Err(reason) => FlushScope::PerFile(reason),
    }
}

fn decide(root: &Path, folder: &Path) -> Result<(), PerFileReason> {
    let resolved =
        folder.canonicalize().map_err(|source| TuningError::Read { path: folder.to_path_buf(), source })?;
    let filesystem = filesystem_of(root, &resolved)?;
    let device = plain_device(&filesystem)?;
    match device.write_cache {
        // A completed write is durable, and the kernel swallows flushes: none could be seen.
        WriteCache::WriteThrough => Ok(()),
        WriteCache::WriteBack => probe(&resolved, &device.disk_folder),
        WriteCache::Unknown => Err(PerFileReason::UnknownCache),
    }
}

/// The device, when the rules let one flush stand for all.
fn plain_device(filesystem: &Filesystem) -> Result<&BlockDevice, PerFileReason> {
    match &filesystem.kind {
        FilesystemKind::Ext4 => refuse_options(filesystem, &["nobarrier", "barrier=0", "data=journal"])?,
        FilesystemKind::Xfs => refuse_options(filesystem, &["nobarrier", "rtdev="])?,
        FilesystemKind::Other(_) => {
            return Err(PerFileReason::UnknownFilesystem(filesystem.kind.clone()));
        }
    }
    let device = filesystem.device.as_ref().ok_or(PerFileReason::NoDevice)?;
    if device.is_stacked {
        return Err(PerFileReason::StackedDevice);
    }
    Ok(device)
}

/// An entry that ends in `=` refuses the option with any value.
fn refuse_options(filesystem: &Filesystem, refused: &[&'static str]) -> Result<(), PerFileReason> {
    let is_set = |refused: &&&str| {
        filesystem
            .options
            .iter()
            .any(|option| option == **refused || (refused.ends_with('=') && option.starts_with(**refused)))
    };
    match refused.iter().find(is_set) {
        Some(option) => Err(PerFileReason::MountOption(option)),
        None => Ok(()),
    }
}

/// Writes one file, flushes another, and looks whether the disk was flushed.
fn probe(folder: &Path, disk_folder: &Path) -> Result<(), PerFileReason> {
    let mut written = ScratchFile::create(folder)?;
    let flushed = ScratchFile::create(folder)?;
    for _ in 0..PROBE_ROUNDS {
        written.write_block()?;
        let before = flush_count(disk_folder)?;
        flushed.flush()?;
        if flush_count(disk_folder)? == before {
            return Err(PerFileReason::FlushNotSeen);
        }
    }
    Ok(())
}

/// Flushes the disk has completed since it was attached. Kernels before 5.5 don't count them.
fn flush_count(disk_folder: &Path) -> Result<u64, PerFileReason> {
    let path = disk_folder.join("stat");
    let stat = host::read(&path)?.ok_or(PerFileReason::NoCounter)?;
    let count = stat.split_whitespace().nth(FLUSH_COUNT_FIELD).ok_or(PerFileReason::NoCounter)?;
    Ok(count.parse().map_err(|_| unexpected(&path, "a count of flushes"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::{TestHost, nvme_host};

    fn xfs() -> Filesystem {
        let host = nvme_host();
        filesystem_of(host.root(), Path::new("/var/lib/ringlog")).unwrap()
    }

    fn with_option(option: &str) -> Filesystem {
        let mut filesystem = xfs();
        filesystem.options.push(option.to_owned());
        filesystem
    }

    /// A tree that puts the real `folder` on the NVMe drive of [`nvme_host`].
    fn host_of(folder: &Path, kind: &str) -> TestHost {
        let folder = folder.canonicalize().unwrap();
        let line = format!("40 27 259:3 / {} rw - {kind} /dev/nvme0n1p3 rw\n", folder.display());
        nvme_host().file("proc/self/mountinfo", &line)
    }

    #[test]
    fn the_rules_accept_a_plain_drive_under_ext4_or_xfs() {
        assert!(plain_device(&xfs()).is_ok());
        assert!(plain_device(&Filesystem { kind: FilesystemKind::Ext4, ..xfs() }).is_ok());
    }

    #[test]
    fn the_rules_refuse_what_they_do_not_know() {
        let btrfs = FilesystemKind::Other("btrfs".to_owned());
        let refused = Filesystem { kind: btrfs.clone(), ..xfs() };
        let reason = plain_device(&refused).unwrap_err();
        assert!(matches!(reason, PerFileReason::UnknownFilesystem(kind) if kind == btrfs));
        let reason = plain_device(&Filesystem { device: None, ..xfs() }).map(|_| ()).unwrap_err();
        assert!(matches!(reason, PerFileReason::NoDevice));
        let mut stacked = xfs();
        stacked.device.as_mut().expect("a device").is_stacked = true;
        assert!(matches!(plain_device(&stacked), Err(PerFileReason::StackedDevice)));
    }

    #[test]
    fn options_that_change_flushing_are_refused_by_name() {
        for (option, named) in [("nobarrier", "nobarrier"), ("rtdev=/dev/sdb", "rtdev=")] {
            let reason = plain_device(&with_option(option)).map(|_| ()).unwrap_err();
            assert!(matches!(reason, PerFileReason::MountOption(found) if found == named), "{reason}");
        }
        let journalled = Filesystem { kind: FilesystemKind::Ext4, ..with_option("data=journal") };
        let reason = plain_device(&journalled).map(|_| ()).unwrap_err();
        assert!(matches!(reason, PerFileReason::MountOption("data=journal")), "{reason}");
        assert!(plain_device(&with_option("barrier")).is_ok());
    }

    #[test]
    fn a_drive_that_counts_no_flush_for_ours_vetoes_the_rules() {
        let folder = tempfile::tempdir().unwrap();
        let host = host_of(folder.path(), "xfs");
        let scope = flush_covers_other_files(host.root(), folder.path());
        let vetoed = matches!(scope, FlushScope::PerFile(PerFileReason::FlushNotSeen));
        // Where temporary folders lie in memory, no probe can run.
        let can_probe = ScratchFile::create(folder.path()).is_ok();
        assert!(vetoed || !can_probe, "the counter of this tree never moves: {scope:?}");
    }

    #[test]
    fn a_write_through_drive_needs_no_probe() {
        let folder = tempfile::tempdir().unwrap();
        let host = host_of(folder.path(), "ext4")
            .file("sys/devices/pci0/nvme/nvme0/nvme0n1/queue/write_cache", "write through\n");
        let scope = flush_covers_other_files(host.root(), folder.path());
        assert!(matches!(scope, FlushScope::Device), "{scope:?}");
    }

    #[test]
    fn doubt_is_per_file() {
        let folder = tempfile::tempdir().unwrap();
        let scope = flush_covers_other_files(TestHost::new().root(), folder.path());
        assert!(matches!(scope, FlushScope::PerFile(PerFileReason::NotProbed(_))), "{scope:?}");
        let scope = flush_covers_other_files(Path::new("/"), &folder.path().join("absent"));
        assert!(matches!(scope, FlushScope::PerFile(PerFileReason::NotProbed(_))), "{scope:?}");
    }

    #[test]
    fn the_flush_counter_is_the_sixteenth_number() {
        let host = nvme_host();
        let disk = host.root().join("sys/devices/pci0/nvme/nvme0/nvme0n1");
        assert_eq!(flush_count(&disk).unwrap(), 7);
        let host = host.file("sys/devices/pci0/nvme/nvme0/nvme0n1/stat", "1 2 3 4 5 6 7 8 9 10 11\n");
        assert!(matches!(flush_count(&disk), Err(PerFileReason::NoCounter)));
        let host =
            host.file("sys/devices/pci0/nvme/nvme0/nvme0n1/stat", "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 x 0\n");
        assert!(matches!(flush_count(&disk), Err(PerFileReason::NotProbed(_))));
        drop(host);
    }

    #[test]
    fn this_host_gets_an_answer() {
        let folder = tempfile::tempdir().unwrap();
        let resolved = folder.path().canonicalize().unwrap();
        let scope = flush_covers_other_files(Path::new("/"), folder.path());
        let filesystem = filesystem_of(Path::new("/"), &resolved).unwrap();
        // Whatever this host is, the answer may only be "device" where the rules allow it.
        assert!(plain_device(&filesystem).is_ok() || matches!(scope, FlushScope::PerFile(_)), "{scope:?}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
