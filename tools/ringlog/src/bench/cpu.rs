//! Processor time of processes, as the kernel counts it.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

/// Ticks a second in `/proc`: the kernel's interface to programs, the same on every machine this runs on.
const TICKS_PER_SECOND: u64 = 100;
/// Where the time in user mode stands behind the name; the time in the kernel follows.
const USER_TIME_FIELD: usize = 11;

/// Processor time a process has used, with all its threads, also those that have ended.
///
/// # Errors
/// There is no such process, or the kernel says something unexpected.
pub(super) fn used_by(process: u32) -> io::Result<Duration> {
    let text = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"))?;
    parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reads a line of `/proc/<pid>/stat`. The name stands in parentheses and may hold any characters, also those.
fn parse(stat: &str) -> Option<Duration> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_ascii_whitespace().skip(USER_TIME_FIELD);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    let ticks = user.checked_add(kernel)?;
    Some(Duration::from_millis(ticks.checked_mul(1_000 / TICKS_PER_SECOND)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4242 (shard) 0 (x) S 1 4242 4242 0 -1 4194560 2127 0 0 0 1250 375 0 0 20 0 9 0 88 \
                        1234 56 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0";

    #[test]
    fn time_in_user_mode_and_in_the_kernel_is_added_whatever_the_name() {
        assert_eq!(parse(STAT), Some(Duration::from_millis(16_250)));
    }

    #[test]
    fn what_is_no_stat_line_is_refused() {
        for text in ["", "1 (x", "1 (x) S 1 2", "1 (x) S 1 2 3 4 5 6 7 8 9 10 a b"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        let overflowing = STAT.replace("1250", "18446744073709551615");
        assert_eq!(parse(&overflowing), None);
    }

    #[test]
    fn this_process_has_a_time_and_no_process_has_none() {
        assert!(used_by(std::process::id()).is_ok());
        assert!(used_by(u32::MAX).is_err());
    }
}
