//! Names: folders, what they hold, and which of it a power cut leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use super::CrashMode;
use crate::random::Random;

const ROOT: FolderId = FolderId(0);

/// A file's number; never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) u64);

/// A folder's number; never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FolderId(u64);

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    File(FileId),
    Folder(FolderId),
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    folder: FolderId,
    name: OsString,
}

/// Names that change at once: one, or a rename's two.
type NameChange = Vec<(Name, Option<Entry>)>;

type Names = BTreeMap<Name, Entry>;

/// All folders: the names programs see, the names that are durable, and the changes between the two.
#[derive(Default)]
pub(crate) struct Namespace {
    live: Names,
    durable: Names,
    /// Oldest first.
    unflushed: Vec<NameChange>,
    last_folder: u64,
}

impl Namespace {
    /// What the path stands for.
    pub(crate) fn entry(&self, path: &Path) -> io::Result<Entry> {
        find(&self.live, path)
    }

    /// What the path would stand for after a power cut that loses all that is unflushed.
    pub(crate) fn durable_entry(&self, path: &Path) -> io::Result<Entry> {
        find(&self.durable, path)
    }

    /// The file at the path.
    pub(crate) fn file(&self, path: &Path) -> io::Result<FileId> {
        match self.entry(path)? {
            Entry::File(file) => Ok(file),
            Entry::Folder(_) => Err(ErrorKind::IsADirectory.into()),
        }
    }

    /// Checks that a file may be made at the path.
    pub(crate) fn check_free(&self, path: &Path) -> io::Result<()> {
        match self.live.get(&self.name(path)?) {
            None => Ok(()),
            Some(_) => Err(ErrorKind::AlreadyExists.into()),
        }
    }

    /// Names a new file.
    pub(crate) fn add_file(&mut self, path: &Path, file: FileId) -> io::Result<()> {
        self.check_free(path)?;
        let name = self.name(path)?;
        self.change(vec![(name, Some(Entry::File(file)))]);
        Ok(())
    }

    /// Makes the folder and its missing parents, each durable.
    pub(crate) fn create_folder(&mut self, path: &Path) -> io::Result<()> {
        let mut folder = ROOT;
        for part in parts(path)? {
            let name = Name { folder, name: part.to_owned() };
            folder = match self.live.get(&name) {
                Some(Entry::Folder(existing)) => *existing,
                Some(Entry::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                None => self.add_folder(name.clone()),
            };
            self.make_durable(|other| *other == name);
        }
        Ok(())
    }

    /// The names in the folder, in order.
    pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let folder = self.folder(path)?;
        Ok(self.names_in(folder).map(|name| PathBuf::from(&name.name)).collect())
    }

    /// Makes the folder's names durable, and what other folders' changes they need.
    pub(crate) fn flush_folder(&mut self, path: &Path) -> io::Result<()> {
        let folder = self.folder(path)?;
        self.make_durable(|name| name.folder == folder);
        Ok(())
    }

    /// Renames; gives the file that lost its name to it, if any.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<Option<FileId>> {
        let (source, target) = (self.name(from)?, self.name(to)?);
        let moved = *self.live.get(&source).ok_or(ErrorKind::NotFound)?;
        let replaced = self.live.get(&target).copied();
        if source == target {
            return Ok(None);
        }
        let replaced_file = match (moved, replaced) {
            (Entry::File(_) | Entry::Folder(_), None) => None,
            (Entry::File(_), Some(Entry::File(file))) => Some(file),
            (Entry::File(_), Some(Entry::Folder(_))) => return Err(ErrorKind::IsADirectory.into()),
            (Entry::Folder(_), Some(Entry::File(_))) => return Err(ErrorKind::NotADirectory.into()),
            (Entry::Folder(_), Some(Entry::Folder(folder))) => self.check_empty(folder).map(|()| None)?,
        };
        if matches!(moved, Entry::Folder(_)) && parts(to)?.starts_with(&parts(from)?) {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.change(vec![(source, None), (target, Some(moved))]);
        Ok(replaced_file)
    }

