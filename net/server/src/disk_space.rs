//! How full the drives are, and what is refused for it.
//!
//! ```text
//!   free bytes   ...... ample ......| below soft: records are refused |below hard: new topics too|
//!                                   ^ disk_soft_watermark             ^ disk_hard_watermark
//! ```
//!
//! The control executor looks, as often as the drive may fill up; shards read where it stands. What is below the soft
//! watermark is for what goes on all the same: what is under way, deletions, indexes, checkpoints. What is below the hard
//! one is kept for the metadata.

use core::fmt;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine_io::{FileSystemSpace, Io};

use crate::log_directories::LogDirectory;

/// The most that a drive is taken to be able to write, in bytes a second: says when the next look is due.
const FASTEST_WRITES: u64 = 4 << 30;
/// Between two looks, at least and at most.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(10);
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(1);
/// A state is left once there is this part more free than its watermark, so that it doesn't come and go.
const RETURN_PART: u64 = 10;

/// How much of a drive is to stay free: a part of it, but no more than so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// Of all the space, 0 to 100.
    percent: u8,
    /// At most, in bytes.
    bytes_max: u64,
}

/// When records are refused, and when new topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Below it no record is taken from a producer.
    pub soft: Watermark,
    /// Below it no topic is created either. Counts as the soft one where it is above that.
    pub hard: Watermark,
}

impl Watermark {
    /// Nothing needs to stay free.
    pub const NONE: Self = Self { percent: 0, bytes_max: 0 };

    /// So many bytes, or all there is.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self { percent: 100, bytes_max: bytes }
    }

    /// Reads `5%`, `10GiB`, `500MB` or a number of bytes.
    ///
    /// # Errors
    /// What would be right.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim().parse().ok().filter(|percent| *percent <= 100);
            return percent.map(|percent| Self { percent, bytes_max: u64::MAX }).ok_or(EXPECTED);
        }
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or(EXPECTED)?;
        let number: u64 = number.parse().map_err(|_| EXPECTED)?;
        number.checked_mul(*bytes).map(Self::bytes).ok_or(EXPECTED)
    }

    /// The same in bytes, of a drive of `total_bytes`.
    fn of(self, total_bytes: u64) -> u64 {
        let part = u128::from(total_bytes) * u128::from(self.percent) / 100;
        u64::try_from(part).unwrap_or(u64::MAX).min(self.bytes_max)
    }
}

const EXPECTED: &str = "expected a percentage such as `5%`, or bytes such as `10GiB`; `0` for none";

const UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// As it may be written, but for a part with a bound.
impl fmt::Display for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { percent, bytes_max: u64::MAX } => write!(f, "{percent}%"),
            Self { percent: 100, bytes_max } => write!(f, "{}", in_units(bytes_max)),
            Self { percent, bytes_max } => write!(f, "{percent}%, at most {}", in_units(bytes_max)),
        }
    }
}

/// So many bytes in the largest unit that leaves no part of one.
fn in_units(bytes: u64) -> String {
    let fits = |(_, unit): &&(&str, u64)| bytes >= *unit && bytes.is_multiple_of(*unit);
    // Of several with one meaning the first counts: bytes have no unit.
    let largest = UNITS.iter().rev().filter(fits).max_by_key(|(_, unit)| unit);
    largest.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

impl Watermarks {
    /// Nothing is ever refused.
    pub const NONE: Self = Self { soft: Watermark::NONE, hard: Watermark::NONE };
}

impl Default for Watermarks {
    fn default() -> Self {
        Self {
            soft: Watermark { percent: 5, bytes_max: 5 << 30 },
            hard: Watermark { percent: 1, bytes_max: 1 << 30 },
        }
    }
}

/// Where a drive stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// Everything goes on.
    Ample = 0,
    /// No records are taken.
    BelowSoft = 1,
    /// No topics are created either.
    BelowHard = 2,
}

/// Follows one drive.
#[derive(Debug)]
struct Gauge {
    watermarks: Watermarks,
    standing: Standing,
}

impl Gauge {
    const fn new(watermarks: Watermarks) -> Self {
        Self { watermarks, standing: Standing::Ample }
    }

    /// Both in bytes, on a drive of that size.
    fn bounds(&self, total_bytes: u64) -> (u64, u64) {
        let soft = self.watermarks.soft.of(total_bytes);
        (soft, self.watermarks.hard.of(total_bytes).min(soft))
    }

