//! The metadata quorum in a simulated world: virtual time, one seed, a network that loses and repeats, disks that forget
//! what isn't flushed, and nodes that stop at any moment.
//!
//! Each seed is one history. What must hold in all of them is in `checks.rs`; how the world misbehaves in `world.rs`.

#[cfg(test)]
mod checks;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod random;
#[cfg(test)]
mod world;

#[cfg(test)]
mod tests {
    use super::world::{Setting, Summary, World};
    use std::panic::catch_unwind;

    /// Runs histories and adds up what happened in them, so that a test can tell that it tested something.
    fn run(setting: Setting, seeds: std::ops::Range<u64>) -> Summary {
        let mut total = Summary::default();
        for seed in seeds {
            let history = catch_unwind(|| World::new(setting, seed).run());
            match history {
                Ok(summary) => total.add(summary),
                Err(_) => panic!("{setting:?} broke with seed {seed}"),
            }
        }
        total
    }

    /// How many histories to run. Whoever changes the driver asks for thousands:
    /// `HISTORIES=3000 cargo test --release -p replication --test quorum`.
    fn histories(at_least: u64) -> u64 {
        let asked = std::env::var("HISTORIES").ok().and_then(|count| count.parse().ok());
        asked.unwrap_or(at_least).max(at_least)
    }

    #[test]
    fn a_node_alone_keeps_what_it_acknowledged() {
        let total = run(Setting::Alone, 0..histories(150));
        assert!(total.acknowledged > 2_000 && total.crashes > 400 && total.snapshots > 100, "{total:?}");
        assert!(total.forgotten_frames > 100, "{total:?}");
    }

    #[test]
    fn three_voters_agree_and_keep_what_they_acknowledged() {
        let total = run(Setting::Three, 0..histories(120));
        assert!(total.acknowledged > 2_000 && total.crashes > 400 && total.snapshots > 100, "{total:?}");
        assert!(total.installed > 20, "{total:?}");
    }

    #[test]
    fn a_quorum_that_grows_from_one_to_three_amid_faults_loses_nothing() {
        let wanted = histories(120);
        let total = run(Setting::Growing, 0..wanted);
        assert!(total.acknowledged > 2_000 && total.crashes > 400, "{total:?}");
        assert!(total.grown == usize::try_from(wanted).unwrap(), "{total:?}");
    }

    #[test]
    fn the_same_seed_is_the_same_history() {
        for seed in 900..905 {
            let first = World::new(Setting::Three, seed).run();
            assert_eq!(first, World::new(Setting::Three, seed).run());
        }
    }

    #[test]
    fn a_shell_that_says_durable_too_early_is_caught() {
        let caught = |setting: Setting| {
            let broken = |seed: &u64| catch_unwind(|| World::new(setting, *seed).lying().run()).is_err();
            (0..60).filter(broken).count()
        };
        let (alone, three) = (caught(Setting::Alone), caught(Setting::Three));
        assert!(alone > 20 && three > 5, "caught {alone} and {three} of 60");
    }
}
