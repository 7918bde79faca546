//! Standard input, line by line, or files, read on a thread of its own: reading blocks, and a shard may not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use engine_io::{Receiver, Sender, mailbox};
use futures_lite::future::block_on;

use crate::client::spawn_thread;
use crate::failure::{Failure, to_read};

/// The largest record, in bytes with its key and headers: what the largest `max.message.bytes` lets through.
pub(super) const RECORD_BYTES_MAX: usize = 64 << 20;
/// The longest line, in bytes: such a record in JSON, where one byte may take six (`\u0000`).
const LINE_BYTES_MAX: u64 = 6 * RECORD_BYTES_MAX as u64 + (64 << 10);
/// Lines leave in chunks of about this size, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks waiting to be sent, at most: when the broker is slow, reading stops. Each may be one line of the longest.
const CHUNKS_MAX: usize = 4;

/// How the input is divided.
#[derive(Clone, Debug)]
struct Division {
    delimiter: Vec<u8>,
    /// The longest line, in bytes without its end.
    line_bytes_max: u64,
}

impl Division {
    fn is_in(&self, bytes: &[u8]) -> bool {
        bytes.windows(self.delimiter.len()).any(|window| window == self.delimiter)
    }
}

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
    #[error("a line is longer than {0} bytes; it and what follows was not sent")]
    TooLong(u64),
    #[error("--file {}: {cause}{}; it and what follows was not sent", path.display(), to_read(cause))]
    File { path: PathBuf, cause: io::Error },
    #[error("--file {}: it is larger than {bytes_max} bytes; it and what follows was not sent", path.display())]
    TooLarge { path: PathBuf, bytes_max: u64 },
}

impl Lines {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// Reads a line; `false` at the end of the input.
    fn read_line(&mut self, input: &mut impl BufRead, division: &Division) -> Result<bool, LinesError> {
        let Division { delimiter, line_bytes_max } = division;
        let start = self.bytes.len();
        let (last, longest) =
            (delimiter.last().copied().unwrap_or(b'\n'), line_bytes_max + delimiter.len() as u64);
        loop {
            let left = longest - (self.bytes.len() - start) as u64;
            let read = input.by_ref().take(left).read_until(last, &mut self.bytes)?;
            let line = (self.bytes.len() - start) as u64;
            if self.bytes[start..].ends_with(delimiter) {
                self.bytes.truncate(self.bytes.len() - delimiter.len());
                break;
            }
            if line == longest || (read == 0 && line > *line_bytes_max) {
                self.bytes.truncate(start);
                return Err(LinesError::TooLong(*line_bytes_max));
            }
            if read == 0 {
                if line == 0 {
                    return Ok(false);
                }
                break;
            }
        }
        self.ends.push(self.bytes.len());
        Ok(true)
    }

    /// Reads a file as one line.
    fn read_file(&mut self, path: PathBuf, bytes_max: u64) -> Result<(), LinesError> {
        let read = File::open(&path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut self.bytes));
        match read {
            Ok(read) if read as u64 > bytes_max => Err(LinesError::TooLarge { path, bytes_max }),
            Ok(_) => {
                self.ends.push(self.bytes.len());
                Ok(())
            }
            Err(cause) => Err(LinesError::File { path, cause }),
        }
    }
}

/// Lines of standard input as they come. What is there is not held back for what isn't.
pub(super) fn read_aside(delimiter: Vec<u8>) -> Result<Receiver<Result<Lines, LinesError>>, Failure> {
    let (sender, receiver) = mailbox(CHUNKS_MAX);
    let input = || BufReader::with_capacity(CHUNK_BYTES, io::stdin());
    let division = Division { delimiter, line_bytes_max: LINE_BYTES_MAX };
    spawn_thread("lines", move || send_lines(input(), &division, &sender))?;
    Ok(receiver)
}

/// Each of these files as a line, in their order.
pub(super) fn read_files_aside(paths: Vec<PathBuf>) -> Result<Receiver<Result<Lines, LinesError>>, Failure> {
    let (sender, receiver) = mailbox(CHUNKS_MAX);
    spawn_thread("files", move || send_files(paths, RECORD_BYTES_MAX as u64, &sender))?;
    Ok(receiver)
}

