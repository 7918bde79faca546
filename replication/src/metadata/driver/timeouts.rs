//! Election timeouts from a seed, so that one seed replays everything. The `raft` crate draws its own; these replace them.

use raft::StateRole;

/// The timeout in force, and when to draw the next.
pub(super) struct Timeouts {
    random: u64,
    election_ticks: usize,
    ticks: usize,
    drawn_for: Option<(u64, StateRole, u64)>,
}

impl Timeouts {
    pub(super) fn new(seed: u64, election_ticks: usize) -> Self {
        Self { random: seed, election_ticks, ticks: election_ticks, drawn_for: None }
    }

    /// The timeout for a node in this `(term, role, leader)`: another one whenever that changes or an election began.
    pub(super) fn ticks(&mut self, state: (u64, StateRole, u64), elected: bool) -> usize {
        if elected || self.drawn_for != Some(state) {
            self.drawn_for = Some(state);
            let spread = u64::try_from(self.election_ticks).unwrap_or(u64::MAX);
            let extra = usize::try_from(self.next() % spread).unwrap_or_default();
            self.ticks = self.election_ticks + extra;
        }
        assert!(
            (self.election_ticks..2 * self.election_ticks).contains(&self.ticks),
            "a timeout out of range"
        );
        self.ticks
    }

    /// SplitMix64: small, and good enough to keep candidates apart.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
