//! Which checks there are, and in which turn they run.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::GateError;
use crate::lane::{Job, Lane};
use crate::workspace::{Workspace, cargo};

/// How much to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Before each commit: some ten minutes from nothing, two after a small change.
    Fast,
    /// Before each merge: half an hour from nothing.
    Full,
}

/// Seconds each fuzz target runs in the full gate.
const FUZZ_SECONDS: u32 = 30;

/// The lanes in the order they run: the quick ones first.
pub(crate) fn of(depth: Depth, workspace: &Workspace) -> Vec<Lane> {
    let mut lanes = vec![fmt(), tidy(), clippy(), test()];
    match depth {
        Depth::Fast => lanes.push(sim(workspace, 20)),
        Depth::Full => lanes.extend([
            sim(workspace, 200),
            clients(),
            doctest(),
            docs(),
            deny(),
            fuzz(workspace),
            bench(),
            release(),
        ]),
    }
    lanes
}

/// The lanes with these names, in their own order; all of them when no name is given.
pub(crate) fn named(lanes: Vec<Lane>, names: &[String]) -> Result<Vec<Lane>, GateError> {
    if let Some(name) = names.iter().find(|name| lanes.iter().all(|lane| lane.name != **name)) {
        let all: Vec<_> = lanes.iter().map(|lane| lane.name).collect();
        return Err(GateError::NoSuchLane { name: name.clone(), lanes: all.join(" ") });
    }
    let is_wanted = |lane: &Lane| names.is_empty() || names.iter().any(|name| name == lane.name);
    Ok(lanes.into_iter().filter(is_wanted).collect())
}

fn fmt() -> Lane {
    cargo_lane("fmt", &["fmt", "--all", "--check"], "run `cargo fmt --all`")
}

fn tidy() -> Lane {
    Lane { name: "tidy", job: Job::Tidy, advice: "each line above says what to do" }
}

fn clippy() -> Lane {
    let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"];
    cargo_lane("clippy", &arguments, "mend the code; an exception is #[expect(lint, reason = \"..\")]")
}

/// Everything but doctests and the tests with real clients, which the full gate runs.
fn test() -> Lane {
    let arguments = ["test", "--workspace", "--exclude", "integration", "--tests", "--locked", "--quiet"];
    cargo_lane("test", &arguments, "run the failing test alone: `cargo test -p PACKAGE NAME`")
}

/// Real clients against the real broker. What they need is installed by `tests/clients/install.sh`.
fn clients() -> Lane {
    let arguments = ["test", "--package", "integration", "--locked", "--quiet"];
    cargo_lane("clients", &arguments, "install what a test misses: `bash tests/clients/install.sh`")
}

fn sim(workspace: &Workspace, seeds: u32) -> Lane {
    if !workspace.has_binary("sim") {
        return skipped("sim", "no binary yet");
    }
    let seeds = seeds.to_string();
    let arguments = ["run", "--quiet", "--release", "--locked", "--package", "sim", "--", "--seeds", &seeds];
    cargo_lane("sim", &arguments, "replay the seed named above: `cargo run --release -p sim -- --seed SEED`")
}

fn doctest() -> Lane {
    let arguments = ["test", "--workspace", "--doc", "--locked", "--quiet"];
    cargo_lane("doctest", &arguments, "mend the example in the documentation")
}

fn docs() -> Lane {
    let mut command = cargo();
    command.args(["doc", "--workspace", "--no-deps", "--locked", "--quiet"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    commands("docs", vec![command], "mend the documentation")
}

/// Advisories need a database from the network, so they are left to a lane of their own.
fn deny() -> Lane {
    if !is_installed("deny") {
        return skipped("deny", "cargo-deny isn't installed (`cargo install --locked cargo-deny`)");
    }
    let arguments = ["deny", "--locked", "check", "bans", "licenses", "sources"];
    cargo_lane("deny", &arguments, "drop the dependency, or argue the exception in deny.toml")
}

fn fuzz(workspace: &Workspace) -> Lane {
    let targets = fuzz_targets(&workspace.root.join("tests/fuzz"));
    if targets.is_empty() {
        return skipped("fuzz", "no targets in tests/fuzz yet");
    }
    if let Some(missing) = missing_to_fuzz(is_installed("fuzz"), has_nightly()) {
        return skipped("fuzz", missing);
    }
    let runs = targets.iter().map(|target| fuzz_run(&workspace.root, target)).collect();
    commands("fuzz", runs, "keep the input as a test, then mend the parser")
}

/// What fuzzing needs and isn't here, in words.
const fn missing_to_fuzz(has_cargo_fuzz: bool, has_nightly: bool) -> Option<&'static str> {
    match (has_cargo_fuzz, has_nightly) {
        (true, true) => None,
        (false, true) => Some("cargo-fuzz isn't installed (`cargo install --locked cargo-fuzz`)"),
        (true, false) => Some("there is no nightly toolchain (`rustup toolchain install nightly`)"),
        (false, false) => Some(
            "there is neither cargo-fuzz nor a nightly toolchain (`cargo install --locked cargo-fuzz`, \
             `rustup toolchain install nightly`)",
        ),
    }
}

/// The names of the targets, ascending; none when the folder doesn't exist.
fn fuzz_targets(folder: &Path) -> Vec<String> {
    let entries = folder.join("fuzz_targets").read_dir().into_iter().flatten().flatten();
    let mut targets: Vec<String> = entries
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".rs")?.to_owned()))
        .collect();
    targets.sort_unstable();
    targets
}

