//! Floors: a package depends only on packages below it.
//!
//! The table here says the same as the comment that opens the workspace's `Cargo.toml`, which a
//! test compares. Layering that nobody checks is lost within a year.

use super::{ADAPTER, Refusal, find};
use crate::tree::TreeFile;
use crate::workspace::{Dependency, DependencyKind, Package, Workspace};

/// Which floor a folder stands on. An entry that ends in `/` stands for every package below it.
const FLOORS: &[(u8, &str)] = &[
    (4, "tools/ringlog"),
    (4, "tools/gate"),
    (4, "tests/"),
    (4, "benches"),
    (3, "net/server"),
    (3, "net/client"),
    (3, "tools/loadgen"),
    (3, "tuning"),
    (2, "engine/store"),
    (2, "engine/io-glommio"),
    (1, "engine/log"),
    (1, "engine/io"),
    (1, "replication"),
    (0, "engine/record"),
    (0, "net/wire"),
];

/// Arrows that don't lead down and are allowed all the same: from, to.
const EXCEPTIONS: &[(&str, &str)] = &[
    // The load generator is a client with a clock.
    ("loadgen", "net-client"),
];

/// Tests of any floor may run in the simulator, which stands above them all.
const SIMULATOR: &str = "sim";

/// Tests that run on a real drive too: from, to.
const TESTED_ON_A_DRIVE: &[(&str, &str)] = &[("engine-store", ADAPTER)];

const RUNTIME: &str = "glommio";

/// Lays the seam beside the runtime, so it names both.
const RUNTIME_BENCH: &str = "benches";

pub(super) fn check(workspace: &Workspace, files: &[TreeFile]) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for package in &workspace.packages {
        let Some(floor) = floor_of(&package.folder) else {
            refusals.push(homeless(package));
            continue;
        };
        for dependency in &package.dependencies {
            let what = wrong_arrow(workspace, package, floor, dependency)
                .or_else(|| runtime_outside_the_adapter(package, dependency));
            refusals.extend(what.map(|(what, advice)| {
                let path = manifest_of(package);
                let line = line_of(files, &path, &dependency.name);
                Refusal { path, line, what, advice }
            }));
        }
    }
    refusals
}

fn floor_of(folder: &str) -> Option<u8> {
    let stands_for = |entry: &str| {
        if entry.ends_with('/') { folder.starts_with(entry) } else { folder == entry }
    };
    FLOORS.iter().find(|(_, entry)| stands_for(entry)).map(|(floor, _)| *floor)
}

fn homeless(package: &Package) -> Refusal {
    Refusal {
        path: manifest_of(package),
        line: 1,
        what: format!("{} stands on no floor", package.name),
        advice: "give it one in Cargo.toml's first lines and in tools/gate/src/tidy/floors.rs",
    }
}

