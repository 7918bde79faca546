//! Tasks, time and mailboxes; shards beside each other.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

#[cfg(test)]
mod harness;

use core::cell::Cell;
use core::time::Duration;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use engine_io::{Io, Receiver, Sender, Task, deadline, mailbox};
use engine_io_glommio::run;
use harness::{IO_MEMORY_BYTES, folder, on_shard, spec};

#[test]
fn a_task_first_runs_after_its_maker_awaits() {
    on_shard(|io, _| async move {
        let ran = Rc::new(Cell::new(false));
        let mark = Rc::clone(&ran);
        let task = io.spawn(async move { mark.set(true) });
        assert!(!ran.get() && !task.is_finished());
        io.yield_now().await;
        assert!(ran.get() && task.is_finished());
        task.join().await;
    });
}

#[test]
fn dropping_a_task_cancels_it_and_drops_what_it_holds() {
    on_shard(|io, _| async move {
        let held = Rc::new(());
        let inside = Rc::clone(&held);
        let other = io.clone();
        let task = io.spawn(async move {
            other.sleep(Duration::MAX).await;
            drop(inside);
        });
        io.yield_now().await;
        assert_eq!(Rc::strong_count(&held), 2);
        drop(task);
        io.yield_now().await;
        assert_eq!(Rc::strong_count(&held), 1);
    });
}

#[test]
fn joining_a_task_waits_for_its_end() {
    on_shard(|io, _| async move {
        let ended = Rc::new(Cell::new(false));
        let (mark, other) = (Rc::clone(&ended), io.clone());
        let task = io.spawn(async move {
            other.sleep(Duration::from_millis(3)).await;
            mark.set(true);
        });
        task.join().await;
        assert!(ended.get());
    });
}

#[test]
fn a_sleep_never_ends_early_and_a_deadline_ends_what_never_would() {
    on_shard(|io, _| async move {
        let before = io.now();
        io.sleep(Duration::from_millis(2)).await;
        assert!(io.now().since(before) >= Duration::from_millis(2));
        let at = io.now().after(Duration::from_millis(2));
        assert_eq!(deadline(&io, at, core::future::pending::<()>()).await, None);
        assert!(io.now() >= at);
        io.sleep(Duration::ZERO).await;
    });
}

#[test]
fn the_wall_clock_is_in_this_century() {
    on_shard(|io, _| async move {
        let year_2020 = 1_577_836_800_000;
        assert!(io.timestamp().0 > year_2020 && io.timestamp().0 < 3 * year_2020);
    });
}

#[test]
fn shards_draw_different_random_numbers() {
    let folder = folder();
    let specs = vec![spec("one"), spec("two")];
    let running = run(specs, IO_MEMORY_BYTES, folder.path(), |_, io| async move {
        (0..1000).map(|_| io.random()).collect::<Vec<_>>()
    });
    let mut drawn: Vec<u64> = running.unwrap().join().into_iter().flat_map(Result::unwrap).collect();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), 2000);
}

#[test]
fn all_shards_share_the_origin_of_the_clock() {
    let folder = folder();
    let specs = vec![spec("one"), spec("two")];
    let before = run(vec![spec("zero")], IO_MEMORY_BYTES, folder.path(), |_, io| async move { io.now() });
    let before = before.unwrap().join().remove(0).unwrap();
    let running = run(specs, IO_MEMORY_BYTES, folder.path(), |_, io| async move { io.now() });
    for now in running.unwrap().join() {
        assert!(now.unwrap() > before);
    }
}

/// One end of a two-way line: a shard takes it by its index.
type End = (Sender<u64>, Receiver<u64>);

fn line(capacity: usize) -> Arc<Mutex<Vec<Option<End>>>> {
    let (there, from_there) = mailbox(capacity);
    let (back, from_back) = mailbox(capacity);
    Arc::new(Mutex::new(vec![Some((there, from_back)), Some((back, from_there))]))
}

fn take(line: &Mutex<Vec<Option<End>>>, index: usize) -> End {
    line.lock().unwrap()[index].take().unwrap()
}

/// Each message is waited for, so each needs a wake-up across threads; a lost one would hang the test.
#[test]
fn messages_in_turn_wake_the_other_shard_each_time() {
    const ROUNDS: u64 = 20_000;
    let (folder, line) = (folder(), line(1));
    let specs = vec![spec("one"), spec("two")];
    let running = run(specs, IO_MEMORY_BYTES, folder.path(), move |index, _| {
        let (sender, receiver) = take(&line, index);
        async move {
            for round in 0..ROUNDS {
                if index == 0 {
                    sender.send(round).await.unwrap();
                    assert_eq!(receiver.receive().await.unwrap(), round + 1);
                } else {
                    let message = receiver.receive().await.unwrap();
                    sender.send(message + 1).await.unwrap();
                }
            }
            engine_io::messages_passed()
        }
    });
    for passed in running.unwrap().join() {
        assert_eq!(passed.unwrap(), 2 * ROUNDS);
    }
}

#[test]
fn a_full_mailbox_makes_its_sender_wait_and_loses_nothing() {
    const MESSAGES: u64 = 50_000;
    let (folder, line) = (folder(), line(16));
    let specs = vec![spec("one"), spec("two")];
    let running = run(specs, IO_MEMORY_BYTES, folder.path(), move |index, io| {
        let (sender, receiver) = take(&line, index);
        async move {
            let sending = io.spawn(async move {
                for message in 0..MESSAGES {
                    sender.send(message).await.unwrap();
                }
            });
            for message in 0..MESSAGES {
                assert_eq!(receiver.receive().await.unwrap(), message);
            }
            sending.join().await;
        }
    });
    for ended in running.unwrap().join() {
        ended.unwrap();
    }
}

#[test]
fn a_panic_in_a_task_ends_the_shard_and_join_tells() {
    let folder = folder();
    let running = run(vec![spec("one")], IO_MEMORY_BYTES, folder.path(), |_, io| async move {
        let task = io.spawn(async { panic!("broken on purpose") });
        task.join().await;
    });
    let panic = running.unwrap().join().remove(0).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"broken on purpose"));
}

#[test]
fn pinned_and_dedicated_shards_run_where_they_should() {
    let folder = folder();
    let mut pinned = spec("pinned");
    pinned.cpu = Some(0);
    pinned.dedicated = true;
    let running = run(vec![pinned], IO_MEMORY_BYTES, folder.path(), |_, io| async move {
        io.sleep(Duration::from_millis(1)).await;
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        (allowed.is_set(0), allowed.count(), std::thread::current().name().map(str::to_owned))
    });
    let place = running.unwrap().join().remove(0).unwrap();
    assert_eq!(place, (true, 1, Some("pinned".to_owned())));
}
