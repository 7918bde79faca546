//! A file for probes: direct I/O, pre-written, without a name.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FsWord, Mode, OFlags};
use rustix::io::Errno;

use crate::TuningError;

/// Bytes of a block, the unit that appends are written in.
const BLOCK_BYTES: usize = 4_096;
/// Blocks of the file. Probes go round them, so that no two writes in a row hit one block.
const BLOCK_COUNT: u64 = 16;

const TMPFS_MAGIC: FsWord = 0x0102_1994;
const RAMFS_MAGIC: FsWord = 0x8584_58f6;

/// Memory as direct I/O asks for it.
#[repr(align(4096))]
struct Block([u8; BLOCK_BYTES]);

/// A pre-written scratch file in a folder. It has no name (`O_TMPFILE`), so it vanishes with its
/// descriptor, whatever ends the process.
pub(crate) struct ScratchFile {
    folder: PathBuf,
    file: File,
    block: Box<Block>,
    writes: u64,
}

impl ScratchFile {
    /// Creates the file, writes all its blocks and makes them durable: from then on a write
    /// changes no metadata, as in the space that segments are appended to.
    pub(crate) fn create(folder: &Path) -> Result<Self, TuningError> {
        let file = open(folder)?;
        let block = Box::new(Block([0; BLOCK_BYTES]));
        let mut scratch = Self { folder: folder.to_path_buf(), file, block, writes: 0 };
        for _ in 0..BLOCK_COUNT {
            scratch.write_block()?;
        }
        scratch.file.sync_all().map_err(|source| scratch.failed("flush", source))?;
        Ok(scratch)
    }

    /// Overwrites the next block directly. The kernel has it on the drive, or in the drive's
    /// cache, when this returns.
    pub(crate) fn write_block(&mut self) -> Result<(), TuningError> {
        let position = (self.writes % BLOCK_COUNT) * BLOCK_BYTES as u64;
        self.writes += 1;
        self.fill();
        self.file.write_all_at(&self.block.0, position).map_err(|source| self.failed("write", source))
    }

    /// New content for each write: some drives skip a write that changes nothing.
    fn fill(&mut self) {
        for (index, word) in (1..).zip(self.block.0.chunks_exact_mut(8)) {
            let content = self.writes.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(index % 64);
            word.copy_from_slice(&content.to_le_bytes());
        }
    }

    /// `fdatasync`.
    pub(crate) fn flush(&self) -> Result<(), TuningError> {
        self.file.sync_data().map_err(|source| self.failed("flush", source))
    }

    fn failed(&self, step: &'static str, source: io::Error) -> TuningError {
        TuningError::Scratch { folder: self.folder.clone(), step, source }
    }
}

fn open(folder: &Path) -> Result<File, TuningError> {
    let flags = OFlags::TMPFILE | OFlags::DIRECT | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| open_error(folder, errno))?;
    let kind = rustix::fs::fstatfs(&file).map_err(|errno| open_error(folder, errno))?.f_type;
    // Kernels since 6.6 grant direct I/O on tmpfs and do nothing of the sort.
    if kind == TMPFS_MAGIC || kind == RAMFS_MAGIC {
        return Err(TuningError::MemoryFilesystem { folder: folder.to_path_buf() });
    }
    Ok(File::from(file))
}

/// The flags are right, so an invalid argument means that the file system has no direct I/O.
fn open_error(folder: &Path, errno: Errno) -> TuningError {
    let folder = folder.to_path_buf();
    if errno == Errno::INVAL {
        return TuningError::DirectIoRefused { folder };
    }
    TuningError::Scratch { folder, step: "create", source: errno.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_direct_open_names_the_folder_and_what_to_do() {
        let error = open_error(Path::new("/mnt/x"), Errno::INVAL);
        assert!(matches!(error, TuningError::DirectIoRefused { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("/mnt/x") && text.contains("O_DIRECT") && text.contains("xfs"), "{text}");
    }

    #[test]
    fn an_absent_folder_is_a_failed_step() {
        let folder = tempfile::tempdir().unwrap().path().join("absent");
        let error = ScratchFile::create(&folder).err().expect("no such folder");
        assert!(matches!(error, TuningError::Scratch { step: "create", .. }), "{error}");
    }
}
