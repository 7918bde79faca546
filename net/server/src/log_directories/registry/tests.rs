use proptest::prelude::*;

use super::*;

/// The bytes of version 1, as released. Never edit them: a changed file is a new version and a new fixture.
const VERSION_1: &str = "version = 1\n\n\
    [[directory]]\n\
    id = \"00000000000000000000000000000001\"\n\
    path = \"/d1\"\n\n\
    [[directory]]\n\
    id = \"f0e0d0c0b0a090807060504030201000\"\n\
    path = \"/mnt/with space/d2\"\n";

const OWN: Format = Format { cluster_id: 7, node: NodeId(1), directory_id: 100 };

fn known(id: u128, path: &str) -> Known {
    Known { id, path: path.into() }
}

fn ours(id: u128) -> Seen {
    Seen::Formatted(Format { directory_id: id, ..OWN })
}

fn named(all: &[(&str, Seen)]) -> Vec<(PathBuf, Seen)> {
    all.iter().map(|(path, seen)| (PathBuf::from(path), seen.clone())).collect()
}

/// Paths of directories, and whether each is online.
fn online(merged: &Merged) -> Vec<(&str, bool)> {
    merged.directories.iter().map(|(path, why)| (path.to_str().unwrap(), why.is_none())).collect()
}

#[test]
fn version_1_reads_and_writes_as_released() {
    let all = [known(1, "/d1"), known(0xf0e0_d0c0_b0a0_9080_7060_5040_3020_1000, "/mnt/with space/d2")];
    assert_eq!(parse(VERSION_1.as_bytes()).unwrap(), all);
    assert_eq!(to_text(&all), VERSION_1);
    assert_eq!(parse(to_text(&[]).as_bytes()), Some(Vec::new()));
}

#[test]
fn what_is_no_registry_is_told_apart() {
    let damaged = [
        VERSION_1.replace("version = 1", "version = 2"),
        VERSION_1.replace("version = 1", ""),
        VERSION_1.replace("0001", "001"),
        VERSION_1.replace("0001", "+001"),
        VERSION_1.replace("path", "pfad"),
        "[[directory]".to_owned(),
    ];
    for text in damaged {
        assert_eq!(parse(text.as_bytes()), None, "{text}");
    }
    assert_eq!(parse(b"\xff"), None);
}

#[test]
fn formatted_ones_are_taken_and_known_from_then_on_but_for_the_data_folder() {
    let merged = merge(&[], &OWN, &named(&[("/data", ours(100)), ("/d1", ours(1))])).unwrap();
    assert_eq!(online(&merged), [("/data", true), ("/d1", true)]);
    assert_eq!((merged.known, merged.dropped), (vec![known(1, "/d1")], vec![]));
}

#[test]
fn a_known_one_that_cannot_be_used_is_offline_and_stays_known() {
    let foreign = Seen::Formatted(Format { cluster_id: 8, directory_id: 1, ..OWN });
    let other_node = Seen::Formatted(Format { node: NodeId(2), directory_id: 1, ..OWN });
    for seen in [Seen::Unformatted, Seen::Unreadable("no".to_owned()), foreign, other_node] {
        let all = [known(1, "/d1"), known(2, "/d2")];
        let merged = merge(&all, &OWN, &named(&[("/d1", seen.clone()), ("/d2", ours(2))])).unwrap();
        assert_eq!(online(&merged), [("/d1", false), ("/d2", true)], "{seen:?}");
        assert_eq!(merged.known.len(), 2);
        assert!(merged.known.contains(&all[0]) && merged.dropped.is_empty());
    }
}

#[test]
fn a_new_one_that_cannot_be_used_is_refused() {
    let refused = |seen| merge(&[known(2, "/d2")], &OWN, &named(&[("/d1", seen), ("/d2", ours(2))]));
    assert_eq!(refused(Seen::Unformatted), Err(Unmergeable::New("/d1".into())));
    let unreadable = refused(Seen::Unreadable("no".to_owned()));
    assert_eq!(unreadable, Err(Unmergeable::NewUnusable("/d1".into(), "no".to_owned())));
    let Err(Unmergeable::NewUnusable(_, why)) = refused(Seen::Formatted(Format { node: NodeId(2), ..OWN }))
    else {
        panic!("another node's is no new one");
    };
    assert!(why.contains("belongs to node 2"), "{why}");
}

