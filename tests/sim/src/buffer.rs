//! Memory for direct reads and writes.

use std::rc::Rc;

use engine_io::{BLOCK_BYTES, Buffer};

/// Memory that can be written to a simulated file.
#[derive(Debug)]
pub struct SimBuffer {
    bytes: Vec<u8>,
}

impl SimBuffer {
    pub(crate) fn zeroed(bytes: usize) -> Self {
        assert!(is_whole_blocks(bytes), "a buffer of {bytes} bytes isn't whole blocks");
        Self { bytes: vec![0; bytes] }
    }

    /// The content of a small file, which isn't written directly and may have any length.
    pub(crate) const fn of_any_length(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }
}

impl Buffer for SimBuffer {
    fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn trim(&mut self, bytes: usize) {
        assert!(
            is_whole_blocks(bytes),
            "a buffer can't be trimmed to {bytes} bytes, which aren't whole blocks"
        );
        assert!(
            bytes <= self.bytes.len(),
            "a buffer of {} bytes can't be trimmed to {bytes}",
            self.bytes.len()
        );
        self.bytes.truncate(bytes);
    }
}

const fn is_whole_blocks(bytes: usize) -> bool {
    bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES)
}

/// What a direct read gave.
#[derive(Clone, Debug)]
pub struct SimBytes {
    bytes: Rc<[u8]>,
}

impl From<Vec<u8>> for SimBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into() }
    }
}

impl AsRef<[u8]> for SimBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_zeroed_and_shortens() {
        let mut buffer = SimBuffer::zeroed(2 * BLOCK_BYTES);
        assert!(buffer.as_slice().iter().all(|byte| *byte == 0));
        buffer.trim(BLOCK_BYTES);
        assert_eq!(buffer.as_slice().len(), BLOCK_BYTES);
    }

    #[test]
    #[should_panic(expected = "aren't whole blocks")]
    fn a_buffer_does_not_trim_to_part_of_a_block() {
        SimBuffer::zeroed(BLOCK_BYTES).trim(512);
    }

    #[test]
    #[should_panic(expected = "isn't whole blocks")]
    fn there_is_no_empty_buffer() {
        SimBuffer::zeroed(0);
    }
}
