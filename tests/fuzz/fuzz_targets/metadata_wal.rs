//! A WAL file of the metadata quorum is read or refused, never a panic; what is read is whole in itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use replication::metadata::wal::recover;

/// Length, checksum, sequence, flushed, previous.
const HEADER_BYTES: usize = 28;

fuzz_target!(|data: &[u8]| {
    let mut file = data.to_vec();
    mend_chain(&mut file);
    for file in [data, &file] {
        let Ok(found) = recover(file) else { continue };
        assert!(found.bytes() <= file.len());
        // Every prefix of frames is a state the node was in, and this one ends where nothing is left over.
        let again = recover(&file[..found.bytes()]).expect("the frames that were read can be read again");
        assert!(!again.is_torn());
        assert_eq!((again.sequence(), again.bytes()), (found.sequence(), found.bytes()));
        assert_eq!((again.snapshot(), again.term()), (found.snapshot(), found.term()));
    }
});

/// Checksums keep most mutations out, so each frame gets the right ones, of itself and of the frame before.
fn mend_chain(file: &mut [u8]) {
    let (mut rest, mut previous) = (file, 0_u32);
    loop {
        let Some(length) = rest.first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize) else {
            return;
        };
        let Some((frame, after)) =
            length.checked_add(HEADER_BYTES).and_then(|bytes| rest.split_at_mut_checked(bytes))
        else {
            return;
        };
        frame[24..28].copy_from_slice(&previous.to_le_bytes());
        previous = crc32c::crc32c_append(crc32c::crc32c(&frame[..4]), &frame[8..]);
        frame[4..8].copy_from_slice(&previous.to_le_bytes());
        rest = after;
    }
}
