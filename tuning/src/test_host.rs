//! Builds captured `/proc` and `/sys` trees for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

/// A folder that stands for the root of a host. It goes away with the value.
pub(crate) struct TestHost(TempDir);

impl TestHost {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().expect("a temporary folder"))
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, making its folders.
    pub(crate) fn file(self, path: &str, content: &str) -> Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("folders");
        fs::write(path, content).expect("a file");
        self
    }

    pub(crate) fn folder(self, path: &str) -> Self {
        fs::create_dir_all(self.root().join(path)).expect("folders");
        self
    }

    /// Makes a symbolic link, relative to its own folder as the kernel's are.
    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a link lies in a folder")).expect("folders");
        symlink(target, path).expect("a symbolic link");
        self
    }
}

/// A host whose `/var/lib/ringlog` is an xfs on the third partition of an NVMe drive with a
/// volatile cache.
pub(crate) fn nvme_host() -> TestHost {
    let disk = "sys/devices/pci0/nvme/nvme0/nvme0n1";
    TestHost::new()
        .file(
            "proc/self/mountinfo",
            "27 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw\n\
             40 27 259:3 / /var/lib/ringlog rw,noatime shared:2 - xfs /dev/nvme0n1p3 rw,logbsize=256k\n",
        )
        .link("sys/dev/block/259:3", "../../devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p3")
        .file(&format!("{disk}/nvme0n1p3/partition"), "3\n")
        .file(&format!("{disk}/stat"), "1 0 8 1 2 0 16 1 0 1 2 0 0 0 0 7 3\n")
        .file(&format!("{disk}/queue/write_cache"), "write back\n")
        .file(&format!("{disk}/queue/fua"), "1\n")
        .file(&format!("{disk}/queue/logical_block_size"), "512\n")
        .file(&format!("{disk}/queue/physical_block_size"), "4096\n")
        .file(&format!("{disk}/queue/scheduler"), "[none] mq-deadline kyber\n")
        .file(&format!("{disk}/queue/rotational"), "0\n")
}
