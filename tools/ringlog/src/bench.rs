//! `ringlog bench`: pushes a load through real sockets, and says what came through, how fast, and whether all of it.
//!
//! ```text
//!   arguments ─> setting     what is loaded: an embedded broker on half the cores, or any broker
//!                phases      closed loop: the most that goes through; open loop: latencies at 60 % of it
//!   for each:    load        generator shards, an observer that tells when the measured window begins and ends
//!                meter       broker's counters and processor time at those moments
//!                live        a line on a terminal
//!   report       table or JSON; files: .hgrm, .hlog
//! ```

mod broker;
mod counters;
mod cpu;
mod files;
mod live;
mod load;
mod meter;
mod report;
mod setting;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use engine_io::Io;
use loadgen::{Keys, LoadPlan, Pace, limits};
use net_client::{Admin, Resolver};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::broker::{Emergency, RoutingName};
use self::load::{Generator, Incident};
use self::report::{PhaseReport, Topic};
use self::setting::Setting;
use crate::client::{self, spawn_thread};
use crate::failure::Failure;
use crate::numbers::{number, time};
use crate::output::{print, tell};
use crate::produce::{AcksName, CompressionName};

/// The open loop's part of the closed loop's rate, in percent: high, and with room for what queues.
const OPEN_LOOP_PERCENT: u64 = 60;

/// What `ringlog bench` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  ringlog bench\n  ringlog bench --kill\n  \
                        ringlog bench --bootstrap 10.0.0.5:9092 --rate 200000 --duration 60s --out results")]
pub(crate) struct Arguments {
    /// Load this broker, of any kind that speaks the protocol [default: one started for the run].
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap: Option<String>,
    /// So many records a second, 1 to 1000000000, open loop only; what isn't sent 10 s after the load's end is never sent
    /// [default: the maximum first, then 60 % of it].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(limits::RECORDS_PER_SECOND))]
    rate: Option<u64>,
    /// Partitions of the topic, 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 8, allow_negative_numbers = true)]
    #[arg(value_parser = number(limits::PARTITIONS))]
    partitions: u32,
    /// Producers, 1 to 1000 [default: one a generator core].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(limits::PRODUCERS))]
    producers: Option<u32>,
    /// Consumers, 1 to 1000 [default: one a generator core].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(limits::CONSUMERS))]
    consumers: Option<u32>,
    /// Bytes of a record's value, 40 to 8388608.
    #[arg(long, value_name = "N", default_value_t = 1_024, allow_negative_numbers = true)]
    #[arg(value_parser = number(limits::RECORD_BYTES))]
    record_bytes: u32,
    /// A batch of so many bytes is sent, 1 to 8388608.
    #[arg(long, value_name = "N", default_value_t = 128 << 10, allow_negative_numbers = true)]
    #[arg(value_parser = number(limits::BATCH_BYTES))]
    batch_bytes: u32,
    /// How long a smaller batch waits for more records, in microseconds, 0 to 10000000.
    #[arg(long, value_name = "N", default_value_t = 1_000, allow_negative_numbers = true)]
    #[arg(value_parser = number(limits::LINGER_US))]
    linger_us: u64,
    /// What a batch waits for: all in-sync replicas, the leader, or nothing.
    #[arg(long, value_enum, default_value_t, allow_negative_numbers = true)]
    acks: AcksName,
    /// How batches are compressed.
    #[arg(long, value_enum, default_value_t)]
    compression: CompressionName,
    /// Give the records this many different keys, 1 to 1000000000000 [default: none].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(limits::KEYS))]
    keys: Option<u64>,
    /// How long each load is measured, such as 5s, 500ms or 2m, from 1ms to 1440m.
    #[arg(long, value_name = "TIME", default_value = "5s", allow_hyphen_values = true)]
    #[arg(value_parser = time(limits::DURATION))]
    duration: Duration,
    /// How long each load runs before that, from 0s to 1440m.
    #[arg(long, value_name = "TIME", default_value = "1s", allow_hyphen_values = true)]
    #[arg(value_parser = time(limits::WARMUP))]
    warmup: Duration,
    /// Whether producers are idempotent [default: with acks=all].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    idempotent: Option<bool>,
    /// Decides everything that is left to chance but the topics' names, 0 to 18446744073709551615.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = number(0..=u64::MAX))]
    seed: u64,
    /// Write histograms (.hgrm, .hlog) and the report (JSON) into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How clients reach the embedded broker's partitions: each shard by a port of its own, or all by one.
    #[arg(long, value_enum, default_value_t, conflicts_with = "bootstrap")]
    routing: RoutingName,
    /// Kill the embedded broker in the middle of the open loop, and start it again.
    #[arg(long, conflicts_with = "bootstrap")]
    kill: bool,
    /// Keep the embedded broker's folder, or the topics made; the report names them.
    #[arg(long)]
    keep: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Makes the loads and tells what came of them.
///
/// # Errors
/// The load can't be made, or a record that was acknowledged wasn't read back once and in order.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    plan(arguments, 1, Pace::Closed { batches_in_flight: 1 }).check().map_err(Failure::usage)?;
    tuning::raise_open_files().map_err(Failure::machine)?;
    if let Some(out) = &arguments.out {
        files::prepare(out)?;
    }
    if let Some(warning) = warning(arguments) {
        tell(format_args!("ringlog: {warning}"));
    }
    let emergency = Emergency::default();
    if arguments.bootstrap.is_none() {
        leave_on_signals(emergency.clone())?;
    }
    let mut setting = Setting::new(arguments, emergency)?;
    let phases = phases(arguments, &mut setting)?;
    let report = setting.report(phases);
    setting.stop()?;
    if let Some(out) = &arguments.out {
        files::write_report(out, &report)?;
    }
    if arguments.json {
        print(report.to_json())?;
    } else {
        print(&report)?;
    }
    if report.is_ok() {
        Ok(())
    } else {
        Err(Failure::failed("not every acknowledged record was read back once and in order"))
    }
}

