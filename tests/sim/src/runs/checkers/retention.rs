//! An offset is out of range where retention has deleted it, and nowhere else.

use core::time::Duration;

use crate::runs::history::Event;

/// Where retention deletes in this run: for how long it leaves every record there.
pub(super) fn least(events: &[Event]) -> Option<Duration> {
    events.iter().find_map(|event| if let Event::Retention { least } = event { Some(*least) } else { None })
}

pub(super) fn check(events: &[Event]) -> Vec<String> {
    let deletes = least(events).is_some();
    let mut wrong = Vec::new();
    for event in events {
        if let Event::OutOfRange { log, from, log_start } = event
            && (!deletes || from >= log_start)
        {
            // All that clients ask for was below a high watermark once.
            wrong.push(format!("{from} of {log:?} is out of range, which starts at {log_start}"));
        } else if let Event::Final { log, log_start, .. } = event
            && !deletes
            && *log_start > 0
        {
            wrong.push(format!("{log:?} starts at {log_start}, and nothing was to be deleted"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::checkers::testing::{LOG, in_the_end, left_in_the_end};

    const RETENTION: Event = Event::Retention { least: Duration::ZERO };

    fn out_of_range(from: i64, log_start: i64) -> Event {
        Event::OutOfRange { log: LOG, from, log_start }
    }

    #[test]
    fn only_what_is_below_the_start_may_be_out_of_range() {
        assert_eq!(check(&[RETENTION, out_of_range(6, 7)]), [""; 0]);
        assert_eq!(check(&[RETENTION, out_of_range(7, 7)]).len(), 1);
    }

    #[test]
    fn nothing_is_out_of_range_or_gone_where_nothing_is_deleted() {
        assert_eq!(check(&[in_the_end(&[1])]), [""; 0]);
        assert_eq!(check(&[out_of_range(6, 7)]).len(), 1);
        assert_eq!(check(&[left_in_the_end(1, &[1])]).len(), 1);
        assert_eq!(check(&[RETENTION, left_in_the_end(1, &[1])]), [""; 0]);
    }
}
