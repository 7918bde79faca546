//! Little-endian numbers in and out of checkpoint bytes, every read bounded.

use super::CorruptCheckpoint;

/// Appends numbers to bytes.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// A count of things that are in memory.
    pub(super) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("nothing counted here has four billion parts"));
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Takes numbers from the front of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<&'a [u8], CorruptCheckpoint> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(CorruptCheckpoint::EntryCut)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CorruptCheckpoint> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(CorruptCheckpoint::EntryCut)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, CorruptCheckpoint> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, CorruptCheckpoint> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, CorruptCheckpoint> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, CorruptCheckpoint> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn i32(&mut self) -> Result<i32, CorruptCheckpoint> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub(super) fn i64(&mut self) -> Result<i64, CorruptCheckpoint> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(super) fn id(&mut self) -> Result<[u8; 16], CorruptCheckpoint> {
        self.array()
    }

    /// A count of things of at least `item_bytes` bytes each, which must still be there.
    pub(super) fn count(&mut self, item_bytes: usize) -> Result<usize, CorruptCheckpoint> {
        let count = self.u32()? as usize;
        let fits = count.checked_mul(item_bytes).is_some_and(|bytes| bytes <= self.rest.len());
        if fits { Ok(count) } else { Err(CorruptCheckpoint::Count) }
    }
}
