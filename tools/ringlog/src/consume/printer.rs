//! Printing of records.

use std::io::{self, Write};
use std::rc::Rc;

use engine_record::{CorruptRecord, Offset, PartitionIndex};
use net_client::{ConsumedRecord, FetchedRecords};

use super::format::Format;
use crate::client;
use crate::failure::Failure;
use crate::json_record::as_json;
use crate::output::{Reader, reader};

/// What is printed of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A line with its value.
    Values,
    /// A line of JSON with all of it.
    Json,
    /// What the format says.
    Format(Format),
}

/// A record that can't be printed.
#[derive(Debug, thiserror::Error)]
#[error(
    "{topic}/{partition}: at offset {offset} a record can't be read: {cause}; what follows its batch can, with \
     --partition {partition} --from OFFSET"
)]
struct Unreadable {
    topic: Rc<str>,
    partition: PartitionIndex,
    offset: Offset,
    cause: CorruptRecord,
}

/// Prints records as they come.
pub(super) struct Printer<W> {
    pub(super) out: W,
    pub(super) shape: Shape,
    /// Records to be printed yet; `None` where there is no limit.
    pub(super) left: Option<u64>,
}

impl<W: Write> Printer<W> {
    /// Prints the records before `end`, as many as are wanted.
    pub(super) fn print(&mut self, records: &FetchedRecords, end: Option<Offset>) -> Result<Reader, Failure> {
        let place = (records.topic(), records.partition());
        self.print_all(place, records.position(), end, records.records())
    }

    /// `next` is where the first record is to be looked for.
    pub(super) fn print_all<'a>(
        &mut self,
        (topic, partition): (&Rc<str>, PartitionIndex),
        mut next: Offset,
        end: Option<Offset>,
        records: impl Iterator<Item = Result<ConsumedRecord<'a>, CorruptRecord>>,
    ) -> Result<Reader, Failure> {
        for record in records {
            if self.left == Some(0) || end.is_some_and(|end| next >= end) {
                break;
            }
            let unreadable = |cause| Unreadable { topic: Rc::clone(topic), partition, offset: next, cause };
            let record = record.map_err(|cause| client::failed(&unreadable(cause)))?;
            if end.is_some_and(|end| record.offset >= end) {
                break;
            }
            if reader(self.print_record((topic, partition), &record))? == Reader::Gone {
                return Ok(Reader::Gone);
            }
            self.left = self.left.map(|left| left - 1);
            next = record.offset.checked_add(1).unwrap_or(Offset::MAX);
        }
        reader(self.out.flush())
    }

    fn print_record(
        &mut self,
        (topic, partition): (&str, PartitionIndex),
        record: &ConsumedRecord<'_>,
    ) -> io::Result<()> {
        match &self.shape {
            Shape::Json => writeln!(self.out, "{}", as_json(partition.0, record)),
            Shape::Format(format) => format.print(topic, partition, record, &mut self.out),
            Shape::Values => {
                self.out.write_all(record.value.unwrap_or_default())?;
                self.out.write_all(b"\n")
            }
        }
    }
}
