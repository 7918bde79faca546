//! The records of an uncompressed batch, read in place.

use crate::batch::{BatchHeader, TimestampType};
use crate::error::CorruptRecord;
use crate::varint::{read_varint, read_varlong};
use crate::{Offset, Timestamp};

/// One record. Keys, values and headers are borrowed from the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Offset minus the batch's base offset.
    pub offset_delta: u32,
    /// When the record was made or appended, as the batch's timestamp type says.
    pub timestamp: Timestamp,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value; null in a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: Headers<'a>,
}

impl Record<'_> {
    /// The record's offset in a batch that begins at `base_offset`; `None` past the last offset there is.
    #[must_use]
    pub fn offset(&self, base_offset: Offset) -> Option<Offset> {
        base_offset.checked_add(u64::from(self.offset_delta))
    }
}

/// One header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The key, text by convention only.
    pub key: &'a [u8],
    /// The value, or null.
    pub value: Option<&'a [u8]>,
}

/// The headers of a record, in order. They were walked once when the record was read, so they can't fail here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.count = self.count.checked_sub(1)?;
        take_header(&mut self.bytes).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count as usize, Some(self.count as usize))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// Iterates over the records of one batch; ends after the first error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    remaining: u32,
    next_offset_delta: u32,
    last_offset_delta: u32,
    base_timestamp: Timestamp,
    append_time: Option<Timestamp>,
    ended: bool,
}

impl<'a> Records<'a> {
    /// The records in `section`, which is the batch's records section, decompressed.
    #[must_use]
    pub const fn new(header: &BatchHeader, section: &'a [u8]) -> Self {
        let append_time = match header.timestamp_type() {
            TimestampType::Create => None,
            TimestampType::LogAppend => Some(header.max_timestamp),
        };
        Self {
            rest: section,
            remaining: header.record_count,
            next_offset_delta: 0,
            last_offset_delta: header.last_offset_delta,
            base_timestamp: header.base_timestamp,
            append_time,
            ended: false,
        }
    }

    fn take_record(&mut self) -> Result<Record<'a>, CorruptRecord> {
        let length = read_varint(&mut self.rest)?;
        let mut body = take(&mut self.rest, length).ok_or(CorruptRecord::Length(length))?;
        let (_attributes, fields) = body.split_first().ok_or(CorruptRecord::NoAttributes)?;
        body = fields;
        let timestamp = self.timestamp(read_varlong(&mut body)?)?;
        let offset_delta = self.offset_delta(read_varint(&mut body)?)?;
        let key = take_nullable(&mut body)?;
        let value = take_nullable(&mut body)?;
        let headers = take_headers(&mut body)?;
        if !body.is_empty() {
            return Err(CorruptRecord::BytesInRecord(body.len()));
        }
        Ok(Record { offset_delta, timestamp, key, value, headers })
    }

    fn timestamp(&self, delta: i64) -> Result<Timestamp, CorruptRecord> {
        let made = self.base_timestamp.0.checked_add(delta).map(Timestamp);
        self.append_time.or(made).ok_or(CorruptRecord::TimestampDelta(delta))
    }

    fn offset_delta(&mut self, delta: i32) -> Result<u32, CorruptRecord> {
        let wrong = CorruptRecord::OffsetDelta(delta);
        let found = u32::try_from(delta).map_err(|_| wrong)?;
        if found < self.next_offset_delta || found > self.last_offset_delta {
            return Err(wrong);
        }
        self.next_offset_delta = found.saturating_add(1);
        Ok(found)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, CorruptRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let Some(remaining) = self.remaining.checked_sub(1) else {
            self.ended = true;
            return (!self.rest.is_empty()).then_some(Err(CorruptRecord::BytesInBatch(self.rest.len())));
        };
        self.remaining = remaining;
        let record = self.take_record();
        self.ended = record.is_err();
        Some(record)
    }
}

/// Takes `length` bytes from the front; `None` where it is negative or there are fewer.
fn take<'a>(bytes: &mut &'a [u8], length: i32) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(taken)
}

fn take_nullable<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, CorruptRecord> {
    match read_varint(bytes)? {
        -1 => Ok(None),
        length => take(bytes, length).map(Some).ok_or(CorruptRecord::FieldLength(length)),
    }
}

fn take_header<'a>(bytes: &mut &'a [u8]) -> Result<Header<'a>, CorruptRecord> {
    let key = take_nullable(bytes)?.ok_or(CorruptRecord::NullHeaderKey)?;
    Ok(Header { key, value: take_nullable(bytes)? })
}

