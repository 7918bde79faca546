//! How long a durable write takes on the drive under a folder.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::TuningError;
use crate::scratch::ScratchFile;

/// When a probe stops: at whichever comes first, but never before one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeBounds {
    /// Rounds at most, each one write and one flush.
    pub rounds_max: u32,
    /// Time at most. A round in progress is finished.
    pub time_max: Duration,
}

impl Default for ProbeBounds {
    /// Enough for a p99 from ten rounds above it, in a second on a drive that takes a millisecond.
    fn default() -> Self {
        Self { rounds_max: 1_000, time_max: Duration::from_secs(2) }
    }
}

/// Latencies in ascending order; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    fn of(mut rounds: Vec<Duration>) -> Self {
        assert!(!rounds.is_empty(), "a probe makes at least one round");
        rounds.sort_unstable();
        Self(rounds)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The median.
    #[must_use]
    pub fn p50(&self) -> Duration {
        self.at_percent(50)
    }

    /// The latency that 99 of 100 rounds did not exceed.
    #[must_use]
    pub fn p99(&self) -> Duration {
        self.at_percent(99)
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.at_percent(100)
    }

    /// Nearest rank: the smallest latency that at least `percent` of the rounds did not exceed.
    /// Of four rounds the second is the p50, and the fourth both the p99 and the maximum.
    fn at_percent(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100);
        assert!((1..=self.0.len()).contains(&rank), "a percentile is one of the rounds");
        self.0[rank - 1]
    }
}

/// What a probe measured. Under both headings there is one latency a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlushMeasurement {
    /// A direct write of 4 KiB and the flush after it: the floor under every durable append.
    pub durable_write: Latencies,
    /// The flush alone.
    pub flush: Latencies,
}

/// Measures direct writes of 4 KiB into pre-written space, each followed by a flush
/// (`fdatasync`), in a scratch file without a name. Blocks the thread for as long as `bounds` says.
///
/// # Errors
///
/// [`TuningError::DirectIoRefused`] and [`TuningError::MemoryFilesystem`] about the file system;
/// [`TuningError::Scratch`] for any other failure, with the step.
pub fn measure_flush(folder: &Path, bounds: ProbeBounds) -> Result<FlushMeasurement, TuningError> {
    let mut scratch = ScratchFile::create(folder)?;
    let (mut durable_writes, mut flushes) = (Vec::new(), Vec::new());
    let start = now();
    for round in 0..bounds.rounds_max.max(1) {
        if round > 0 && start.elapsed() >= bounds.time_max {
            break;
        }
        let before_write = now();
        scratch.write_block()?;
        let before_flush = now();
        scratch.flush()?;
        flushes.push(before_flush.elapsed());
        durable_writes.push(before_write.elapsed());
    }
    Ok(FlushMeasurement { durable_write: Latencies::of(durable_writes), flush: Latencies::of(flushes) })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a drive is measured against the real clock, before any shard runs"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FilesystemKind, filesystem_of};

    /// Where temporary folders lie in memory, or on a file system without nameless files.
    fn cannot_be_probed(error: &TuningError) -> bool {
        matches!(
            error,
            TuningError::MemoryFilesystem { .. }
                | TuningError::DirectIoRefused { .. }
                | TuningError::Scratch { step: "create", .. }
        )
    }

    fn latencies(micros: impl IntoIterator<Item = u64>) -> Latencies {
        Latencies::of(micros.into_iter().map(Duration::from_micros).collect())
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let four = latencies([40, 10, 30, 20]);
        assert_eq!(four.p50(), Duration::from_micros(20));
        assert_eq!((four.p99(), four.max()), (Duration::from_micros(40), Duration::from_micros(40)));
        let thousand = latencies((1..=1_000).rev());
        assert_eq!(thousand.p50(), Duration::from_micros(500));
        assert_eq!(thousand.p99(), Duration::from_micros(990));
        assert_eq!((thousand.max(), thousand.count()), (Duration::from_micros(1_000), 1_000));
        assert_eq!(latencies([7]).p50(), Duration::from_micros(7));
    }

    #[test]
    fn a_drive_is_measured_within_the_bounds_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let bounds = ProbeBounds { rounds_max: 3, time_max: Duration::from_secs(60) };
        match measure_flush(folder.path(), bounds) {
            Ok(measured) => {
                assert_eq!((measured.flush.count(), measured.durable_write.count()), (3, 3));
                assert!(measured.flush.max() <= measured.durable_write.max());
            }
            Err(error) => assert!(cannot_be_probed(&error), "{error}"),
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn one_round_is_made_even_without_rounds_or_time() {
        let folder = tempfile::tempdir().unwrap();
        let bounds = ProbeBounds { rounds_max: 0, time_max: Duration::ZERO };
        match measure_flush(folder.path(), bounds) {
            Ok(measured) => assert_eq!(measured.flush.count(), 1),
            Err(error) => assert!(cannot_be_probed(&error), "{error}"),
        }
    }

    #[test]
    fn memory_is_refused_because_it_keeps_nothing() {
        let folder = Path::new("/dev/shm");
        let tmpfs = FilesystemKind::Other("tmpfs".to_owned());
        if filesystem_of(Path::new("/"), folder).unwrap().kind != tmpfs {
            return;
        }
        let error = measure_flush(folder, ProbeBounds::default()).unwrap_err();
        let refused =
            matches!(error, TuningError::MemoryFilesystem { .. } | TuningError::DirectIoRefused { .. });
        assert!(refused && error.to_string().contains("/dev/shm"), "{error}");
    }
}
