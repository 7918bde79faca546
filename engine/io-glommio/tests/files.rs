//! Direct files: every operation on a real drive.

#[cfg(test)]
mod harness;

use std::io::{ErrorKind, Write};
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, Buffer, DirectFile, Io, OpenMode, Task};
use engine_io_glommio::GlommioIo;
use harness::{on_shard, on_shard_in, pattern};

fn filled(io: &GlommioIo, bytes: &[u8]) -> Rc<<GlommioIo as Io>::Buffer> {
    let mut buffer = io.buffer(bytes.len());
    buffer.as_mut_slice().copy_from_slice(bytes);
    Rc::new(buffer)
}

#[test]
fn what_is_written_and_flushed_is_read_back() {
    on_shard(|io, folder| async move {
        let file = io.open(&folder.join("log"), OpenMode::New).await.unwrap();
        let bytes = pattern(4 * BLOCK_BYTES);
        file.write(0, filled(&io, &bytes)).await.unwrap();
        file.flush().await.unwrap();
        assert_eq!(file.size().await.unwrap(), bytes.len() as u64);
        assert_eq!(file.read(0, bytes.len()).await.unwrap().as_ref(), bytes);
        let middle = file.read(BLOCK_BYTES as u64, BLOCK_BYTES).await.unwrap();
        assert_eq!(middle.clone().as_ref(), &bytes[BLOCK_BYTES..2 * BLOCK_BYTES]);
        file.close().await.unwrap();
        assert_eq!(std::fs::read(folder.join("log")).unwrap(), bytes);
    });
}

#[test]
fn writes_to_different_ranges_may_overlap_in_time() {
    on_shard(|io, folder| async move {
        let file = Rc::new(io.open(&folder.join("log"), OpenMode::New).await.unwrap());
        let bytes = pattern(64 * BLOCK_BYTES);
        let mut tasks = Vec::new();
        for (index, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            let (file, block) = (Rc::clone(&file), filled(&io, block));
            tasks.push(io.spawn(async move {
                file.write((index * BLOCK_BYTES) as u64, block).await.unwrap();
            }));
        }
        for task in tasks {
            task.join().await;
        }
        assert_eq!(file.read(0, bytes.len()).await.unwrap().as_ref(), bytes);
    });
}

