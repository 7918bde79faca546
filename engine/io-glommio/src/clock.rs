//! The clocks, shared by all shards of the process.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use engine_record::{Instant, Timestamp};

#[expect(clippy::disallowed_methods, reason = "this is what the seam's clock is made of")]
pub(crate) fn now() -> Instant {
    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    let elapsed = ORIGIN.get_or_init(std::time::Instant::now).elapsed();
    Instant::ZERO.after(elapsed)
}

#[expect(clippy::disallowed_methods, reason = "this is what the seam's clock is made of")]
pub(crate) fn timestamp() -> Timestamp {
    let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis),
    };
    Timestamp(millis)
}
