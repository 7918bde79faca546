//! Files as programs see them.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use engine_io::{BLOCK_BYTES, Buffer, DirectFile, SendFile};

use crate::buffer::{SimBuffer, SimBytes};
use crate::disk::{FileId, OpenFile};
use crate::seat::Seat;
use crate::trace::{Event, content_hash};

/// A simulated file for direct reads and writes.
pub struct SimFile {
    seat: Seat,
    open: OpenFile,
}

impl SimFile {
    pub(crate) const fn new(seat: Seat, open: OpenFile) -> Self {
        Self { seat, open }
    }
}

impl DirectFile for SimFile {
    type Buffer = SimBuffer;
    type Bytes = SimBytes;

    async fn write(&self, position: u64, buffer: Rc<SimBuffer>) -> io::Result<()> {
        check_alignment("a direct write", position, buffer.as_slice().len());
        let (machine, open) = (self.seat.boot.machine, self.open.clone());
        let FileId(file) = open.file;
        let number = self.seat.world(|world| {
            let content = content_hash(buffer.as_slice());
            let bytes = buffer.as_slice().len();
            world.record(Event::WriteStarted { machine, file, position, bytes, content });
            world.number()
        });
        self.seat.disk(|disk, _| disk.start_write(open.file, number, position, buffer))?;
        let written = self.seat.operate(
            |latency| &latency.write,
            move |world| {
                let (disk, random) = world.disk(machine);
                let result = disk.end_write(&open, number, random);
                world.record(Event::WriteEnded { machine, file, position, failed: result.is_err() });
                result
            },
        );
        written.await
    }

    async fn read(&self, position: u64, bytes: usize) -> io::Result<SimBytes> {
        check_alignment("a direct read", position, bytes);
        let (machine, open) = (self.seat.boot.machine, self.open.clone());
        let read = self.seat.operate(
            |latency| &latency.read,
            move |world| {
                let (disk, random) = world.disk(machine);
                let read = disk.file(open.file).read(position, bytes, random);
                let FileId(file) = open.file;
                world.record(Event::FileRead { machine, file, position, bytes: read.len() });
                read
            },
        );
        Ok(SimBytes::from(read.await))
    }

    async fn flush(&self) -> io::Result<()> {
        let (machine, open) = (self.seat.boot.machine, self.open.clone());
        let FileId(file) = open.file;
        self.seat.world(|world| world.record(Event::FlushStarted { machine, file }));
        let covered = self.seat.disk(|disk, _| disk.flush_marks(&open));
        let flushed = self.seat.operate_early(
            |latency| &latency.flush,
            move |world| {
                let (disk, random) = world.disk(machine);
                let result = disk.end_flush(&covered, random);
                world.record(Event::FlushEnded { machine, file, failed: result.is_err() });
                result
            },
        );
        flushed.await
    }

    async fn allocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        let end = position.checked_add(bytes).filter(|_| bytes > 0).ok_or(io::ErrorKind::InvalidInput)?;
        let (machine, open) = (self.seat.boot.machine, self.open.clone());
        let allocated = self.seat.operate_early(
            |latency| &latency.metadata,
            move |world| {
                let (disk, random) = world.disk(machine);
                // As where it is done off the shard, by a descriptor of its own.
                let descriptor = disk.faults.take_descriptor(&open.path);
                let result = descriptor.and_then(|()| disk.allocate(open.file, position..end, random));
                let FileId(file) = open.file;
                let failed = result.is_err();
                world.record(Event::FileAllocated { machine, file, position, bytes, failed });
                result
            },
        );
        allocated.await
    }

    async fn truncate(&self, bytes: u64) -> io::Result<()> {
        let (machine, open) = (self.seat.boot.machine, self.open.clone());
        let truncated = self.seat.operate_early(
            |latency| &latency.metadata,
            move |world| {
                let FileId(file) = open.file;
                world.disk(machine).0.faults.take_descriptor(&open.path)?;
                world.record(Event::FileTruncated { machine, file, bytes });
                world.disk(machine).0.file(open.file).truncate(bytes);
                Ok(())
            },
        );
        truncated.await
    }

    async fn size(&self) -> io::Result<u64> {
        let (machine, open) = (self.seat.boot.machine, self.open.clone());
        let size = self.seat.operate(
            |latency| &latency.metadata,
            move |world| world.disk(machine).0.file(open.file).live().size(),
        );
        Ok(size.await)
    }

    async fn close(self) -> io::Result<()> {
        self.seat.operate(|latency| &latency.metadata, |_| ()).await;
        Ok(())
    }
}

fn check_alignment(what: &str, position: u64, bytes: usize) {
    assert!(
        position.is_multiple_of(BLOCK_BYTES as u64) && bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES),
        "{what} of {bytes} bytes at {position} isn't of whole blocks"
    );
}

/// A simulated file that is sent from the page cache.
#[derive(Clone)]
pub struct SimSendFile {
    pub(crate) seat: Seat,
    pub(crate) open: OpenFile,
}

/// A simulated file on its way to another shard of its machine. The world keeps it open meanwhile.
pub struct SimCarriedFile(pub(crate) Arc<u64>);

impl SendFile for SimSendFile {
    type Carried = SimCarriedFile;

    fn carried(&self) -> SimCarriedFile {
        SimCarriedFile(self.seat.world(|world| world.carry(self.seat.boot, self.open.clone())))
    }

    fn resident(&self, position: u64, bytes: u64) -> u64 {
        let range = position..position.saturating_add(bytes);
        self.seat.disk(|disk, random| disk.file(self.open.file).resident(&range, random))
    }

    fn peek(&self, position: u64, bytes: &mut [u8]) -> usize {
        let range = position..position.saturating_add(bytes.len() as u64);
        self.seat.disk(|disk, random| {
            let file = disk.file(self.open.file);
            let resident = usize::try_from(file.resident(&range, random)).unwrap_or(bytes.len());
            let read = file.read(position, resident, random);
            bytes[..read.len()].copy_from_slice(&read);
            read.len()
        })
    }

    async fn prefetch(&self, position: u64, bytes: u64) -> io::Result<()> {
        let (machine, open) = (self.seat.boot.machine, self.open.clone());
        let prefetched = self.seat.operate(
            |latency| &latency.read,
            move |world| {
                let FileId(file) = open.file;
                world.record(Event::Prefetched { machine, file, position, bytes });
                world.disk(machine).0.file(open.file).prefetch(&(position..position.saturating_add(bytes)));
            },
        );
        prefetched.await;
        Ok(())
    }
}
