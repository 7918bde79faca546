//! How many bytes a log's state takes once it is encoded, without encoding it: for whoever needs the space before the
//! bytes.

use crate::log::Log;
use crate::offset_index::INDEX_ENTRY_BYTES;
use crate::sidecar::SIDECAR_HEADER_BYTES;
use crate::{leader_epochs, producers};

/// Bytes that one append, and a leader epoch that begins behind it, add at most to [`Log::encoded_bytes_max`]: two leader
/// epochs, a producer with all batches that are remembered of it, an index entry.
pub const APPEND_ENCODED_BYTES_MAX: usize =
    2 * leader_epochs::ENTRY_BYTES + producers::snapshot::PRODUCER_BYTES_MAX + INDEX_ENTRY_BYTES;

impl Log {
    /// At most how many bytes the log's leader epochs, its producers and the sidecar of its active segment take
    /// together, each in its own encoding. Costs no more with many of them than with few.
    #[must_use]
    pub fn encoded_bytes_max(&self) -> usize {
        let epochs = leader_epochs::encoded_bytes(self.leader_epochs().starts().len());
        let producers = producers::snapshot::encoded_bytes_max(self.producers().len());
        let index_entries = self.active_segment().index().map_or(0, |index| index.entries().len());
        assert_eq!(index_entries == 0, self.active_segment().is_empty(), "the first batch is indexed");
        epochs + producers + SIDECAR_HEADER_BYTES + index_entries * INDEX_ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use engine_record::Producer;

    use super::*;
    use crate::testing::{Disk, Sent, config, producer};
    use crate::{LogConfig, encode_sidecar};

    fn encoded_bytes(log: &Log) -> usize {
        let mut bytes = Vec::new();
        log.leader_epochs().encode(&mut bytes);
        log.producers().encode(&mut bytes);
        let active = log.active_segment();
        let index = active.index().filter(|_| !active.is_empty());
        bytes.len() + index.map_or(0, |index| encode_sidecar(active.summary(), index).len())
    }

    #[test]
    fn no_append_makes_a_log_take_more_encoded_than_was_said_before() {
        let mut disk = Disk::new(LogConfig { producers_max: 40, ..config() });
        assert!(encoded_bytes(&disk.log) <= disk.log.encoded_bytes_max());
        for (number, value_bytes) in (0..300).zip(50..) {
            let before = disk.log.encoded_bytes_max();
            let sender = if number % 3 == 0 {
                Producer::NONE
            } else {
                producer(i64::from(number % 20), 0, number / 20)
            };
            let sent = Sent { value_bytes, producer: sender, ..Sent::default() };
            let _appended_or_refused = disk.try_append(&sent);
            let (bytes, after) = (encoded_bytes(&disk.log), disk.log.encoded_bytes_max());
            assert!(bytes <= after && after <= before + APPEND_ENCODED_BYTES_MAX, "{bytes} {before} {after}");
        }
        assert!(disk.log.producers().len() > 10 && disk.log.segments().count() > 10);
    }
}
