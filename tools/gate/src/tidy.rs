//! What neither the compiler nor clippy can say about the tree.
//!
//! ```text
//! floors       a package depends only on lower floors; the runtime stays behind its adapter
//! crate_roots  every crate forbids unsafe code, but the adapter
//! sources      no file in src that no `mod` reaches
//! words        length, white space, unfinished work, ignored tests, paths of one machine, blobs
//! ```
//!
//! Every rule is a pure function from what was read to [`Refusal`]s.

mod crate_roots;
mod floors;
mod sources;
mod words;

use std::fmt;

use crate::tree::TreeFile;
use crate::workspace::Workspace;

/// The one package that may use unsafe code and name the runtime.
const ADAPTER: &str = "engine-io-glommio";

/// Something the tree may not hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Refusal {
    path: String,
    /// From 1.
    line: usize,
    what: String,
    /// What to do.
    advice: &'static str,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.what, self.advice)
    }
}

/// Holds the tree against all rules, and answers a line for each refusal, by place.
pub(crate) fn check(workspace: &Workspace, files: &[TreeFile]) -> Vec<impl fmt::Display + use<>> {
    let mut refusals = floors::check(workspace, files);
    refusals.extend(crate_roots::check(workspace, files));
    refusals.extend(sources::check(workspace, files));
    refusals.extend(words::check(files));
    refusals.sort_unstable();
    refusals
}

fn find<'files>(files: &'files [TreeFile], path: &str) -> Option<&'files TreeFile> {
    files.iter().find(|file| file.path == path)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::tree::file;

    #[test]
    fn a_refusal_says_where_what_and_what_to_do() {
        let workspace = Workspace { root: PathBuf::from("/nowhere"), packages: Vec::new() };
        let files = [file("b.rs", "fn b() {} \n"), file("a.rs", "\n\tfn a() {}\n")];
        let lines: Vec<_> = check(&workspace, &files).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            ["a.rs:2: a tab; use spaces", "b.rs:1: blanks at the end of the line; take them away"]
        );
    }
}