fn send_files(paths: Vec<PathBuf>, bytes_max: u64, sender: &Sender<Result<Lines, LinesError>>) {
    for path in paths {
        let mut chunk = Lines::default();
        let read = chunk.read_file(path, bytes_max).map(|()| chunk);
        let is_last = read.is_err();
        // Nobody receives any more where sending has failed.
        if block_on(sender.send(read)).is_err() || is_last {
            return;
        }
    }
}

fn send_lines(
    mut input: BufReader<impl Read>,
    division: &Division,
    sender: &Sender<Result<Lines, LinesError>>,
) {
    loop {
        let mut chunk = Lines::default();
        let more = read_chunk(&mut input, division, &mut chunk);
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
fn read_chunk(
    input: &mut BufReader<impl Read>,
    division: &Division,
    chunk: &mut Lines,
) -> Result<bool, LinesError> {
    loop {
        if !chunk.read_line(input, division)? {
            return Ok(false);
        }
        let has_more = division.is_in(input.buffer());
        if !has_more || chunk.bytes.len() >= CHUNK_BYTES {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(input: &[u8]) -> (Vec<Vec<u8>>, Option<LinesError>) {
        read_divided(input, b"\n")
    }

    fn read_divided(input: &[u8], delimiter: &[u8]) -> (Vec<Vec<u8>>, Option<LinesError>) {
        let (sender, receiver) = mailbox(1 << 10);
        let division = Division { delimiter: delimiter.to_vec(), line_bytes_max: 1 << 20 };
        send_lines(BufReader::with_capacity(CHUNK_BYTES, input), &division, &sender);
        drop(sender);
        received(&receiver)
    }

    fn received(receiver: &Receiver<Result<Lines, LinesError>>) -> (Vec<Vec<u8>>, Option<LinesError>) {
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
    fn a_delimiter_may_be_any_bytes() {
        let (lines, failure) = read_divided(b"a\nb\0\0c", b"\0");
        assert_eq!((lines, failure.is_none()), (vec![b"a\nb".to_vec(), Vec::new(), b"c".to_vec()], true));
        let (lines, _) = read_divided(b"a;b;;c;;;d;", b";;");
        assert_eq!(lines, [&b"a;b"[..], b"c", b";d;"], "the first that fits divides");
        let mut longest = vec![b';'; 1 << 20];
        longest[(1 << 20) - 1] = b'x';
        for (at, byte) in longest.iter_mut().enumerate() {
            if at % 2 == 1 {
                *byte = b'x';
            }
        }
        assert_eq!(read_divided(&[&longest[..], b";;"].concat(), b";;").0, [longest.clone()]);
        let too_long = read_divided(&[&longest[..], b"x;;"].concat(), b";;").1;
        assert!(matches!(too_long, Some(LinesError::TooLong(_))));
    }

    #[test]
    fn a_file_is_a_record_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("lines"), "a\nb\n").unwrap();
        std::fs::write(path("empty"), "").unwrap();
        std::fs::write(path("large"), vec![0; (1 << 20) + 1]).unwrap();
        let read = |names: &[&str]| {
            let (sender, receiver) = mailbox(1 << 10);
            send_files(names.iter().map(|name| path(name)).collect(), 1 << 20, &sender);
            drop(sender);
            received(&receiver)
        };
        let (records, failure) = read(&["lines", "empty", "missing", "lines"]);
        assert_eq!(records, [&b"a\nb\n"[..], b""]);
        let told = failure.unwrap().to_string();
        assert!(told.contains("missing: ") && told.contains("name one that is there"), "{told}");
        let (records, failure) = read(&["large"]);
        assert!(records.is_empty() && matches!(failure, Some(LinesError::TooLarge { .. })));
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
        assert!(matches!(failure, Some(LinesError::TooLong(_))));
        let mut largest = vec![b'x'; 1 << 20];
        largest.push(b'\n');
        assert!(read_all(&largest).1.is_none());
    }
}
