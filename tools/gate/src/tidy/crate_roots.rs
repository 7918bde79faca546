//! Every crate forbids unsafe code in its root file, but the adapter.

use super::{ADAPTER, Refusal, find};
use crate::tree::TreeFile;
use crate::workspace::{Target, TargetKind, Workspace};

pub(super) fn check(workspace: &Workspace, files: &[TreeFile]) -> Vec<Refusal> {
    workspace
        .packages
        .iter()
        .filter(|package| package.name != ADAPTER)
        .flat_map(|package| &package.targets)
        .filter(|target| ships(target))
        .filter_map(|target| find(files, &target.root_file))
        .filter(|file| !forbids_unsafe(file))
        .map(refusal)
        .collect()
}

fn ships(target: &Target) -> bool {
    match target.kind {
        TargetKind::Library | TargetKind::Binary => true,
        TargetKind::Other => false,
    }
}

fn forbids_unsafe(file: &TreeFile) -> bool {
    file.lines().any(|(_, line)| {
        let lints = line.strip_prefix("#![forbid(").and_then(|rest| rest.split_once(')'));
        lints.is_some_and(|(lints, _)| lints.split(',').any(|lint| lint.trim() == "unsafe_code"))
    })
}

fn refusal(file: &TreeFile) -> Refusal {
    Refusal {
        path: file.path.clone(),
        line: 1,
        what: "the crate doesn't forbid unsafe code".to_owned(),
        advice: "write #![forbid(unsafe_code)] below the crate's documentation",
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::tree::file;
    use crate::workspace::Package;

    fn refused(name: &str, kind: TargetKind, text: &str) -> bool {
        let root_file = "x/src/lib.rs".to_owned();
        let package = Package {
            name: name.to_owned(),
            folder: "x".to_owned(),
            dependencies: Vec::new(),
            targets: vec![Target { kind, root_file }],
        };
        let workspace = Workspace { root: PathBuf::from("/nowhere"), packages: vec![package] };
        !check(&workspace, &[file("x/src/lib.rs", text)]).is_empty()
    }

    #[test]
    fn a_library_or_binary_must_forbid_unsafe_code() {
        assert!(refused("x", TargetKind::Library, "//! Docs.\nmod a;\n"));
        assert!(refused("x", TargetKind::Binary, "// #![forbid(unsafe_code)]\nfn main() {}\n"));
        assert!(refused("x", TargetKind::Library, "#![deny(unsafe_code)]\n"));
        assert!(!refused("x", TargetKind::Library, "//! Docs.\n\n#![forbid(unsafe_code)]\n"));
        assert!(!refused("x", TargetKind::Library, "#![forbid(missing_docs, unsafe_code)]\n"));
    }

    #[test]
    fn the_adapter_and_what_does_not_ship_are_left_alone() {
        assert!(!refused(ADAPTER, TargetKind::Library, ""));
        assert!(!refused("x", TargetKind::Other, ""));
    }
}
