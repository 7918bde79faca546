//! What is loaded, and from where.

use std::path::Path;
use std::time::Duration;

use net_client::Resolver;
use tuning::ProbeBounds;

use super::Arguments;
use super::broker::{BenchFolder, Broker, Emergency, Keep, Ports};
use super::load::Generator;
use super::report::{BenchReport, EmbeddedReport, PhaseReport};
use crate::client::Cluster;
use crate::failure::Failure;

/// How long the drive's own flush is measured before the load.
const FLUSH_PROBE: ProbeBounds = ProbeBounds { rounds_max: 1_000, time_max: Duration::from_secs(1) };

/// A broker, and the cores the load comes from.
pub(super) struct Setting {
    pub(super) generator: Generator,
    target: Target,
}

enum Target {
    /// Any broker.
    Elsewhere { bootstrap: Vec<String> },
    /// One that lives for the bench.
    Embedded { broker: Broker, report: EmbeddedReport },
}

impl Setting {
    /// What must not outlive the process is made through `emergency`.
    pub(super) fn new(arguments: &Arguments, emergency: Emergency) -> Result<Self, Failure> {
        let cores = tuning::usable_cores(Path::new("/")).map_err(Failure::machine)?.one_per_physical_core();
        match &arguments.bootstrap {
            Some(bootstrap) => {
                let found = Cluster { bootstrap: bootstrap.clone() }.find()?;
                let generator = Generator::new(cores, found.resolver().clone());
                Ok(Self { generator, target: Target::Elsewhere { bootstrap: found.bootstrap() } })
            }
            None => Self::embedded(arguments, &cores, emergency),
        }
    }

    fn embedded(arguments: &Arguments, cores: &[u32], emergency: Emergency) -> Result<Self, Failure> {
        let split = Split::of(cores);
        let keep = if arguments.keep { Keep::Yes } else { Keep::No };
        let ports = if arguments.kill { Ports::Fixed } else { Ports::Any };
        let folder = emergency.make_folder(|| BenchFolder::create(Path::new("."), keep))?;
        let flush = tuning::measure_flush(folder.path(), FLUSH_PROBE);
        let report = match flush {
            Ok(flush) => EmbeddedReport {
                folder: folder.path().to_owned(),
                is_kept: arguments.keep,
                routing: arguments.routing,
                cpus: split.broker.clone(),
                shares_cores: split.is_shared,
                drive_flush_p99_us: u64::try_from(flush.flush.p99().as_micros()).unwrap_or(u64::MAX),
            },
            Err(error) => {
                folder.clean_up().map_err(Failure::machine)?;
                return Err(Failure::machine(error));
            }
        };
        let broker = Broker::start(folder, &split.broker, (arguments.routing, ports), emergency)?;
        let mut generator = Generator::new(split.generator, Resolver::default());
        generator.shares_cores = split.is_shared;
        Ok(Self { generator, target: Target::Embedded { broker, report } })
    }

    /// Where the load goes.
    pub(super) fn bootstrap(&self) -> Vec<String> {
        match &self.target {
            Target::Elsewhere { bootstrap } => bootstrap.clone(),
            Target::Embedded { broker, .. } => broker.bootstrap().to_vec(),
        }
    }

    pub(super) const fn broker_mut(&mut self) -> Option<&mut Broker> {
        match &mut self.target {
            Target::Elsewhere { .. } => None,
            Target::Embedded { broker, .. } => Some(broker),
        }
    }

    pub(super) fn report(&self, phases: Vec<PhaseReport>) -> BenchReport {
        let (bootstrap, embedded) = match &self.target {
            Target::Elsewhere { bootstrap } => (bootstrap.clone(), None),
            Target::Embedded { broker, report } => (broker.bootstrap().to_vec(), Some(report.clone())),
        };
        BenchReport { bootstrap, embedded, generator_cpus: self.generator.cpus.clone(), phases }
    }

    pub(super) fn stop(self) -> Result<(), Failure> {
        match self.target {
            Target::Elsewhere { .. } => Ok(()),
            Target::Embedded { broker, .. } => broker.stop(),
        }
    }
}

/// Cores, divided between broker and generator.
#[derive(Debug, PartialEq, Eq)]
struct Split {
    broker: Vec<u32>,
    generator: Vec<u32>,
    is_shared: bool,
}

impl Split {
    /// Half the cores are the broker's, at least one; where there is only one, both live on it.
    fn of(cores: &[u32]) -> Self {
        let half = (cores.len() / 2).max(1);
        let (broker, rest) = cores.split_at(half.min(cores.len()));
        let is_shared = rest.is_empty();
        let generator = if is_shared { broker } else { rest };
        Self { broker: broker.to_vec(), generator: generator.to_vec(), is_shared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_broker_has_half_the_cores_and_a_lone_core_is_shared() {
        let split = |cores: &[u32]| {
            let Split { broker, generator, is_shared } = Split::of(cores);
            (broker, generator, is_shared)
        };
        assert_eq!(split(&[0, 1]), (vec![0], vec![1], false));
        assert_eq!(split(&[0, 2, 4]), (vec![0], vec![2, 4], false));
        assert_eq!(split(&[0, 1, 2, 3]), (vec![0, 1], vec![2, 3], false));
        assert_eq!(split(&[5]), (vec![5], vec![5], true));
    }
}
