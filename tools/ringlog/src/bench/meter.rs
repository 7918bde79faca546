//! What broker and generator used while a load was measured.

use std::time::Duration;

use engine_record::Instant;
use serde::Serialize;

use super::broker::Broker;
use super::counters::Counters;
use super::cpu;
use crate::failure::Failure;

/// What was used within the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Usage {
    /// How long the window was, in seconds.
    pub(super) seconds: f64,
    /// The generator's processor time, in cores.
    pub(super) generator_cores: f64,
    /// What the embedded broker did; absent with any other.
    pub(super) broker: Option<BrokerUsage>,
}

/// What the embedded broker did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct BrokerUsage {
    /// Its processor time, in cores.
    pub(super) cores: f64,
    /// What it counted.
    #[serde(flatten)]
    pub(super) counters: Counters,
}

/// The state of the counters at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    own_cpu: Duration,
    broker_cpu: Duration,
    counters: Counters,
}

impl Sample {
    fn take(broker: Option<&Broker>) -> Result<Self, Failure> {
        let own_cpu = cpu::used_by(std::process::id()).map_err(Failure::failed)?;
        let Some(broker) = broker else { return Ok(Self { own_cpu, ..Self::default() }) };
        let broker_cpu = broker.cpu_time().map_err(Failure::failed)?;
        Ok(Self { own_cpu, broker_cpu, counters: broker.counters().map_err(Failure::failed)? })
    }
}

/// Measures from [`Meter::begin`] to [`Meter::end`]; a broker that is restarted begins to count anew in between.
#[derive(Debug, Default)]
pub(super) struct Meter {
    began: Option<(Instant, Duration)>,
    /// Of the broker process that runs.
    base: Sample,
    /// Of broker processes that were killed.
    cpu: Duration,
    counters: Counters,
}

impl Meter {
    pub(super) fn begin(&mut self, at: Instant, broker: Option<&Broker>) -> Result<(), Failure> {
        let sample = Sample::take(broker)?;
        self.began = Some((at, sample.own_cpu));
        self.base = sample;
        Ok(())
    }

    /// The broker is about to be killed. The next one counts from 0.
    pub(super) fn kill(&mut self, broker: &Broker) -> Result<(), Failure> {
        self.add(&Sample::take(Some(broker))?);
        self.base = Sample::default();
        Ok(())
    }

    pub(super) fn end(&mut self, at: Instant, broker: Option<&Broker>) -> Result<Usage, Failure> {
        let sample = Sample::take(broker)?;
        self.add(&sample);
        let (began, own_cpu) = self.began.unwrap_or((at, sample.own_cpu));
        let seconds = at.since(began).as_secs_f64();
        let cores = |cpu: Duration| if seconds > 0.0 { cpu.as_secs_f64() / seconds } else { 0.0 };
        Ok(Usage {
            seconds,
            generator_cores: cores(sample.own_cpu.saturating_sub(own_cpu)),
            broker: broker.map(|_| BrokerUsage { cores: cores(self.cpu), counters: self.counters }),
        })
    }

    fn add(&mut self, sample: &Sample) {
        self.cpu += sample.broker_cpu.saturating_sub(self.base.broker_cpu);
        self.counters = self.counters + (sample.counters - self.base.counters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, flushes: u64) -> Sample {
        let counters = Counters { flushes, ..Counters::default() };
        Sample { broker_cpu: Duration::from_secs(seconds), counters, ..Sample::default() }
    }

    #[test]
    fn a_restarted_broker_is_counted_with_the_one_that_was_killed() {
        let mut meter = Meter { base: sample(10, 100), ..Meter::default() };
        meter.add(&sample(12, 130));
        meter.base = Sample::default();
        meter.add(&sample(1, 7));
        assert_eq!((meter.cpu, meter.counters.flushes), (Duration::from_secs(3), 37));
    }

    #[test]
    fn without_a_broker_of_its_own_only_the_generator_is_measured() {
        let mut meter = Meter::default();
        meter.begin(Instant::from_nanos(0), None).unwrap();
        let usage = meter.end(Instant::from_nanos(2_000_000_000), None).unwrap();
        assert_eq!((usage.seconds, usage.broker), (2.0, None));
    }
}
