//! Whole runs on the simulated seam, against the tiny cluster of the client's tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[expect(dead_code, reason = "the client's tests use more of it")]
#[path = "../../../net/client/tests/broker/mod.rs"]
mod broker;

use core::time::Duration;

use broker::Cluster;
use engine_io::Io;
use engine_record::Compression;
use loadgen::{Bottleneck, Keys, LoadPlan, Outcome, Pace, Report, ShardPart, prepare, run_shard};
use net_client::{Acks, Resolver};
use sim::{Sim, SimNode};

struct Setting {
    sim: Sim,
    cluster: Cluster,
    broker: SimNode,
    client: SimNode,
}

impl Setting {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let (broker, client) = (sim.node(), sim.node());
        let cluster = Cluster::default();
        cluster.start(1, &broker);
        Self { sim, cluster, broker, client }
    }

    fn plan(&self, pace: Pace) -> LoadPlan {
        LoadPlan {
            bootstrap: vec![format!("{}:9092", self.broker.address())],
            pace,
            record_bytes: 100,
            batch_bytes: 1_000,
            partitions: 3,
            duration: Duration::from_millis(300),
            warmup: Duration::from_millis(100),
            interval: Duration::from_millis(100),
            ..LoadPlan::default()
        }
    }

    /// Carries the plan out on two shards, and `meanwhile` beside it.
    fn run(&self, plan: &LoadPlan, meanwhile: impl AsyncFnOnce()) -> Outcome {
        let shards = [self.client.io(), self.client.io()];
        self.sim.block_on(async {
            let prepared = prepare(&shards[0], plan, &Resolver::default()).await.unwrap();
            let start = shards[0].now().after(Duration::from_millis(50));
            let part =
                |shard| ShardPart { shard, shards: 2, start, snapshots: None, resolver: Resolver::default() };
            let first = run_shard(&shards[0], plan, &prepared, part(0));
            let second = run_shard(&shards[1], plan, &prepared, part(1));
            let both = futures_lite::future::zip(first, second);
            let ((first, second), ()) = futures_lite::future::zip(both, meanwhile()).await;
            let mut outcome = first.unwrap();
            outcome.merge(&second.unwrap());
            outcome
        })
    }
}

/// Simulated threads take no processor time.
fn report(plan: &LoadPlan, outcome: &Outcome) -> Report {
    Report::new(plan, outcome, &[])
}

fn check_clean(plan: &LoadPlan, outcome: &Outcome) -> Report {
    let report = report(plan, outcome);
    let verdict = report.verdict.unwrap();
    assert!(verdict.is_clean(), "{report:?}");
    assert!(verdict.acknowledged > 0, "{report:?}");
    assert_eq!(verdict.acknowledged, verdict.read_back);
    assert!(report.is_drained);
    report
}

#[test]
fn an_open_loop_offers_what_was_asked_and_reads_it_all_back() {
    let setting = Setting::new(1);
    let plan =
        LoadPlan { producers: 3, consumers: 2, ..setting.plan(Pace::Open { records_per_second: 10_000 }) };
    let outcome = setting.run(&plan, async || {});
    let report = check_clean(&plan, &outcome);
    assert!((report.offered.records_per_second - 10_000.0).abs() < 20.0, "{report:?}");
    let verified = report.verdict.unwrap().acknowledged;
    assert!((4_000..4_003).contains(&verified), "warm-up is verified too: {verified}");
    assert_eq!((report.bottleneck, report.is_valid), (Bottleneck::None, true), "{report:?}");
    assert!(report.produce_latency.p50 >= report.service_latency.p50, "{report:?}");
    assert!(report.end_to_end_latency.count > 2_900, "{report:?}");
    assert!(outcome.intervals.len() >= 4);
}

