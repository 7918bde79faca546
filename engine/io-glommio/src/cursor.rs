//! Where in a list of pieces a send stands.

use std::io::IoSlice;

use engine_io::SendPiece;

use crate::GlommioIo;

/// A position in `pieces`, never on an empty piece.
pub(crate) struct Cursor<'a> {
    pieces: &'a [SendPiece<GlommioIo>],
    /// Sent bytes of the first of `pieces`.
    sent: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(pieces: &'a [SendPiece<GlommioIo>]) -> Self {
        let mut cursor = Self { pieces, sent: 0 };
        cursor.advance(0);
        cursor
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Fills `slices` with what comes next, at most `bytes_max` bytes and no empty slice; how many it filled.
    pub(crate) fn fill(&self, slices: &mut [IoSlice<'a>], bytes_max: usize) -> usize {
        let mut count = 0;
        let mut room = bytes_max;
        let mut skip = self.sent;
        for piece in self.pieces {
            if count == slices.len() || room == 0 {
                break;
            }
            let bytes = &piece.as_slice()[core::mem::take(&mut skip)..];
            let bytes = &bytes[..bytes.len().min(room)];
            if !bytes.is_empty() {
                slices[count] = IoSlice::new(bytes);
                count += 1;
                room -= bytes.len();
            }
        }
        count
    }

    /// Moves over `bytes` sent bytes.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        while let Some((first, rest)) = self.pieces.split_first() {
            let len = first.as_slice().len();
            if self.sent < len {
                return;
            }
            self.sent -= len;
            self.pieces = rest;
        }
        assert!(self.sent == 0, "the system sends no more than it is given");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(lens: &[usize]) -> Vec<SendPiece<GlommioIo>> {
        let mut numbers = (0..=u8::MAX).cycle();
        lens.iter().map(|&len| SendPiece::Owned(numbers.by_ref().take(len).collect())).collect()
    }

    /// Takes `step` bytes at a time from what `fill` offers.
    fn drain(pieces: &[SendPiece<GlommioIo>], slices_max: usize, bytes_max: usize, step: usize) -> Vec<u8> {
        let mut cursor = Cursor::new(pieces);
        let mut drained = Vec::new();
        while !cursor.is_at_end() {
            let mut slices = vec![IoSlice::new(&[]); slices_max];
            let count = cursor.fill(&mut slices, bytes_max);
            let offered: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
            assert!(!offered.is_empty() && offered.len() <= bytes_max);
            assert!(slices[..count].iter().all(|slice| !slice.is_empty()));
            let taken = offered.len().min(step);
            drained.extend_from_slice(&offered[..taken]);
            cursor.advance(taken);
        }
        drained
    }

    #[test]
    fn every_byte_is_offered_once_and_in_order() {
        let pieces = pieces(&[0, 3, 0, 0, 1, 200, 0]);
        let whole: Vec<u8> = pieces.iter().flat_map(|piece| piece.as_slice().to_vec()).collect();
        for (slices_max, bytes_max, step) in
            [(1, 1, 1), (1, 7, 3), (2, 100, 100), (64, 1000, 5), (64, 1000, 1000)]
        {
            assert_eq!(drain(&pieces, slices_max, bytes_max, step), whole);
        }
    }

    #[test]
    fn nothing_to_send_is_the_end_at_once() {
        assert!(Cursor::new(&[]).is_at_end());
        assert!(Cursor::new(&pieces(&[0, 0])).is_at_end());
    }

    #[test]
    #[should_panic(expected = "no more than it is given")]
    fn advancing_past_the_end_is_refused() {
        Cursor::new(&pieces(&[2])).advance(3);
    }
}
