//! Reads the fields of our own small formats, big-endian, front to back.

use engine_record::{Offset, Timestamp};

/// The bytes ended inside a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended;

pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Ended> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Ended)?;
        self.rest = rest;
        Ok(*array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Ended> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Ended> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, Ended> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Ended> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Ended> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn timestamp(&mut self) -> Result<Timestamp, Ended> {
        self.i64().map(Timestamp)
    }

    /// An offset, or `None` where the field is negative.
    pub(crate) fn offset(&mut self) -> Result<Option<Offset>, Ended> {
        self.i64().map(Offset::new)
    }
}
