//! One run: a node under faults, clients that produce, consume, create and delete, and checks of what they were told.
//!
//! ```text
//!   scenario   ─ what the seed decides: shards, topics, load, faults
//!   cluster    ─ the node: starts, stops, crashes, starts again, with another count of shards
//!   faults     ─ what befalls it while the clients work
//!   admin, producer, consumer ─ clients in frames of the protocol (wire), who write what they saw into the history
//!   retention  ─ a test of its own: ten days by the wall clocks, and each log within its bounds
//!   checkers/* ─ read the history, which knows requests and answers and nothing of the server
//! ```
//!
//! A run is a function of its seed: the same seed gives the same trace.

mod admin;
mod checkers;
mod cluster;
mod consumer;
mod directory;
mod faults;
mod growth;
mod history;
mod payload;
mod producer;
#[cfg(test)]
mod retention;
mod scenario;
mod setting;
mod settings;
mod wire;

use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use engine_io::{Io, Task, deadline};
use sim::{CrashMode, Sim};

use self::cluster::Cluster;
use self::history::Event;
use self::scenario::Scenario;
use self::setting::Setting;

/// What came of a run.
pub(crate) struct Report {
    /// The same for two runs only where they were the same.
    pub(crate) trace_hash: u64,
    /// What was done, in a line.
    pub(crate) summary: String,
    /// What was wrong; empty where nothing was.
    pub(crate) failures: Vec<String>,
}

/// After the faults have ended, clients get all that is left done within this.
const SETTLING: Duration = Duration::from_secs(600);

/// Runs a seed.
pub(crate) fn run(seed: u64) -> Report {
    let sim = Sim::new(seed);
    let world = AssertUnwindSafe(|| sim.block_on(run_in(&sim)));
    match catch_unwind(world) {
        Ok((setting, ended)) => {
            let events = setting.history.take();
            let failures = match ended {
                Ok(()) => checkers::check(&events),
                Err(why) => [vec![why], checkers::check_unfinished(&events)].concat(),
            };
            Report { trace_hash: sim.trace_hash(), summary: summary(&events), failures }
        }
        Err(panic) => {
            let told = panic.downcast_ref::<String>().map(String::as_str);
            let told = told.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            Report { trace_hash: 0, summary: "panicked".to_owned(), failures: vec![told.to_owned()] }
        }
    }
}

/// The run itself. The second value says why it could not be carried to its end.
async fn run_in(sim: &Sim) -> (Rc<Setting>, Result<(), String>) {
    let (machine, clients) = (sim.node(), sim.node());
    let setting = Rc::new(Setting::new(clients.io(), machine.address()));
    let scenario = Scenario::draw(&setting.chance);
    let ended = carry_out(sim, &machine, &setting, &scenario).await;
    (setting, ended)
}

async fn carry_out(
    sim: &Sim,
    machine: &sim::SimNode,
    setting: &Rc<Setting>,
    scenario: &Scenario,
) -> Result<(), String> {
    if let Some(least) = scenario.retention {
        setting.history.note(Event::Retention { least });
    }
    let mut cluster = Cluster::new(machine.clone(), setting, scenario);
    cluster.start().await?;
    let working = admin::begin(setting, scenario);
    faults::strike(&mut cluster, &sim.network(), setting, scenario).await?;
    setting.settle();
    let until = setting.io.now().after(SETTLING);
    if deadline(&setting.io, until, working.join()).await.is_none() {
        return Err("clients are not done long after the last fault".to_owned());
    }
    cluster.crash(CrashMode::LoseAllUnflushed);
    cluster.start().await?;
    admin::take_stock(setting)
        .await
        .map_err(|_| "the node does not answer after the last start".to_owned())?;
    cluster.stop().await
}

fn summary(events: &[Event]) -> String {
    let count = |is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
    format!(
        "{} batches acknowledged, {} answers with records or their end, {} topics, {} faults",
        count(|event| matches!(event, Event::Acknowledged { .. })),
        count(|event| matches!(event, Event::Read { .. })),
        count(|event| matches!(event, Event::TopicCreated { .. })),
        count(|event| matches!(event, Event::Fault(_))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_run() {
        for seed in [3, 4] {
            let (one, other) = (run(seed), run(seed));
            assert_eq!(one.failures, [""; 0]);
            assert_eq!((one.trace_hash, one.summary), (other.trace_hash, other.summary));
        }
    }

    #[test]
    fn different_seeds_give_different_runs() {
        assert_ne!(run(3).trace_hash, run(4).trace_hash);
    }
}