    /// Takes note of what is free; where the drive stands then.
    fn look(&mut self, space: FileSystemSpace) -> Standing {
        let (soft, hard) = self.bounds(space.total_bytes);
        let is_below = |watermark: u64, standing: Standing| {
            let to_return = if self.standing >= standing { watermark / RETURN_PART } else { 0 };
            space.free_bytes < watermark.saturating_add(to_return)
        };
        self.standing = if is_below(hard, Standing::BelowHard) {
            Standing::BelowHard
        } else if is_below(soft, Standing::BelowSoft) {
            Standing::BelowSoft
        } else {
            Standing::Ample
        };
        self.standing
    }

    /// When to look again: before the drive could have filled up to the next watermark.
    fn pause(&self, space: FileSystemSpace) -> Duration {
        let (soft, hard) = self.bounds(space.total_bytes);
        let next = if self.standing == Standing::Ample { soft } else { hard };
        let room =
            Duration::from_secs_f64(space.free_bytes.saturating_sub(next) as f64 / FASTEST_WRITES as f64);
        room.clamp(LOOK_PAUSE_MIN, LOOK_PAUSE_MAX)
    }
}

/// Where a drive stands, for all cores to read.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskSpace(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    standing: AtomicU8,
    soft_bytes: AtomicU64,
    hard_bytes: AtomicU64,
}

/// Why something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the drive has less than {bytes} bytes free (`{setting}`): free some, or delete topics or records")]
pub(crate) struct LowSpace {
    setting: &'static str,
    bytes: u64,
}

impl DiskSpace {
    fn set(&self, standing: Standing, (soft, hard): (u64, u64)) {
        self.0.soft_bytes.store(soft, Ordering::Relaxed);
        self.0.hard_bytes.store(hard, Ordering::Relaxed);
        self.0.standing.store(standing as u8, Ordering::Relaxed);
    }

    /// # Errors
    /// No record is to be taken from a producer.
    pub(crate) fn check_records(&self) -> Result<(), LowSpace> {
        self.check(Standing::BelowSoft, "disk_soft_watermark", &self.0.soft_bytes)
    }

    /// # Errors
    /// No topic or partition is to be created.
    pub(crate) fn check_topics(&self) -> Result<(), LowSpace> {
        self.check(Standing::BelowHard, "disk_hard_watermark", &self.0.hard_bytes)
    }

    fn check(&self, from: Standing, setting: &'static str, bytes: &AtomicU64) -> Result<(), LowSpace> {
        if self.0.standing.load(Ordering::Relaxed) < from as u8 {
            return Ok(());
        }
        Err(LowSpace { setting, bytes: bytes.load(Ordering::Relaxed) })
    }
}

/// The drives of a node: that of the data folder, and those of its log directories.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskSpaces {
    data_folder: (PathBuf, DiskSpace),
    directories: Vec<(LogDirectory, DiskSpace)>,
}

impl DiskSpaces {
    pub(crate) fn new(data_folder: &Path, directories: &[LogDirectory]) -> Self {
        let data = (data_folder.to_owned(), DiskSpace::default());
        let space = |path: &Path| if path == data_folder { data.1.clone() } else { DiskSpace::default() };
        let directories =
            directories.iter().map(|directory| (directory.clone(), space(&directory.path))).collect();
        Self { data_folder: data, directories }
    }

    /// Those of the log directories, in their order.
    pub(crate) fn of_directories(&self) -> Vec<DiskSpace> {
        self.directories.iter().map(|(_, space)| space.clone()).collect()
    }

    /// What looks at them: one for each folder that is there.
    pub(crate) fn watches<I: Io>(&self, io: &I, watermarks: Watermarks) -> Vec<Watch<I>> {
        let (data_folder, _) = &self.data_folder;
        let apart = self.online().filter(|(directory, _)| directory.path != *data_folder);
        let folders = apart.map(|(directory, space)| (&directory.path, space));
        let folders = [(data_folder, &self.data_folder.1)].into_iter().chain(folders);
        folders.map(|(folder, space)| Watch::new(io.clone(), folder, watermarks, space.clone())).collect()
    }

