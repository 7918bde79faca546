//! Standard input, line by line, read on a thread of its own: reading blocks, and a shard may not.

use std::io::{self, BufRead, BufReader, Read};

use engine_io::{Receiver, Sender, mailbox};
use futures_lite::future::block_on;

use crate::client::spawn_thread;
use crate::failure::Failure;

/// The longest line, in bytes: no record may be larger.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Lines leave in chunks of about this size, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks waiting to be sent, at most: when the broker is slow, reading stops.
const CHUNKS_MAX: usize = 16;

/// Lines, without their ends.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Where each line ends, exclusive.
    ends: Vec<usize>,
}

/// Why there are no more lines.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinesError {
    #[error("standard input: {0}")]
    Read(#[from] io::Error),
    #[error("a line is longer than {LINE_BYTES_MAX} bytes; it and what follows was not sent")]
    TooLong,
}

impl Lines {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// Reads a line; `false` at the end of the input.
    fn read_line(&mut self, input: &mut impl BufRead) -> Result<bool, LinesError> {
        let start = self.bytes.len();
        let read = input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut self.bytes)?;
        if read == 0 {
            return Ok(false);
        }
        if self.bytes.last() == Some(&b'\n') {
            self.bytes.pop();
        } else if read as u64 > LINE_BYTES_MAX {
            self.bytes.truncate(start);
            return Err(LinesError::TooLong);
        }
        self.ends.push(self.bytes.len());
        Ok(true)
    }
}

/// Lines of standard input as they come. What is there is not held back for what isn't.
pub(super) fn read_aside() -> Result<Receiver<Result<Lines, LinesError>>, Failure> {
    let (sender, receiver) = mailbox(CHUNKS_MAX);
    spawn_thread("lines", move || send_lines(BufReader::with_capacity(CHUNK_BYTES, io::stdin()), &sender))?;
    Ok(receiver)
}

fn send_lines(mut input: BufReader<impl Read>, sender: &Sender<Result<Lines, LinesError>>) {
    loop {
        let mut chunk = Lines::default();
        let more = read_chunk(&mut input, &mut chunk);
        // Nobody receives any more where sending has failed.
        let is_received = chunk.ends.is_empty() || block_on(sender.send(Ok(chunk))).is_ok();
        match more {
            Ok(true) if is_received => {}
            Ok(_) => return,
            Err(error) => {
                let _told_or_gone = block_on(sender.send(Err(error)));
                return;
            }
        }
    }
}

/// Reads what is there, at least one line; `false` at the end of the input.
fn read_chunk(input: &mut BufReader<impl Read>, chunk: &mut Lines) -> Result<bool, LinesError> {
    loop {
        if !chunk.read_line(input)? {
            return Ok(false);
        }
        if !input.buffer().contains(&b'\n') || chunk.bytes.len() >= CHUNK_BYTES {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(input: &[u8]) -> (Vec<Vec<u8>>, Option<LinesError>) {
        let (sender, receiver) = mailbox(1 << 10);
        send_lines(BufReader::with_capacity(CHUNK_BYTES, input), &sender);
        drop(sender);
        let (mut lines, mut failure) = (Vec::new(), None);
        while let Ok(chunk) = block_on(receiver.receive()) {
            match chunk {
                Ok(chunk) => lines.extend(chunk.iter().map(<[u8]>::to_vec)),
                Err(error) => failure = Some(error),
            }
        }
        (lines, failure)
    }

    #[test]
    fn every_line_is_read_once_with_or_without_an_end() {
        let (lines, failure) = read_all(b"one\n\ntwo\nthree");
        assert_eq!(lines, [&b"one"[..], b"", b"two", b"three"]);
        assert!(failure.is_none());
        assert_eq!(read_all(b"").0, Vec::<Vec<u8>>::new());
    }

    #[test]
    fn lines_longer_than_the_buffer_and_many_lines_arrive_whole() {
        let long = vec![b'x'; 3 * CHUNK_BYTES];
        let mut input = long.clone();
        input.push(b'\n');
        let short: Vec<_> = (0..20_000).map(|number| format!("line {number}")).collect();
        input.extend(short.join("\n").into_bytes());
        let (lines, failure) = read_all(&input);
        assert!(failure.is_none());
        assert_eq!(lines[0], long);
        assert_eq!(lines[1..], short.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>());
    }

    #[test]
    fn a_line_that_never_ends_is_refused_and_what_came_before_is_kept() {
        let mut input = b"first\n".to_vec();
        input.extend(vec![b'x'; 2 << 20]);
        let (lines, failure) = read_all(&input);
        assert_eq!(lines, [b"first"]);
        assert!(matches!(failure, Some(LinesError::TooLong)));
        let mut largest = vec![b'x'; 1 << 20];
        largest.push(b'\n');
        assert!(read_all(&largest).1.is_none());
    }
}
