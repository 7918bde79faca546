//! The segments of a partition, one behind the other.

use std::io;
use std::path::{Path, PathBuf};

use engine_record::{LeaderEpoch, Offset};

use super::found::Partition;
use super::segment::{Begin, verify_segment};
use super::{Report, Writer};

/// Checks all segments: each goes on where the one before it ends.
///
/// # Errors
/// A file can't be read, and which.
pub(crate) fn verify_partition(
    partition: &Partition,
    writer: Writer,
    report: &mut Report,
) -> Result<(), (PathBuf, io::Error)> {
    report.partitions += 1;
    let (mut end, mut epoch) = (None, LeaderEpoch(-1));
    for (index, path) in partition.segments.iter().enumerate() {
        let is_last = partition.is_whole && index + 1 == partition.segments.len();
        // Whoever names one segment may have named the one that is written.
        let is_written = writer == Writer::Running && (is_last || !partition.is_whole);
        let Some(base) = base_offset(path) else {
            report.damage(path, 0, "no segment has such a name: 20 digits, the offset of its first record");
            end = None;
            continue;
        };
        if let Some(end) = end.filter(|end| *end != base) {
            report.damage(
                path,
                0,
                format!("it begins at offset {base}, and the segment before it ends at {end}"),
            );
        }
        let begin = Begin { base, epoch, is_written };
        let checked = verify_segment(path, &begin, report).map_err(|error| (path.clone(), error))?;
        (end, epoch) = (checked.end, checked.epoch);
    }
    Ok(())
}

/// The offset that a segment's name says.
fn base_offset(path: &Path) -> Option<Offset> {
    let digits = path.file_stem()?.to_str()?;
    let is_offset = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_offset).and_then(Offset::new)
}
