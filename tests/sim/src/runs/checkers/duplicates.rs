//! What an idempotent producer sends stands in the log once at most, in the order it was sent.

use std::collections::BTreeMap;

use crate::runs::history::{Event, Log};
use crate::runs::payload::Numbers;

pub(super) fn check(events: &[Event]) -> Vec<String> {
    // The producer of each batch, by its first record.
    let mut producers: BTreeMap<(Log, u64), (u64, u64)> = BTreeMap::new();
    for event in events {
        if let Event::Sent { log, producer, first, count, .. } = event {
            producers.insert((*log, *first), (*producer, *count));
        }
    }
    let mut wrong = Vec::new();
    for event in events {
        if let Event::Final { log, records, .. } = event {
            wrong.extend(check_log(*log, records, &producers));
        }
    }
    wrong
}

fn check_log(log: Log, records: &Numbers, producers: &BTreeMap<(Log, u64), (u64, u64)>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for (offset, number) in records.iter().filter_map(|(offset, number)| number.map(|n| (*offset, n))) {
        let batch = producers.range(..=(log, number)).next_back();
        let sent = batch.filter(|((of, first), (_, count))| *of == log && number < first + count);
        let Some((_, (producer, _))) = sent else {
            wrong.push(format!("record {number} at {offset} was never sent to {log:?}"));
            continue;
        };
        // A producer numbers its records upwards.
        if let Some(before) = last.insert(*producer, number)
            && before >= number
        {
            wrong
                .push(format!("record {number} at {offset} of {log:?} comes after {before} of its producer"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::checkers::testing::{in_the_end, sent};

    #[test]
    fn producers_may_mix_but_each_stays_in_order() {
        let sends = [sent(1, 0, 2), sent(2, 2, 1), sent(1, 3, 1)];
        let with = |records: &[u64]| [&sends[..], &[in_the_end(records)]].concat();
        assert_eq!(check(&with(&[0, 1, 2, 3])), [""; 0]);
        assert_eq!(check(&with(&[2, 0, 1, 3])), [""; 0]);
        assert_eq!(check(&with(&[0, 1, 0, 1, 2])).len(), 1, "a batch twice");
        assert_eq!(check(&with(&[3, 0, 1])).len(), 1, "a batch before an older one");
    }

    #[test]
    fn what_was_never_sent_here_is_found() {
        assert_eq!(check(&[sent(1, 0, 2), in_the_end(&[0, 1, 2])]).len(), 1);
    }
}