#[test]
fn a_new_file_must_not_exist_and_an_existing_one_must() {
    on_shard(|io, folder| async move {
        let path = folder.join("log");
        assert_eq!(io.open(&path, OpenMode::Existing).await.unwrap_err().kind(), ErrorKind::NotFound);
        io.open(&path, OpenMode::New).await.unwrap().close().await.unwrap();
        assert_eq!(io.open(&path, OpenMode::New).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(path.exists(), "the refusal leaves the file alone");
        io.open(&path, OpenMode::Existing).await.unwrap().close().await.unwrap();
    });
}

#[test]
fn a_path_with_a_zero_byte_is_an_error() {
    on_shard(|io, folder| async move {
        let error = io.open(&folder.join("a\0b"), OpenMode::New).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_read_is_short_only_at_the_end_of_the_file() {
    on_shard(|io, folder| async move {
        let path = folder.join("log");
        let bytes = pattern(BLOCK_BYTES + 100);
        std::fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
        let file = io.open(&path, OpenMode::Existing).await.unwrap();
        assert_eq!(file.read(0, 4 * BLOCK_BYTES).await.unwrap().as_ref(), bytes);
        assert_eq!(file.read(BLOCK_BYTES as u64, BLOCK_BYTES).await.unwrap().as_ref(), &bytes[BLOCK_BYTES..]);
        assert!(file.read(4 * BLOCK_BYTES as u64, BLOCK_BYTES).await.unwrap().as_ref().is_empty());
        assert!(file.read(0, 0).await.unwrap().as_ref().is_empty());
    });
}

#[test]
fn a_misaligned_position_is_an_error() {
    on_shard(|io, folder| async move {
        let file = io.open(&folder.join("log"), OpenMode::New).await.unwrap();
        let error = file.write(7, Rc::new(io.buffer(BLOCK_BYTES))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn allocated_space_reads_as_zeros_and_leaves_what_lies_below_alone() {
    on_shard(|io, folder| async move {
        use std::os::unix::fs::MetadataExt;
        let path = folder.join("log");
        let file = io.open(&path, OpenMode::New).await.unwrap();
        let gap = 1 << 20;
        file.allocate(gap, 8 * BLOCK_BYTES as u64).await.unwrap();
        assert_eq!(file.size().await.unwrap(), gap + 8 * BLOCK_BYTES as u64);
        let read = file.read(gap, 8 * BLOCK_BYTES).await.unwrap();
        assert!(read.as_ref().iter().all(|&byte| byte == 0));
        let allocated = std::fs::metadata(&path).unwrap().blocks() * 512;
        assert!(allocated < gap, "only the range asked for takes space, not {allocated} bytes");
    });
}

#[test]
fn truncating_cuts_and_grows() {
    on_shard(|io, folder| async move {
        let file = io.open(&folder.join("log"), OpenMode::New).await.unwrap();
        let bytes = pattern(2 * BLOCK_BYTES);
        file.write(0, filled(&io, &bytes)).await.unwrap();
        file.truncate(BLOCK_BYTES as u64).await.unwrap();
        file.truncate(2 * BLOCK_BYTES as u64).await.unwrap();
        let read = file.read(0, 2 * BLOCK_BYTES).await.unwrap();
        assert_eq!(&read.as_ref()[..BLOCK_BYTES], &bytes[..BLOCK_BYTES]);
        assert!(read.as_ref()[BLOCK_BYTES..].iter().all(|&byte| byte == 0));
    });
}

#[test]
fn a_large_file_is_cut_and_removed_in_steps() {
    on_shard(|io, folder| async move {
        let path = folder.join("log");
        let file = io.open(&path, OpenMode::New).await.unwrap();
        file.allocate(0, 70 << 20).await.unwrap();
        file.truncate(50 << 20).await.unwrap();
        assert_eq!(file.size().await.unwrap(), 50 << 20);
        io.remove_file(&path).await.unwrap();
        assert!(!path.exists());
        assert_eq!(file.size().await.unwrap(), 0, "its space is given back although it is still open");
    });
}

#[test]
fn a_file_with_a_second_name_keeps_its_bytes_when_the_first_is_removed() {
    on_shard(|io, folder| async move {
        let (first, second) = (folder.join("first"), folder.join("second"));
        let file = io.open(&first, OpenMode::New).await.unwrap();
        file.allocate(0, 20 << 20).await.unwrap();
        std::fs::hard_link(&first, &second).unwrap();
        io.remove_file(&first).await.unwrap();
        assert_eq!(std::fs::metadata(&second).unwrap().len(), 20 << 20);
    });
}

/// The write is polled once, so the kernel may have it, and dropped; the buffer must stay until the kernel is done.
#[test]
fn a_dropped_write_keeps_its_buffer_until_the_kernel_lets_go() {
    on_shard(|io, folder| async move {
        let file = io.open(&folder.join("log"), OpenMode::New).await.unwrap();
        for round in 0..50_u8 {
            let mut buffer = io.buffer(16 * BLOCK_BYTES);
            buffer.as_mut_slice().fill(round);
            let mut buffer = Rc::new(buffer);
            let mut write = Box::pin(file.write(0, Rc::clone(&buffer)));
            assert!(futures_lite::future::poll_once(&mut write).await.is_none());
            drop(write);
            assert!(Rc::get_mut(&mut buffer).is_none(), "the kernel counts as a holder");
            while Rc::get_mut(&mut buffer).is_none() {
                io.sleep(core::time::Duration::from_micros(50)).await;
            }
        }
        file.close().await.unwrap();
    });
}

#[test]
fn a_buffer_is_zeroed_aligned_and_shrinks() {
    on_shard(|io, _| async move {
        for _ in 0..3 {
            let mut buffer = io.buffer(2 * BLOCK_BYTES);
            assert!(buffer.as_slice().iter().all(|&byte| byte == 0));
            assert_eq!(buffer.as_slice().as_ptr() as usize % BLOCK_BYTES, 0);
            buffer.as_mut_slice().fill(7);
            buffer.trim(BLOCK_BYTES);
            assert_eq!(buffer.as_slice().len(), BLOCK_BYTES);
        }
    });
}

#[test]
#[should_panic(expected = "one block or more")]
fn a_buffer_of_part_of_a_block_is_refused() {
    on_shard(|io, _| async move { drop(io.buffer(100)) });
}

#[test]
fn a_memory_file_system_is_refused_and_left_clean() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let path = memory.path().join("log");
    let folder = harness::folder();
    on_shard_in(folder.path(), move |io, _| {
        let path = path.clone();
        async move {
            let error = io.open(&path, OpenMode::New).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(!path.exists());
        }
    });
}

#[test]
fn a_dropped_open_loses_no_descriptor_to_a_stranger() {
    on_shard(|io, folder| async move {
        for round in 0..50 {
            let path = folder.join(format!("{round}"));
            let mut open = Box::pin(io.open(&path, OpenMode::New));
            assert!(futures_lite::future::poll_once(&mut open).await.is_none());
            drop(open);
        }
        let file = io.open(&folder.join("last"), OpenMode::New).await.unwrap();
        file.write(0, filled(&io, &pattern(BLOCK_BYTES))).await.unwrap();
        assert_eq!(file.size().await.unwrap(), BLOCK_BYTES as u64);
    });
}

#[test]
fn nothing_is_left_of_the_drive_probe() {
    let folder = harness::folder();
    on_shard_in(folder.path(), |io, folder| async move {
        assert!(io.list_folder(&folder).await.unwrap().is_empty());
    });
}
