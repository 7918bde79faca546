//! What `--out` writes: histograms for the tools of HdrHistogram, and the report for programs.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use loadgen::{write_hgrm, write_hlog};

use super::load::Loaded;
use super::report::BenchReport;
use crate::failure::{Failure, to_make};

/// Makes the folder before the load is made for nothing.
pub(super) fn prepare(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)
        .map_err(|error| Failure::usage(format!("--out {}: {error}{}", folder.display(), to_make(&error))))
}

/// Three histograms and the log of a load's intervals.
pub(super) fn write_phase(folder: &Path, name: &str, loaded: &Loaded) -> Result<(), Failure> {
    let latencies = &loaded.outcome.latencies;
    let histograms = [
        ("produce", &latencies.produce),
        ("service", &latencies.service),
        ("end-to-end", &latencies.end_to_end),
    ];
    for (kind, histogram) in histograms {
        write(folder, &format!("{name}-{kind}.hgrm"), |out| write_hgrm(histogram, out))?;
    }
    write(folder, &format!("{name}.hlog"), |out| write_hlog(&loaded.outcome, loaded.began, out))
}

pub(super) fn write_report(folder: &Path, report: &BenchReport) -> Result<(), Failure> {
    write(folder, "report.json", |out| writeln!(out, "{}", report.to_json()))
}

fn write(
    folder: &Path,
    name: &str,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), Failure> {
    let path = folder.join(name);
    let written = File::create(&path).and_then(|file| {
        let mut out = BufWriter::new(file);
        content(&mut out)?;
        out.flush()
    });
    written.map_err(|error| Failure::failed(format!("{}: {error}{}", path.display(), to_make(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_can_not_be_made_is_told_with_the_next_step_before_the_load() {
        let failure = prepare(Path::new("/proc/x")).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.to_string().contains("name another"), "{failure}");
    }
}