    fn online(&self) -> impl Iterator<Item = &(LogDirectory, DiskSpace)> {
        self.directories.iter().filter(|(directory, _)| directory.offline.is_none())
    }

    /// Topics need space for the metadata, and some log directory with space for theirs.
    ///
    /// # Errors
    /// No topic is to be created.
    pub(crate) fn check_topics(&self) -> Result<(), LowSpace> {
        self.data_folder.1.check_topics()?;
        let mut refusals = self.online().map(|(_, space)| space.check_topics());
        // Where there is none, nothing is known against it.
        let first = refusals.next().unwrap_or(Ok(()));
        if refusals.any(|refusal| refusal.is_ok()) { Ok(()) } else { first }
    }
}

/// Looks at the drive under a folder.
pub(crate) struct Watch<I: Io> {
    io: I,
    folder: PathBuf,
    gauge: Gauge,
    shared: DiskSpace,
    /// Whether the last look failed.
    is_blind: bool,
}

impl<I: Io> Watch<I> {
    pub(crate) fn new(io: I, folder: &Path, watermarks: Watermarks, shared: DiskSpace) -> Self {
        Self { io, folder: folder.to_owned(), gauge: Gauge::new(watermarks), shared, is_blind: false }
    }

    /// Looks once; how long until the next look. Where the system doesn't tell, all stays as it is.
    pub(crate) async fn look(&mut self) -> Duration {
        let found = self.io.space(&self.folder).await;
        let was_blind = core::mem::replace(&mut self.is_blind, found.is_err());
        match found {
            Ok(space) => {
                let before = self.gauge.standing;
                let standing = self.gauge.look(space);
                self.shared.set(standing, self.gauge.bounds(space.total_bytes));
                if standing != before {
                    self.tell(standing, space);
                }
                self.gauge.pause(space)
            }
            Err(error) => {
                if !was_blind {
                    let folder = self.folder.display();
                    tracing::warn!(%folder, %error, "the system doesn't tell how much space is free");
                }
                LOOK_PAUSE_MAX
            }
        }
    }

    /// Looks again and again, until the task is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let pause = self.look().await;
            self.io.sleep(pause).await;
        }
    }

    fn tell(&self, standing: Standing, space: FileSystemSpace) {
        let (folder, free_bytes) = (self.folder.display(), space.free_bytes);
        let drive_bytes = space.total_bytes;
        let (soft_bytes, hard_bytes) = self.gauge.bounds(drive_bytes);
        match standing {
            Standing::Ample => {
                tracing::info!(%folder, free_bytes, "there is space again: records and new topics are taken");
            }
            Standing::BelowSoft => tracing::warn!(
                %folder, free_bytes, soft_bytes, drive_bytes,
                "less is free than disk_soft_watermark: records are refused, reads and deletions go on. {}",
                remedy(soft_bytes, drive_bytes)
            ),
            Standing::BelowHard => tracing::warn!(
                %folder, free_bytes, hard_bytes, drive_bytes,
                "less is free than disk_hard_watermark: records and new topics are refused, reads and deletions go on. {}",
                remedy(hard_bytes, drive_bytes)
            ),
        }
    }
}