/// What is made here comes at once, then nothing until everything that lingers has: long after the end.
#[test]
fn a_load_that_can_not_be_made_ends_all_the_same_and_what_was_never_sent_is_told() {
    let setting = Setting::new(9);
    let mut plan = LoadPlan {
        linger: Duration::from_secs(4),
        overrun_max: Duration::from_millis(100),
        ..setting.plan(Pace::Open { records_per_second: 10_000 })
    };
    let outcome = setting.run(&plan, async || {});
    let report = check_clean(&plan, &outcome);
    assert_eq!((report.never_sent, report.is_valid), (3_000, false), "{report:?}");
    assert!((report.offered.records_per_second - 10_000.0).abs() < 1.0, "{report:?}");
    assert_eq!(report.verdict.unwrap().acknowledged, 1, "{report:?}");

    plan.overrun_max = Duration::from_secs(5);
    plan.topic = "given-time".to_owned();
    let outcome = setting.run(&plan, async || {});
    let report = check_clean(&plan, &outcome);
    assert_eq!(report.never_sent, 0, "{report:?}");
    assert!((4_000..4_003).contains(&report.verdict.unwrap().acknowledged), "{report:?}");
}

/// A broker with thousands of partitions is asked where they end as often as one with three.
#[test]
fn where_partitions_end_is_asked_once_for_all_of_them() {
    let requests = |partitions| {
        let setting = Setting::new(8);
        let plan = LoadPlan {
            partitions,
            acks: Acks::None,
            is_idempotent: false,
            ..setting.plan(Pace::Open { records_per_second: 1 })
        };
        assert!(setting.run(&plan, async || {}).is_drained);
        setting.cluster.request_count()
    };
    let (few, many) = (requests(3), requests(300));
    assert!(many < few + 50, "{many} requests for 300 partitions, {few} for 3");
}

#[test]
fn a_closed_loop_goes_as_fast_as_answers_come() {
    let setting = Setting::new(2);
    let plan = LoadPlan {
        keys: Keys::Cycle { count: 50 },
        compression: Compression::Lz4,
        ..setting.plan(Pace::Closed { batches_in_flight: 3 })
    };
    let outcome = setting.run(&plan, async || {});
    let report = check_clean(&plan, &outcome);
    assert_eq!(report.bottleneck, Bottleneck::Broker, "{report:?}");
    assert!(report.acknowledged.records_per_second > 1_000.0, "{report:?}");
}

#[test]
fn broken_connections_in_the_middle_lose_nothing_that_was_promised() {
    for seed in 0..3 {
        let setting = Setting::new(seed);
        let plan = LoadPlan { producers: 2, ..setting.plan(Pace::Open { records_per_second: 5_000 }) };
        let io = setting.client.io();
        let breaking = async || {
            for _ in 0..6 {
                io.sleep(Duration::from_millis(60)).await;
                setting.sim.network().reset_connections(&setting.broker);
            }
        };
        let outcome = setting.run(&plan, breaking);
        let report = check_clean(&plan, &outcome);
        assert_eq!(report.failed, 0, "{report:?}");
    }
}

/// The producers' memory is full before the broker is back, so they can't send in time.
#[test]
fn a_broker_that_stands_still_is_what_limits_the_load_and_the_generator_is_not_blamed() {
    let setting = Setting::new(10);
    let plan = LoadPlan {
        record_bytes: 1 << 20,
        batch_bytes: 1 << 20,
        consumers: 0,
        duration: Duration::from_secs(2),
        ..setting.plan(Pace::Open { records_per_second: 60 })
    };
    let io = setting.client.io();
    let outcome = setting.run(&plan, async || {
        io.sleep(Duration::from_millis(200)).await;
        setting.sim.network().cut(&setting.client, &setting.broker);
        io.sleep(Duration::from_millis(1_700)).await;
        setting.sim.network().heal();
    });
    let report = report(&plan, &outcome);
    assert!(report.late > 0 && report.worst_lateness > 500_000_000, "{report:?}");
    assert_eq!((report.own_late, report.never_sent, report.failed), (0, 0, 0), "{report:?}");
    assert_eq!((report.bottleneck, report.is_valid), (Bottleneck::Broker, true), "{report:?}");
}

