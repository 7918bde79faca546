//! Giving space back in steps.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::blocking::Pool;

/// What one job frees at most. Where the file system discards freed space at once, 16 MiB hold a pool thread and the
/// drive for about 3 ms, 128 MiB for 30.
pub(crate) const SHRINK_STEP_BYTES: u64 = 16 << 20;

/// Brings a file from `bytes` down to `target` bytes, or up to it. Each step is a job of its own, so that others come in
/// between.
pub(crate) async fn resize(pool: &Pool, file: Arc<OwnedFd>, mut bytes: u64, target: u64) -> io::Result<()> {
    loop {
        bytes = target.max(bytes.saturating_sub(SHRINK_STEP_BYTES));
        let shared = Arc::clone(&file);
        pool.run(move || rustix::io::retry_on_intr(|| rustix::fs::ftruncate(&shared, bytes))).await?;
        if bytes == target {
            return Ok(());
        }
    }
}
