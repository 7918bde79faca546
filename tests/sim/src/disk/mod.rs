//! A disk: names, files, space, and what goes wrong with them.
//!
//! Nothing here knows time: operations are two calls, a start and an end, and whoever makes them puts the latency
//! between.

mod change;
mod control;
mod extents;
mod file_state;
mod image;
mod namespace;
mod page_cache;
mod settings;

use core::ops::Range;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use engine_io::{FileSystemSpace, OpenMode};

use self::change::Piece;
use self::file_state::{FileState, OpenToken};
use self::image::Image;
use self::namespace::{Entry, Namespace};
use self::settings::{DiskFaults, device_error};
use crate::buffer::SimBuffer;
use crate::random::Random;

pub use self::control::SimDisk;
pub(crate) use self::namespace::FileId;
pub use self::settings::DiskLatency;

/// What a crash does to what was never flushed. What was flushed always stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashMode {
    /// All of it is lost.
    LoseAllUnflushed,
    /// Each sector of 512 bytes of each write, also of those in flight, and each name is kept or lost by chance.
    KeepRandomSectors,
    /// All of it is kept: the process died, the machine did not.
    KeepAll,
}

/// A disk.
pub(crate) struct Disk {
    pub(crate) latency: DiskLatency,
    pub(crate) faults: DiskFaults,
    /// How many bytes all files together may take.
    pub(crate) capacity_bytes: u64,
    /// Whether a flush of one file also covers writes to others, as far as these need nothing but data.
    pub(crate) flush_covers_device: bool,
    names: Namespace,
    files: BTreeMap<FileId, FileState>,
}

/// An open file. While a copy exists, the file takes space, also when no folder names it any more.
#[derive(Clone)]
pub(crate) struct OpenFile {
    pub(crate) file: FileId,
    /// The path it was opened by.
    pub(crate) path: Rc<Path>,
    _token: OpenToken,
}

/// The changes that a flush covers: of each file those below its mark.
pub(crate) struct FlushMarks {
    file: FileId,
    path: Rc<Path>,
    marks: Vec<(FileId, u64)>,
}

impl Disk {
    pub(crate) fn new() -> Self {
        Self {
            latency: DiskLatency::default(),
            faults: DiskFaults::default(),
            capacity_bytes: u64::MAX,
            flush_covers_device: false,
            names: Namespace::default(),
            files: BTreeMap::new(),
        }
    }

    /// Opens a file; a new one gets `new_file` as its number.
    pub(crate) fn open(&mut self, path: &Path, mode: OpenMode, new_file: FileId) -> io::Result<OpenFile> {
        let file = match mode {
            OpenMode::Existing => self.names.file(path)?,
            OpenMode::New => self.create(path, new_file)?,
        };
        Ok(OpenFile { file, path: Rc::from(path), _token: self.file(file).open() })
    }

    /// A file that is open or named.
    pub(crate) fn file(&mut self, file: FileId) -> &mut FileState {
        self.files.get_mut(&file).expect("a file that is open or named stays on the disk")
    }

    /// Starts a write, which `number` will name when it ends.
    pub(crate) fn start_write(
        &mut self,
        file: FileId,
        number: u64,
        position: u64,
        buffer: Rc<SimBuffer>,
    ) -> io::Result<()> {
        let piece = Piece::whole(position, buffer);
        self.check_space(file, &piece.range())?;
        self.file(file).start_write(number, piece);
        Ok(())
    }

    /// Ends a write.
    pub(crate) fn end_write(&mut self, file: &OpenFile, number: u64, random: &mut Random) -> io::Result<()> {
        let fails = self.faults.write_fails(&file.path);
        let state = self.file(file.file);
        if fails {
            state.fail_write(number, random);
            return Err(device_error());
        }
        state.complete_write(number);
        Ok(())
    }

    /// What a flush that starts now covers.
    pub(crate) fn flush_marks(&self, open: &OpenFile) -> FlushMarks {
        let file = open.file;
        let covered = |other: FileId| other == file || self.flush_covers_device;
        let files = self.files.iter().filter(|(other, _)| covered(**other));
        FlushMarks {
            file,
            path: Rc::clone(&open.path),
            marks: files.map(|(other, state)| (*other, state.flush_mark())).collect(),
        }
    }

    /// Ends a flush that covers the changes below the marks.
    pub(crate) fn end_flush(&mut self, covered: &FlushMarks, random: &mut Random) -> io::Result<()> {
        let fails = self.faults.flush_fails(&covered.path);
        for (file, mark) in &covered.marks {
            let Some(state) = self.files.get_mut(file) else { continue };
            match (*file == covered.file, fails) {
                (true, true) => state.fail_flush(*mark, random),
                (true, false) => state.complete_flush(*mark),
                (false, true) => {}
                (false, false) => state.complete_device_flush(*mark),
            }
        }
        if fails { Err(device_error()) } else { Ok(()) }
    }

    /// Allocates; where space runs out, chance decides whether what is left is taken.
    pub(crate) fn allocate(
        &mut self,
        file: FileId,
        range: Range<u64>,
        random: &mut Random,
    ) -> io::Result<()> {
        let Err(error) = self.check_space(file, &range) else {
            self.file(file).allocate(range);
            return Ok(());
        };
        let left = self.free_bytes();
        if random.one_in(2) && self.file(file).live().size() <= range.start && left > 0 {
            self.file(file).allocate(range.start..range.end.min(range.start.saturating_add(left)));
        }
        Err(error)
    }

