//! What lies under a folder: mount, file system, drive, cache, space.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::TuningError;
use crate::host::{self, unexpected};
use crate::mounts::{self, Mount};

/// A block device's number in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceNumber {
    /// Which driver. 0 for file systems without a device of their own.
    pub major: u32,
    /// Which device of the driver.
    pub minor: u32,
}

impl DeviceNumber {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// A file system by what we know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilesystemKind {
    /// Its flushing is known to us.
    Ext4,
    /// Its flushing is known to us.
    Xfs,
    /// Any other, by the kernel's name.
    Other(String),
}

impl FilesystemKind {
    fn named(name: String) -> Self {
        match name.as_str() {
            "ext4" => Self::Ext4,
            "xfs" => Self::Xfs,
            _ => Self::Other(name),
        }
    }
}

impl fmt::Display for FilesystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Other(name) => name,
        })
    }
}

/// The drive's cache, as the kernel believes it to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCache {
    /// Volatile: a completed write is durable only after a flush.
    WriteBack,
    /// A completed write is durable; the kernel sends no flush.
    WriteThrough,
    /// The device doesn't say.
    Unknown,
}

/// The device under a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Its number.
    pub number: DeviceNumber,
    /// The kernel's name of the device or partition, such as `nvme0n1p3`.
    pub name: String,
    /// The whole disk's folder in `/sys`, under the root read. A partition has no queue and
    /// counts no flush of its own.
    pub disk_folder: PathBuf,
    /// Whether the disk has a volatile cache.
    pub write_cache: WriteCache,
    /// Whether a single write can be made durable without a flush (forced unit access).
    pub fua: bool,
    /// Smallest unit of direct I/O, bytes.
    pub logical_block_bytes: u32,
    /// Unit the drive writes without reading first, bytes.
    pub physical_block_bytes: u32,
    /// The active I/O scheduler; `None` when the device has no choice of one.
    pub scheduler: Option<String>,
    /// Whether it has moving heads.
    pub rotational: bool,
    /// Whether it is made of other devices (LVM, RAID, encryption).
    pub is_stacked: bool,
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Which file system it is.
    pub kind: FilesystemKind,
    /// Options of the mount, then those of the file system, as the kernel writes them.
    pub options: Vec<String>,
    /// The device under it; `None` for tmpfs, overlay, network file systems, and those that
    /// spread over several devices.
    pub device: Option<BlockDevice>,
}

impl Filesystem {
    /// Whether an option such as `nobarrier` or `data=journal` is in force.
    #[must_use]
    pub fn has_option(&self, option: &str) -> bool {
        self.options.iter().any(|candidate| candidate == option)
    }
}

/// Finds the file system that holds `folder`: an absolute path with its links resolved
/// ([`std::fs::canonicalize`]), since mounts are found by the words of the path.
///
/// # Errors
///
/// [`TuningError::RelativeFolder`] and [`TuningError::NoMount`] about the folder;
/// [`TuningError::Missing`], [`TuningError::Read`] and [`TuningError::Unexpected`] name the file of
/// `/proc` or `/sys` that could not be understood.
pub fn filesystem_of(root: &Path, folder: &Path) -> Result<Filesystem, TuningError> {
    if !folder.is_absolute() {
        return Err(TuningError::RelativeFolder { folder: folder.to_path_buf() });
    }
    let Mount { number, mount_point, kind, options } = mounts::mount_of(root, folder)?;
    let device = device(root, number)?;
    Ok(Filesystem { mount_point, kind: FilesystemKind::named(kind), options, device })
}

fn device(root: &Path, number: DeviceNumber) -> Result<Option<BlockDevice>, TuningError> {
    let link = root.join(format!("sys/dev/block/{number}"));
    // The link leads to the device's place in the tree, whose folder bears its name, and whose
    // parent is the disk if it is a partition.
    let folder = match link.canonicalize() {
        Ok(folder) => folder,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(TuningError::Read { path: link, source }),
    };
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.ok_or_else(|| unexpected(&link, "a link to a named device"))?;
    let disk_folder = if folder.join("partition").exists() {
        folder.parent().ok_or_else(|| unexpected(&link, "a partition inside a disk"))?.to_path_buf()
    } else {
        folder
    };
    described(number, name, disk_folder).map(Some)
}

fn described(number: DeviceNumber, name: String, disk_folder: PathBuf) -> Result<BlockDevice, TuningError> {
    let queue = disk_folder.join("queue");
    let required = |name: &str| {
        let path = queue.join(name);
        host::read_number(&path)?.ok_or(TuningError::Missing { path })
    };
    Ok(BlockDevice {
        number,
        name,
        write_cache: write_cache(&queue.join("write_cache"))?,
        fua: host::read_flag(&queue.join("fua"))?.unwrap_or(false),
        logical_block_bytes: required("logical_block_size")?,
        physical_block_bytes: required("physical_block_size")?,
        scheduler: host::read(&queue.join("scheduler"))?.and_then(|text| active_of(&text)),
        rotational: host::read_flag(&queue.join("rotational"))?.unwrap_or(false),
        is_stacked: has_entries(&disk_folder.join("slaves")),
        disk_folder,
    })
}

fn write_cache(path: &Path) -> Result<WriteCache, TuningError> {
    match host::read(path)?.as_deref() {
        Some("write back") => Ok(WriteCache::WriteBack),
        Some("write through") => Ok(WriteCache::WriteThrough),
        Some(_) => Err(unexpected(path, "write back or write through")),
        None => Ok(WriteCache::Unknown),
    }
}

