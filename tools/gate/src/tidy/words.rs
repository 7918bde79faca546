//! What a file may not hold, by looking at its lines.

use super::Refusal;
use crate::tree::TreeFile;

/// Longest source file, lines, tests included.
const LINES_MAX: usize = 800;
/// Largest file of any kind, bytes.
const BLOB_BYTES_MAX: usize = 512 * 1024;

/// Words that are put together here, so that this file doesn't hold them.
const UNFINISHED: &str = concat!("TO", "DO");
const UNFINISHED_MACRO: &str = concat!("to", "do!(");
const IGNORED_TEST: &str = concat!("#[ig", "nore");
/// Folders that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Files written by hand, whose white space is ours.
const WRITTEN: &[&str] = &["rs", "toml", "md", "sh"];
/// Of those, the ones that run.
const CODE: &[&str] = &["rs", "toml", "sh"];

pub(super) fn check(files: &[TreeFile]) -> Vec<Refusal> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &TreeFile) -> Vec<Refusal> {
    let mut refusals: Vec<Refusal> = [blob(file), length(file)].into_iter().flatten().collect();
    for (number, line) in file.lines() {
        let found =
            [white_space(file, line), unfinished(file, line), ignored_test(file, line), machine_path(line)];
        refusals.extend(found.into_iter().flatten().map(|(what, advice)| Refusal {
            path: file.path.clone(),
            line: number,
            what: what.to_owned(),
            advice,
        }));
    }
    refusals
}

fn blob(file: &TreeFile) -> Option<Refusal> {
    (file.bytes > BLOB_BYTES_MAX).then(|| Refusal {
        path: file.path.clone(),
        line: 1,
        what: format!("{} bytes, the most is {BLOB_BYTES_MAX}", file.bytes),
        advice: "make it smaller, or make it when it is needed: history keeps it for good",
    })
}

fn length(file: &TreeFile) -> Option<Refusal> {
    let lines = file.text.as_deref().unwrap_or_default().lines().count();
    (file.has_extension(&["rs"]) && lines > LINES_MAX).then(|| Refusal {
        path: file.path.clone(),
        line: LINES_MAX + 1,
        what: format!("{lines} lines, the most is {LINES_MAX}"),
        advice: "split it by concept",
    })
}

type WhatAndAdvice = (&'static str, &'static str);

fn white_space(file: &TreeFile, line: &str) -> Option<WhatAndAdvice> {
    if !file.has_extension(WRITTEN) {
        None
    } else if line.contains('\t') {
        Some(("a tab", "use spaces"))
    } else if line.ends_with(' ') {
        Some(("blanks at the end of the line", "take them away"))
    } else {
        None
    }
}

fn unfinished(file: &TreeFile, line: &str) -> Option<WhatAndAdvice> {
    if !file.has_extension(CODE) {
        None
    } else if line.contains(UNFINISHED_MACRO) {
        Some(("unfinished code", "finish it, or answer a typed error"))
    } else if line.match_indices(UNFINISHED).any(|(at, _)| !has_reason(line, at)) {
        Some(("unfinished work without a reason", "finish it, or write in parentheses what it waits for"))
    } else {
        None
    }
}

/// Whether the word at `at` is part of another one, or says in parentheses what it waits for.
fn has_reason(line: &str, at: usize) -> bool {
    let is_letter = |character: char| character.is_alphanumeric() || character == '_';
    let after = &line[at + UNFINISHED.len()..];
    let is_part = line[..at].ends_with(is_letter) || after.starts_with(is_letter);
    let reason = after.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    is_part || reason.is_some_and(|(reason, _)| !reason.trim().is_empty())
}

fn ignored_test(file: &TreeFile, line: &str) -> Option<WhatAndAdvice> {
    (file.has_extension(&["rs"]) && line.trim_start().starts_with(IGNORED_TEST))
        .then_some(("an ignored test", "mend it, delete it, or let it print why it can't run here"))
}

