//! What retention owes for a log at any time: it keeps within one segment of its bounds, and deletes nothing that is within
//! them.

use core::time::Duration;

use engine_record::Timestamp;

/// A topic's settings.
pub(super) struct Bounds {
    pub(super) age: Duration,
    pub(super) bytes: Option<u64>,
    pub(super) segment_bytes: u64,
    pub(super) segment_age: Duration,
}

/// A batch that was appended.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    pub(super) base_offset: i64,
    /// Exclusive.
    pub(super) end_offset: i64,
    pub(super) bytes: u64,
    /// The time of all its records; it was appended at once.
    pub(super) made_at: Timestamp,
}

/// A log as its node tells of it.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) log_start: i64,
    pub(super) bytes: u64,
    pub(super) segments: u64,
    /// The node has looked for what is to go at this time or later, and nothing was appended since.
    pub(super) looked_at: Timestamp,
    pub(super) now: Timestamp,
}

/// What is wrong, in words.
pub(super) fn check(bounds: &Bounds, batches: &[Batch], seen: &Seen) -> Vec<String> {
    let (gone, kept) = batches.split_at(batches.partition_point(|batch| batch.base_offset < seen.log_start));
    let starts_within_a_batch = gone.last().is_some_and(|last| last.end_offset != seen.log_start);
    let torn = starts_within_a_batch.then(|| "the log starts within a batch".to_owned());
    let told = (bytes(kept) != seen.bytes).then(|| format!("{} bytes are left", bytes(kept)));
    let wrong =
        [torn, told, counted(bounds, kept, seen), too_old(bounds, kept, seen), too_large(bounds, kept)];
    wrong.into_iter().flatten().chain(too_young(bounds, gone, kept, seen)).collect()
}

fn bytes(batches: &[Batch]) -> u64 {
    batches.iter().map(|batch| batch.bytes).sum()
}

fn elapsed(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(later.0 - earlier.0).unwrap_or(0))
}

/// As many segments as it takes, and none without a batch but the active one.
fn counted(bounds: &Bounds, kept: &[Batch], seen: &Seen) -> Option<String> {
    let possible = bytes(kept).div_ceil(bounds.segment_bytes).max(1)..=kept.len() as u64 + 1;
    (!possible.contains(&seen.segments))
        .then(|| format!("{} segments where {possible:?} may be", seen.segments))
}

/// The oldest segment goes once its latest record is too old: so that is not older than the bound, and the oldest is older by
/// what a segment spans.
fn too_old(bounds: &Bounds, kept: &[Batch], seen: &Seen) -> Option<String> {
    let age = elapsed(oldest_segment(bounds, kept).last()?.made_at, seen.looked_at);
    (age >= bounds.age).then(|| format!("a segment of {age:?} is still there"))
}

/// What may be in the oldest segment, at most.
fn oldest_segment<'b>(bounds: &Bounds, kept: &'b [Batch]) -> &'b [Batch] {
    /// What is appended is so a little later than it is made.
    const UNDER_WAY: Duration = Duration::from_secs(1);
    let Some(first) = kept.first() else { return kept };
    let mut filled = 0;
    let fits = |batch: &&Batch| {
        filled += batch.bytes;
        let span = elapsed(first.made_at, batch.made_at);
        filled <= bounds.segment_bytes && span < bounds.segment_age + UNDER_WAY
    };
    let count = kept.iter().take_while(fits).count();
    kept.split_at(count).0
}

fn too_large(bounds: &Bounds, kept: &[Batch]) -> Option<String> {
    let limit = bounds.bytes? + bounds.segment_bytes;
    (bytes(kept) > limit).then(|| format!("{} bytes are there of {limit}", bytes(kept)))
}

/// What is gone was too old, or too much: without it there was as much as is to be kept.
fn too_young(bounds: &Bounds, gone: &[Batch], kept: &[Batch], seen: &Seen) -> Option<String> {
    let age = elapsed(gone.last()?.made_at, seen.now);
    let was_due = age >= bounds.age || bounds.bytes.is_some_and(|keep| bytes(kept) >= keep);
    (!was_due).then(|| format!("a batch of {age:?} is gone, and {} bytes are left", bytes(kept)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        age: Duration::from_secs(100),
        bytes: None,
        segment_bytes: 25,
        segment_age: Duration::from_secs(1_000),
    };

    /// Of 10 bytes, one each ten seconds: two fit a segment.
    fn batches() -> Vec<Batch> {
        let batch = |number: i64| Batch {
            base_offset: number,
            end_offset: number + 1,
            bytes: 10,
            made_at: Timestamp(number * 10_000),
        };
        (0..20).map(batch).collect()
    }

    fn wrong(bounds: &Bounds, log_start: i64, now_s: i64) -> usize {
        let (bytes, now) = (10 * u64::try_from(20 - log_start).unwrap(), Timestamp(now_s * 1_000));
        let seen = Seen { log_start, bytes, segments: bytes.div_ceil(25).max(1), looked_at: now, now };
        check(bounds, &batches(), &seen).len()
    }

    #[test]
    fn a_segment_goes_when_its_latest_record_is_too_old_and_no_earlier() {
        // The oldest is that of the records of 0 and 10 s.
        assert_eq!(wrong(&BOUNDS, 0, 109), 0);
        assert_eq!(wrong(&BOUNDS, 0, 110), 1, "it is still there");
        assert_eq!(wrong(&BOUNDS, 2, 110), 0);
        assert_eq!(wrong(&BOUNDS, 2, 109), 1, "it is gone too early");
        assert_eq!(wrong(&BOUNDS, 20, 290), 0);
        assert_eq!(wrong(&BOUNDS, 18, 290), 1, "an idle log is emptied");
        assert_eq!(wrong(&BOUNDS, 20, 289), 1);
    }

    #[test]
    fn a_segment_ends_by_its_age_too() {
        let bounds = Bounds { segment_age: Duration::from_secs(5), ..BOUNDS };
        assert_eq!(wrong(&bounds, 0, 99), 0);
        assert_eq!(wrong(&bounds, 0, 100), 1);
    }

    #[test]
    fn by_size_as_much_as_is_to_be_kept_stays_and_less_than_a_segment_more() {
        let bounds = Bounds { bytes: Some(100), ..BOUNDS };
        assert_eq!(wrong(&bounds, 7, 0), 1, "130 bytes");
        for log_start in 8..=10 {
            assert_eq!(wrong(&bounds, log_start, 0), 0);
        }
        assert_eq!(wrong(&bounds, 11, 0), 1, "90 bytes");
    }

    #[test]
    fn what_is_told_is_what_is_there() {
        let sound =
            Seen { log_start: 0, bytes: 200, segments: 8, looked_at: Timestamp(0), now: Timestamp(0) };
        let wrong = |seen: Seen| check(&BOUNDS, &batches(), &seen).len();
        assert_eq!(wrong(sound), 0);
        assert_eq!(wrong(Seen { bytes: 199, ..sound }), 1);
        assert_eq!(wrong(Seen { segments: 7, ..sound }), 1);
        assert_eq!(wrong(Seen { segments: 22, ..sound }), 1);
        let two_records = [Batch { base_offset: 0, end_offset: 2, bytes: 10, made_at: Timestamp(0) }];
        let torn = Seen { log_start: 1, bytes: 0, segments: 1, now: Timestamp(200_000), ..sound };
        assert_eq!(check(&BOUNDS, &two_records, &torn).len(), 1);
    }
}
