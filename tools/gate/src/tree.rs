//! The files git knows, or would know after `git add`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use crate::error::GateError;

/// A file of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeFile {
    /// From the root, with `/` between its parts.
    pub(crate) path: String,
    /// Size, bytes.
    pub(crate) bytes: usize,
    /// `None` when it isn't UTF-8: an image, an archive, a captured frame.
    pub(crate) text: Option<String>,
}

impl TreeFile {
    /// Whether the name ends in one of these, without the dot.
    pub(crate) fn has_extension(&self, extensions: &[&str]) -> bool {
        let (_, extension) = self.path.rsplit_once('.').unwrap_or_default();
        extensions.contains(&extension)
    }

    /// The lines with their numbers from 1; none when it isn't text.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.as_deref().unwrap_or_default().split('\n');
        (1..).zip(lines.map(|line| line.strip_suffix('\r').unwrap_or(line)))
    }
}

/// Reads every file that is tracked or waits to be, ignored ones left out.
pub(crate) fn read(root: &Path) -> Result<Vec<TreeFile>, GateError> {
    let mut files = Vec::new();
    for path in listed(root)? {
        files.extend(read_file(root, path)?);
    }
    Ok(files)
}

fn listed(root: &Path) -> Result<Vec<String>, GateError> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"])
        .output()
        .map_err(|source| GateError::Run { program: "git ls-files".to_owned(), source })?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(GateError::ListFiles { output });
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(names.split_terminator('\0').map(str::to_owned).collect())
}

/// `None` for a file that is tracked but deleted, and for a link or a folder of another repository.
fn read_file(root: &Path, path: String) -> Result<Option<TreeFile>, GateError> {
    let full = root.join(&path);
    match fs::symlink_metadata(&full)
        .and_then(|metadata| if metadata.is_file() { fs::read(&full).map(Some) } else { Ok(None) })
    {
        Ok(None) => Ok(None),
        Ok(Some(content)) => {
            let bytes = content.len();
            Ok(Some(TreeFile { path, bytes, text: String::from_utf8(content).ok() }))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(GateError::ReadFile { path: full, source }),
    }
}

/// A file made up for a test.
#[cfg(test)]
pub(crate) fn file(path: &str, text: &str) -> TreeFile {
    TreeFile { path: path.to_owned(), bytes: text.len(), text: Some(text.to_owned()) }
}
