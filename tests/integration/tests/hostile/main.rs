//! Hostile input: whatever bytes come, the broker neither ends, nor hangs, nor grows, nor lets others wait.
//!
//! ```text
//! attackers     mutated and random frames on many short connections, some reset at once      (attack.rs, mutation.rs)
//! interrupters  every frame there is, broken off at every byte                               (interrupt.rs)
//! idlers        frames announced at full size and never sent; frames sent byte by byte       (idle.rs)
//! the customer  an ordinary client, whose every request is timed                             (customer.rs)
//! ```
//!
//! At least `FRAMES` of the frames that the broker is known to have read from the attackers are random or mutated; valid ones,
//! those broken off and those of which nothing is known come on top. All of it comes from one seed. What is mutated are valid frames of every version of every API (`catalogue.rs`).

mod attack;
mod catalogue;
mod customer;
mod idle;
mod interrupt;
mod mutation;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use integration::clock::wait_until;
use integration::{Broker, Random, settings, topics};

use crate::attack::Attack;
use crate::catalogue::Catalogue;
use crate::customer::Latencies;
use crate::idle::Idlers;

/// What the attackers write to; the customer has a topic of its own.
const VICTIM: &str = "victim";
const PARTITIONS: i32 = 4;
/// The broker may hold this much more at its worst moment than it held before.
const GROWTH_BYTES_MAX: u64 = 256 << 20;
/// The customer never waits longer for an answer.
const LATENCY_MAX: Duration = Duration::from_secs(2);
/// Within this, the broker has let go of connections whose clients are gone.
const DRAIN: Duration = Duration::from_secs(30);

#[test]
#[expect(clippy::print_stdout, reason = "what was done, for whoever reads a failure or a long run")]
fn hostile_input_harms_nobody_else() {
    let mut broker = Broker::start("hostile");
    topics::create(broker.address(0), VICTIM, PARTITIONS);
    topics::create(broker.address(0), customer::TOPIC, PARTITIONS);
    let catalogue = Catalogue::new(topics::describe(broker.address(0), VICTIM).id);
    let mut random = Random::from_environment();
    let frames = usize::try_from(settings::number("FRAMES", 100_000)).expect("usize has 64 bits");
    let before = broker.process().resident_bytes();
    let sockets_before = broker.process().socket_count();
    let latencies = run(&broker, &catalogue, &mut random, frames);
    let growth = broker.process().resident_bytes_max().saturating_sub(before);
    println!("customer: {latencies}; memory: {} MiB before, {} MiB more at most", before >> 20, growth >> 20);
    assert!(broker.is_running(), "the broker ended");
    assert!(latencies.max() < LATENCY_MAX, "the customer had to wait: {latencies}");
    assert!(growth < GROWTH_BYTES_MAX, "the broker grew by {} MiB", growth >> 20);
    wait_until("the broker lets go of dead connections", DRAIN, || {
        broker.process().socket_count() <= sockets_before
    });
    broker.stop();
    assert!(!broker.log().contains("panicked"), "the broker panicked:\n{}", broker.log());
}

/// Everything at once, until the attackers and interrupters are done. Answers how the customer was served.
fn run(broker: &Broker, catalogue: &Catalogue, random: &mut Random, frames: usize) -> Latencies {
    let addresses = [broker.address(0), broker.address(1)];
    let leaders = customer::Leaders::of(broker);
    let stop = AtomicBool::new(false);
    let attacks = addresses.map(|address| Attack {
        address,
        mutated: frames.div_ceil(addresses.len()),
        seed: random.number(),
    });
    thread::scope(|scope| {
        let stop = &stop;
        let customer = scope.spawn(move || customer::serve_until(&leaders, stop));
        let idlers = scope.spawn(move || Idlers::new(&addresses, catalogue).drip_until(stop));
        let attackers: Vec<_> = attacks.iter().map(|attack| scope.spawn(|| attack.run(catalogue))).collect();
        let outcome = thread::Builder::new()
            .name("interrupter".to_owned())
            .spawn_scoped(scope, move || interrupt::run(&addresses, catalogue))
            .expect("a thread can be started")
            .join();
        let outcomes: Vec<_> = attackers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        idlers.join().expect("idlers fail in words");
        let latencies = customer.join().expect("the customer fails in words");
        outcome.expect("interrupters fail in words");
        let outcomes: Vec<_> =
            outcomes.into_iter().map(|outcome| outcome.expect("attackers fail in words")).collect();
        outcomes.iter().for_each(attack::Outcome::print);
        let mutated: usize = outcomes.iter().map(attack::Outcome::mutated).sum();
        assert!(mutated >= frames, "{mutated} random or mutated frames were read");
        latencies
    })
}