/// A topic whose broker lets some batches vanish after it promised them: the ledger must see it.
#[test]
fn a_broker_that_loses_or_repeats_records_is_found_out() {
    let setting = Setting::new(3);
    let plan = setting.plan(Pace::Open { records_per_second: 5_000 });
    let cluster = setting.cluster.clone();
    let io = setting.client.io();
    let outcome = setting.run(&plan, async || {
        io.sleep(Duration::from_millis(200)).await;
        cluster.answers_without_appending("bench", 0, 2);
        io.sleep(Duration::from_millis(100)).await;
        cluster.appends_twice("bench", 1, 3);
    });
    let verdict = report(&plan, &outcome).verdict.unwrap();
    assert!(verdict.lost > 0 && verdict.lost <= 20, "{verdict}");
    assert!(verdict.repeated > 0 && verdict.repeated <= 30, "{verdict}");
    assert!(!verdict.is_clean());
}

/// Whoever looks only once, while the load runs, finds all of it.
#[test]
fn what_was_read_and_deleted_before_the_end_is_lost() {
    let setting = Setting::new(31);
    let plan = setting.plan(Pace::Open { records_per_second: 5_000 });
    let (cluster, io) = (setting.cluster.clone(), setting.client.io());
    let outcome = setting.run(&plan, async || {
        io.sleep(Duration::from_millis(300)).await;
        (0..3).for_each(|partition| cluster.deletes_what_is_there("bench", partition));
    });
    let report = report(&plan, &outcome);
    let verdict = report.verdict.unwrap();
    let left: usize = (0..3).map(|partition| cluster.values("bench", partition).len()).sum();
    assert_eq!((verdict.read_back, verdict.repeated), (u64::try_from(left).unwrap(), 0), "{report:?}");
    assert_eq!(verdict.lost, verdict.acknowledged - verdict.read_back);
    assert!(verdict.lost > 1_000 && report.is_drained && !report.is_clean(), "{report:?}");
    assert!(report.gaps.iter().all(|gap| gap.contains("by retention or deletion")), "{report:?}");
    // Whoever reads along may be a batch behind what is deleted, and says so.
    assert_eq!(report.gaps.len(), 3);
}

#[test]
fn a_tail_that_vanishes_is_lost_and_the_run_is_reported_all_the_same() {
    for (seed, ms) in [(32, 250), (33, 430), (34, 449)] {
        let setting = Setting::new(seed);
        let plan = LoadPlan {
            drain_timeout: Duration::from_secs(2),
            ..setting.plan(Pace::Open { records_per_second: 5_000 })
        };
        let (cluster, io, gone) = (setting.cluster.clone(), setting.client.io(), core::cell::Cell::new(0));
        let outcome = setting.run(&plan, async || {
            io.sleep(Duration::from_millis(ms)).await;
            gone.set((0..3).map(|partition| cluster.truncates("bench", partition, 3)).sum());
        });
        let report = report(&plan, &outcome);
        let verdict = report.verdict.unwrap();
        assert_eq!((verdict.lost, verdict.repeated), (gone.get(), 0), "{ms} ms: {report:?}");
        assert!(gone.get() > 0 && report.is_drained, "{ms} ms: {report:?}");
        let is_told = report.gaps.iter().any(|gap| gap.contains("ends at offset"));
        assert!(is_told || ms == 250, "{ms} ms: {report:?}");
    }
}