type WhatAndAdvice = (String, &'static str);

fn wrong_arrow(
    workspace: &Workspace,
    package: &Package,
    floor: u8,
    dependency: &Dependency,
) -> Option<WhatAndAdvice> {
    let target = workspace.package(&dependency.name)?;
    let target_floor = floor_of(&target.folder)?;
    if target_floor < floor || is_exception(package, dependency) {
        return None;
    }
    let (from, to) = (&package.name, &target.name);
    let what = format!("{from} (floor {floor}) depends on {to} (floor {target_floor})");
    Some((what, "depend on lower floors only: move the code down, or pass a value in"))
}

fn is_exception(package: &Package, dependency: &Dependency) -> bool {
    let arrow = (package.name.as_str(), dependency.name.as_str());
    let is_for_tests = dependency.name == SIMULATOR || TESTED_ON_A_DRIVE.contains(&arrow);
    EXCEPTIONS.contains(&arrow) || (dependency.kind == DependencyKind::Dev && is_for_tests)
}

fn runtime_outside_the_adapter(package: &Package, dependency: &Dependency) -> Option<WhatAndAdvice> {
    if dependency.name != RUNTIME || [ADAPTER, RUNTIME_BENCH].contains(&package.name.as_str()) {
        return None;
    }
    let what = format!("{} names the runtime", package.name);
    Some((what, "go through the seam (engine-io)"))
}

fn manifest_of(package: &Package) -> String {
    format!("{}/Cargo.toml", package.folder)
}

/// Where the manifest names the dependency; the first line if it does so in some other way.
fn line_of(files: &[TreeFile], manifest: &str, dependency: &str) -> usize {
    let names_it = |line: &str| {
        let rest = line.strip_prefix(dependency);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    let mut lines = find(files, manifest).into_iter().flat_map(TreeFile::lines);
    lines.find(|(_, line)| names_it(line)).map_or(1, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::tree::file;

    fn package(name: &str, folder: &str, dependencies: &[(&str, DependencyKind)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|(name, kind)| Dependency { name: (*name).to_owned(), kind: *kind })
            .collect();
        Package { name: name.to_owned(), folder: folder.to_owned(), dependencies, targets: Vec::new() }
    }

    /// A workspace where `package` is one among the usual others.
    fn workspace_with(package_under_test: Package) -> Workspace {
        let others = [
            package("engine-record", "engine/record", &[]),
            package("engine-log", "engine/log", &[]),
            package("engine-io", "engine/io", &[]),
            package("net-client", "net/client", &[]),
            package("net-server", "net/server", &[]),
            package("loadgen", "tools/loadgen", &[]),
            package("sim", "tests/sim", &[]),
        ];
        let is_other = |other: &Package| other.name != package_under_test.name;
        let mut packages: Vec<Package> = others.into_iter().filter(is_other).collect();
        packages.push(package_under_test);
        Workspace { root: PathBuf::from("/nowhere"), packages }
    }

    fn refusals_of(package_under_test: Package) -> Vec<String> {
        let refusals = check(&workspace_with(package_under_test), &[]);
        refusals.into_iter().map(|refusal| refusal.what).collect()
    }

    use DependencyKind::{Dev, Product};

    #[test]
    fn an_arrow_down_is_fine() {
        let store = package("engine-store", "engine/store", &[("engine-log", Product), ("bytes", Product)]);
        assert!(refusals_of(store).is_empty());
    }

    #[test]
    fn an_arrow_up_is_refused_where_the_manifest_draws_it() {
        let log = package("engine-log", "engine/log", &[("net-server", Product)]);
        let manifest = "[dependencies]\nnet-server-x.workspace = true\nnet-server.workspace = true\n";
        let refusals = check(&workspace_with(log), &[file("engine/log/Cargo.toml", manifest)]);
        assert_eq!(refusals.len(), 1);
        assert_eq!((refusals[0].path.as_str(), refusals[0].line), ("engine/log/Cargo.toml", 3));
        assert_eq!(refusals[0].what, "engine-log (floor 1) depends on net-server (floor 3)");
    }

    #[test]
    fn an_arrow_sideways_is_refused() {
        let log = package("engine-log", "engine/log", &[("engine-io", Product)]);
        assert_eq!(refusals_of(log), ["engine-log (floor 1) depends on engine-io (floor 1)"]);
    }

    #[test]
    fn the_named_exception_holds_for_its_one_arrow_only() {
        let loadgen = |to| package("loadgen", "tools/loadgen", &[(to, Product)]);
        assert!(refusals_of(loadgen("net-client")).is_empty());
        assert_eq!(refusals_of(loadgen("net-server")).len(), 1);
    }

    #[test]
    fn tests_of_any_floor_may_run_in_the_simulator_but_nothing_ships_it() {
        let log = |kind| package("engine-log", "engine/log", &[("sim", kind)]);
        assert!(refusals_of(log(Dev)).is_empty());
        assert_eq!(refusals_of(log(Product)).len(), 1);
        let sideways = package("engine-log", "engine/log", &[("engine-io", Dev)]);
        assert_eq!(refusals_of(sideways).len(), 1);
    }

    #[test]
    fn only_the_adapter_names_the_runtime() {
        let adapter = package(ADAPTER, "engine/io-glommio", &[(RUNTIME, Product)]);
        assert!(refusals_of(adapter).is_empty());
        let server = package("net-server", "net/server", &[(RUNTIME, Dev)]);
        assert_eq!(refusals_of(server), ["net-server names the runtime"]);
    }

    #[test]
    fn a_package_without_a_floor_is_refused() {
        let stray = package("helpers", "engine/helpers", &[]);
        assert_eq!(refusals_of(stray), ["helpers stands on no floor"]);
        assert_eq!(floor_of("tests/integration"), Some(4));
        assert_eq!(floor_of("engine/io"), Some(1));
    }

    /// The comment lists each floor as `#   4  tools/ringlog  tests/*`.
    #[test]
    fn the_table_says_what_the_workspace_manifest_says() {
        let manifest = include_str!("../../../../Cargo.toml");
        let mut written: Vec<(u8, String)> = Vec::new();
        for line in manifest.lines().take_while(|line| line.starts_with('#')) {
            let mut words = line.trim_start_matches('#').split_whitespace();
            let Some(Ok(floor)) = words.next().map(str::parse) else { continue };
            written.extend(words.map(|word| (floor, word.replace('*', ""))));
        }
        let mut table: Vec<_> = FLOORS.iter().map(|(floor, folder)| (*floor, (*folder).to_owned())).collect();
        written.sort();
        table.sort();
        assert_eq!(written, table);
    }
}
