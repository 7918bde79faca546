//! Mutated frames on many short connections.

use std::net::SocketAddr;

use integration::Random;
use integration::connection::{Connection, NoAnswer};

use crate::catalogue::Catalogue;
use crate::mutation::{Next, next_frame};

/// Frames that go out in one write at most. Few, since the broker reads none after the first that it refuses.
const FRAMES_PER_CONNECTION_MAX: usize = 3;

/// One connection in so many is reset at once, as by a client that dies.
const DIES_IN: usize = 4;

/// One attacker's work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    pub(crate) address: SocketAddr,
    /// How many random or mutated frames the broker must have read; the valid ones between them don't count.
    pub(crate) mutated: usize,
    pub(crate) seed: u64,
}

/// How the broker answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// Frames that were sent.
    sent: usize,
    /// Of these, those that the broker is known to have read; see [`read`].
    read: usize,
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
            let frames: Vec<_> = (0..).take(count).map(|id| next_frame(catalogue, &mut random, id)).collect();
            outcome.connections += 1;
            outcome.sent += count;
            self.send(&frames, random.below(DIES_IN) == 0, &mut outcome);
        }
        outcome
    }

    /// Sends, and either dies at once or says that this was all and waits for the broker to be done with it.
    fn send(&self, frames: &[Next], dies: bool, outcome: &mut Outcome) {
        let mut connection = Connection::open(self.address);
        let bytes: Vec<_> = frames.iter().flat_map(|frame| &frame.bytes).copied().collect();
        match connection.send(&bytes) {
            Ok(()) => {}
            Err(NoAnswer::Closed) => outcome.closed += 1,
            Err(error) => panic!("the broker takes nothing from an attacker: {error}"),
        }
        if dies {
            return connection.reset();
        }
        connection.finish_sending();
        let mut answered = Vec::new();
        loop {
            match connection.receive() {
                Ok(answer) => answered.push(correlation_id(&answer)),
                Err(NoAnswer::Closed) => break outcome.closed += 1,
                Err(error) => panic!("a connection that will send no more isn't closed: {error}"),
            }
        }
        connection.reset();
        outcome.answers += answered.len();
        for frame in read(frames, &answered) {
            outcome.read += 1;
            outcome.mutated += usize::from(frame.is_mutated);
        }
    }
}

fn correlation_id(answer: &[u8]) -> u32 {
    let (id, _) = answer.split_first_chunk().expect("an answer begins with a correlation id");
    u32::from_be_bytes(*id)
}

/// The frames that the broker has read for certain, of those it got on a connection that it closed: those it answered, and
/// the next one behind these, at which it closed or which it had read when there was no more. Frames are numbered from 0.
///
/// Not those between that weren't answered: one with a wrong size may have swallowed the frames behind it.
fn read<'a>(frames: &'a [Next], answered: &'a [u32]) -> impl Iterator<Item = &'a Next> {
    let is_answered = |number: usize| answered.iter().any(|&id| usize::try_from(id) == Ok(number));
    let closed_at = (0..frames.len()).rfind(|&number| is_answered(number)).map_or(0, |last| last + 1);
    let is_read = move |number: usize| number == closed_at || is_answered(number);
    frames.iter().enumerate().filter(move |(number, _)| is_read(*number)).map(|(_, frame)| frame)
}

impl Outcome {
    pub(crate) const fn mutated(&self) -> usize {
        self.mutated
    }

    #[expect(clippy::print_stdout, reason = "an attack that reached nothing would show here")]
    pub(crate) fn print(&self) {
        let Self { sent, read, mutated, connections, answers, closed } = self;
        println!(
            "attacker: {sent} frames on {connections} connections, {read} known to be read, {mutated} of them random or \
             mutated; {answers} answers, {closed} closed"
        );
        assert!(*answers > 0, "valid frames among the others were answered");
    }
}

#[test]
fn frames_behind_the_first_that_was_refused_do_not_count() {
    let frames: Vec<_> = [1, 2, 3].map(|byte| Next { bytes: vec![byte], is_mutated: true }).into();
    let counted = |answered: &[u32]| read(&frames, answered).map(|frame| frame.bytes[0]).collect::<Vec<_>>();
    assert_eq!(counted(&[]), [1], "refused at once");
    assert_eq!(counted(&[0]), [1, 2]);
    assert_eq!(counted(&[1]), [2, 3], "the first wants no answer");
    assert_eq!(counted(&[0, 1, 2]), [1, 2, 3]);
    assert_eq!(counted(&[u32::MAX]), [1], "no number of a frame");
}