/// What can come of the load that is no fault of the broker's.
fn warning(arguments: &Arguments) -> Option<&'static str> {
    let is_idempotent = plan(arguments, 1, Pace::Closed { batches_in_flight: 1 }).is_idempotent;
    match (arguments.kill && !is_idempotent, arguments.acks) {
        (false, _) => None,
        (true, AcksName::None) => Some(
            "with --acks 0 nobody knows what the killed broker had taken: records may be lost, and the bench then fails",
        ),
        (true, AcksName::Leader | AcksName::All) => Some(
            "producers aren't idempotent: what the killed broker took and didn't answer is sent again, so records may be \
             repeated, and the bench then fails; --acks all with --idempotent keeps them single",
        ),
    }
}

/// The child must not outlive this process, nor its folder.
fn leave_on_signals(emergency: Emergency) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Failure::machine)?;
    spawn_thread("signals", move || {
        if signals.forever().next().is_some() {
            emergency.act(|| {
                tell("\nringlog: interrupted");
                std::process::exit(1)
            });
        }
    })
}

/// One load after the other.
fn phases(arguments: &Arguments, setting: &mut Setting) -> Result<Vec<PhaseReport>, Failure> {
    let incident = if arguments.kill { Incident::Kill } else { Incident::None };
    let mark = run_mark()?;
    if let Some(records_per_second) = arguments.rate {
        let pace = Pace::Open { records_per_second };
        return Ok(vec![phase(arguments, setting, mark, ("rate", pace, incident))?]);
    }
    // Two batches a partition: one is written while the other is on its way.
    let closed = Pace::Closed { batches_in_flight: arguments.partitions.saturating_mul(2).max(5) };
    let maximum = phase(arguments, setting, mark, ("maximum", closed, Incident::None))?;
    let Some(rate) = maximum.part_of_rate(OPEN_LOOP_PERCENT) else {
        return Err(Failure::failed(maximum.why_nothing_was_acknowledged()));
    };
    let open = Pace::Open { records_per_second: rate };
    let open = phase(arguments, setting, mark, ("rate", open, incident))?;
    Ok(vec![maximum, open])
}

