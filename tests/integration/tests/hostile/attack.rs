//! Mutated frames on many short connections.

use std::net::SocketAddr;

use integration::Random;
use integration::connection::{Connection, NoAnswer};

use crate::catalogue::Catalogue;
use crate::mutation::next_frame;

/// Frames that go out in one write at most. Few, since the broker reads none after the first that it refuses.
const FRAMES_PER_CONNECTION_MAX: usize = 3;

/// One attacker's work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    pub(crate) address: SocketAddr,
    /// How many random or mutated frames to send; the valid ones between them don't count.
    pub(crate) mutated: usize,
    pub(crate) seed: u64,
}

/// How the broker answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    frames: usize,
    /// Of these, the random or mutated ones.
    mutated: usize,
    connections: usize,
    /// Frames that came back, in answer to whatever the broker could read.
    answers: usize,
    /// Connections that the broker closed.
    closed: usize,
}

impl Attack {
    pub(crate) fn run(&self, catalogue: &Catalogue) -> Outcome {
        let mut random = Random::new(self.seed);
        let mut outcome = Outcome::default();
        while outcome.mutated < self.mutated {
            let count = 1 + random.below(FRAMES_PER_CONNECTION_MAX);
            let mut bytes = Vec::new();
            for _ in 0..count {
                let next = next_frame(catalogue, &mut random);
                bytes.extend(next.bytes);
                outcome.mutated += usize::from(next.is_mutated);
            }
            outcome.frames += count;
            outcome.connections += 1;
            self.send(&bytes, random.below(2) == 0, &mut outcome);
        }
        outcome
    }

    /// Sends, and either dies at once or says that this was all and waits for the broker to be done with it.
    fn send(&self, bytes: &[u8], dies: bool, outcome: &mut Outcome) {
        let mut connection = Connection::open(self.address);
        match connection.send(bytes) {
            Ok(()) => {}
            Err(NoAnswer::Closed) => outcome.closed += 1,
            Err(error) => panic!("the broker takes nothing from an attacker: {error}"),
        }
        if dies {
            return connection.reset();
        }
        connection.finish_sending();
        loop {
            match connection.receive() {
                Ok(_) => outcome.answers += 1,
                Err(NoAnswer::Closed) => break outcome.closed += 1,
                Err(error) => panic!("a connection that will send no more isn't closed: {error}"),
            }
        }
        connection.reset();
    }
}

impl Outcome {
    pub(crate) const fn mutated(&self) -> usize {
        self.mutated
    }

    #[expect(clippy::print_stdout, reason = "an attack that reached nothing would show here")]
    pub(crate) fn print(&self) {
        let Self { frames, mutated, connections, answers, closed } = self;
        println!(
            "attacker: {frames} frames, {mutated} of them random or mutated, on {connections} connections; \
             {answers} answers, {closed} closed"
        );
        assert!(*answers > 0, "valid frames among the others were answered");
    }
}
