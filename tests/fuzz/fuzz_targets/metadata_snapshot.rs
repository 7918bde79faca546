//! A snapshot of the metadata is read or refused, never a panic; what is read has no other bytes than these.
#![no_main]

use libfuzzer_sys::fuzz_target;
use replication::metadata::snapshot::Snapshot;

fuzz_target!(|data: &[u8]| {
    // The checksum keeps most mutations out, so the rest is reached with one that is right.
    let mut data = data.to_vec();
    if let Some((body, checksum)) = data.split_last_chunk_mut::<4>() {
        *checksum = crc32c::crc32c(body).to_le_bytes();
    }
    let Ok(snapshot) = Snapshot::decode(&data) else { return };
    assert_eq!(snapshot.encode(), data, "equal metadata have equal bytes");
});