/// What tells this run's topics and records from those of any other. A process number wouldn't: another container has the
/// same one, and `--seed` is the same unless given.
fn run_mark() -> Result<u64, Failure> {
    client::on_shard("mark", |io| async move { io.random() })
}

fn topic_of(mark: u64, name: &str) -> String {
    format!("ringlog-bench-{mark:016x}-{name}")
}

fn phase(
    arguments: &Arguments,
    setting: &mut Setting,
    mark: u64,
    (name, pace, incident): (&'static str, Pace, Incident),
) -> Result<PhaseReport, Failure> {
    let mut plan = plan(arguments, setting.generator.shards(), pace);
    plan.bootstrap = setting.bootstrap();
    (plan.topic, plan.run_mark) = (topic_of(mark, name), mark);
    let generator = setting.generator.clone();
    let leaves_topics = arguments.keep || arguments.bootstrap.is_some();
    let loaded = load::run(&generator, &plan, setting.broker_mut(), (name, incident)).inspect_err(|_| {
        if leaves_topics {
            tell(format_args!("ringlog: topic {} is left behind, if it was made", plan.topic));
        }
    })?;
    let deleted = if arguments.keep { Topic::LeftBehind } else { delete_topic(&generator, &plan) };
    // An embedded broker's topic goes with its folder.
    let topic = if leaves_topics { deleted } else { Topic::Deleted };
    if let Some(out) = &arguments.out {
        files::write_phase(out, name, &loaded)?;
    }
    Ok(PhaseReport::new(name, &plan, &loaded, incident).with_topic(topic))
}

fn plan(arguments: &Arguments, shards: u32, pace: Pace) -> LoadPlan {
    LoadPlan {
        pace,
        partitions: arguments.partitions,
        producers: arguments.producers.unwrap_or_else(|| shards.min(*limits::PRODUCERS.end())),
        consumers: arguments.consumers.unwrap_or_else(|| shards.min(*limits::CONSUMERS.end())),
        record_bytes: arguments.record_bytes,
        batch_bytes: arguments.batch_bytes,
        linger: Duration::from_micros(arguments.linger_us),
        acks: arguments.acks.into(),
        is_idempotent: arguments.idempotent.unwrap_or(arguments.acks == AcksName::All),
        compression: arguments.compression.into(),
        keys: arguments.keys.map_or(Keys::None, |count| Keys::Cycle { count }),
        duration: arguments.duration,
        warmup: arguments.warmup,
        seed: arguments.seed,
        ..LoadPlan::default()
    }
}

/// Frees the space of the load that is over. Where that fails the load is reported all the same.
fn delete_topic(generator: &Generator, plan: &LoadPlan) -> Topic {
    let (load, resolver): (LoadPlan, Resolver) = (plan.clone(), generator.resolver().clone());
    let deleted = client::on_shard("delete", move |io| async move {
        let client = load::client(io, &load, resolver).map_err(|error| client::failed(&error))?;
        let deleted = Admin::new(client.clone()).delete_topic(&load.topic).await;
        client.close();
        deleted.map_err(|error| client::failed_admin(&error))
    });
    match deleted.flatten() {
        Ok(()) => Topic::Deleted,
        Err(failure) => {
            tell(format_args!("ringlog: topic {} can't be deleted: {failure}", plan.topic));
            Topic::LeftBehind
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use net_client::Acks;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        Command::try_parse_from(words).map(|command| command.arguments)
    }

    fn planned(line: &str) -> LoadPlan {
        plan(&parse(line).unwrap(), 3, Pace::Closed { batches_in_flight: 5 })
    }

    #[test]
    fn the_default_load_is_durable_batched_and_verified() {
        let plan = planned("");
        assert_eq!(plan.check(), Ok(()));
        assert_eq!((plan.partitions, plan.record_bytes, plan.batch_bytes), (8, 1_024, 131_072));
        assert_eq!((plan.producers, plan.consumers), (3, 3));
        assert_eq!((plan.acks, plan.is_idempotent), (Acks::All, true));
        assert_eq!(plan.overrun_max, Duration::from_secs(10), "as the help of --rate says");
        assert_eq!((plan.duration, plan.warmup), (Duration::from_secs(5), Duration::from_secs(1)));
    }

    #[test]
    fn every_part_of_the_load_can_be_said() {
        let plan = planned(
            "--partitions 2 --producers 4 --consumers 1 --record-bytes 100 --batch-bytes 4096 --linger-us 250 \
             --acks 1 --compression lz4 --keys 10 --duration 500ms --warmup 0s --seed 7",
        );
        assert_eq!(plan.check(), Ok(()));
        assert_eq!((plan.producers, plan.consumers), (4, 1));
        assert_eq!((plan.acks, plan.is_idempotent), (Acks::Leader, false));
        assert_eq!(plan.linger, Duration::from_micros(250));
        assert_eq!(plan.keys, Keys::Cycle { count: 10 });
        assert_eq!((plan.duration, plan.warmup), (Duration::from_millis(500), Duration::ZERO));
    }

    #[test]
    fn idempotence_is_said_with_or_without_a_value() {
        assert!(planned("--idempotent").is_idempotent);
        assert!(!planned("--idempotent false").is_idempotent);
        assert!(planned("--acks 0 --idempotent true").check().is_err());
    }

    #[test]
    fn times_have_the_ranges_that_the_help_states() {
        let help = Command::command().render_long_help().to_string();
        assert!(help.contains("from 1ms to 1440m") && help.contains("from 0s to 1440m"), "{help}");
        assert!(
            parse("--duration 1ms --warmup 0s").is_ok() && parse("--duration 1440m --warmup 1440m").is_ok()
        );
        for (line, range) in [
            ("--duration 0s", "from 1ms to 1440m"),
            ("--duration -1s", "from 1ms to 1440m"),
            ("--duration 1441m", "from 1ms to 1440m"),
            ("--warmup -1s", "from 0s to 1440m"),
            ("--warmup 86401s", "from 0s to 1440m"),
        ] {
            let refused = parse(line).unwrap_err().to_string();
            assert!(refused.contains(range), "{line}: {refused}");
        }
    }

    #[test]
    fn what_a_kill_may_do_to_records_that_are_not_idempotent_is_told_before() {
        let warned = |line: &str| warning(&parse(line).unwrap()).unwrap_or_default();
        assert_eq!(warned("--kill"), "");
        assert_eq!(warned("--acks 1"), "");
        assert!(warned("--kill --acks 1").contains("repeated"));
        assert!(warned("--kill --idempotent false").contains("repeated"));
        assert!(warned("--kill --acks 0").contains("lost"));
    }

    #[test]
    fn runs_have_topics_and_marks_of_their_own_whatever_their_seed_and_process() {
        let [one, other] = [run_mark(), run_mark()].map(Result::unwrap);
        assert_ne!(one, other);
        assert_ne!(topic_of(one, "rate"), topic_of(other, "rate"));
        assert_ne!(topic_of(one, "rate"), topic_of(one, "maximum"));
    }

    #[test]
    fn only_the_embedded_broker_can_be_killed() {
        assert!(parse("--kill").is_ok());
        assert!(parse("--kill --bootstrap 127.0.0.1:9092").is_err());
        assert_eq!(parse("--routing node").unwrap().routing, RoutingName::Node);
        assert!(parse("--routing node --bootstrap 127.0.0.1:9092").is_err(), "another's is what it is");
        assert!(parse("--bootstrap 127.0.0.1:9092").is_ok());
        assert!(parse("--routing nodes").is_err());
        assert!(parse("--rate 0").is_err());
        assert!(parse("--consumers 0").is_err());
    }
}
