//! Folders and small files.

#[cfg(test)]
mod harness;

use std::io::ErrorKind;
use std::path::PathBuf;

use engine_io::Io;
use harness::on_shard;

#[test]
fn a_small_file_is_replaced_whole_and_leaves_no_neighbour() {
    on_shard(|io, folder| async move {
        let path = folder.join("format.toml");
        io.write_file(&path, b"one".to_vec()).await.unwrap();
        io.write_file(&path, b"two, longer".to_vec()).await.unwrap();
        assert_eq!(io.read_file(&path, 11).await.unwrap(), b"two, longer");
        assert_eq!(io.list_folder(&folder).await.unwrap(), [PathBuf::from("format.toml")]);
    });
}

#[test]
fn a_file_over_the_limit_is_refused_not_cut() {
    on_shard(|io, folder| async move {
        let path = folder.join("file");
        io.write_file(&path, vec![1; 100]).await.unwrap();
        assert_eq!(io.read_file(&path, 99).await.unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(io.read_file(&path, usize::MAX).await.unwrap().len(), 100);
    });
}

#[test]
fn folders_are_made_with_their_parents_and_again_without_harm() {
    on_shard(|io, folder| async move {
        let deep = folder.join("topics/1/0");
        io.create_folder(&deep).await.unwrap();
        io.create_folder(&deep).await.unwrap();
        assert!(deep.is_dir());
        io.flush_folder(&deep).await.unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
        let error = io.create_folder(&folder.join("file")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    });
}

#[test]
fn names_come_sorted() {
    on_shard(|io, folder| async move {
        for name in ["c", "a", "b"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(io.list_folder(&folder).await.unwrap(), ["a", "b", "c"].map(PathBuf::from));
        assert_eq!(io.list_folder(&folder.join("none")).await.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn renaming_and_removing_take_effect() {
    on_shard(|io, folder| async move {
        let (from, to) = (folder.join("from"), folder.join("to"));
        std::fs::write(&from, "x").unwrap();
        io.rename(&from, &to).await.unwrap();
        assert!(!from.exists() && to.exists());
        assert_eq!(io.remove_folder(&folder).await.unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        io.remove_file(&to).await.unwrap();
        assert_eq!(io.remove_file(&to).await.unwrap_err().kind(), ErrorKind::NotFound);
        let inner = folder.join("inner");
        io.create_folder(&inner).await.unwrap();
        io.remove_folder(&inner).await.unwrap();
        assert!(!inner.exists());
    });
}

#[test]
fn files_are_listed_with_their_sizes_and_read_in_part() {
    on_shard(|io, folder| async move {
        io.create_folder(&folder.join("a")).await.unwrap();
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(10_000).collect();
        io.write_file(&folder.join("c"), bytes.clone()).await.unwrap();
        io.write_file(&folder.join("b"), Vec::new()).await.unwrap();
        let listed = io.list_files(&folder).await.unwrap();
        assert_eq!(listed, [(PathBuf::from("b"), 0), (PathBuf::from("c"), 10_000)]);
        assert_eq!(io.read_range(&folder.join("c"), 4_000, 5_000).await.unwrap(), bytes[4_000..9_000]);
        assert_eq!(io.read_range(&folder.join("c"), 9_000, 5_000).await.unwrap(), bytes[9_000..]);
        assert_eq!(io.read_range(&folder.join("c"), 10_001, 1).await.unwrap(), []);
        let missing = folder.join("d");
        assert_eq!(io.list_files(&missing).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(io.read_range(&missing, 0, 1).await.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn the_space_of_the_file_system_under_a_folder_is_told() {
    on_shard(|io, folder| async move {
        let space = io.space(&folder).await.unwrap();
        assert!(space.free_bytes > 0 && space.free_bytes <= space.total_bytes, "{space:?}");
        let missing = io.space(&folder.join("missing")).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    });
}
