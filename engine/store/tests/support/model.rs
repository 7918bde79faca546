//! The log as it ought to be: the batches in order, as they are stored.

use engine_record::{LeaderEpoch, Offset, RecordBatch, assign};
use engine_store::Appended;

use super::end_of;

/// What was appended to one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    batches: Vec<ModelBatch>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelBatch {
    pub(crate) base_offset: Offset,
    pub(crate) end_offset: Offset,
    pub(crate) bytes: Vec<u8>,
}

impl Model {
    /// Notes an append, and checks its offsets: dense, in order.
    pub(crate) fn appended(&mut self, appended: &Appended, batch: &[u8]) {
        assert!(!appended.duplicate, "tests note only what is new");
        assert_eq!(appended.base_offset, self.end(), "offsets are dense");
        let mut bytes = batch.to_vec();
        assign(&mut bytes, appended.base_offset, LeaderEpoch(0));
        let end_offset = end_of(appended);
        self.batches.push(ModelBatch { base_offset: appended.base_offset, end_offset, bytes });
    }

    pub(crate) fn end(&self) -> Offset {
        self.batches.last().map_or(Offset::ZERO, |batch| batch.end_offset)
    }

    /// Forgets what lies at or above `end`.
    pub(crate) fn truncate(&mut self, end: Offset) {
        self.batches.retain(|batch| batch.end_offset <= end);
    }

    /// All bytes from the batch that holds `from` on.
    pub(crate) fn bytes_from(&self, from: Offset) -> Vec<u8> {
        let batches = self.batches.iter().filter(|batch| batch.end_offset > from);
        batches.flat_map(|batch| batch.bytes.iter().copied()).collect()
    }

    /// Checks that `bytes` are the log from `from` on up to some batch, and returns where they end.
    pub(crate) fn check_prefix(&self, from: Offset, bytes: &[u8]) -> Offset {
        let whole = self.bytes_from(from);
        assert!(bytes.len() <= whole.len(), "{} bytes read of {}", bytes.len(), whole.len());
        let differs = whole.iter().zip(bytes).position(|(appended, read)| appended != read);
        assert_eq!(differs, None, "byte {differs:?} of {} read isn't what was appended", bytes.len());
        let (mut rest, mut end) = (bytes, from);
        while !rest.is_empty() {
            let (batch, behind) = RecordBatch::parse(rest).expect("no batch is cut or damaged");
            end = batch
                .header()
                .last_offset()
                .and_then(|last| last.checked_add(1))
                .expect("offsets are in range");
            rest = behind;
        }
        end
    }
}
