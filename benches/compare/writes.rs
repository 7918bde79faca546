//! Durable writes of a shard through the seam alone, as fio's threads do them: no store, nothing validated or copied.

use core::ops::Range;
use core::time::Duration;
use std::path::PathBuf;
use std::rc::Rc;

use engine_io::{Buffer, DirectFile, Io, OpenMode};

use crate::append::{BATCH_BYTES, Progress, share};
use crate::error::{CompareError, file};

/// What the shard does.
#[derive(Clone)]
pub(crate) struct Writes {
    /// Files whose space has been written.
    pub(crate) paths: Vec<PathBuf>,
    /// The length of each.
    pub(crate) file_bytes: u64,
    /// Writes outstanding: so many tasks write and flush in turn.
    pub(crate) depth: usize,
    /// How long it is measured.
    pub(crate) time: Duration,
}

impl Writes {
    /// Bytes made durable in a second.
    pub(crate) async fn carry_out<I: Io>(self, io: I) -> Result<f64, CompareError> {
        let mut files = Vec::new();
        for path in &self.paths {
            let opened = io.open(path, OpenMode::Existing).await.map_err(file(path))?;
            files.push(Rc::new(opened));
        }
        let mut buffer = io.buffer(BATCH_BYTES);
        buffer.as_mut_slice().fill(0xa5);
        let (buffer, progress) = (Rc::new(buffer), Rc::new(Progress::default()));
        let start = |number| {
            let own = share(files.len(), self.depth, number).into_iter();
            let own = own.map(|index| Rc::clone(&files[index])).collect();
            io.spawn(write::<I>(own, self.part(number), Rc::clone(&buffer), Rc::clone(&progress)))
        };
        let writers = (0..self.depth).map(start).collect();
        progress.rate(&io, (self.time, u64::MAX), writers).await
    }

    /// The part of its files that task `number` has for itself.
    fn part(&self, number: usize) -> Range<u64> {
        let (files, batch) = (self.paths.len(), BATCH_BYTES as u64);
        let parts = self.depth.div_ceil(files) as u64;
        let bytes = self.file_bytes / parts / batch * batch;
        let start = (number / files) as u64 * bytes;
        start..start + bytes
    }
}

/// Writes a batch's bytes to `files` in turn, each once the last is durable, again and again all over `part`.
async fn write<I: Io>(
    files: Vec<Rc<I::File>>,
    part: Range<u64>,
    buffer: Rc<I::Buffer>,
    progress: Rc<Progress>,
) {
    let rounds = part.step_by(BATCH_BYTES).cycle();
    for (position, file) in rounds.flat_map(|position| files.iter().map(move |file| (position, file))) {
        let durable = async {
            file.write(position, Rc::clone(&buffer)).await?;
            file.flush().await
        };
        if !progress.note(durable.await.map(|()| BATCH_BYTES).map_err(CompareError::Write)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_on_one_file_share_it_and_tasks_on_files_of_their_own_have_them_whole() {
        let writes = |files, depth| Writes {
            paths: vec![PathBuf::new(); files],
            file_bytes: 16 << 20,
            depth,
            time: Duration::ZERO,
        };
        assert_eq!(writes(1, 16).part(15), 15 << 20..16 << 20);
        assert_eq!(writes(8, 16).part(7), 0..8 << 20);
        assert_eq!(writes(8, 16).part(8), 8 << 20..16 << 20);
        assert_eq!(writes(8, 1).part(0), 0..16 << 20);
    }
}
