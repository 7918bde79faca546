//! The high watermark never goes back within a leader epoch, covers what was acknowledged, and bounds what is read.

use std::collections::BTreeMap;

use engine_record::Instant;

use crate::runs::history::{Event, Fetched, Log, Reader};

/// A moment from which on the high watermark is known to be at least so far.
type Known = (Instant, i64);

pub(super) fn check(events: &[Event]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut by_epoch: BTreeMap<(Log, i32), Vec<(Reader, i64)>> = BTreeMap::new();
    let mut acknowledged: BTreeMap<Log, Vec<Known>> = BTreeMap::new();
    let mut reads: BTreeMap<Log, Vec<(Reader, i64)>> = BTreeMap::new();
    for event in events {
        if let Event::Acknowledged { log, count, base_offset, at, .. } = event {
            let end = base_offset.saturating_add_unsigned(*count);
            acknowledged.entry(*log).or_default().push((*at, end));
        } else if let Event::Read { log, reader, fetched, .. } = event {
            wrong.extend(beyond(*log, fetched));
            reads.entry(*log).or_default().push((*reader, fetched.high_watermark));
            if reader.epoch >= 0 {
                by_epoch.entry((*log, reader.epoch)).or_default().push((*reader, fetched.high_watermark));
            }
        }
    }
    for ((log, epoch), reads) in by_epoch {
        let known = reads.iter().map(|(reader, high_watermark)| (reader.ended_at, *high_watermark)).collect();
        let what = format!("went back in epoch {epoch}");
        wrong.extend(fallen_behind(log, &what, known, reads));
    }
    for (log, known) in acknowledged {
        let reads = reads.remove(&log).unwrap_or_default();
        wrong.extend(fallen_behind(log, "is below what was acknowledged", known, reads));
    }
    wrong
}

fn beyond(log: Log, fetched: &Fetched) -> Option<String> {
    let last = fetched.records.last().map_or(-1, |(offset, _)| *offset);
    let Fetched { high_watermark, log_start, .. } = fetched;
    let wrong = last >= *high_watermark || log_start > high_watermark;
    wrong.then(|| {
        format!("{log:?}: read up to {last}, from {log_start}, with high watermark {high_watermark}")
    })
}

/// The reads that began after something was known and were told less.
fn fallen_behind(log: Log, what: &str, mut known: Vec<Known>, mut reads: Vec<(Reader, i64)>) -> Vec<String> {
    known.sort_unstable();
    reads.sort_unstable_by_key(|(reader, _)| reader.begun_at);
    let mut known = known.into_iter().peekable();
    let mut least = i64::MIN;
    let mut wrong = Vec::new();
    for (reader, high_watermark) in reads {
        while let Some((_, at_least)) = known.next_if(|(since, _)| *since < reader.begun_at) {
            least = least.max(at_least);
        }
        if high_watermark < least {
            wrong.push(format!("the high watermark of {log:?} {what}: {high_watermark}, was {least}"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::checkers::testing::{acknowledged, at, read};

    #[test]
    fn a_watermark_that_goes_back_is_found() {
        assert_eq!(check(&[read(0, 5, 1, &[]), read(0, 5, 2, &[]), read(0, 6, 3, &[])]), [""; 0]);
        assert_eq!(check(&[read(0, 5, 1, &[]), read(0, 4, 2, &[])]).len(), 1);
    }

    #[test]
    fn fetches_that_overlap_in_time_may_be_told_in_any_order() {
        let mut long = read(0, 4, 1, &[]);
        if let Event::Read { reader, .. } = &mut long {
            reader.ended_at = at(9);
        }
        assert_eq!(check(&[read(0, 5, 2, &[]), long]), [""; 0]);
    }

    #[test]
    fn another_epoch_is_another_matter() {
        let mut later = read(0, 4, 2, &[]);
        if let Event::Read { reader, .. } = &mut later {
            reader.epoch = 1;
        }
        assert_eq!(check(&[read(0, 5, 1, &[]), later]), [""; 0]);
    }

    #[test]
    fn what_was_acknowledged_before_a_fetch_lies_below_its_watermark() {
        assert_eq!(check(&[acknowledged(0, 2, 3, 1), read(0, 5, 2, &[])]), [""; 0]);
        assert_eq!(check(&[acknowledged(0, 2, 3, 1), read(0, 4, 2, &[])]).len(), 1);
        assert_eq!(check(&[read(0, 4, 0, &[]), acknowledged(0, 2, 3, 1)]), [""; 0]);
    }

    #[test]
    fn a_record_at_or_above_the_watermark_is_found() {
        assert_eq!(check(&[read(0, 2, 1, &[7, 8])]), [""; 0]);
        assert_eq!(check(&[read(0, 1, 1, &[7, 8])]).len(), 1);
    }
}