/// The committed corpus is only read: what a run finds goes below `target`.
fn fuzz_run(root: &Path, target: &str) -> Command {
    let found = root.join("target/fuzz/found").join(target);
    let corpus = root.join("tests/fuzz/corpus").join(target);
    let mut command = Command::new("sh");
    // "$@" are the folders of inputs: the first gets the new ones, the others are read.
    command.arg("-c").arg(
        "target=$1 seconds=$2 found=$3; shift 2; mkdir -p \"$@\" && exec cargo +nightly fuzz run \
         --fuzz-dir tests/fuzz --target-dir target/fuzz \"$target\" \"$@\" -- \
         -max_total_time=\"$seconds\" -artifact_prefix=\"$found/\"",
    );
    command.current_dir(root).arg("fuzz").arg(target).arg(FUZZ_SECONDS.to_string()).arg(found).arg(corpus);
    command
}

/// One turn of each bench, so that they don't rot. Nothing is measured.
fn bench() -> Lane {
    let arguments = ["bench", "--package", "benches", "--locked", "--quiet", "--", "--test"];
    cargo_lane("bench", &arguments, "mend the bench, or the code it times")
}

fn release() -> Lane {
    cargo_lane("release", &["build", "--workspace", "--release", "--locked", "--quiet"], "mend the build")
}

fn cargo_lane(name: &'static str, arguments: &[&str], advice: &'static str) -> Lane {
    let mut command = cargo();
    command.args(arguments);
    commands(name, vec![command], advice)
}

fn commands(name: &'static str, commands: Vec<Command>, advice: &'static str) -> Lane {
    Lane { name, job: Job::Commands(commands), advice }
}

fn skipped(name: &'static str, reason: &'static str) -> Lane {
    Lane { name, job: Job::Skipped(reason), advice: "" }
}

/// Whether cargo has this subcommand.
fn is_installed(subcommand: &str) -> bool {
    let mut command = cargo();
    command.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether [`fuzz_run`] finds its toolchain. It is asked for as there: the cargo that started us knows no toolchains.
fn has_nightly() -> bool {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn empty_workspace() -> Workspace {
        Workspace { root: PathBuf::from("/nowhere"), packages: Vec::new() }
    }

    fn names(depth: Depth) -> Vec<&'static str> {
        of(depth, &empty_workspace()).iter().map(|lane| lane.name).collect()
    }

    #[test]
    fn lanes_can_be_run_by_name() {
        let fast = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            named(of(Depth::Fast, &empty_workspace()), &names)
                .map(|lanes| lanes.iter().map(|lane| lane.name).collect::<Vec<_>>())
        };
        assert_eq!(fast(&["tidy", "fmt"]).unwrap(), ["fmt", "tidy"]);
        assert_eq!(fast(&[]).unwrap(), names(Depth::Fast));
        let error = fast(&["tidy", "release"]).unwrap_err().to_string();
        assert!(error.contains("release") && error.contains("clippy"), "{error}");
    }

    #[test]
    fn the_map_of_the_gate_names_every_lane_in_its_turn() {
        for (depth, head) in [(Depth::Fast, "//! fast "), (Depth::Full, "//! full ")] {
            let line = include_str!("main.rs").lines().find_map(|line| line.strip_prefix(head)).unwrap();
            let named = line.replace("(20 seeds)", "").replace("(200 seeds)", "");
            assert_eq!(named.split_whitespace().collect::<Vec<_>>(), names(depth));
        }
    }

    #[test]
    fn full_runs_all_that_fast_runs() {
        let full = names(Depth::Full);
        assert!(names(Depth::Fast).iter().all(|name| full.contains(name)));
        assert_eq!(full.len(), 12);
    }

    #[test]
    fn a_part_that_is_not_written_yet_is_skipped_in_words() {
        let workspace = empty_workspace();
        assert!(matches!(sim(&workspace, 20).job, Job::Skipped("no binary yet")));
        assert!(matches!(fuzz(&workspace).job, Job::Skipped(_)));
        assert!(!is_installed("no-such-subcommand"));
    }

    #[test]
    fn fuzzing_names_each_thing_it_misses_and_only_those() {
        for (has_cargo_fuzz, has_nightly) in [(true, true), (false, true), (true, false), (false, false)] {
            let missing = missing_to_fuzz(has_cargo_fuzz, has_nightly).unwrap_or_default();
            assert_eq!(missing.contains("cargo install --locked cargo-fuzz"), !has_cargo_fuzz, "{missing}");
            assert_eq!(missing.contains("rustup toolchain install nightly"), !has_nightly, "{missing}");
        }
    }

    #[test]
    fn no_lane_writes_to_the_tree() {
        let mut writing = Vec::new();
        let workspace = empty_workspace();
        for lane in of(Depth::Full, &workspace) {
            let Job::Commands(commands) = lane.job else { continue };
            for command in commands {
                let arguments: Vec<_> = command.get_args().collect();
                // Formatting only looks; everything else leaves the lock file alone.
                if !arguments.iter().any(|argument| *argument == "--check" || *argument == "--locked") {
                    writing.push(lane.name);
                }
            }
        }
        assert!(writing.is_empty(), "{writing:?}");
    }
}