    /// Removes a file's name; gives the file.
    pub(crate) fn remove_file(&mut self, path: &Path) -> io::Result<FileId> {
        let file = self.file(path)?;
        let name = self.name(path)?;
        self.change(vec![(name, None)]);
        Ok(file)
    }

    /// Removes an empty folder's name.
    pub(crate) fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        let folder = self.folder(path)?;
        self.check_empty(folder)?;
        let name = self.name(path)?;
        self.change(vec![(name, None)]);
        Ok(())
    }

    /// The machine stops: names are the durable ones, and those of the unflushed changes that the mode lets through.
    pub(crate) fn crash(&mut self, mode: CrashMode, random: &mut Random) {
        for change in core::mem::take(&mut self.unflushed) {
            let is_kept = match mode {
                CrashMode::LoseAllUnflushed => false,
                CrashMode::KeepRandomSectors => random.one_in(2),
                CrashMode::KeepAll => true,
            };
            if is_kept {
                apply_alone(&change, &mut self.durable);
            }
        }
        self.live = self.durable.clone();
    }

    /// Files that have a name now.
    pub(crate) fn linked_files(&self) -> BTreeSet<FileId> {
        self.live.values().filter_map(|entry| entry.file()).collect()
    }

    /// Files that have a name, or may have one again after a crash.
    pub(crate) fn reachable_files(&self) -> BTreeSet<FileId> {
        let changed = self.unflushed.iter().flatten().filter_map(|(_, entry)| entry.as_ref());
        self.live
            .values()
            .chain(self.durable.values())
            .chain(changed)
            .filter_map(|entry| entry.file())
            .collect()
    }

    fn add_folder(&mut self, name: Name) -> FolderId {
        self.last_folder += 1;
        let folder = FolderId(self.last_folder);
        self.change(vec![(name, Some(Entry::Folder(folder)))]);
        folder
    }

    fn folder(&self, path: &Path) -> io::Result<FolderId> {
        as_folder(self.entry(path)?)
    }

    /// The last name of a path, in its folder, which must exist.
    fn name(&self, path: &Path) -> io::Result<Name> {
        let mut parts = parts(path)?;
        let last = parts.pop().ok_or(ErrorKind::InvalidInput)?;
        let folder = as_folder(walk(&self.live, &parts)?)?;
        Ok(Name { folder, name: last.to_owned() })
    }

    fn names_in(&self, folder: FolderId) -> impl Iterator<Item = &Name> {
        let first = Name { folder, name: OsString::new() };
        self.live.range(first..).map(|(name, _)| name).take_while(move |name| name.folder == folder)
    }

    fn check_empty(&self, folder: FolderId) -> io::Result<()> {
        match self.names_in(folder).next() {
            None => Ok(()),
            Some(_) => Err(ErrorKind::DirectoryNotEmpty.into()),
        }
    }

    fn change(&mut self, change: NameChange) {
        apply(&change, &mut self.live);
        self.unflushed.push(change);
    }

    /// Makes the names durable, with every older change that shares a name with what is made durable: names change in
    /// order, and a rename's two at once.
    fn make_durable(&mut self, is_asked: impl Fn(&Name) -> bool) {
        let mut names: BTreeSet<Name> = BTreeSet::new();
        let mut is_flushed = vec![false; self.unflushed.len()];
        for (at, change) in self.unflushed.iter().enumerate().rev() {
            if change.iter().any(|(name, _)| is_asked(name) || names.contains(name)) {
                names.extend(change.iter().map(|(name, _)| name.clone()));
                is_flushed[at] = true;
            }
        }
        let mut is_flushed = is_flushed.into_iter();
        let flushed = self.unflushed.extract_if(.., |_| is_flushed.next().expect("one mark for each change"));
        for change in flushed {
            apply(&change, &mut self.durable);
        }
    }
}

impl Entry {
    const fn file(&self) -> Option<FileId> {
        match self {
            Self::File(file) => Some(*file),
            Self::Folder(_) => None,
        }
    }
}

fn apply(change: &NameChange, names: &mut Names) {
    for (name, entry) in change {
        match entry {
            Some(entry) => names.insert(name.clone(), *entry),
            None => names.remove(name),
        };
    }
}

