//! A segment's sidecar is read or refused, never a panic; what is read can be written and read again.
#![no_main]

use engine_log::{SIDECAR_HEADER_BYTES, decode_sidecar, decode_sidecar_summary, encode_sidecar};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut data = data.to_vec();
    mend_checksums(&mut data);
    let Ok((summary, index)) = decode_sidecar(&data) else { return };
    assert_eq!(decode_sidecar_summary(&data), Ok(summary), "the header alone says the same");
    let again = encode_sidecar(&summary, &index);
    assert_eq!(decode_sidecar(&again), Ok((summary, index)));
});

/// They keep most mutations out, so what is behind them is reached with right ones.
fn mend_checksums(data: &mut [u8]) {
    if let Some((header, entries)) = data.split_at_mut_checked(SIDECAR_HEADER_BYTES) {
        header[64..68].copy_from_slice(&crc32c::crc32c(entries).to_be_bytes());
        let checksum = crc32c::crc32c(&header[16..]);
        header[12..16].copy_from_slice(&checksum.to_be_bytes());
    }
}
