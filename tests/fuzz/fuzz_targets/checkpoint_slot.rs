//! A slot of the store's checkpoint is read or refused, never a panic; what is read can be written and read again.
#![no_main]

use engine_store::read_fuzzed_slot;
use libfuzzer_sys::fuzz_target;

const BLOCK_BYTES: usize = 4_096;
const HEADER_BYTES: usize = 36;

fuzz_target!(|data: &[u8]| {
    for slot in [data, &slot_of(data)] {
        let _ = read_fuzzed_slot(slot);
    }
});

/// The frames of `data`, which lie there without padding, as a slot has them: with right checksums, in whole blocks. Few
/// mutations would come through otherwise, and most would change zeros.
fn slot_of(mut data: &[u8]) -> Vec<u8> {
    let mut slot = Vec::new();
    while let Some((header, rest)) = data.split_first_chunk::<HEADER_BYTES>() {
        let [.., a, b, c, d, _, _, _, _] = *header;
        let payload_bytes = u32::from_le_bytes([a, b, c, d]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(payload_bytes) else { break };
        let covered = &header[..HEADER_BYTES - 4];
        slot.extend_from_slice(covered);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(covered), payload);
        slot.extend_from_slice(&checksum.to_le_bytes());
        slot.extend_from_slice(payload);
        slot.resize(slot.len().next_multiple_of(BLOCK_BYTES), 0);
        data = rest;
    }
    slot
}