/// The active scheduler stands in brackets among the others: `[none] mq-deadline`.
fn active_of(schedulers: &str) -> Option<String> {
    let (_, rest) = schedulers.split_once('[')?;
    let (active, _) = rest.split_once(']')?;
    Some(active.to_owned())
}

fn has_entries(folder: &Path) -> bool {
    folder.read_dir().is_ok_and(|mut entries| entries.next().is_some())
}

/// Space on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What we may still write, bytes: space kept for root is left out.
    pub free_bytes: u64,
    /// Size of the file system, bytes.
    pub total_bytes: u64,
}

/// Reads the space of the file system that holds `folder`.
///
/// # Errors
///
/// [`TuningError::Space`] with the kernel's answer, for example that the folder doesn't exist.
pub fn space_of(folder: &Path) -> Result<Space, TuningError> {
    let space = rustix::fs::statvfs(folder)
        .map_err(|errno| TuningError::Space { folder: folder.to_path_buf(), source: errno.into() })?;
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    Ok(Space { free_bytes: bytes(space.f_bavail), total_bytes: bytes(space.f_blocks) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::{TestHost, nvme_host};

    const FOLDER: &str = "/var/lib/ringlog/data";

    fn device_of(host: &TestHost) -> BlockDevice {
        filesystem_of(host.root(), Path::new(FOLDER)).unwrap().device.expect("a device")
    }

    #[test]
    fn a_partition_is_described_by_its_disk() {
        let host = nvme_host();
        let found = filesystem_of(host.root(), Path::new(FOLDER)).unwrap();
        assert_eq!(found.mount_point, Path::new("/var/lib/ringlog"));
        assert_eq!(found.kind, FilesystemKind::Xfs);
        assert!(found.has_option("noatime") && found.has_option("logbsize=256k"));
        assert!(!found.has_option("noati"));
        let device = found.device.expect("a device");
        assert_eq!(device.name, "nvme0n1p3");
        assert!(device.disk_folder.ends_with("nvme0/nvme0n1"), "{device:?}");
        assert_eq!(device.write_cache, WriteCache::WriteBack);
        assert_eq!((device.logical_block_bytes, device.physical_block_bytes), (512, 4096));
        assert_eq!(device.scheduler.as_deref(), Some("none"));
        assert!(device.fua && !device.rotational && !device.is_stacked);
    }

    #[test]
    fn a_whole_disk_is_described_by_itself() {
        let host = TestHost::new()
            .file("proc/self/mountinfo", "27 1 8:0 / / rw - ext4 /dev/sda rw\n")
            .link("sys/dev/block/8:0", "../../devices/ata1/block/sda")
            .file("sys/devices/ata1/block/sda/queue/write_cache", "write through\n")
            .file("sys/devices/ata1/block/sda/queue/logical_block_size", "4096\n")
            .file("sys/devices/ata1/block/sda/queue/physical_block_size", "4096\n")
            .file("sys/devices/ata1/block/sda/queue/scheduler", "none\n")
            .file("sys/devices/ata1/block/sda/queue/rotational", "1\n");
        let device = device_of(&host);
        assert_eq!((device.name.as_str(), device.write_cache), ("sda", WriteCache::WriteThrough));
        assert_eq!(device.scheduler, None);
        assert!(device.rotational && !device.fua);
    }

    #[test]
    fn a_device_made_of_others_is_stacked() {
        let host = nvme_host().folder("sys/devices/pci0/nvme/nvme0/nvme0n1/slaves/md0");
        assert!(device_of(&host).is_stacked);
    }

    #[test]
    fn memory_and_network_file_systems_have_no_device() {
        let mounts = "27 1 0:25 / / rw - tmpfs tmpfs rw\n";
        let host = TestHost::new().file("proc/self/mountinfo", mounts);
        let found = filesystem_of(host.root(), Path::new("/dev/shm")).unwrap();
        assert_eq!(found.kind, FilesystemKind::Other("tmpfs".to_owned()));
        assert_eq!(found.device, None);
    }

    #[test]
    fn what_the_tree_does_not_say_is_not_guessed() {
        let queue = "sys/devices/pci0/nvme/nvme0/nvme0n1/queue";
        let host = nvme_host().file(&format!("{queue}/write_cache"), "write sideways\n");
        let error = filesystem_of(host.root(), Path::new(FOLDER)).unwrap_err();
        assert!(matches!(error, TuningError::Unexpected { .. }), "{error}");
        let host = nvme_host().file(&format!("{queue}/fua"), "2\n");
        let error = filesystem_of(host.root(), Path::new(FOLDER)).unwrap_err();
        assert!(matches!(error, TuningError::Unexpected { .. }), "{error}");
        let error = filesystem_of(host.root(), Path::new("data")).unwrap_err();
        assert!(matches!(error, TuningError::RelativeFolder { .. }), "{error}");
    }

    #[test]
    fn free_space_is_part_of_the_total() {
        let folder = tempfile::tempdir().unwrap();
        let space = space_of(folder.path()).unwrap();
        assert!(space.total_bytes > 0 && space.free_bytes <= space.total_bytes, "{space:?}");
        let error = space_of(&folder.path().join("absent")).unwrap_err();
        assert!(matches!(error, TuningError::Space { .. }), "{error}");
    }

    #[test]
    fn this_host_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let found = filesystem_of(Path::new("/"), &folder).unwrap();
        assert!(folder.starts_with(found.mount_point));
    }
}