fn take_headers<'a>(bytes: &mut &'a [u8]) -> Result<Headers<'a>, CorruptRecord> {
    let announced = read_varint(bytes)?;
    let wrong = CorruptRecord::HeaderCount(announced);
    let count = u32::try_from(announced).map_err(|_| wrong)?;
    // A header takes two bytes at least, so a count that lies costs no more than the record's own bytes.
    if (count as usize).saturating_mul(2) > bytes.len() {
        return Err(wrong);
    }
    let headers = Headers { count, bytes };
    for _ in 0..count {
        take_header(bytes)?;
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::RecordBatch;
    use crate::builder::{BatchBuilder, NewRecord};
    use crate::varint::{VarintError, write_varint};

    fn header(record_count: u32) -> BatchHeader {
        let mut builder = BatchBuilder::new();
        builder.push(&NewRecord::default()).unwrap();
        let bytes = builder.build().unwrap();
        let header = *RecordBatch::parse(&bytes).unwrap().0.header();
        BatchHeader { record_count, last_offset_delta: record_count.saturating_sub(1), ..header }
    }

    fn record(fields: &[u8]) -> Vec<u8> {
        let mut section = Vec::new();
        write_varint(&mut section, i32::try_from(fields.len()).unwrap());
        section.extend_from_slice(fields);
        section
    }

    fn first_error(section: &[u8]) -> CorruptRecord {
        Records::new(&header(1), section).find_map(Result::err).expect("the section is wrong")
    }

    #[test]
    fn each_fault_of_a_record_has_its_own_error() {
        assert_eq!(first_error(&[]), CorruptRecord::Varint(VarintError::Truncated));
        assert_eq!(first_error(&[1]), CorruptRecord::Length(-1));
        assert_eq!(first_error(&[20, 0]), CorruptRecord::Length(10));
        assert_eq!(first_error(&[0]), CorruptRecord::NoAttributes);
        // attributes, timestamp delta, offset delta, key, value, header count
        assert_eq!(first_error(&record(&[0, 0, 2, 1, 1, 0])), CorruptRecord::OffsetDelta(1));
        assert_eq!(first_error(&record(&[0, 0, 1, 1, 1, 0])), CorruptRecord::OffsetDelta(-1));
        assert_eq!(first_error(&record(&[0, 0, 0, 3, 1, 0])), CorruptRecord::FieldLength(-2));
        assert_eq!(first_error(&record(&[0, 0, 0, 1, 40, 0])), CorruptRecord::FieldLength(20));
        assert_eq!(first_error(&record(&[0, 0, 0, 1, 1, 1])), CorruptRecord::HeaderCount(-1));
        assert_eq!(first_error(&record(&[0, 0, 0, 1, 1, 4, 0, 1])), CorruptRecord::HeaderCount(2));
        assert_eq!(first_error(&record(&[0, 0, 0, 1, 1, 2, 1, 1])), CorruptRecord::NullHeaderKey);
        assert_eq!(first_error(&record(&[0, 0, 0, 1, 1, 0, 9])), CorruptRecord::BytesInRecord(1));
        let mut two = record(&[0, 0, 0, 1, 1, 0]);
        two.push(0);
        assert_eq!(first_error(&two), CorruptRecord::BytesInBatch(1));
    }

    #[test]
    fn iteration_ends_after_an_error() {
        let section = [record(&[0, 0, 0, 1, 1, 0]), record(&[0, 0, 0, 1, 1, 0])].concat();
        let found: Vec<_> = Records::new(&header(2), &section).collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].is_ok());
        assert_eq!(found[1], Err(CorruptRecord::OffsetDelta(0)));
    }

    #[test]
    fn a_time_that_cannot_be_represented_is_an_error() {
        let mut late = header(1);
        late.base_timestamp = Timestamp(i64::MAX);
        let section = record(&[0, 2, 0, 1, 1, 0]);
        let found: Vec<_> = Records::new(&late, &section).collect();
        assert_eq!(found, [Err(CorruptRecord::TimestampDelta(1))]);
    }

    #[test]
    fn a_batch_that_compaction_emptied_has_no_records_and_no_error() {
        let mut emptied = header(0);
        emptied.last_offset_delta = 7;
        assert_eq!(Records::new(&emptied, &[]).count(), 0);
    }
}
