//! One segment's file, and the index beside it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::Path;

use engine_log::{NO_RECORD_TIME, SegmentIndex, SegmentSummary, decode_sidecar};
use engine_record::{BatchHeader, LeaderEpoch, Offset, RecordBatch, Records, Timestamp};

use super::Report;
use crate::log_files::{Next, next_batch, section};

/// What is known before a segment is read.
pub(super) struct Begin {
    /// Of its first record.
    pub(super) base: Offset,
    /// Of the last batch before it.
    pub(super) epoch: LeaderEpoch,
    /// Whether its end may move.
    pub(super) is_written: bool,
}

/// What is known once it was read.
pub(super) struct Checked {
    /// Where the next segment begins; `None` where this one can't be read to its end.
    pub(super) end: Option<Offset>,
    pub(super) epoch: LeaderEpoch,
}

/// Where batches begin: their offsets, and the latest time before them. By position.
type Batches = BTreeMap<u64, (Offset, Timestamp)>;

/// A walk over the batches.
struct Walk {
    /// The offset that the next batch has.
    next: Offset,
    epoch: LeaderEpoch,
    position: u64,
    latest: Timestamp,
    batches: Batches,
}

/// Checks a segment and its index.
pub(super) fn verify_segment(path: &Path, begin: &Begin, report: &mut Report) -> io::Result<Checked> {
    report.segments += 1;
    let (next, epoch) = (begin.base, begin.epoch);
    let mut walk = Walk { next, epoch, position: 0, latest: NO_RECORD_TIME, batches: Batches::new() };
    let mut input = BufReader::with_capacity(1 << 20, File::open(path)?);
    let stopped = loop {
        match next_batch(&mut input)? {
            Next::End => break None,
            Next::Damaged(why) => break Some(why),
            Next::Batch(bytes) => match walk.take(path, &bytes, report) {
                Ok(()) => {}
                Err(why) => break Some(why),
            },
        }
    };
    if let Some(why) = &stopped {
        let what = format!("{why}; what follows can't be told apart");
        if begin.is_written {
            report.notes.push(format!(
                "{} at byte {}: {what}; it may be being written",
                path.display(),
                walk.position
            ));
        } else {
            report.damage(path, walk.position, what);
        }
    }
    let is_whole = stopped.is_none();
    if is_whole {
        verify_index(path, begin, &walk, report)?;
    }
    Ok(Checked { end: is_whole.then_some(walk.next), epoch: walk.epoch })
}

impl Walk {
    /// Checks a batch; an error is one behind which the next can't be found.
    fn take(&mut self, path: &Path, bytes: &[u8], report: &mut Report) -> Result<(), String> {
        let header = BatchHeader::parse(bytes, u32::MAX).map_err(|error| error.to_string())?;
        if (bytes.len() as u64) < u64::from(header.batch_bytes) {
            return Err(format!(
                "a batch of {} bytes of which {} are there",
                header.batch_bytes,
                bytes.len()
            ));
        }
        let last =
            header.last_offset().ok_or_else(|| format!("a batch with base offset {}", header.base_offset))?;
        let position = self.position;
        let mut wrong = |what: String| report.damage(path, position, what);
        if header.base_offset != self.next.value() {
            wrong(format!("a batch with base offset {} where {} comes next", header.base_offset, self.next));
        }
        if header.leader_epoch < self.epoch {
            wrong(format!("a batch of leader epoch {} behind one of {}", header.leader_epoch, self.epoch));
        }
        match RecordBatch::parse(bytes) {
            Ok((batch, _)) => unreadable_record(&batch).into_iter().for_each(wrong),
            Err(error) => wrong(error.to_string()),
        }
        self.batches.insert(position, (self.next, self.latest));
        self.next = last.checked_add(1).ok_or_else(|| "the last offset there is".to_owned())?;
        self.epoch = self.epoch.max(header.leader_epoch);
        self.latest = self.latest.max(header.max_timestamp);
        self.position += u64::from(header.batch_bytes);
        report.batches += 1;
        report.records += u64::from(header.record_count);
        report.bytes += u64::from(header.batch_bytes);
        Ok(())
    }
}

/// What is wrong with the batch's records.
fn unreadable_record(batch: &RecordBatch<'_>) -> Option<String> {
    let section = match section(batch) {
        Ok(section) => section,
        Err(error) => return Some(format!("its records can't be decompressed: {error}")),
    };
    let read = Records::new(batch.header(), &section).enumerate();
    let mut wrong = read.filter_map(|(index, record)| Some((index, record.err()?)));
    wrong.next().map(|(index, error)| format!("record {index} of the batch can't be read: {error}"))
}

/// Checks the index of a segment that is whole. A segment that is written has none yet.
fn verify_index(path: &Path, begin: &Begin, walk: &Walk, report: &mut Report) -> io::Result<()> {
    let index_path = path.with_extension("index");
    let bytes = match fs::read(&index_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    let remedy = "remove it, the next start makes it anew";
    let wrongs = match decode_sidecar(&bytes) {
        Ok((summary, index)) => contradictions(begin, walk, (&summary, &index)),
        Err(error) => vec![(0, error.to_string())],
    };
    for (position, what) in wrongs {
        report.damage(&index_path, position, format!("{what}; {remedy}"));
    }
    Ok(())
}

/// Where the index doesn't say what the segment says; at which entry's byte of the index.
fn contradictions(
    begin: &Begin,
    walk: &Walk,
    (summary, index): (&SegmentSummary, &SegmentIndex),
) -> Vec<(u64, String)> {
    let mut wrong = Vec::new();
    if summary.segment.0 != begin.base {
        wrong.push((0, format!("it is of the segment at offset {}", summary.segment.0)));
    }
    let says = (summary.end_offset, u64::from(summary.end_position), summary.max_timestamp);
    let is = (walk.next, walk.position, walk.latest);
    if says != is {
        let text = |(offset, position, time): (Offset, u64, Timestamp)| {
            format!("offset {offset}, byte {position} and latest time {time}")
        };
        wrong.push((0, format!("it says that the segment ends at {}; it does at {}", text(says), text(is))));
    }
    for (number, (begins, latest)) in (0..).zip(index.indexed()) {
        let at = engine_log::SIDECAR_HEADER_BYTES as u64 + number * engine_log::INDEX_ENTRY_BYTES as u64;
        let found = walk.batches.get(&u64::from(begins.position));
        if found != Some(&(begins.offset, latest)) {
            wrong.push((at, match found {
                None => format!("entry {number} points at byte {}, where no batch begins", begins.position),
                Some((offset, time)) => format!(
                    "entry {number} says offset {} and latest time {latest} before byte {}; it is {offset} and {time}",
                    begins.offset, begins.position
                ),
            }));
        }
    }
    wrong
}
