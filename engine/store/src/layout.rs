//! Where things lie in the data folder. Every name of a file or folder is made and read here.
//!
//! ```text
//! <folder>/format.toml
//!          checkpoints/<shard>.0  <shard>.1
//!          topics/<topic id>/name
//!                 topics/<topic id>/<partition>/<base offset, 20 digits>.log
//!                                               <base offset, 20 digits>.index
//!                                               next.segment
//! ```

use std::path::{Path, PathBuf};

use engine_record::{Offset, PartitionIndex, ShardId, TopicId, TopicPartition};

/// Digits of a segment's base offset in its file names.
const OFFSET_DIGITS: usize = 20;

/// The names of one data folder.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    folder: PathBuf,
}

impl Layout {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    pub(crate) fn format(&self) -> PathBuf {
        self.folder.join("format.toml")
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.folder.join("checkpoints")
    }

    /// One of the two slots of a shard's checkpoint.
    pub(crate) fn checkpoint(&self, shard: ShardId, slot: Slot) -> PathBuf {
        self.checkpoints().join(format!("{shard}.{}", slot.digit()))
    }

    pub(crate) fn topics(&self) -> PathBuf {
        self.folder.join("topics")
    }

    pub(crate) fn topic(&self, topic: TopicId) -> PathBuf {
        self.topics().join(topic.to_string())
    }

    pub(crate) fn topic_name(&self, topic: TopicId) -> PathBuf {
        self.topic(topic).join("name")
    }

    /// What a crash may leave of the file with the topic's name, which is written whole and then renamed.
    pub(crate) fn topic_name_unfinished(&self, topic: TopicId) -> PathBuf {
        self.topic(topic).join("name.tmp")
    }

    pub(crate) fn partition(&self, at: TopicPartition) -> PathBuf {
        let PartitionIndex(partition) = at.partition;
        self.topic(at.topic).join(partition.to_string())
    }
}

/// Which of the two slots of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Zero,
    One,
}

impl Slot {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Zero => Self::One,
            Self::One => Self::Zero,
        }
    }

    pub(crate) fn digit(self) -> u8 {
        match self {
            Self::Zero => 0,
            Self::One => 1,
        }
    }
}

/// The shard and slot whose file this is, by its name; `None` where it is another file, such as what a crash left.
pub(crate) fn checkpoint_slot(name: &Path) -> Option<(ShardId, Slot)> {
    let shard = ShardId(name.file_stem()?.to_str()?.parse().ok()?);
    match name.extension()?.to_str()? {
        "0" => Some((shard, Slot::Zero)),
        "1" => Some((shard, Slot::One)),
        _ => None,
    }
}

/// The topic whose folder has this name; `None` where no topic's has.
pub(crate) fn topic_id(name: &Path) -> Option<TopicId> {
    TopicId::parse(name.to_str()?)
}

/// The partition whose folder has this name; `None` where no partition's has.
pub(crate) fn partition_index(name: &Path) -> Option<PartitionIndex> {
    let number: i32 = name.to_str()?.parse().ok()?;
    let is_as_written = number >= 0 && Path::new(&number.to_string()) == name;
    is_as_written.then_some(PartitionIndex(number))
}

/// A segment's file in its partition's folder.
pub(crate) fn segment(partition_folder: &Path, base: Offset) -> PathBuf {
    partition_folder.join(format!("{:0OFFSET_DIGITS$}.log", base.value()))
}

/// The sidecar with a segment's index.
pub(crate) fn index(partition_folder: &Path, base: Offset) -> PathBuf {
    partition_folder.join(format!("{:0OFFSET_DIGITS$}.index", base.value()))
}

/// A segment made ready before its base offset is known.
pub(crate) fn next_segment(partition_folder: &Path) -> PathBuf {
    partition_folder.join("next.segment")
}

/// The base offset in a segment's file name; `None` where `name` is no segment's.
pub(crate) fn segment_base(name: &Path) -> Option<Offset> {
    base(name, "log")
}

/// The base offset in the name of a segment's index; `None` where `name` is no index's.
pub(crate) fn index_base(name: &Path) -> Option<Offset> {
    base(name, "index")
}

fn base(name: &Path, extension: &str) -> Option<Offset> {
    let stem = name.file_stem()?.to_str()?;
    let is_named_so = name.extension()?.to_str()? == extension && stem.len() == OFFSET_DIGITS;
    if is_named_so { Offset::new(stem.parse().ok()?) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_s_name_holds_its_base_offset() {
        let path = segment(Path::new("topics/t/3"), Offset::new(1234).unwrap());
        assert_eq!(path, Path::new("topics/t/3/00000000000000001234.log"));
        assert_eq!(segment_base(&path), Offset::new(1234));
        assert_eq!(segment_base(&segment(Path::new(""), Offset::MAX)), Some(Offset::MAX));
    }

    #[test]
    fn other_files_are_no_segments() {
        let names =
            ["1.log", "next.segment", "00000000000000001234.index", "x0000000000000001234.log", "log"];
        for name in names {
            assert_eq!(segment_base(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn folders_of_topics_and_partitions_are_told_from_others() {
        let at = TopicPartition { topic: TopicId([200; 16]), partition: PartitionIndex(12) };
        let folder = Layout::new(Path::new("data")).partition(at);
        let names: Vec<_> = folder.iter().map(Path::new).collect();
        assert_eq!((topic_id(names[2]), partition_index(names[3])), (Some(at.topic), Some(at.partition)));
        for name in ["lost+found", "", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAB"] {
            assert_eq!(topic_id(Path::new(name)), None, "{name}");
        }
        for name in ["name", "+1", "01", "-1", "2147483648"] {
            assert_eq!(partition_index(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn the_slots_of_checkpoints_are_told_apart() {
        let path = Layout::new(Path::new("data")).checkpoint(ShardId(12), Slot::One);
        assert_eq!(checkpoint_slot(&path), Some((ShardId(12), Slot::One)));
        assert_eq!(checkpoint_slot(Path::new("12.2")), None);
        assert_eq!(checkpoint_slot(Path::new("x.0")), None);
    }
}
