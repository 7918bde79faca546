//! `ringlog log dump`: prints the batches of log files, and where a file stops making sense.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use engine_record::{BATCH_HEADER_BYTES, BatchHeader, RecordBatch};
use serde_json::json;

use crate::failure::{Failure, to_read};
use crate::output::{Counted, Reader, reader};

/// What `ringlog log dump` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  ringlog log dump ringlog-data/topics/9L2kMbtHQzWx8bq1fWTQyA/0")]
pub(crate) struct Arguments {
    /// A segment file (.log), or a partition's folder.
    path: PathBuf,
    /// Print one JSON object a batch.
    #[arg(long)]
    json: bool,
}

/// Prints every batch. A stopped broker's files are best: a running one appends to the last of them.
///
/// # Errors
/// A file can't be read, or holds something else than batches followed by zeros.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let files = segment_files(&arguments.path)?;
    let mut out = io::stdout().lock();
    let mut damaged = 0;
    for path in &files {
        match dump(path, arguments.json, &mut out) {
            Ok(is_whole) => damaged += usize::from(!is_whole),
            Err(DumpError::File(error)) => {
                return Err(unreadable(path, &error));
            }
            Err(DumpError::Output(error)) => {
                if reader(Err(error))? == Reader::Gone {
                    break;
                }
            }
        }
    }
    if damaged > 0 {
        return Err(Failure::failed(format!(
            "something that is no batch is in {damaged} of {}",
            Counted(files.len(), "file")
        )));
    }
    Ok(())
}

fn segment_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
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

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}{}", path.display(), to_read(error)))
}

/// How a file ends.
enum End {
    /// With the last byte of a batch, or zeros behind it.
    Clean,
    /// With something else.
    Damaged(String),
}

/// Which side of a dump broke.
#[derive(Debug)]
enum DumpError {
    File(io::Error),
    Output(io::Error),
}

/// Whether the file holds nothing but batches.
fn dump(path: &Path, as_json: bool, out: &mut impl Write) -> Result<bool, DumpError> {
    let (file, output) = (DumpError::File, DumpError::Output);
    let mut input = BufReader::with_capacity(1 << 20, File::open(path).map_err(file)?);
    if !as_json {
        writeln!(out, "{}", path.display()).map_err(output)?;
    }
    let mut position = 0_u64;
    let end = loop {
        match next_batch(&mut input).map_err(file)? {
            Next::Batch(bytes) => {
                match RecordBatch::parse(&bytes) {
                    Ok((batch, _)) => print_batch(path, position, &batch, as_json, out).map_err(output)?,
                    Err(error) => break End::Damaged(error.to_string()),
                }
                position += bytes.len() as u64;
            }
            Next::End => break End::Clean,
            Next::Damaged(why) => break End::Damaged(why),
        }
    };
    match end {
        End::Clean => {
            if position == 0 && !as_json {
                writeln!(out, "  holds no batch").map_err(output)?;
            }
            Ok(true)
        }
        End::Damaged(why) => {
            let line = if as_json {
                json!({ "file": path, "position": position, "damaged": why }).to_string()
            } else {
                format!("  at byte {position}: {why}")
            };
            writeln!(out, "{line}").map_err(output)?;
            Ok(false)
        }
    }
}

enum Next {
    Batch(Vec<u8>),
    End,
    Damaged(String),
}

/// Reads the next batch whole; the end is the end of the file, or zeros up to it.
fn next_batch(file: &mut impl Read) -> io::Result<Next> {
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

fn print_batch(
    path: &Path,
    position: u64,
    batch: &RecordBatch<'_>,
    as_json: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let header = batch.header();
    let last_offset = header.last_offset().map_or(-1, engine_record::Offset::value);
    if as_json {
        return writeln!(
            out,
            "{}",
            json!({
                "file": path, "position": position, "bytes": header.batch_bytes,
                "base_offset": header.base_offset, "last_offset": last_offset, "records": header.record_count,
                "leader_epoch": header.leader_epoch.0, "compression": header.compression().to_string(),
                "max_timestamp": header.max_timestamp.0, "producer_id": header.producer_id.0,
                "producer_epoch": header.producer_epoch.0, "base_sequence": header.base_sequence,
                "transactional": header.is_transactional(), "control": header.is_control(),
            })
        );
    }
    writeln!(
        out,
        "  at byte {position}: offsets {} to {last_offset}, {}, {} bytes, epoch {}, {}, time {}, producer {} epoch {} sequence {}",
        header.base_offset,
        Counted(header.record_count, "record"),
        header.batch_bytes,
        header.leader_epoch,
        header.compression(),
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch.0,
        header.base_sequence,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_no_segment_and_an_empty_one_is_said_to_hold_nothing() {
        let failure = segment_files(Path::new("/dev/null")).unwrap_err();
        assert_eq!(failure.code(), 1);
        assert!(failure.to_string().contains("neither a segment"), "{failure}");
        let folder = tempfile::tempdir().unwrap();
        let missing = segment_files(&folder.path().join("missing.log")).unwrap_err().to_string();
        assert!(missing.contains("name one that is there"), "{missing}");
        let path = folder.path().join("00000000000000000000.log");
        for content in [&[][..], &[0; 4_096]] {
            fs::write(&path, content).unwrap();
            assert_eq!(segment_files(folder.path()).unwrap(), std::slice::from_ref(&path));
            let mut out = Vec::new();
            assert!(dump(&path, false, &mut out).unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), format!("{}\n  holds no batch\n", path.display()));
        }
        fs::write(&path, "not a batch").unwrap();
        let mut out = Vec::new();
        assert!(!dump(&path, false, &mut out).unwrap());
        assert!(String::from_utf8(out).unwrap().contains("at byte 0: "));
    }
}
