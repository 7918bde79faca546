//! What the shards may have of the memory, and what is said of it.

use std::fmt;

use net_server::config::{Limits, MemoryTable};
use serde_json::{Value, json};
use tuning::Memory;

/// The shards have one part in so many of the memory, in equal shares. The rest is the page cache's, the metadata's and the
/// kernel's own for sockets, which count where a control group limits memory.
const PARTS: u64 = 2;

/// The memory of a node, as its limits divide it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    usable: Memory,
    shards: u16,
    connections: usize,
    table: MemoryTable,
    /// What one shard may have.
    share: u64,
    frame_bytes: u32,
}

/// Not even one request of the largest size fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a request may have {} (socket.request.max.bytes), more than all shards may take of the {} of memory that this process \
     may use: allow it {} or more, or set socket.request.max.bytes to {} or less",
    Bytes(u64::from(*frame_bytes)),
    Bytes(*usable_bytes),
    Bytes(u64::from(*frame_bytes) * PARTS),
    usable_bytes / PARTS
)]
pub(super) struct NoRoomForARequest {
    frame_bytes: u32,
    usable_bytes: u64,
}

/// The limits of each of `shards` shards that take batches of `batch_bytes`, so that all together they keep within their part
/// of the memory, and what they come to.
///
/// # Errors
/// Not even one request fits.
pub(super) fn divide(
    usable: Memory,
    shards: u16,
    wanted: &Limits,
    batch_bytes: u32,
) -> Result<(Limits, MemoryPlan), NoRoomForARequest> {
    let frame_bytes = wanted.frame_bytes;
    let part = usable.bytes / PARTS;
    if part < u64::from(frame_bytes) {
        return Err(NoRoomForARequest { frame_bytes, usable_bytes: usable.bytes });
    }
    let share = part / u64::from(shards);
    let limits = wanted.within(share, batch_bytes);
    let (connections, table) = (limits.connections, limits.memory());
    Ok((limits, MemoryPlan { usable, shards, connections, table, share, frame_bytes }))
}

impl MemoryPlan {
    fn total(&self) -> u64 {
        self.table.total().saturating_mul(self.shards.into())
    }

    /// What to do where the shards need more than their part of the memory to work at all.
    pub(crate) fn shortage(&self) -> Option<String> {
        let needed = self.table.total();
        (needed > self.share).then(|| {
            format!(
                "memory is short: each of {} shards needs {}, two requests of {} (socket.request.max.bytes) included, and its \
                 share is {}. Where all of them are used to their limits at once the kernel may end the process: allow it {} \
                 of memory, name fewer CPUs, or lower socket.request.max.bytes",
                self.shards,
                Bytes(needed),
                Bytes(self.frame_bytes.into()),
                Bytes(self.share),
                Bytes(self.total().saturating_mul(PARTS)),
            )
        })
    }

    /// For programs.
    pub(crate) fn as_json(&self) -> Value {
        let parts = self.table.parts().map(|(name, bytes)| (name.to_owned(), json!(bytes)));
        json!({
            "usable_bytes": self.usable.bytes,
            "limited_by": self.usable.limited_by,
            "total_bytes": self.total(),
            "shard_bytes": self.table.total(),
            "shard": parts.into_iter().collect::<serde_json::Map<_, _>>(),
            "shard_connections": self.connections,
            "shortage": self.shortage(),
        })
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shard, total, usable) = (self.table.total(), self.total(), self.usable.bytes);
        write!(f, "{} a shard at most, {} in all, of {}", Bytes(shard), Bytes(total), Bytes(usable))?;
        if let Some(file) = &self.usable.limited_by {
            write!(f, " ({})", file.display())?;
        }
        write!(f, "; {} connections a shard", self.connections)
    }
}

/// Bytes for people.
#[derive(Clone, Copy, Debug)]
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.div_ceil(1 << 20) {
            // Rounded up, as MiB are: so much is enough.
            1_024.. => {
                let tenths = (u128::from(self.0) * 10).div_ceil(1 << 30);
                write!(f, "{}.{} GiB", tenths / 10, tenths % 10)
            }
            1 if self.0 < 1 << 20 => write!(f, "{} bytes", self.0),
            mebibytes => write!(f, "{mebibytes} MiB"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    const BATCH_BYTES: u32 = 1_048_588;

    fn of(bytes: u64) -> Memory {
        Memory { bytes, limited_by: None }
    }

    fn divided(bytes: u64, shards: u16) -> (Limits, MemoryPlan) {
        divide(of(bytes), shards, &Limits::default(), BATCH_BYTES).unwrap()
    }

    #[test]
    fn shards_together_keep_within_half_of_the_memory_however_many_there_are() {
        for (bytes, shards) in [(2 * GIB, 2), (8 * GIB, 2), (64 * GIB, 16), (256 * GIB, 200)] {
            let (limits, plan) = divided(bytes, shards);
            assert!(plan.total() <= bytes / 2, "{plan}");
            assert_eq!(plan.shortage(), None);
            assert_eq!(plan.total(), limits.memory().total() * u64::from(shards));
        }
        assert_eq!(divided(256 * GIB, 2).0, Limits::default(), "and take no more than they can use");
    }

    #[test]
    fn where_the_least_is_more_than_the_share_it_is_told_with_what_to_do() {
        let (limits, plan) = divided(GIB, 2);
        assert_eq!(limits, limits.least(BATCH_BYTES));
        let told = plan.shortage().unwrap();
        assert!(told.contains("each of 2 shards needs ") && told.contains("its share is 256 MiB"), "{told}");
        let enough = plan.total() * PARTS;
        assert_eq!(divided(enough, 2).1.shortage(), None, "what is told to be enough is enough");
        assert_eq!(plan.as_json()["shortage"], told);
    }

    #[test]
    fn where_not_even_a_request_fits_the_way_out_is_told_and_is_one() {
        let wanted = Limits::default();
        let refused = divide(of(150 * MIB), 1, &wanted, BATCH_BYTES).unwrap_err().to_string();
        assert!(refused.contains("a request may have 100 MiB (socket.request.max.bytes)"), "{refused}");
        assert!(
            refused
                .ends_with("allow it 200 MiB or more, or set socket.request.max.bytes to 78643200 or less")
        );
        assert!(divide(of(200 * MIB), 1, &wanted, BATCH_BYTES).is_ok());
        let smaller = Limits { frame_bytes: 78_643_200, ..wanted };
        assert!(divide(of(150 * MIB), 1, &smaller, BATCH_BYTES).is_ok());
    }

    #[test]
    fn it_is_told_in_a_line_and_part_by_part() {
        let limited_by = Some(PathBuf::from("/sys/fs/cgroup/memory.max"));
        let (limits, plan) =
            divide(Memory { bytes: 4 * GIB, limited_by }, 2, &Limits::default(), BATCH_BYTES).unwrap();
        let told = plan.to_string();
        let expected = format!(
            "1.0 GiB a shard at most, 2.0 GiB in all, of 4.0 GiB (/sys/fs/cgroup/memory.max); {} connections a shard",
            limits.connections
        );
        assert_eq!(told, expected);
        let json = plan.as_json();
        let parts = json["shard"].as_object().unwrap();
        let sum: u64 = parts.values().map(|bytes| bytes.as_u64().unwrap()).sum();
        assert_eq!(json["shard_bytes"], sum);
        assert_eq!(json["total_bytes"], 2 * sum);
        assert_eq!(json["shard"]["requests"], limits.request_bytes);
        assert_eq!(json["limited_by"], "/sys/fs/cgroup/memory.max");
    }
}