    /// Writes all of a small file that will be renamed over another: the first step of replacing that durably.
    pub(crate) fn write_whole(
        &mut self,
        path: &Path,
        named: &Path,
        bytes: Vec<u8>,
        new_file: FileId,
    ) -> io::Result<OpenFile> {
        let mode = if self.names.file(path).is_ok() { OpenMode::Existing } else { OpenMode::New };
        let open = self.open(path, mode, new_file)?;
        self.check_space(open.file, &(0..bytes.len() as u64))?;
        if self.faults.write_fails(named) {
            return Err(device_error());
        }
        self.file(open.file).replace(Piece::whole(0, Rc::new(SimBuffer::of_any_length(bytes))));
        Ok(open)
    }

    /// Reads all of a small file.
    pub(crate) fn read_whole(&mut self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let file = self.names.file(path)?;
        let image = self.file(file).live();
        if image.size() > bytes_max as u64 {
            return Err(ErrorKind::FileTooLarge.into());
        }
        Ok(image.read(0, bytes_max))
    }

    /// Reads a part of a file.
    pub(crate) fn read_range(&mut self, path: &Path, position: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let file = self.names.file(path)?;
        Ok(self.file(file).live().read(position, bytes))
    }

    pub(crate) fn create_folder(&mut self, path: &Path) -> io::Result<()> {
        self.names.create_folder(path)
    }

    pub(crate) fn list_folder(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.names.list(path)
    }

    /// The files in a folder with their sizes.
    pub(crate) fn list_files(&self, path: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
        let with_size = |name: PathBuf| {
            let file = self.names.file(&path.join(&name)).ok()?;
            Some((name, self.files.get(&file)?.live().size()))
        };
        Ok(self.names.list(path)?.into_iter().filter_map(with_size).collect())
    }

    /// Makes the folder's names durable. Files that no name leads to any more, nor will after a crash, are forgotten.
    pub(crate) fn flush_folder(&mut self, path: &Path) -> io::Result<()> {
        self.names.flush_folder(path)?;
        self.drop_unreachable_files();
        Ok(())
    }

    /// Renames a file or folder.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if let Some(replaced) = self.names.rename(from, to)? {
            self.file(replaced).is_linked = false;
        }
        Ok(())
    }

    /// Takes a file's name; its space comes back once nobody has it open.
    pub(crate) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let removed = self.names.remove_file(path)?;
        self.file(removed).is_linked = false;
        Ok(())
    }

    pub(crate) fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        self.names.remove_folder(path)
    }

    /// A socket no longer owes the parcel. The file may be gone by now.
    pub(crate) fn release(&mut self, file: FileId, parcel: u64) {
        if let Some(state) = self.files.get_mut(&file) {
            state.release(parcel);
        }
    }

    /// The machine stops.
    pub(crate) fn crash(&mut self, mode: CrashMode, random: &mut Random) {
        self.names.crash(mode, random);
        let linked = self.names.linked_files();
        self.files.retain(|file, _| linked.contains(file));
        for state in self.files.values_mut() {
            state.is_linked = true;
            state.crash(mode, random);
        }
    }

    /// What a file holds, whole.
    pub(crate) fn live_content(&self, path: &Path) -> Option<Vec<u8>> {
        self.content(self.names.entry(path).ok()?, FileState::live)
    }

    /// What a file would hold after a crash that loses all that wasn't flushed.
    pub(crate) fn durable_content(&self, path: &Path) -> Option<Vec<u8>> {
        self.content(self.names.durable_entry(path).ok()?, FileState::durable)
    }

    /// Flips a bit of the byte at `position`.
    pub(crate) fn flip_bit(&mut self, path: &Path, position: u64) -> io::Result<()> {
        let file = self.names.file(path)?;
        self.file(file).flip_bit(position);
        Ok(())
    }

    /// How many bytes of space are taken.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.files.values().filter(|state| state.is_alive()).map(|state| state.live().space_bytes()).sum()
    }

    pub(crate) fn space(&self) -> FileSystemSpace {
        FileSystemSpace { total_bytes: self.capacity_bytes, free_bytes: self.free_bytes() }
    }

    fn create(&mut self, path: &Path, new_file: FileId) -> io::Result<FileId> {
        self.names.add_file(path, new_file)?;
        self.files.insert(new_file, FileState::default());
        self.file(new_file).is_linked = true;
        Ok(new_file)
    }

    fn content(&self, entry: Entry, image: impl FnOnce(&FileState) -> &Image) -> Option<Vec<u8>> {
        let Entry::File(file) = entry else { return None };
        let image = image(self.files.get(&file)?);
        Some(image.read(0, usize::try_from(image.size()).unwrap_or(usize::MAX)))
    }

    fn free_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes())
    }

    fn check_space(&mut self, file: FileId, range: &Range<u64>) -> io::Result<()> {
        let missing = self.file(file).live().missing_bytes(range);
        if missing > 0 && missing > self.free_bytes() {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn drop_unreachable_files(&mut self) {
        let reachable = self.names.reachable_files();
        self.files.retain(|file, state| state.is_alive() || reachable.contains(file));
    }
}
