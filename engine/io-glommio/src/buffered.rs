//! Files through the page cache, for file systems without direct I/O.
//!
//! Development only: every operation is a plain call on a pool thread, and what is written costs a copy. On a file system
//! in memory a flush keeps nothing; whoever starts shards so has to say that.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use engine_io::OpenMode;
use rustix::io::Errno;

use crate::blocking::Pool;
use crate::file::reserve;
use crate::shrink;

/// A file that is read and written through the page cache.
pub(crate) struct BufferedFile {
    file: Arc<File>,
    pool: Pool,
}

/// Opens a file. Runs on a pool thread.
pub(crate) fn open(path: &Path, mode: OpenMode) -> io::Result<File> {
    fs::OpenOptions::new().read(true).write(true).create_new(mode == OpenMode::New).open(path)
}

impl BufferedFile {
    pub(crate) fn new(file: File, pool: Pool) -> Self {
        Self { file: Arc::new(file), pool }
    }

    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    async fn on_pool<R: Send + 'static>(
        &self,
        job: impl FnOnce(&File) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        let file = Arc::clone(&self.file);
        self.pool.run(move || job(&file)).await
    }

    /// The bytes are taken when this is first polled.
    pub(crate) async fn write(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let bytes = bytes.to_vec();
        self.on_pool(move |file| file.write_all_at(&bytes, position)).await
    }

    /// Less than `bytes` only at the end of the file.
    pub(crate) async fn read(&self, position: u64, bytes: usize) -> io::Result<Vec<u8>> {
        self.on_pool(move |file| read_up_to(file, position, bytes)).await
    }

    pub(crate) async fn flush(&self) -> io::Result<()> {
        self.on_pool(File::sync_data).await
    }

    pub(crate) async fn allocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.on_pool(move |file| {
            let descriptor = OwnedFd::from(file.try_clone()?);
            match reserve(&descriptor, position, bytes) {
                Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => {
                    grow(file, position + bytes)
                }
                reserved => reserved,
            }
        })
        .await
    }

    pub(crate) async fn truncate(&self, bytes: u64) -> io::Result<()> {
        let file = Arc::new(OwnedFd::from(self.file.try_clone()?));
        shrink::resize(&self.pool, file, self.bytes()?, bytes).await
    }

    pub(crate) fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Whatever the system still has to say of it is said by the flushes.
    pub(crate) async fn close(self) -> io::Result<()> {
        let Self { file, pool } = self;
        pool.run(move || drop(file)).await;
        Ok(())
    }
}

/// Where no space can be set aside the size alone grows.
fn grow(file: &File, bytes: u64) -> io::Result<()> {
    if file.metadata()?.len() < bytes { file.set_len(bytes) } else { Ok(()) }
}

fn read_up_to(file: &File, position: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut read = vec![0; bytes];
    let mut filled = 0;
    while filled < bytes {
        match file.read_at(&mut read[filled..], position + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    read.truncate(filled);
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use engine_io::{BLOCK_BYTES, Buffer, DirectFile, Io};

    use crate::{ShardSpec, run_buffered};

    use super::*;

    /// What direct I/O refuses: a file system in memory.
    #[test]
    fn files_are_written_read_flushed_and_resized_where_there_is_no_direct_io() {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
        let path = folder.path().join("log");
        let spec = ShardSpec { name: "buffered".to_owned(), cpu: None, dedicated: false };
        let running = run_buffered(vec![spec], 64 << 10, move |_, io| {
            let path = path.clone();
            async move {
                let file = io.open(&path, OpenMode::New).await.unwrap();
                file.allocate(0, 3 * BLOCK_BYTES as u64).await.unwrap();
                let mut buffer = io.buffer(BLOCK_BYTES);
                buffer.as_mut_slice().fill(7);
                file.write(BLOCK_BYTES as u64, Rc::new(buffer)).await.unwrap();
                file.flush().await.unwrap();
                assert_eq!(file.size().await.unwrap(), 3 * BLOCK_BYTES as u64);
                let read = file.read(0, 8 * BLOCK_BYTES).await.unwrap();
                let expected = [vec![0; BLOCK_BYTES], vec![7; BLOCK_BYTES], vec![0; BLOCK_BYTES]].concat();
                assert!(read.as_ref() == expected);
                file.truncate(BLOCK_BYTES as u64).await.unwrap();
                assert_eq!(file.read(0, 8 * BLOCK_BYTES).await.unwrap().as_ref(), [0; BLOCK_BYTES]);
                file.close().await.unwrap();
                assert_eq!(
                    io.open(&path, OpenMode::New).await.unwrap_err().kind(),
                    io::ErrorKind::AlreadyExists
                );
                assert_eq!(
                    io.open(&path, OpenMode::Existing).await.unwrap().size().await.unwrap(),
                    BLOCK_BYTES as u64
                );
            }
        });
        running.unwrap().join().remove(0).unwrap();
    }
}
