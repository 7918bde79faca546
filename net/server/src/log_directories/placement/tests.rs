use engine_record::{PartitionIndex, TopicId};
use proptest::prelude::*;

use super::*;

const FIRST: DirectoryIndex = DirectoryIndex(0);
const SECOND: DirectoryIndex = DirectoryIndex(1);

fn at(number: i32) -> TopicPartition {
    TopicPartition { topic: TopicId([3; 16]), partition: PartitionIndex(number) }
}

fn ample(_: DirectoryIndex) -> bool {
    false
}

fn two() -> Placement {
    Placement::new([true, true])
}

#[test]
fn a_log_is_opened_where_it_is_found_and_a_new_one_where_there_are_fewest() {
    let mut placement = two();
    assert_eq!(placement.place(at(0), Found::In(&[SECOND]), ample), Ok(SECOND));
    assert_eq!(placement.place(at(1), Found::In(&[SECOND]), ample), Ok(SECOND));
    let new = [at(2), at(3), at(4), at(5)].map(|at| placement.place(at, Found::New, ample).unwrap());
    assert_eq!(new, [FIRST, FIRST, FIRST, SECOND], "of equals the first");
    assert_eq!(placement.place(at(6), Found::In(&[]), ample), Ok(FIRST), "all are online: it is nowhere");
    assert_eq!(placement.release(at(0)), Some(SECOND));
    assert_eq!(placement.place(at(7), Found::New, ample), Ok(SECOND));
}

#[test]
fn a_new_one_goes_to_a_full_drive_only_where_all_are_full() {
    let mut placement = two();
    let full = |directory| move |asked| asked == directory;
    let placed: Vec<_> = (0..3).map(|number| placement.place(at(number), Found::New, full(FIRST))).collect();
    assert_eq!(placed, [Ok(SECOND); 3]);
    assert_eq!(placement.place(at(3), Found::In(&[]), |_| true), Ok(FIRST), "it has fewer");
    assert_eq!(placement.place(at(4), Found::In(&[FIRST]), full(FIRST)), Ok(FIRST), "there it lies");
}

#[test]
fn a_log_in_two_directories_is_opened_in_none() {
    let mut placement = two();
    assert_eq!(
        placement.place(at(0), Found::In(&[FIRST, SECOND]), ample),
        Err(Unplaced::InTwo(FIRST, SECOND))
    );
    assert_eq!(placement.release(at(0)), None);
}

#[test]
fn what_may_lie_in_a_directory_that_is_offline_is_never_made_anew() {
    let mut placement = two();
    placement.set_offline(FIRST);
    assert_eq!(placement.place(at(0), Found::In(&[]), ample), Err(Unplaced::Nowhere));
    assert_eq!(placement.place(at(1), Found::New, ample), Ok(SECOND), "this can't");
    assert_eq!(placement.place(at(2), Found::In(&[SECOND]), ample), Ok(SECOND));
}

#[test]
fn a_partition_stays_in_its_directory_for_as_long_as_the_process_runs() {
    let mut placement = two();
    assert_eq!(placement.place(at(0), Found::New, ample), Ok(FIRST));
    assert_eq!(
        placement.place(at(0), Found::In(&[]), ample),
        Ok(FIRST),
        "what an attempt has left may be empty"
    );
    assert!(placement.set_offline(FIRST));
    assert!(!placement.set_offline(FIRST));
    assert_eq!(placement.place(at(0), Found::New, ample), Err(Unplaced::Offline(FIRST)));
    assert_eq!(placement.partitions_in(FIRST), [at(0)]);
    placement.set_offline(SECOND);
    assert!(placement.are_all_offline());
    assert_eq!(placement.place(at(1), Found::New, ample), Err(Unplaced::Nowhere));
}

#[derive(Clone, Debug)]
enum Step {
    New(i32),
    Found(i32, usize),
    Nowhere(i32),
    Release(i32),
    Offline(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..12).prop_map(Step::New),
        4 => (0..12, 0..3_usize).prop_map(|(number, directory)| Step::Found(number, directory)),
        2 => (0..12).prop_map(Step::Nowhere),
        3 => (0..12).prop_map(Step::Release),
        1 => (0..3_usize).prop_map(Step::Offline),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// Against a plain map: nothing moves, nothing goes where it can't be used, new ones keep the directories level.
    #[test]
    fn placements_hold_what_they_promise(steps in steps()) {
        let mut placement = Placement::new([true; 3]);
        let mut model = BTreeMap::new();
        for step in steps {
            let place = [DirectoryIndex(if let Step::Found(_, directory) = &step { *directory } else { 0 })];
            let (number, found) = match &step {
                Step::New(number) => (*number, Found::New),
                Step::Found(..) if !placement.is_online(place[0]) => continue,
                Step::Found(number, _) => (*number, Found::In(&place)),
                Step::Nowhere(number) => (*number, Found::In(&[])),
                Step::Release(number) => {
                    prop_assert_eq!(placement.release(at(*number)), model.remove(&at(*number)));
                    continue;
                }
                Step::Offline(directory) => {
                    placement.set_offline(DirectoryIndex(*directory));
                    continue;
                }
            };
            let fewest = (0..3).filter(|index| placement.is_online(DirectoryIndex(*index)));
            let fewest = fewest.map(|index| placement.partitions_in(DirectoryIndex(index)).len()).min();
            let before = model.get(&at(number)).copied();
            match placement.place(at(number), found, ample) {
                Ok(placed) => {
                    prop_assert!(placement.is_online(placed));
                    prop_assert!(before.is_none_or(|before| before == placed));
                    if before.is_none() && !matches!(step, Step::Found(..)) {
                        prop_assert_eq!(Some(placement.partitions_in(placed).len() - 1), fewest);
                    }
                    model.insert(at(number), placed);
                }
                Err(_) => prop_assert_eq!(placement.directory_of(at(number)), before),
            }
            let counted: usize = (0..3).map(|index| placement.partitions_in(DirectoryIndex(index)).len()).sum();
            prop_assert_eq!(counted, model.len());
            for index in (0..3).map(DirectoryIndex) {
                prop_assert_eq!(placement.count_in(index), placement.partitions_in(index).len());
            }
        }
    }
}