#[test]
fn one_that_was_moved_is_known_by_its_id() {
    let merged = merge(&[known(1, "/d1")], &OWN, &named(&[("/new", ours(1))])).unwrap();
    assert_eq!(online(&merged), [("/new", true)]);
    assert_eq!((merged.known, merged.dropped), (vec![known(1, "/new")], vec![]));
    // What is at its old path is new.
    let refused = merge(&[known(1, "/d1")], &OWN, &named(&[("/d1", Seen::Unformatted), ("/new", ours(1))]));
    assert_eq!(refused, Err(Unmergeable::New("/d1".into())));
}

#[test]
fn one_that_is_not_named_any_more_is_told_and_forgotten_unless_the_caller_refuses() {
    let merged = merge(&[known(1, "/d1"), known(2, "/d2")], &OWN, &named(&[("/d2", ours(2))])).unwrap();
    assert_eq!(merged.dropped, [known(1, "/d1")]);
    assert_eq!(merged.known, [known(2, "/d2")]);
}

#[test]
fn one_that_another_has_taken_the_place_of_is_offline() {
    let merged = merge(&[known(1, "/d1")], &OWN, &named(&[("/d1", ours(3))])).unwrap();
    assert_eq!(online(&merged), [("/d1", true), ("/d1", false)]);
    assert!(merged.known.contains(&known(1, "/d1")) && merged.known.contains(&known(3, "/d1")));
}

#[test]
fn a_copy_is_refused() {
    let refused = merge(&[known(1, "/d1")], &OWN, &named(&[("/d1", ours(1)), ("/d2", ours(1))]));
    assert_eq!(refused, Err(Unmergeable::SameId("/d1".into(), "/d2".into())));
}

#[test]
fn whether_one_was_here_is_told_unless_it_is_named_elsewhere() {
    let all = [known(1, "/d1")];
    let is_known = |others: &[(&str, Seen)]| is_known_at(&all, &OWN, &named(others), Path::new("/d1"));
    assert!(is_known(&[("/d1", Seen::Unformatted)]));
    assert!(!is_known(&[("/d1", Seen::Unformatted), ("/new", ours(1))]));
    assert!(!is_known_at(&all, &OWN, &[], Path::new("/d2")));
}

fn seen() -> impl Strategy<Value = Seen> {
    prop_oneof![
        4 => (1..5_u128).prop_map(ours),
        1 => Just(Seen::Unformatted),
        1 => Just(Seen::Unreadable("no".to_owned())),
        1 => (1..5_u128).prop_map(|id| Seen::Formatted(Format { cluster_id: 8, directory_id: id, ..OWN })),
    ]
}

proptest! {
    /// Whatever is named: no directory that was known is forgotten without a word, and none is there twice.
    #[test]
    fn nothing_known_is_forgotten(
        known_ids in proptest::collection::btree_map(1..5_u128, 0..4_usize, 0..4),
        named_seen in proptest::collection::btree_map(0..4_usize, seen(), 1..4),
    ) {
        let path = |number: &usize| PathBuf::from(format!("/d{number}"));
        let all: Vec<_> = known_ids.iter().map(|(id, at)| Known { id: *id, path: path(at) }).collect();
        let named: Vec<_> = named_seen.iter().map(|(at, seen)| (path(at), seen.clone())).collect();
        if let Ok(merged) = merge(&all, &OWN, &named) {
            for before in &all {
                let kept = merged.known.iter().filter(|known| known.id == before.id).count();
                let dropped = merged.dropped.contains(before);
                prop_assert_eq!(kept + usize::from(dropped), 1, "{:?}", before);
                let is_online = named.iter().any(|(_, seen)| *seen == ours(before.id));
                let is_named = named.iter().any(|(path, _)| *path == before.path);
                prop_assert_eq!(dropped, !is_online && !is_named);
                if !is_online && is_named {
                    let offline = merged.directories.iter().any(|(path, why)| *path == before.path && why.is_some());
                    prop_assert!(offline, "what may hold records is offline, not left out");
                }
            }
            let again = merge(&merged.known, &OWN, &named).unwrap();
            prop_assert_eq!(online(&again), online(&merged), "the next start finds the same");
        }
    }
}
