//! Files in `src` that no `mod` reaches: the compiler never sees them, so they rot.
//!
//! From each root file the declarations are followed the way the compiler does it: `mod b;` in
//! `a.rs` is `a/b.rs` or `a/b/mod.rs`, and in a root file or `mod.rs` it lies beside. Declarations
//! inside an inline module aren't followed; the house has none that name a file.

use std::collections::BTreeSet;

use super::{Refusal, find};
use crate::tree::TreeFile;
use crate::workspace::Workspace;

pub(super) fn check(workspace: &Workspace, files: &[TreeFile]) -> Vec<Refusal> {
    let targets = workspace.packages.iter().flat_map(|package| &package.targets);
    let reached = reachable(files, targets.map(|target| target.root_file.as_str()));
    let is_source = |file: &&TreeFile| {
        let of = |folder: &str| file.path.starts_with(&format!("{folder}/src/"));
        file.has_extension(&["rs"]) && workspace.packages.iter().any(|package| of(&package.folder))
    };
    files.iter().filter(is_source).filter(|file| !reached.contains(&file.path)).map(refusal).collect()
}

fn refusal(file: &TreeFile) -> Refusal {
    Refusal {
        path: file.path.clone(),
        line: 1,
        what: "no `mod` reaches this file".to_owned(),
        advice: "declare it or delete it",
    }
}

/// Every file that a chain of declarations leads to from one of the roots.
fn reachable<'a>(files: &[TreeFile], roots: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut waiting: Vec<(String, bool)> = roots.map(|root| (root.to_owned(), true)).collect();
    while let Some((path, is_root)) = waiting.pop() {
        let Some(file) = find(files, &path) else { continue };
        if !reached.insert(path) {
            continue;
        }
        let beside = folder_of(&file.path);
        let below = if is_root || file.path.ends_with("/mod.rs") {
            beside.to_owned()
        } else {
            file.path.trim_end_matches(".rs").to_owned()
        };
        for place in declarations(file).into_iter().flat_map(|module| module.places(beside, &below)) {
            waiting.push((place, false));
        }
    }
    reached
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A declaration of a module in a file of its own.
#[derive(Debug, PartialEq, Eq)]
enum Module {
    Named(String),
    /// By `#[path]`, from the folder of the file that declares it.
    At(String),
}

impl Module {
    /// Where the compiler would look for it.
    fn places(&self, beside: &str, below: &str) -> Vec<String> {
        match self {
            Self::Named(name) => vec![format!("{below}/{name}.rs"), format!("{below}/{name}/mod.rs")],
            Self::At(path) => vec![format!("{beside}/{path}")],
        }
    }
}

fn declarations(file: &TreeFile) -> Vec<Module> {
    let mut modules = Vec::new();
    let mut path_attribute = None;
    for (_, line) in file.lines() {
        if let Some(path) = path_of(line) {
            path_attribute = Some(path.to_owned());
        } else if let Some(name) = module_of(line) {
            modules.push(path_attribute.take().map_or_else(|| Module::Named(name.to_owned()), Module::At));
        } else if !line.starts_with('#') {
            path_attribute = None;
        }
    }
    modules
}

fn path_of(line: &str) -> Option<&str> {
    line.strip_prefix("#[path = \"")?.strip_suffix("\"]")
}

/// The name in `mod name;`, whatever its visibility.
fn module_of(line: &str) -> Option<&str> {
    let declaration = line.split_once(';').map(|(declaration, _)| declaration)?;
    let rest = match declaration.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map(|(_, rest)| rest)?,
        Some(rest) => rest,
        None => declaration,
    };
    let name = rest.trim_start().strip_prefix("mod ")?;
    Some(name.strip_prefix("r#").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::tree::file;
    use crate::workspace::{Package, Target, TargetKind};

    fn dead(files: &[TreeFile]) -> Vec<String> {
        let target = Target { kind: TargetKind::Library, root_file: "x/src/lib.rs".to_owned() };
        let package = Package {
            name: "x".to_owned(),
            folder: "x".to_owned(),
            dependencies: Vec::new(),
            targets: vec![target],
        };
        let workspace = Workspace { root: PathBuf::from("/nowhere"), packages: vec![package] };
        check(&workspace, files).into_iter().map(|refusal| refusal.path).collect()
    }

    #[test]
    fn declared_files_are_alive_at_every_depth() {
        let files = [
            file(
                "x/src/lib.rs",
                "//! X.\nmod a;\npub mod b;\npub(crate) mod c; // why\n#[cfg(test)]\nmod tests;\n",
            ),
            file("x/src/a.rs", "mod deep;\n"),
            file("x/src/a/deep.rs", ""),
            file("x/src/b/mod.rs", "mod beside;\n"),
            file("x/src/b/beside.rs", ""),
            file("x/src/c.rs", ""),
            file("x/src/tests.rs", ""),
        ];
        assert!(dead(&files).is_empty());
    }

    #[test]
    fn a_file_that_nothing_declares_is_dead() {
        let files = [
            file("x/src/lib.rs", "// mod a;\nmod b { fn f() {} }\nuse c;\n"),
            file("x/src/a.rs", "mod child;\n"),
            file("x/src/a/child.rs", ""),
            file("x/src/b.rs", ""),
            file("x/examples/e.rs", ""),
            file("x/src/notes.txt", ""),
        ];
        assert_eq!(dead(&files), ["x/src/a.rs", "x/src/a/child.rs", "x/src/b.rs"]);
    }

    #[test]
    fn a_path_attribute_names_the_file_of_the_next_module_only() {
        let files = [
            file("x/src/lib.rs", "#[path = \"far/away.rs\"]\n#[cfg(test)]\nmod a;\nmod b;\n"),
            file("x/src/far/away.rs", ""),
            file("x/src/a.rs", ""),
            file("x/src/b.rs", ""),
        ];
        assert_eq!(dead(&files), ["x/src/a.rs"]);
    }

    #[test]
    fn modules_that_declare_each_other_end() {
        let files = [
            file("x/src/lib.rs", "#[path = \"lib.rs\"]\nmod again;\nmod a;\n"),
            file("x/src/a.rs", "#[path = \"a.rs\"]\nmod a;\n"),
        ];
        assert!(dead(&files).is_empty());
    }
}