/// Applies a change where older ones may have been lost. What gets a name loses any other: nothing has two.
fn apply_alone(change: &NameChange, names: &mut Names) {
    for named in change.iter().filter_map(|(_, entry)| *entry) {
        names.retain(|_, entry| *entry != named);
    }
    apply(change, names);
}

fn find(names: &Names, path: &Path) -> io::Result<Entry> {
    walk(names, &parts(path)?)
}

fn walk(names: &Names, parts: &[&OsStr]) -> io::Result<Entry> {
    let mut entry = Entry::Folder(ROOT);
    for part in parts {
        let name = Name { folder: as_folder(entry)?, name: (*part).to_owned() };
        entry = *names.get(&name).ok_or(ErrorKind::NotFound)?;
    }
    Ok(entry)
}

fn as_folder(entry: Entry) -> io::Result<FolderId> {
    match entry {
        Entry::Folder(folder) => Ok(folder),
        Entry::File(_) => Err(ErrorKind::NotADirectory.into()),
    }
}

/// The names of a path from the root on; a relative path starts there too.
fn parts(path: &Path) -> io::Result<Vec<&OsStr>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(ErrorKind::InvalidInput.into()),
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace() -> Namespace {
        let mut namespace = Namespace::default();
        namespace.create_folder(Path::new("/a")).unwrap();
        namespace.create_folder(Path::new("/b")).unwrap();
        namespace
    }

    #[test]
    fn a_rename_between_folders_becomes_durable_in_both_at_once() {
        let mut namespace = namespace();
        namespace.add_file(Path::new("/a/x"), FileId(1)).unwrap();
        namespace.rename(Path::new("/a/x"), Path::new("/b/x")).unwrap();
        namespace.flush_folder(Path::new("/b")).unwrap();
        assert_eq!(namespace.durable_entry(Path::new("/b/x")).unwrap(), Entry::File(FileId(1)));
        assert_eq!(namespace.durable_entry(Path::new("/a/x")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(namespace.unflushed.is_empty());
    }

    #[test]
    fn whatever_a_crash_keeps_no_file_has_two_names() {
        for seed in 0..200 {
            let mut namespace = namespace();
            namespace.add_file(Path::new("/a/x"), FileId(1)).unwrap();
            namespace.rename(Path::new("/a/x"), Path::new("/b/x")).unwrap();
            namespace.rename(Path::new("/b/x"), Path::new("/a/y")).unwrap();
            namespace.crash(CrashMode::KeepRandomSectors, &mut Random::new(seed));
            let names = namespace.live.values().filter(|entry| **entry == Entry::File(FileId(1))).count();
            assert!(names <= 1);
        }
    }

    #[test]
    fn a_folder_is_not_moved_into_itself_nor_over_what_it_cannot_replace() {
        let mut namespace = namespace();
        namespace.add_file(Path::new("/b/x"), FileId(1)).unwrap();
        let kind = |result: io::Result<Option<FileId>>| result.unwrap_err().kind();
        let mut rename = |from, to| namespace.rename(Path::new(from), Path::new(to));
        assert_eq!(kind(rename("/a", "/a/c")), ErrorKind::InvalidInput);
        assert_eq!(kind(rename("/a", "/b")), ErrorKind::DirectoryNotEmpty);
        assert_eq!(kind(rename("/a", "/b/x")), ErrorKind::NotADirectory);
        assert_eq!(kind(rename("/b/x", "/a")), ErrorKind::IsADirectory);
        assert_eq!(kind(rename("/c", "/a")), ErrorKind::NotFound);
        assert_eq!(rename("/a", "/a").unwrap(), None);
    }

    #[test]
    fn a_path_leads_through_folders_only() {
        let mut namespace = namespace();
        namespace.add_file(Path::new("/a/x"), FileId(1)).unwrap();
        let kind = |path: &str| namespace.entry(Path::new(path)).unwrap_err().kind();
        assert_eq!(kind("/a/x/y"), ErrorKind::NotADirectory);
        assert_eq!(kind("/a/y"), ErrorKind::NotFound);
        assert_eq!(kind("/a/../b"), ErrorKind::InvalidInput);
        assert_eq!(namespace.entry(Path::new("a/x")).unwrap(), Entry::File(FileId(1)));
    }
}