/// Half a second after the start the records are read again, and not yet to their end.
#[test]
fn what_goes_while_it_is_read_again_is_lost_and_told() {
    type Harm = fn(&Cluster, usize);
    let harms: [(Harm, &str); 2] = [
        (|cluster, partition| cluster.deletes_what_is_there("bench", partition), "by retention or deletion"),
        (|cluster, partition| assert!(cluster.truncates("bench", partition, 3) > 0), "ends at offset"),
    ];
    for (harm, told) in harms {
        let setting = Setting::new(37);
        let plan = LoadPlan {
            drain_timeout: Duration::from_secs(2),
            ..setting.plan(Pace::Open { records_per_second: 5_000 })
        };
        let (cluster, io) = (setting.cluster.clone(), setting.client.io());
        let outcome = setting.run(&plan, async || {
            io.sleep(Duration::from_millis(550)).await;
            (0..3).for_each(|partition| harm(&cluster, partition));
        });
        let report = report(&plan, &outcome);
        let verdict = report.verdict.unwrap();
        assert!(verdict.lost > 0 && verdict.read_back > 0, "{report:?}");
        assert!(report.is_drained && report.reading_ended.is_none(), "{report:?}");
        assert!(report.gaps.len() == 3 && report.gaps.iter().all(|gap| gap.contains(told)), "{report:?}");
    }
}

#[test]
fn a_partition_that_can_not_be_read_again_is_told_and_the_others_are_verified() {
    let setting = Setting::new(35);
    let plan = LoadPlan {
        drain_timeout: Duration::from_secs(2),
        ..setting.plan(Pace::Open { records_per_second: 5_000 })
    };
    let (cluster, io) = (setting.cluster.clone(), setting.client.io());
    let outcome = setting.run(&plan, async || {
        io.sleep(Duration::from_millis(300)).await;
        cluster.storage_fails("bench", 1, true);
    });
    let report = report(&plan, &outcome);
    assert!(!report.is_drained && report.reading_ended.is_some(), "{report:?}");
    assert_eq!(report.gaps.len(), 1, "{report:?}");
    assert!(report.gaps[0].contains("partition 1 can't be read"), "{report:?}");
    let verdict = report.verdict.unwrap();
    let stored = u64::try_from(cluster.values("bench", 1).len()).unwrap();
    assert_eq!((verdict.lost, verdict.repeated), (stored, 0), "{report:?}");
}

/// A topic may hold records of others, also of a run with the same seed.
#[test]
fn another_run_of_the_same_seed_in_the_same_topic_is_told_from_this_one() {
    let setting = Setting::new(36);
    let first = setting.plan(Pace::Open { records_per_second: 5_000 });
    let second = LoadPlan { run_mark: 2, ..first.clone() };
    let shard = setting.client.io();
    let other = async |plan: &LoadPlan| {
        let prepared = prepare(&shard, plan, &Resolver::default()).await.unwrap();
        let part = ShardPart {
            shard: 0,
            shards: 1,
            start: shard.now().after(Duration::from_millis(20)),
            snapshots: None,
            resolver: Resolver::default(),
        };
        run_shard(&shard, plan, &prepared, part).await.unwrap()
    };
    let others = core::cell::Cell::new(None);
    let outcome = setting.run(&first, async || others.set(Some(other(&second).await)));
    check_clean(&first, &outcome);
    check_clean(&second, &others.take().unwrap());
}

#[test]
fn every_level_of_acks_is_verified() {
    for (seed, acks) in [(5, Acks::None), (6, Acks::Leader)] {
        let setting = Setting::new(seed);
        let plan =
            LoadPlan { acks, is_idempotent: false, ..setting.plan(Pace::Open { records_per_second: 5_000 }) };
        let outcome = setting.run(&plan, async || {});
        check_clean(&plan, &outcome);
    }
}

/// With acks=1 a broker may acknowledge before anyone may read.
#[test]
fn what_was_promised_is_waited_for_where_the_broker_doesn_t_show_it_yet() {
    let setting = Setting::new(7);
    let pace = Pace::Open { records_per_second: 5_000 };
    let plan = LoadPlan { acks: Acks::Leader, is_idempotent: false, ..setting.plan(pace) };
    let (cluster, io) = (setting.cluster.clone(), setting.client.io());
    let outcome = setting.run(&plan, async || {
        io.sleep(Duration::from_millis(200)).await;
        cluster.hides_what_comes("bench", 0);
        io.sleep(Duration::from_secs(5)).await;
        cluster.shows_everything("bench", 0);
    });
    check_clean(&plan, &outcome);
}
