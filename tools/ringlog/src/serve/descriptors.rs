//! Sharing out the files that the process may have open: so many are kept back for the store that no number of
//! connections takes the last one.

use engine_store::IDLE_DESCRIPTORS_MAX;

/// Segment files that a shard has open at a time: those kept open though nothing uses them, for writing and for sending
/// each, and half as many in use.
const FILES_PER_SHARD: u64 = 3 * IDLE_DESCRIPTORS_MAX as u64;
/// What an executor has open besides: rings, timers, its listener, its checkpoint.
const FIXED_PER_SHARD: u64 = 32;
/// What each further log directory takes of that: the slots of its checkpoint.
const FIXED_PER_DIRECTORY: u64 = 2;
/// What the process has open besides: the control plane, the log of metadata, drives that are looked at.
const FIXED: u64 = 96;
/// Below this a shard isn't worth running.
const CONNECTIONS_MIN: u64 = 16;

/// So few files may be open that nothing would work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "only {found} files may be open at once, {shards} shards need {wanted} at least: set LimitNOFILE=1048576 in the \
     service unit, start the container with --ulimit nofile=1048576, or name fewer CPUs"
)]
pub(super) struct TooFewFiles {
    found: u64,
    wanted: u64,
    shards: u16,
}

/// What each shard gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Connections at most.
    pub(super) connections: u64,
    /// Segment files that may stay open though nothing uses them.
    pub(super) idle_files: u64,
}

/// What each of `shards` shards with `directories` log directories gets where `open_files` may be open at once. Where that is little, files get half of it:
/// they are closed and opened again more often then.
pub(super) fn share_out(open_files: u64, shards: u16, directories: u64) -> Result<Shares, TooFewFiles> {
    let count = u64::from(shards);
    let fixed = FIXED + count * (FIXED_PER_SHARD + directories.saturating_sub(1) * FIXED_PER_DIRECTORY);
    let left = open_files.saturating_sub(fixed);
    let files = (count * FILES_PER_SHARD).min(left.div_ceil(2));
    let connections = (left - files) / count;
    if connections < CONNECTIONS_MIN {
        let wanted = fixed + 2 * count * CONNECTIONS_MIN;
        return Err(TooFewFiles { found: open_files, wanted, shards });
    }
    Ok(Shares { connections, idle_files: files / count * IDLE_DESCRIPTORS_MAX as u64 / FILES_PER_SHARD })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_back_whatever_the_limit_and_all_shards_together_stay_below_it() {
        for shards in [1, 2, 7, 64, 1_000] {
            for open_files in [256, 1_024, 4_096, 20_000, 65_536, 1 << 20, u64::MAX] {
                let Ok(Shares { connections, idle_files }) = share_out(open_files, shards, 1) else {
                    continue;
                };
                let count = u64::from(shards);
                let kept = open_files - connections * count;
                // Each may be open for writing and for sending, and as many again in use.
                let files = 3 * idle_files;
                assert!(idle_files > 0 && idle_files <= IDLE_DESCRIPTORS_MAX as u64);
                assert!(kept >= count * (files + FIXED_PER_SHARD) + FIXED, "{open_files} by {shards}");
            }
        }
        let of_three = share_out(1_024, 1, 3).unwrap();
        assert_eq!(2 * of_three.connections, 2 * share_out(1_024, 1, 1).unwrap().connections - 4);
        assert_eq!(share_out(20_000, 2, 1), Ok(Shares { connections: 8_384, idle_files: 512 }));
        assert_eq!(share_out(1_024, 1, 1), Ok(Shares { connections: 448, idle_files: 149 }));
    }

    #[test]
    fn what_is_said_to_be_enough_is_enough_and_one_less_is_not() {
        for shards in [1, 2, 7, 1_000] {
            let TooFewFiles { wanted, .. } = share_out(64, shards, 1).unwrap_err();
            assert_eq!(share_out(wanted, shards, 1).unwrap().connections, CONNECTIONS_MIN);
            assert!(share_out(wanted - 1, shards, 1).is_err());
        }
    }
}