fn machine_path(line: &str) -> Option<WhatAndAdvice> {
    let starts_a_path = |at: usize| !line[..at].ends_with(|before: char| before.is_alphanumeric());
    MACHINE_PATHS
        .iter()
        .any(|path| line.match_indices(path).any(|(at, _)| starts_a_path(at)))
        .then_some(("a path of one machine", "name it from the root of the tree, or take it as an argument"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    fn refused(path: &str, text: &str) -> Vec<(usize, String)> {
        let refusals = check(&[file(path, text)]);
        refusals.into_iter().map(|refusal| (refusal.line, refusal.what)).collect()
    }

    fn whats(path: &str, text: &str) -> Vec<String> {
        refused(path, text).into_iter().map(|(_, what)| what).collect()
    }

    #[test]
    fn a_clean_file_is_not_refused() {
        assert!(refused("a.rs", "//! A.\n\nfn a() {}\n").is_empty());
        assert!(refused("a.rs", "").is_empty());
    }

    #[test]
    fn a_file_of_more_than_eight_hundred_lines_is_refused() {
        assert!(refused("a.rs", &"x\n".repeat(LINES_MAX)).is_empty());
        let long = "x\n".repeat(LINES_MAX + 1);
        assert_eq!(refused("a.rs", &long), [(801, "801 lines, the most is 800".to_owned())]);
        assert!(refused("a.md", &long).is_empty());
    }

    #[test]
    fn a_blob_is_refused_whatever_it_holds() {
        let blob = |bytes| TreeFile { path: "frame.bin".to_owned(), bytes, text: None };
        assert!(check(&[blob(BLOB_BYTES_MAX)]).is_empty());
        assert_eq!(check(&[blob(BLOB_BYTES_MAX + 1)]).len(), 1);
    }

    #[test]
    fn white_space_is_refused_in_what_we_write_by_hand() {
        assert_eq!(refused("a.rs", "fn a() {}\n\tb\n"), [(2, "a tab".to_owned())]);
        assert_eq!(whats("a.md", "text  \n"), ["blanks at the end of the line"]);
        assert_eq!(whats("a.toml", "x = 1 \r\n"), ["blanks at the end of the line"]);
        assert!(refused("Makefile", "all:\n\ttrue\n").is_empty());
    }

    #[test]
    fn unfinished_work_must_say_what_it_waits_for() {
        let line = |rest: &str| format!("// {UNFINISHED}{rest}\n");
        assert_eq!(whats("a.rs", &line(": later")), ["unfinished work without a reason"]);
        assert_eq!(whats("a.rs", &line("( ): later")), ["unfinished work without a reason"]);
        assert!(refused("a.rs", &line("(kernel 6.20): use the new call")).is_empty());
        assert!(refused("a.rs", &line("S_MAX")).is_empty());
        assert_eq!(whats("a.rs", &format!("{UNFINISHED_MACRO})\n")), ["unfinished code"]);
        assert!(refused("a.md", &line(": later")).is_empty());
    }

    #[test]
    fn a_test_that_never_runs_is_refused() {
        assert_eq!(whats("a.rs", &format!("    {IGNORED_TEST}]\n")), ["an ignored test"]);
        assert_eq!(whats("a.rs", &format!("{IGNORED_TEST} = \"slow\"]\n")), ["an ignored test"]);
    }

    #[test]
    fn a_path_of_one_machine_is_refused_in_any_text() {
        for path in MACHINE_PATHS {
            assert_eq!(whats("a.md", &format!("see {path}x\n")), ["a path of one machine"]);
            assert_eq!(whats("a.json", &format!("\"{path}x\"\n")), ["a path of one machine"]);
            assert!(refused("a.md", &format!("see frame{path}x\n")).is_empty());
        }
    }

    #[test]
    fn this_file_is_clean_itself() {
        assert!(refused("words.rs", include_str!("words.rs")).is_empty());
    }
}
