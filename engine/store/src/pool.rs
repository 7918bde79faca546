//! The shard's memory for batches: who takes it waits in line, and the tails give theirs back when it runs short.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use engine_io::Io;

use crate::chunk::FreshMemory;
use crate::partition::Partition;
use crate::permits::Permits;

/// A bounded number of bytes. Buffers are paid for with it from their making until the tail drops them.
pub(crate) struct Pool<I: Io> {
    bytes: usize,
    permits: Permits,
    next_number: Cell<u64>,
    /// Whose the chunks in the tails are, oldest first.
    chunks: RefCell<BTreeMap<u64, Weak<Partition<I>>>>,
}

impl<I: Io> Pool<I> {
    pub(crate) fn new(bytes: usize) -> Self {
        let (next_number, chunks) = (Cell::new(0), RefCell::new(BTreeMap::new()));
        Self { bytes, permits: Permits::new(bytes), next_number, chunks }
    }

    /// Buffers of the given sizes, if need be after others have given theirs back.
    pub(crate) async fn take(&self, io: &I, sizes: &[usize]) -> FreshMemory<I> {
        let bytes: usize = sizes.iter().sum();
        assert!(bytes <= self.bytes, "who takes memory checks that the pool can ever have it");
        self.reclaim_for(bytes);
        let permit = self.permits.acquire(bytes).await.expect("the pool is never closed");
        FreshMemory::new(io, sizes, permit)
    }

    /// Buffers of the given sizes if they can be had now.
    pub(crate) fn try_take(&self, io: &I, sizes: &[usize]) -> Option<FreshMemory<I>> {
        let permit = self.permits.try_acquire(sizes.iter().sum())?;
        Some(FreshMemory::new(io, sizes, permit))
    }

    /// The number of the next chunk frozen, which goes to the tail of `partition`.
    pub(crate) fn register(&self, partition: &Rc<Partition<I>>) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        self.chunks.borrow_mut().insert(number, Rc::downgrade(partition));
        number
    }

    /// Forgets a chunk that its tail has dropped.
    pub(crate) fn unregister(&self, number: u64) {
        self.chunks.borrow_mut().remove(&number);
    }

    /// Gives whoever waits for memory what the tails can spare. Called when a chunk has become sparable.
    pub(crate) fn reclaim_for_waiting(&self) {
        if self.permits.wished() > 0 {
            self.reclaim_for(0);
        }
    }

    /// Makes room for all in line and `bytes` more, so that nobody is left waiting for what could be had.
    fn reclaim_for(&self, bytes: usize) {
        self.reclaim((self.permits.wished() + bytes).saturating_sub(self.permits.free()));
    }

    /// Whether it could ever have buffers of the given sizes.
    pub(crate) fn could_have(&self, sizes: &[usize]) -> bool {
        sizes.iter().sum::<usize>() <= self.bytes
    }

    /// Drops the oldest chunks of all tails until `bytes` are free again or nothing more can go.
    fn reclaim(&self, bytes: usize) {
        let mut freed = 0;
        let mut from = 0;
        while freed < bytes {
            let Some((number, partition)) = self.oldest_from(from) else { return };
            freed += partition.and_then(|partition| partition.evict_chunk(number)).unwrap_or(0);
            from = number + 1;
        }
    }

    fn oldest_from(&self, number: u64) -> Option<(u64, Option<Rc<Partition<I>>>)> {
        let chunks = self.chunks.borrow();
        chunks.range(number..).next().map(|(number, partition)| (*number, partition.upgrade()))
    }

    /// How many there are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes taken.
    pub(crate) fn used_bytes(&self) -> usize {
        self.bytes - self.permits.free()
    }
}
