use loadgen::Verdict;

use super::super::counters::Counters;
use super::*;

const CLEAN: Verdict = Verdict {
    acknowledged: 2_500_000,
    read_back: 2_500_000,
    lost: 0,
    repeated: 0,
    out_of_order: 0,
    corrupt: 0,
    unknown: 0,
    unacknowledged_read: 0,
};

fn throughput(records_per_second: f64) -> Throughput {
    Throughput { records_per_second, megabytes_per_second: records_per_second * 1_024.0 / 1e6 }
}

/// Latencies around so many microseconds.
fn percentiles(microseconds: u64) -> Percentiles {
    let at = |percent: u64| microseconds * 1_000 * percent / 100;
    Percentiles {
        count: 1_000,
        p50: at(50),
        p90: at(90),
        p99: at(100),
        p99_9: at(150),
        p99_99: at(400),
        max: at(1_000),
    }
}

fn load(rate: Option<u64>) -> Report {
    Report {
        topic: "bench".to_owned(),
        partitions: 8,
        producers: 1,
        consumers: 1,
        record_bytes: 1_024,
        batch_bytes: 131_072,
        acks: -1,
        rate,
        seconds: 5.0,
        offered: throughput(500_100.0),
        acknowledged: throughput(500_000.0),
        read: throughput(499_000.0),
        produce_latency: percentiles(2_000),
        service_latency: percentiles(1_800),
        end_to_end_latency: percentiles(2_500),
        failed: 0,
        first_failure: None,
        never_sent: 0,
        late: 0,
        worst_lateness: 0,
        own_late: 0,
        worst_own_lateness: 0,
        bottleneck: if rate.is_some() { Bottleneck::None } else { Bottleneck::Broker },
        is_valid: true,
        processors: ProcessorShare { running: 0.871, waiting: Some(0.02), waiting_max: 0.02 },
        reading_ended: None,
        is_drained: true,
        gaps: Vec::new(),
        verdict: Some(CLEAN),
    }
}

fn phase(name: &'static str, rate: Option<u64>) -> PhaseReport {
    let counters = Counters {
        flushes: 5_000,
        bytes_flushed: 2_560_000_000,
        bytes_written: 2_580_000_000,
        bytes_read_tail: 2_500_000_000,
        bytes_read_warm: 0,
        bytes_read_cold: 60_000_000,
    };
    let broker = Some(BrokerUsage { cores: 0.91, counters });
    let usage = Usage { seconds: 5.0, generator_cores: 0.87, broker };
    PhaseReport { name, broker_was_killed: false, load: load(rate), usage, topic_is: Topic::Deleted }
}

fn report() -> BenchReport {
    BenchReport {
        bootstrap: vec!["127.0.0.1:40001".to_owned()],
        embedded: Some(EmbeddedReport {
            folder: "/data/ringlog-bench/1-0".into(),
            is_kept: false,
            cpus: vec![0],
            routing: RoutingName::Shard,
            shares_cores: false,
            drive_flush_p99_us: 1_234,
        }),
        generator_cpus: vec![1],
        phases: vec![phase("maximum", None), phase("rate", Some(300_000))],
    }
}

const TABLE: &str = "\
broker on CPU 0, generator on CPU 1
data in /data/ringlog-bench/1-0

                                                maximum           at a rate
                                            closed loop           open loop
load
  offered, records/s                            500,100             500,100
  offered, MB/s                                   512.1               512.1
  achieved, records/s                           500,000             500,000
  achieved, MB/s                                  512.0               512.0
  read, records/s                               499,000             499,000
  read, MB/s                                      511.0               511.0
produce latency from when a record was due / from when it was sent, us
  p50                                 1,000 /       900   1,000 /       900
  p90                                 1,800 /     1,620   1,800 /     1,620
  p99                                 2,000 /     1,800   2,000 /     1,800
  p99.9                               3,000 /     2,700   3,000 /     2,700
  p99.99                              8,000 /     7,200   8,000 /     7,200
  max                                20,000 /    18,000  20,000 /    18,000
end-to-end latency from when a record was due, us
  p50                                             1,250               1,250
  p90                                             2,250               2,250
  p99                                             2,500               2,500
  p99.9                                           3,750               3,750
  p99.99                                         10,000              10,000
  max                                            25,000              25,000
broker
  flushes/s                                       1,000               1,000
  batch bytes per flush                         512,000             512,000
  drive's own flush before, p99, us               1,234               1,234
  written to segments, MB                       2,580.0             2,580.0
  read from memory, MB                          2,500.0             2,500.0
  read from the page cache, MB                      0.0                 0.0
  read from the drive, MB                          60.0                60.0
  processor time, cores                            0.91                0.91
generator
  processor time, cores                            0.87                0.87
  busiest thread ran / waited, %         87 /         2      87 /         2
  bottleneck                                     broker                none

maximum: 2500000 acknowledged, 2500000 read back once and in order, 0 lost, 0 repeated, 0 out of order, 0 corrupt
at a rate: 2500000 acknowledged, 2500000 read back once and in order, 0 lost, 0 repeated, 0 out of order, 0 corrupt";

#[test]
fn both_loads_stand_in_one_table_with_every_unit_named() {
    let text = report().to_string();
    assert_eq!(text, TABLE, "\n{text}");
    assert!(report().is_ok());
}