/// What helps where less than that is free of a drive of so many bytes.
fn remedy(watermark_bytes: u64, drive_bytes: u64) -> &'static str {
    if watermark_bytes >= drive_bytes {
        // A number of bytes that the drive doesn't have counts as all of it.
        "The drive has no more than that in all: lower the watermark"
    } else {
        "Free space on the drive, or delete topics or records"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn space(free_bytes: u64) -> FileSystemSpace {
        FileSystemSpace { total_bytes: 100 * GIB, free_bytes }
    }

    fn gauge() -> Gauge {
        Gauge::new(Watermarks { soft: Watermark::bytes(10 * GIB), hard: Watermark::bytes(GIB) })
    }

    #[test]
    fn a_watermark_is_read_as_a_part_or_as_bytes() {
        let of = |text: &str| Watermark::parse(text).map(|watermark| watermark.of(1_000_000_000));
        assert_eq!(of("5%"), Ok(50_000_000));
        assert_eq!(of(" 100 % "), Ok(1_000_000_000));
        assert_eq!(of("3MiB"), Ok(3 << 20));
        assert_eq!(of("7 MB"), Ok(7_000_000));
        assert_eq!(of("4096"), Ok(4096));
        assert_eq!(of("0"), Ok(0));
        assert_eq!(of("2TiB"), Ok(1_000_000_000), "no more than there is");
        for wrong in ["", "101%", "-1", "5 parsecs", "1.5GiB", "99999999TiB", "%", "GiB"] {
            assert_eq!(of(wrong), Err(EXPECTED), "{wrong}");
        }
    }

    #[test]
    fn a_watermark_is_told_as_it_may_be_written() {
        for text in ["5%", "100%", "20GiB", "7MB", "3TiB", "1025", "0"] {
            assert_eq!(Watermark::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Watermarks::default().soft.to_string(), "5%, at most 5GiB");
    }

    #[test]
    fn unless_told_otherwise_a_twentieth_stays_free_and_no_more_than_five_gibibytes() {
        let of = |total| Gauge::new(Watermarks::default()).bounds(total);
        assert_eq!(of(20 * GIB), (GIB, 20 * GIB / 100));
        assert_eq!(of(4_000 * GIB), (5 * GIB, GIB));
    }

    #[test]
    fn a_hard_watermark_above_the_soft_one_counts_as_that() {
        let watermarks = Watermarks { soft: Watermark::bytes(GIB), hard: Watermark::bytes(10 * GIB) };
        assert_eq!(Gauge::new(watermarks).bounds(100 * GIB), (GIB, GIB));
    }

    #[test]
    fn a_watermark_that_no_drive_of_its_size_can_keep_is_told_as_such() {
        let watermarks = Watermarks { soft: Watermark::bytes(500 * GIB), hard: Watermark::bytes(GIB) };
        let (soft, hard) = Gauge::new(watermarks).bounds(100 * GIB);
        assert!(remedy(soft, 100 * GIB).contains("lower the watermark"));
        assert!(remedy(hard, 100 * GIB).contains("Free space"));
    }

    #[test]
    fn a_drive_falls_below_each_watermark_and_returns_a_little_above_it() {
        let mut gauge = gauge();
        let mut stands = |free| gauge.look(space(free));
        assert_eq!(stands(10 * GIB), Standing::Ample);
        assert_eq!(stands(10 * GIB - 1), Standing::BelowSoft);
        assert_eq!(stands(11 * GIB - 1), Standing::BelowSoft);
        assert_eq!(stands(11 * GIB), Standing::Ample);
        assert_eq!(stands(GIB - 1), Standing::BelowHard);
        assert_eq!(stands(GIB + 1), Standing::BelowHard);
        assert_eq!(stands(2 * GIB), Standing::BelowSoft);
        assert_eq!(stands(50 * GIB), Standing::Ample);
        assert_eq!(stands(0), Standing::BelowHard);
    }

    #[test]
    fn nothing_is_refused_without_watermarks() {
        let mut gauge = Gauge::new(Watermarks::NONE);
        assert_eq!(gauge.look(space(0)), Standing::Ample);
    }

    #[test]
    fn the_next_look_comes_before_the_fastest_drive_reaches_the_next_watermark() {
        let mut gauge = gauge();
        let mut pause = |free| {
            gauge.look(space(free));
            gauge.pause(space(free))
        };
        assert_eq!(pause(90 * GIB), LOOK_PAUSE_MAX);
        assert_eq!(pause(11 * GIB), Duration::from_millis(250));
        assert_eq!(pause(10 * GIB), LOOK_PAUSE_MIN);
        assert_eq!(pause(9 * GIB), LOOK_PAUSE_MAX, "the next is the hard one");
        assert_eq!(pause(GIB), LOOK_PAUSE_MIN);
    }

    #[test]
    fn all_cores_read_what_was_seen() {
        let shared = DiskSpace::default();
        let other = shared.clone();
        assert!(other.check_records().is_ok() && other.check_topics().is_ok());
        shared.set(Standing::BelowSoft, (10, 5));
        assert_eq!(other.check_records(), Err(LowSpace { setting: "disk_soft_watermark", bytes: 10 }));
        assert!(other.check_topics().is_ok());
        shared.set(Standing::BelowHard, (10, 5));
        assert!(other.check_records().is_err());
        assert_eq!(other.check_topics(), Err(LowSpace { setting: "disk_hard_watermark", bytes: 5 }));
    }
}
