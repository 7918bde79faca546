//! `ringlog log dump`: prints the batches of log files, and where a file stops making sense.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use engine_record::{CorruptRecord, Header, Record, RecordBatch, Records};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::json_record;
use crate::log_files::{Next, next_batch, section, segment_files, unreadable};
use crate::output::{Counted, Reader, reader};

/// What `ringlog log dump` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  ringlog log dump ringlog-data/topics/9L2kMbtHQzWx8bq1fWTQyA/0 --records")]
pub(crate) struct Arguments {
    /// A segment file (.log), or a partition's folder.
    path: PathBuf,
    /// Print the records of each batch too: offset, time, key, value and headers.
    #[arg(long)]
    records: bool,
    /// Print one JSON object a batch.
    #[arg(long)]
    json: bool,
}

/// What is printed, and how.
#[derive(Clone, Copy, Debug)]
struct Shape {
    records: bool,
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
    let shape = Shape { records: arguments.records, json: arguments.json };
    for path in &files {
        match dump(path, shape, &mut out) {
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
fn dump(path: &Path, shape: Shape, out: &mut impl Write) -> Result<bool, DumpError> {
    let (file, output) = (DumpError::File, DumpError::Output);
    let mut input = BufReader::with_capacity(1 << 20, File::open(path).map_err(file)?);
    if !shape.json {
        writeln!(out, "{}", path.display()).map_err(output)?;
    }
    let mut position = 0_u64;
    let end = loop {
        match next_batch(&mut input).map_err(file)? {
            Next::Batch(bytes) => {
                match RecordBatch::parse(&bytes) {
                    Ok((batch, _)) => print_batch((path, position), &batch, shape, out).map_err(output)?,
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
            if position == 0 && !shape.json {
                writeln!(out, "  holds no batch").map_err(output)?;
            }
            Ok(true)
        }
        End::Damaged(why) => {
            let line = if shape.json {
                json!({ "file": path, "position": position, "damaged": why }).to_string()
            } else {
                format!("  at byte {position}: {why}")
            };
            writeln!(out, "{line}").map_err(output)?;
            Ok(false)
        }
    }
}

/// Prints a batch's header, and its records where they are wanted.
fn print_batch(
    (path, position): (&Path, u64),
    batch: &RecordBatch<'_>,
    shape: Shape,
    out: &mut impl Write,
) -> io::Result<()> {
    let header = batch.header();
    let last_offset = header.last_offset().map_or(-1, engine_record::Offset::value);
    if shape.json {
        let mut told = json!({
            "file": path, "position": position, "bytes": header.batch_bytes,
            "base_offset": header.base_offset, "last_offset": last_offset, "records": header.record_count,
            "leader_epoch": header.leader_epoch.0, "compression": header.compression().to_string(),
            "max_timestamp": header.max_timestamp.0, "producer_id": header.producer_id.0,
            "producer_epoch": header.producer_epoch.0, "base_sequence": header.base_sequence,
            "transactional": header.is_transactional(), "control": header.is_control(),
        });
        if shape.records {
            told["contents"] = records(batch, record_json, |why| json!({ "unreadable": why })).into();
        }
        return writeln!(out, "{told}");
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
    )?;
    if shape.records {
        for line in records(batch, record_text, |why| format!("can't be read: {why}")) {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

/// Each record of the batch, up to one that can't be read.
fn records<T>(
    batch: &RecordBatch<'_>,
    told: impl Fn(i64, &Record<'_>) -> T,
    unreadable: impl Fn(String) -> T,
) -> Vec<T> {
    let section = match section(batch) {
        Ok(section) => section,
        Err(error) => return vec![unreadable(error.to_string())],
    };
    let base = batch.header().base_offset;
    let tell = |record: Result<Record<'_>, CorruptRecord>| match record {
        Ok(record) => told(base.saturating_add(record.offset_delta.into()), &record),
        Err(error) => unreadable(error.to_string()),
    };
    Records::new(batch.header(), &section).map(tell).collect()
}

fn record_json(offset: i64, record: &Record<'_>) -> Value {
    let header = |header: Header<'_>| json!({ "key": json_record::bytes(Some(header.key)), "value": json_record::bytes(header.value) });
    json!({
        "offset": offset,
        "timestamp": record.timestamp.0,
        "key": json_record::bytes(record.key),
        "value": json_record::bytes(record.value),
        "headers": record.headers.map(header).collect::<Vec<_>>(),
    })
}

fn record_text(offset: i64, record: &Record<'_>) -> String {
    let (key, value) = (json_record::bytes(record.key), json_record::bytes(record.value));
    let headers = record.headers.map(|header| {
        format!(", header {}={}", String::from_utf8_lossy(header.key), json_record::bytes(header.value))
    });
    format!("{offset}: time {}, key {key}, value {value}{}", record.timestamp, headers.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use engine_record::{BatchBuilder, Compression, NewRecord, Timestamp};

    use super::*;

    const HEADERS: Shape = Shape { records: false, json: false };

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
            assert!(dump(&path, HEADERS, &mut out).unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), format!("{}\n  holds no batch\n", path.display()));
        }
        fs::write(&path, "not a batch").unwrap();
        let mut out = Vec::new();
        assert!(!dump(&path, HEADERS, &mut out).unwrap());
        assert!(String::from_utf8(out).unwrap().contains("at byte 0: "));
    }

    #[test]
    fn records_are_shown_with_keys_values_and_headers_also_of_compressed_batches() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut builder = BatchBuilder::new().with_compression(Compression::Zstd);
        let headers = [(&b"h"[..], Some(&b"1"[..]))];
        let (key, value) = (Some(&b"k"[..]), Some(&b"\xff"[..]));
        builder.push(&NewRecord { timestamp: Timestamp(7), key, value, headers: &headers }).unwrap();
        builder.push(&NewRecord { timestamp: Timestamp(8), ..NewRecord::default() }).unwrap();
        fs::write(&path, builder.build().unwrap()).unwrap();
        let told = |json| {
            let mut out = Vec::new();
            assert!(dump(&path, Shape { records: true, json }, &mut out).unwrap());
            String::from_utf8(out).unwrap()
        };
        let text = told(false);
        assert!(
            text.contains("\n    0: time 7, key \"k\", value {\"base64\":\"/w==\"}, header h=\"1\"\n"),
            "{text}"
        );
        assert!(text.contains("\n    1: time 8, key null, value null\n"), "{text}");
        let told: Value = serde_json::from_str(&told(true)).unwrap();
        assert_eq!(told["contents"][0]["headers"][0], json!({ "key": "h", "value": "1" }));
        assert_eq!((&told["records"], &told["contents"][1]["offset"]), (&json!(2), &json!(1)));
    }
}
