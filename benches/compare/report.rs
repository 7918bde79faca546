//! What was found, as text.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use crate::Arguments;
use crate::error::{CompareError, file};
use crate::rounds::Figures;

/// Runs that are kept beside the newest.
const RUNS_KEPT: usize = 9;
/// What every run begins with in the file.
const RUN_MARK: &str = "\n## Run of ";
const HEAD: &str = "# What the comparison found\n\n\
    Written by `benches/compare/run.sh`, the newest run first; what equals what is said at the head of each file in \
    `benches/compare/`. A cell is the median of the rounds, with the least and the greatest in brackets; a ratio is one \
    of medians of the same run. Only ratios mean something elsewhere.\n";

/// One table.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    /// What the project wants of it.
    pub(crate) goal: &'static str,
    pub(crate) header: &'static [&'static str],
    pub(crate) lines: Vec<Vec<String>>,
}

/// Bytes a second as MB/s.
pub(crate) fn per_second(rate: &Figures) -> String {
    let (least, greatest) = rate.range();
    format!("{:.0} ({:.0}-{:.0})", rate.median() / 1e6, least / 1e6, greatest / 1e6)
}

/// Seconds.
pub(crate) fn seconds(time: &Figures) -> String {
    let (least, greatest) = time.range();
    format!("{:.3} ({least:.3}-{greatest:.3})", time.median())
}

/// How much of `other` the median reaches.
pub(crate) fn ratio(figures: &Figures, other: &Figures) -> String {
    format!("{:.2}", figures.median() / other.median())
}

/// A whole run. `machine` begins with the date.
pub(crate) fn run(arguments: &Arguments, machine: &[String], sections: &[Section]) -> String {
    let mut text = String::new();
    let (date, rest) = machine.split_first().map_or(("", &[][..]), |(date, rest)| (date.as_str(), rest));
    let (rounds, each) = (arguments.rounds, arguments.seconds);
    let mut put = |line: String| writeln!(text, "{line}").expect("a string takes all that is written");
    put(format!("{}{date}\n", RUN_MARK.trim_start()));
    rest.iter().for_each(|line| put(format!("- {line}")));
    put(format!("- {rounds} rounds of {each} s a cell"));
    for section in sections {
        put(format!("\n### {}\n\nGoal: {}.\n", section.title, section.goal));
        put(line(section.header.iter().copied()));
        put(line(section.header.iter().map(|_| "---")));
        section.lines.iter().for_each(|cells| put(line(cells.iter().map(String::as_str))));
    }
    text
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    cells.fold("|".to_owned(), |line, cell| line + " " + cell + " |")
}

/// Puts the run in front of those in the file, of which the oldest go.
pub(crate) fn keep(path: &Path, run: &str) -> Result<(), CompareError> {
    let before = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(file(path)(error)),
    };
    fs::write(path, with_run(&before, run)).map_err(file(path))
}

fn with_run(before: &str, run: &str) -> String {
    let earlier = before.split(RUN_MARK).skip(1).take(RUNS_KEPT);
    let runs = earlier.map(|run| format!("{RUN_MARK}{}\n", run.trim_end()));
    format!("{HEAD}\n{}\n{}", run.trim_end(), runs.collect::<String>())
}

/// Prints a run.
#[expect(clippy::print_stdout, reason = "the program's one answer")]
pub(crate) fn show(text: &str) {
    println!("{text}");
}

/// Says why there is none.
#[expect(clippy::print_stderr, reason = "the program's one complaint")]
pub(crate) fn complain(error: &CompareError) {
    eprintln!("compare: {error}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_run_stands_first_and_the_oldest_go() {
        let mut text = String::new();
        for number in 0..RUNS_KEPT + 3 {
            text = with_run(&text, &format!("## Run of day {number}\n\n- a line\n"));
        }
        assert!(text.starts_with(HEAD));
        let runs: Vec<&str> = text.lines().filter(|line| line.starts_with("## Run of ")).collect();
        assert_eq!(runs.len(), RUNS_KEPT + 1);
        assert_eq!((runs[0], runs[RUNS_KEPT]), ("## Run of day 11", "## Run of day 2"));
        assert_eq!(text.matches("- a line").count(), RUNS_KEPT + 1);
    }
}
