//! Processor time of processes and threads, as the kernel counts it.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use loadgen::ThreadTime;

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

/// What a thread has had of the processors since it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadCpu {
    running: Duration,
    /// It could have run and had no processor; `None` where the kernel keeps no statistics of its scheduler.
    waiting: Option<Duration>,
}

impl ThreadCpu {
    /// What the calling thread has had.
    ///
    /// # Errors
    /// The kernel says something unexpected.
    pub(super) fn of_this_thread() -> io::Result<Self> {
        let statistics = fs::read_to_string("/proc/thread-self/schedstat");
        if let Some(cpu) = statistics.ok().as_deref().and_then(Self::parse) {
            return Ok(cpu);
        }
        let stat = fs::read_to_string("/proc/thread-self/stat")?;
        let running = parse(&stat).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { running, waiting: None })
    }

    /// What it had since `earlier`, which was `span` before.
    pub(super) fn since(self, earlier: Self, span: Duration) -> ThreadTime {
        let waiting = self.waiting.zip(earlier.waiting).map(|(now, before)| now.saturating_sub(before));
        ThreadTime { span, running: self.running.saturating_sub(earlier.running), waiting }
    }

    /// Nanoseconds on a processor, nanoseconds of waiting for one, turns. All 0 where the kernel doesn't count.
    fn parse(schedstat: &str) -> Option<Self> {
        let fields = schedstat.split_ascii_whitespace();
        let mut fields = fields.map(|field| field.parse().ok().map(Duration::from_nanos));
        let (running, waiting) = (fields.next()??, fields.next()??);
        (running > Duration::ZERO).then_some(Self { running, waiting: Some(waiting) })
    }
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
    fn running_and_waiting_are_told_apart_and_a_kernel_that_does_not_count_is_recognized() {
        let cpu = |running, waiting| ThreadCpu {
            running: Duration::from_nanos(running),
            waiting: Some(Duration::from_nanos(waiting)),
        };
        assert_eq!(ThreadCpu::parse("998657 93240 2\n"), Some(cpu(998_657, 93_240)));
        for text in ["0 0 0\n", "", "12\n", "a b c\n"] {
            assert_eq!(ThreadCpu::parse(text), None, "{text:?}");
        }
        let time = cpu(900, 50).since(cpu(400, 20), Duration::from_micros(1));
        assert_eq!((time.running, time.waiting), (Duration::from_nanos(500), Some(Duration::from_nanos(30))));
        let unknown = ThreadCpu { waiting: None, ..cpu(400, 0) };
        assert_eq!(cpu(900, 50).since(unknown, Duration::ZERO).waiting, None);
    }

    #[test]
    fn a_thread_that_works_has_run() {
        let before = ThreadCpu::of_this_thread().unwrap();
        let mut after = before;
        // As long as it takes: ticks are ten milliseconds.
        while after.running == before.running {
            after = ThreadCpu::of_this_thread().unwrap();
        }
        assert!(after.running > before.running);
    }

    #[test]
    fn this_process_has_a_time_and_no_process_has_none() {
        assert!(used_by(std::process::id()).is_ok());
        assert!(used_by(u32::MAX).is_err());
    }
}