#[test]
fn of_another_broker_only_the_outside_is_told() {
    let mut report = report();
    report.embedded = None;
    report.phases.iter_mut().for_each(|phase| phase.usage.broker = None);
    let text = report.to_string();
    assert!(text.starts_with("loaded 127.0.0.1:40001 from CPU 1; what the broker itself did is not known\n"));
    assert!(!text.contains("flushes"), "{text}");
}

#[test]
fn a_run_fails_where_a_promise_was_broken_or_none_was_made() {
    let failing = |change: fn(&mut Report)| {
        let mut report = report();
        change(&mut report.phases[1].load);
        !report.is_ok()
    };
    assert!(failing(|load| load.verdict = Some(Verdict { lost: 1, read_back: 2_499_999, ..CLEAN })));
    assert!(failing(|load| load.verdict = Some(Verdict { repeated: 1, ..CLEAN })));
    assert!(failing(|load| load.verdict = Some(Verdict { out_of_order: 1, ..CLEAN })));
    assert!(failing(|load| load.verdict = Some(Verdict { corrupt: 1, ..CLEAN })));
    assert!(failing(|load| load.verdict = Some(Verdict::default())));
    assert!(failing(|load| load.verdict = None));
    assert!(failing(|load| load.is_drained = false));
    assert!(!failing(|load| load.verdict = Some(Verdict { unknown: 5, unacknowledged_read: 5, ..CLEAN })));
}

#[test]
fn what_makes_the_figures_worth_less_is_said() {
    let mut report = report();
    report.phases[0].load.bottleneck = Bottleneck::Generator;
    report.phases[1].broker_was_killed = true;
    let load = &mut report.phases[1].load;
    load.first_failure = Some("too large".to_owned());
    (load.failed, load.late, load.worst_lateness, load.is_drained) = (7, 9, 12_500_000, false);
    load.never_sent = 1;
    load.gaps = (0..6).map(|partition| format!("partition {partition} ends")).collect();
    load.reading_ended = Some("out of range".to_owned());
    load.processors = ProcessorShare { running: 0.5, waiting: Some(0.42), waiting_max: 0.42 };
    report.phases[1].topic_is = Topic::LeftBehind;
    report.embedded.as_mut().unwrap().shares_cores = true;
    let text = report.to_string();
    for said in [
        "THEY SHARE THEM",
        "maximum: THE GENERATOR WAS THE BOTTLENECK",
        "at a rate, killed: 7 records could not be delivered, the first: too large",
        "at a rate, killed: sent too late: 9 records, the worst by 12.5 ms; the broker kept the generator waiting\n",
        "not everything that is there could be read again",
        "at a rate, killed: partition 3 ends\nat a rate, killed: and 2 more like these; --json has them all\n",
        "at a rate, killed: end-to-end latencies are those of what came before this: out of range\n",
        "at a rate, killed: THE HOST'S PROCESSORS WERE THE LIMIT: a thread of the generator waited for one 42 % of",
        "at a rate, killed: topic bench is left behind\n",
        "at a rate, killed: NEVER SENT: 1 record that",
    ] {
        assert!(text.contains(said), "{said}\n{text}");
    }
}

#[test]
fn programs_get_the_same_as_json() {
    let json: serde_json::Value = serde_json::from_str(&report().to_json()).unwrap();
    assert_eq!(json["ok"], true);
    assert_eq!(json["embedded"]["drive_flush_p99_us"], 1_234);
    assert_eq!(json["phases"][1]["load"]["rate"], 300_000);
    assert_eq!(json["phases"][0]["load"]["verdict"]["lost"], 0);
    assert_eq!(json["phases"][0]["load"]["processors"]["waiting"], 0.02);
    assert_eq!(json["phases"][0]["load"]["gaps"], serde_json::json!([]));
    assert_eq!(json["phases"][0]["topic_is"], "deleted");
    assert_eq!(json["phases"][0]["usage"]["broker"]["flushes"], 5_000);
}

#[test]
fn the_open_loop_is_a_part_of_what_was_achieved() {
    assert_eq!(phase("maximum", None).part_of_rate(60), Some(300_000));
    let mut idle = phase("maximum", None);
    idle.load.acknowledged = throughput(1.0);
    assert_eq!(idle.part_of_rate(60), None);
}

#[test]
fn thousands_are_divided_and_nothing_else() {
    let texts = [(0.0, 0), (999.0, 0), (1_000.0, 0), (1_234_567.89, 1), (-1_234.0, 0), (-123_456.0, 0)];
    let shown = texts.map(|(number, decimals)| thousands(number, decimals));
    assert_eq!(shown, ["0", "999", "1,000", "1,234,567.9", "-1,234", "-123,456"]);
}

#[test]
fn where_nothing_was_acknowledged_the_brokers_error_is_told() {
    let mut silent = phase("maximum", None);
    silent.load.acknowledged = throughput(0.0);
    assert_eq!(silent.part_of_rate(60), None);
    assert!(silent.why_nothing_was_acknowledged().contains("--duration"));
    silent.load.failed = 40;
    silent.load.first_failure = Some("refused by the broker: MESSAGE_TOO_LARGE (10)".to_owned());
    assert_eq!(
        silent.why_nothing_was_acknowledged(),
        "no record was acknowledged within the measured time; 40 could not be delivered, the first: \
         refused by the broker: MESSAGE_TOO_LARGE (10)"
    );
}
