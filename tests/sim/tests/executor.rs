//! Time, tasks and replay.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use engine_io::{
    BLOCK_BYTES, Buffer, DirectFile, Io, ListenMode, Listener, OpenMode, SendPiece, Stream, StreamReader,
    StreamWriter, Task, deadline, mailbox, reply,
};
use engine_record::{Instant, Timestamp};
use sim::{ClockStep, CrashMode, Sim, SimIo};

/// A little of everything: two machines, files, connections, timers and a crash.
fn busy_world(seed: u64) -> (u64, Instant) {
    let sim = Sim::new(seed);
    let (server, client) = (sim.node(), sim.node());
    let address = SocketAddr::new(server.address(), 9092);
    let io = server.io();
    let serving = io.clone();
    let task = io.spawn(async move { serve(&serving, address).await.unwrap() });
    let io = client.io();
    sim.block_on(async {
        io.sleep(Duration::from_millis(5)).await;
        let (mut reader, mut writer) = io.connect(address).await.unwrap().split();
        writer.send(vec![SendPiece::Owned(vec![7; 10_000])]).await.unwrap();
        let (received, bytes) = reader.receive_exactly(Vec::new(), 10_000).await;
        received.unwrap();
        assert_eq!(bytes, [7; 10_000]);
        server.crash(CrashMode::KeepRandomSectors);
    });
    assert!(task.is_finished());
    sim.run_for(Duration::from_millis(10));
    (sim.trace_hash(), sim.now())
}

async fn serve(io: &SimIo, address: SocketAddr) -> io::Result<()> {
    io.create_folder(Path::new("/data")).await?;
    let file = io.open(Path::new("/data/log"), OpenMode::New).await?;
    file.allocate(0, 1 << 20).await?;
    let listener = io.listen(address, ListenMode::Exclusive).await?;
    let (mut reader, mut writer) = listener.accept().await?.split();
    let (received, bytes) = reader.receive_exactly(Vec::new(), 10_000).await;
    received?;
    let mut buffer = io.buffer(3 * BLOCK_BYTES);
    buffer.as_mut_slice()[..bytes.len()].copy_from_slice(&bytes);
    file.write(0, Rc::new(buffer)).await?;
    writer.send(vec![SendPiece::Owned(bytes)]).await?;
    io.sleep(Duration::from_hours(1)).await;
    Ok(())
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    for seed in 0..20 {
        assert_eq!(busy_world(seed), busy_world(seed));
        assert_ne!(busy_world(seed), busy_world(seed + 1));
    }
}

#[test]
fn timers_end_in_the_order_of_their_deadlines_and_never_early() {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let io = sim.node().io();
        let ended = Rc::new(RefCell::new(Vec::new()));
        let tasks: Vec<_> = [5_u64, 1, 4, 2, 3]
            .into_iter()
            .map(|millis| {
                let (own, ended) = (io.clone(), Rc::clone(&ended));
                io.spawn(async move {
                    own.sleep(Duration::from_millis(millis)).await;
                    assert!(own.now() >= Instant::from_nanos(millis * 1_000_000));
                    ended.borrow_mut().push(millis);
                })
            })
            .collect();
        sim.run_until_idle();
        assert_eq!(*ended.borrow(), [1, 2, 3, 4, 5]);
        assert!(tasks.iter().all(Task::is_finished));
    }
}

#[test]
fn the_order_of_tasks_depends_on_the_seed() {
    let order = |seed| {
        let sim = Sim::new(seed);
        let io = sim.node().io();
        let ran = Rc::new(RefCell::new(Vec::new()));
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let ran = Rc::clone(&ran);
                io.spawn(async move { ran.borrow_mut().push(number) })
            })
            .collect();
        sim.run_until_idle();
        drop(tasks);
        ran.take()
    };
    let orders: Vec<Vec<i32>> = (0..10).map(order).collect();
    assert!(orders.iter().any(|other| *other != orders[0]));
    assert!(orders.iter().all(|order| order.len() == 8));
}

#[test]
fn a_spawned_task_first_runs_after_its_parent_awaits() {
    let sim = Sim::new(1);
    let io = sim.node().io();
    sim.block_on(async {
        let ran = Rc::new(Cell::new(false));
        let seen = Rc::clone(&ran);
        let task = io.spawn(async move { seen.set(true) });
        assert!(!ran.get());
        task.join().await;
        assert!(ran.get());
    });
}

#[test]
fn a_dropped_task_stops_and_drops_what_it_held() {
    let sim = Sim::new(2);
    let io = sim.node().io();
    let (turns, held) = (Rc::new(Cell::new(0)), Rc::new(()));
    let (own, counted, owned) = (io.clone(), Rc::clone(&turns), Rc::clone(&held));
    let task = io.spawn(async move {
        let _owned = owned;
        loop {
            counted.set(counted.get() + 1);
            own.sleep(Duration::from_millis(1)).await;
        }
    });
    sim.run_for(Duration::from_millis(10));
    let before = turns.get();
    assert!(before > 5);
    drop(task);
    sim.run_until_idle();
    assert_eq!(turns.get(), before);
    assert_eq!(Rc::strong_count(&held), 1);
}

