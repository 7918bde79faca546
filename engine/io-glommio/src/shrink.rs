//! Giving space back in steps.

use core::time::Duration;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::blocking::Pool;
use crate::clock;

/// After each step nothing is freed for as long as it took, so that a flush that waits comes first, but no longer: beside a
/// load that keeps the drive busy a step takes a millisecond and more, and space must come back faster than it is used.
const REST_MAX: Duration = Duration::from_micros(500);

/// What one job frees at most, in bytes: the largest page that the cache may have, which is 2 MiB where pages are of 4 KiB.
/// Where the file system discards freed space at once, so much holds a pool thread and the drive for about half a
/// millisecond, 32 MiB for 6, and every flush meanwhile waits.
pub(crate) fn step_bytes() -> u64 {
    largest_page(rustix::param::page_size() as u64)
}

/// A table of pages has entries of 8 bytes and is a page itself; what all its entries map can be one page of the cache.
const fn largest_page(page: u64) -> u64 {
    page * (page / 8)
}

/// Brings a file from `bytes` down to `target` bytes, or up to it. Each step is a job of its own, so that others come in
/// between, and is followed by a rest.
pub(crate) async fn resize(pool: &Pool, file: Arc<OwnedFd>, mut bytes: u64, target: u64) -> io::Result<()> {
    loop {
        bytes = next_end(bytes, target, step_bytes());
        let (shared, begun_at) = (Arc::clone(&file), clock::now());
        pool.run(move || rustix::io::retry_on_intr(|| rustix::fs::ftruncate(&shared, bytes))).await?;
        if bytes == target {
            return Ok(());
        }
        glommio::timer::sleep(rest_after(clock::now().since(begun_at))).await;
    }
}

/// Where the next step ends: at a multiple of `step`. A cut in the middle of a cached page makes zeros of the rest of that
/// page, and sockets still have pages of it that no reader holds any more: what was sent from a file goes out of these pages.
/// A page of the cache is no larger than a step, and begins at a multiple of its size; whole ones leave the cache as they are.
fn next_end(bytes: u64, target: u64, step: u64) -> u64 {
    target.max(bytes.saturating_sub(1) / step * step)
}

fn rest_after(step: Duration) -> Duration {
    step.min(REST_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_the_largest_page_of_the_cache() {
        let known = [(4 << 10, 2 << 20), (16 << 10, 32 << 20), (64 << 10, 512 << 20)];
        assert_eq!(known.map(|(page, _)| largest_page(page)), known.map(|(_, largest)| largest));
    }

    #[test]
    fn no_step_cuts_a_page_that_a_socket_may_still_have() {
        const STEP: u64 = 2 << 20;
        for bytes in [1, 4_095, STEP - 1, STEP, STEP + 1, 5 * STEP, 5 * STEP + 3_273] {
            let mut end = bytes;
            while end > 0 {
                let next = next_end(end, 0, STEP);
                assert!(
                    next < end && end - next <= STEP && next.is_multiple_of(STEP),
                    "from {end} to {next}"
                );
                end = next;
            }
        }
        assert_eq!(next_end(3 * STEP, 3 * STEP - 5, STEP), 3 * STEP - 5, "what is asked for is reached");
        assert_eq!(next_end(5, 9, STEP), 9, "also upwards");
    }

    #[test]
    fn what_frees_space_lets_others_come_first_and_is_held_up_little_by_it() {
        let step = Duration::from_micros(400);
        assert_eq!(rest_after(step), step);
        assert!(rest_after(10 * step) < 2 * step, "beside load it is held up for a part of a step");
    }
}
