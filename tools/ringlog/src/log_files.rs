//! Segment files as `ringlog log` reads them.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use engine_record::{BATCH_HEADER_BYTES, BatchHeader, Compression, DecompressError, RecordBatch, decompress};

use crate::failure::{Failure, to_read};

/// The most bytes that a batch is decompressed to: whoever wrote it may have meant harm.
pub(crate) const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// The file, or the segments in the folder by offset.
pub(crate) fn segment_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error| unreadable(path, &error);
    let found = fs::metadata(path).map_err(failed)?;
    if found.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    if !found.is_dir() {
        return Err(Failure::failed(format!(
            "{} is neither a segment (.log) nor a partition's folder",
            path.display()
        )));
    }
    let entries = fs::read_dir(path).map_err(failed)?.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "log"));
    files.sort();
    if files.is_empty() {
        return Err(Failure::failed(format!("{} holds no segment (.log)", path.display())));
    }
    Ok(files)
}

/// That a file can't be read, and what to do about it.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}{}", path.display(), to_read(error)))
}

/// What stands next in a segment's file.
pub(crate) enum Next {
    /// As many bytes as a batch's header says, or all there are.
    Batch(Vec<u8>),
    /// Nothing, or zeros.
    End,
    /// Something else.
    Damaged(String),
}

/// Reads the next batch whole; the end is the end of the file, or zeros up to it.
pub(crate) fn next_batch(file: &mut impl Read) -> io::Result<Next> {
    let mut header = [0; BATCH_HEADER_BYTES];
    let read = read_up_to(file, &mut header)?;
    if header.iter().all(|byte| *byte == 0) {
        return Ok(if only_zeros(file)? {
            Next::End
        } else {
            Next::Damaged("bytes behind zeros".to_owned())
        });
    }
    let parsed = match BatchHeader::parse(&header[..read], u32::MAX) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(Next::Damaged(error.to_string())),
    };
    let rest = u64::from(parsed.batch_bytes) - BATCH_HEADER_BYTES as u64;
    let mut bytes = header.to_vec();
    // Grows with what is there: a length that lies reserves nothing.
    file.take(rest).read_to_end(&mut bytes)?;
    Ok(Next::Batch(bytes))
}

fn read_up_to(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

fn only_zeros(file: &mut impl Read) -> io::Result<bool> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(true),
            read if buffer[..read].iter().any(|byte| *byte != 0) => return Ok(false),
            _ => {}
        }
    }
}

/// The records section, decompressed where it is compressed.
pub(crate) fn section(batch: &RecordBatch<'_>) -> Result<Vec<u8>, DecompressError> {
    match batch.header().compression() {
        Compression::None => Ok(batch.records_section().to_vec()),
        codec @ (Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd) => {
            decompress(codec, batch.records_section(), DECOMPRESSED_BYTES_MAX)
        }
    }
}