#[test]
fn a_crash_drops_the_tasks_of_its_machine_and_no_others() {
    let sim = Sim::new(3);
    let (one, other) = (sim.node(), sim.node());
    let ticking = |io: SimIo| {
        let own = io.clone();
        io.spawn(async move {
            loop {
                own.sleep(Duration::from_millis(1)).await;
            }
        })
    };
    let (dead, alive) = (ticking(one.io()), ticking(other.io()));
    sim.run_for(Duration::from_millis(5));
    one.crash(CrashMode::KeepAll);
    sim.run_for(Duration::from_millis(5));
    assert!(dead.is_finished() && !alive.is_finished());
}

#[test]
fn a_task_can_crash_its_own_machine_and_is_not_polled_again() {
    let sim = Sim::new(4);
    let node = sim.node();
    let (io, held) = (node.io(), Rc::new(()));
    let (own, owned, crashing) = (io.clone(), Rc::clone(&held), node);
    let task = io.spawn(async move {
        let _owned = owned;
        crashing.crash(CrashMode::LoseAllUnflushed);
        own.yield_now().await;
        unreachable!("the machine is gone");
    });
    sim.run_until_idle();
    assert!(task.is_finished());
    assert_eq!(Rc::strong_count(&held), 1);
}

#[test]
fn a_process_started_after_a_crash_has_a_clock_of_its_own() {
    let sim = Sim::new(5);
    let node = sim.node();
    sim.run_for(Duration::from_secs(9));
    assert_eq!(node.io().now(), Instant::from_nanos(9_000_000_000));
    node.crash(CrashMode::KeepAll);
    let io = node.io();
    assert_eq!((io.now(), io.shard()), (Instant::ZERO, 0));
    assert_eq!(node.io().shard(), 1);
}

#[test]
fn the_wall_clock_steps_and_the_monotonic_clock_does_not() {
    let sim = Sim::new(6);
    let (node, other) = (sim.node(), sim.node());
    let (io, other) = (node.io(), other.io());
    let Timestamp(start) = io.timestamp();
    node.step_clock(ClockStep::Forth(Duration::from_hours(1)));
    assert_eq!(io.timestamp(), Timestamp(start + 3_600_000));
    node.step_clock(ClockStep::Back(Duration::from_hours(3)));
    assert_eq!(io.timestamp(), Timestamp(start - 7_200_000));
    assert_eq!(other.timestamp(), Timestamp(start));
    assert_eq!(io.now(), Instant::ZERO);
    sim.run_for(Duration::from_millis(250));
    assert_eq!(io.timestamp(), Timestamp(start - 7_200_000 + 250));
}

#[test]
fn a_deadline_ends_a_wait_and_takes_its_timer_along() {
    let sim = Sim::new(7);
    let io = sim.node().io();
    sim.block_on(async {
        let at = io.now().after(Duration::from_millis(3));
        assert_eq!(deadline(&io, at, core::future::pending::<()>()).await, None);
        assert!(io.now() >= at);
        let later = io.now().after(Duration::from_hours(1));
        assert_eq!(deadline(&io, later, async { 5 }).await, Some(5));
    });
    sim.run_until_idle();
    assert!(sim.now() < Instant::from_nanos(1_000_000_000), "a dropped timer keeps no world busy");
}

#[test]
fn two_shards_talk_through_mailboxes_in_order() {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let node = sim.node();
        let (asking, answering) = (node.io(), node.io());
        let (sender, receiver) = mailbox(2);
        let owner = answering.spawn(async move {
            let mut expected = 0;
            while let Ok((number, slot)) = receiver.receive().await {
                assert_eq!(number, expected);
                expected += 1;
                let slot: engine_io::ReplySlot<u32> = slot;
                slot.answer(number * 2);
            }
        });
        let asker = asking.spawn(async move {
            for number in 0..50 {
                let (slot, answer) = reply();
                sender.send((number, slot)).await.unwrap();
                assert_eq!(answer.wait().await, Ok(number * 2));
            }
        });
        sim.block_on(async {
            asker.join().await;
            owner.join().await;
        });
    }
}

#[test]
fn a_task_that_spins_lets_time_pass() {
    let sim = Sim::new(8);
    let io = sim.node().io();
    sim.block_on(async {
        let end = io.now().after(Duration::from_millis(1));
        while io.now() < end {
            io.yield_now().await;
        }
    });
}

#[test]
fn run_for_ends_when_it_says() {
    let sim = Sim::new(9);
    let io = sim.node().io();
    let own = io.clone();
    let _ticking = io.spawn(async move {
        loop {
            own.sleep(Duration::from_micros(700)).await;
        }
    });
    sim.run_for(Duration::from_millis(10));
    assert!(sim.now() >= Instant::from_nanos(10_000_000));
    assert!(sim.now() < Instant::from_nanos(10_001_000), "at most one poll late");
}

#[test]
#[should_panic(expected = "nothing can happen any more")]
fn a_future_that_cannot_resolve_is_given_up() {
    Sim::new(10).block_on(core::future::pending::<()>());
}

#[test]
#[should_panic(expected = "a machine that has crashed since")]
fn a_handle_of_a_crashed_machine_is_not_used_again() {
    let sim = Sim::new(11);
    let node = sim.node();
    let io = node.io();
    node.crash(CrashMode::KeepAll);
    sim.block_on(async { io.create_folder(Path::new("/data")).await }).unwrap();
}
