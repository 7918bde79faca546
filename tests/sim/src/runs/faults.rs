//! What befalls the node while clients work.

use core::time::Duration;

use engine_io::Io;
use sim::{ClockStep, CrashMode, DiskLatency, NetworkSettings, SimNetwork};

use super::cluster::Cluster;
use super::history::Event;
use super::scenario::Scenario;
use super::setting::{Chance, Setting};

/// Lets faults strike for as long as the scenario says, then heals everything.
///
/// # Errors
/// What the node couldn't cope with, in words.
pub(super) async fn strike(
    cluster: &mut Cluster,
    network: &SimNetwork,
    setting: &Setting,
    scenario: &Scenario,
) -> Result<(), String> {
    let until = setting.io.now().after(scenario.lasts);
    network.configure(NetworkSettings { reset_one_in: scenario.reset_one_in, ..NetworkSettings::default() });
    while setting.io.now() < until {
        setting.pause(1..=scenario.calm_ms).await;
        match setting.chance.pick(0..=9) {
            0..=2 => crash(cluster, setting).await?,
            3 => crash_while_starting(cluster, setting).await?,
            4..=5 => restart(cluster, setting).await?,
            6 => reset(cluster, network, setting),
            7 => slow_disk(cluster, setting).await,
            8 if scenario.disks_fail => failed_flush(cluster, setting).await?,
            9 if scenario.clock_steps => step_clock(cluster, setting),
            _ => {}
        }
    }
    cluster.machine.disk().heal();
    network.configure(NetworkSettings::default());
    Ok(())
}

fn some_crash(chance: &Chance) -> CrashMode {
    match chance.pick(0..=2) {
        0 => CrashMode::LoseAllUnflushed,
        1 => CrashMode::KeepRandomSectors,
        _ => CrashMode::KeepAll,
    }
}

async fn crash(cluster: &mut Cluster, setting: &Setting) -> Result<(), String> {
    cluster.crash(some_crash(&setting.chance));
    setting.pause(0..=500).await;
    cluster.start().await
}

async fn crash_while_starting(cluster: &mut Cluster, setting: &Setting) -> Result<(), String> {
    cluster.crash(some_crash(&setting.chance));
    for _ in 0..setting.chance.pick(1..=3) {
        let patience = Duration::from_micros(setting.chance.pick(10..=30_000));
        cluster.start_in_vain(patience, some_crash(&setting.chance)).await?;
    }
    cluster.start().await
}

async fn restart(cluster: &mut Cluster, setting: &Setting) -> Result<(), String> {
    setting.history.note(Event::Fault("an orderly restart"));
    cluster.stop().await?;
    setting.pause(0..=500).await;
    cluster.start().await
}

fn reset(cluster: &Cluster, network: &SimNetwork, setting: &Setting) {
    setting.history.note(Event::Fault("all connections are reset"));
    network.reset_connections(&cluster.machine);
}

async fn slow_disk(cluster: &Cluster, setting: &Setting) {
    setting.history.note(Event::Fault("the disk is slow"));
    let millis = |first, last| Duration::from_millis(first)..=Duration::from_millis(last);
    let latency = DiskLatency {
        write: millis(1, 50),
        flush: millis(10, 400),
        read: millis(1, 50),
        metadata: millis(1, 10),
    };
    cluster.machine.disk().set_latency(latency);
    setting.pause(100..=2_000).await;
    cluster.machine.disk().set_latency(DiskLatency::default());
}

async fn failed_flush(cluster: &mut Cluster, setting: &Setting) -> Result<(), String> {
    setting.history.note(Event::Fault("a flush fails"));
    cluster.machine.disk().fail_next_flush();
    cluster.fail(setting.chance.millis(10..=2_000)).await;
    cluster.machine.disk().heal();
    cluster.crash(some_crash(&setting.chance));
    cluster.start().await
}

fn step_clock(cluster: &Cluster, setting: &Setting) {
    setting.history.note(Event::Fault("the wall clock is set"));
    let step = Duration::from_secs(setting.chance.pick(1..=600));
    cluster.machine.step_clock(if setting.chance.one_in(2) {
        ClockStep::Forth(step)
    } else {
        ClockStep::Back(step)
    });
}
