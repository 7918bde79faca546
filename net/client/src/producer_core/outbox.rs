//! One partition's batches from acceptance to answer: the order they must have in the log, whatever happens on the way.
//!
//! ```text
//!   accepted            sent, oldest first                       queue, never sent
//!   and answered   [ Waiting  InFlight  InFlight ]  <- next   [ closed closed open ]
//! ```
//!
//! Rules, for an idempotent producer:
//! - A batch gets its sequence when it is first sent, in order. Until its fate is known it keeps it.
//! - What failed waits at its place. Nothing behind it is sent again before it, and nothing at all while something
//!   behind it is still under way.
//! - From the oldest batch on at most five are sent, those that came back included: that is how many brokers remember.
//! - Where a sequence was given up (a batch timed out or was refused), the sequence is *broken*: once nothing is under
//!   way and the oldest batch is known to be absent, all of them begin anew from 0 in a higher epoch. If the oldest is
//!   absent the others are, because a broker appends a sequence in order only.
//!
//! The epoch belongs to the partition, as the broker's memory of it does, so one partition's misfortune doesn't touch
//! the others.

use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;

use engine_record::{Instant, Producer};

use super::verdict::{Fate, Verdict};
use super::{IDEMPOTENT_IN_FLIGHT_MAX, Identity};
use crate::accumulator::{BatchId, BatchLimits, BatchQueue, BufferMemory, FailedBatch, QueuedBatch};
use crate::metadata::BrokerId;
use crate::random::{Backoff, Generator};
use crate::request::RequestId;

/// A batch that was sent at least once.
#[derive(Debug)]
struct SentBatch {
    batch: QueuedBatch,
    base_sequence: i32,
    /// The request it is under way in.
    in_flight: Option<RequestId>,
    fate: Fate,
    /// How many batches of the partition were sent before it.
    number: u64,
    /// An attempt has failed.
    is_retry: bool,
    /// Its time was over while it was under way: the application has been told.
    is_given_up: bool,
}

/// A batch that ended without being in the log for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undelivered {
    pub(crate) batch: BatchId,
    pub(crate) fate: Fate,
}

/// What an answer leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The batch is in the log.
    Appended(BatchId),
    /// It will be sent again.
    Waiting,
    /// It ended.
    Failed(Undelivered),
    /// The application was told before.
    Forgotten,
}

/// What may be sent to a partition's leader now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The sent batch with this index, again.
    Again(usize),
    /// The oldest batch of the queue.
    New,
}

/// What bounds sending, the same for all partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendRules<'a> {
    pub(crate) batches: &'a BatchLimits,
    pub(crate) in_flight_max: u32,
    pub(crate) is_idempotent: bool,
}

/// What an attempt's failure costs.
pub(crate) struct Setback<'a> {
    pub(crate) now: Instant,
    pub(crate) backoff: &'a Backoff,
    pub(crate) generator: &'a mut Generator,
    pub(crate) is_idempotent: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) queue: BatchQueue,
    sent: VecDeque<SentBatch>,
    /// Where the batches under way went; nothing goes elsewhere before they are back.
    in_flight_at: Option<BrokerId>,
    identity: Option<Identity>,
    next_sequence: i32,
    /// How many batches were ever sent.
    sent_count: u64,
    /// A sequence was given up: what follows must begin anew.
    is_broken: bool,
    /// A broker knows a newer epoch than ours: only another producer id helps.
    is_fenced: bool,
    failures: u32,
    retry_at: Option<Instant>,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.queue.is_empty()
    }

    fn in_flight_count(&self) -> usize {
        self.sent.iter().filter(|sent| sent.in_flight.is_some()).count()
    }

    /// What may go to `leader` now.
    pub(crate) fn next(&self, leader: BrokerId, rules: &SendRules<'_>, now: Instant) -> Option<Next> {
        let in_flight = self.in_flight_count();
        let is_elsewhere = in_flight > 0 && self.in_flight_at != Some(leader);
        let pauses = self.retry_at.is_some_and(|at| at > now);
        if is_elsewhere || pauses || in_flight >= rules.in_flight_max as usize {
            return None;
        }
        let waiting = self.sent.iter().position(|sent| sent.in_flight.is_none());
        // In these states the next step depends on what comes back.
        let one_at_a_time =
            if rules.is_idempotent { self.is_broken } else { self.sent.iter().any(|sent| sent.is_retry) };
        if one_at_a_time && in_flight > 0 {
            return None;
        }
        match waiting {
            Some(index) => {
                let is_overtaken = self.sent.range(index..).any(|sent| sent.in_flight.is_some());
                (!is_overtaken).then_some(Next::Again(index))
            }
            None if rules.is_idempotent && !self.is_remembered() => None,
            None => self.queue.ready_at(rules.batches, now).filter(|&at| at <= now).map(|_| Next::New),
        }
    }

    /// Whether the broker will still recognize the oldest batch if one more is sent. A batch that is answered with an
    /// error after its append stays in the list while those behind it leave; too many of them would push it out of the
    /// broker's memory, and its repetition would look like something missing.
    fn is_remembered(&self) -> bool {
        let oldest = self.sent.front().map_or(self.sent_count, |sent| sent.number);
        self.sent_count - oldest < u64::from(IDEMPOTENT_IN_FLIGHT_MAX)
    }

    /// Size of what [`Outbox::next`] named; a batch of the queue counts as `batch_bytes`.
    pub(crate) fn next_bytes(&self, next: Next, batch_bytes: usize) -> usize {
        match next {
            Next::Again(index) => self.sent.get(index).map_or(0, |sent| sent.batch.sealed.batch_bytes()),
            Next::New => batch_bytes,
        }
    }

    fn may_restart(&self) -> bool {
        let is_oldest_absent = self.sent.front().is_none_or(|sent| sent.fate == Fate::Absent);
        self.is_broken && is_oldest_absent && self.in_flight_count() == 0
    }

    /// The identity a new sequence would have, made from ours where that is possible.
    fn successor(&self) -> Option<Identity> {
        self.identity.filter(|_| !self.is_fenced).and_then(Identity::next_epoch)
    }

    /// Whether sending needs another identity than `offered`.
    pub(crate) fn lacks_identity(&self, offered: Option<Identity>) -> bool {
        let needs_one = self.identity.is_none() || (self.may_restart() && self.successor().is_none());
        needs_one && !self.is_empty() && !self.takes(offered)
    }

    fn takes(&self, offered: Option<Identity>) -> bool {
        offered.is_some_and(|offered| self.identity.is_none_or(|ours| ours.id != offered.id))
    }

    /// Makes the sequence fit to be continued; `false` where another identity than `offered` is needed first.
    pub(crate) fn prepare(&mut self, offered: Option<Identity>) -> bool {
        if self.lacks_identity(offered) {
            return false;
        }
        if self.may_restart() {
            self.identity = self.successor().or(offered);
            self.number_from_zero();
        } else if self.identity.is_none() {
            self.identity = offered;
        }
        self.identity.is_some()
    }

    fn number_from_zero(&mut self) {
        self.is_broken = false;
        self.is_fenced = false;
        self.next_sequence = 0;
        for sent in &mut self.sent {
            assert!(sent.in_flight.is_none(), "a batch under way keeps its sequence");
            sent.base_sequence = self.next_sequence;
            sent.fate = Fate::Absent;
            self.next_sequence = sequence_after(self.next_sequence, sent.batch.sealed.record_count());
        }
    }

    /// Puts a batch under way. `None` where the queue is empty.
    ///
    /// # Errors
    /// The batch's codec failed; it is gone.
    pub(crate) fn send(
        &mut self,
        next: Next,
        (request, leader): (RequestId, BrokerId),
        rules: &SendRules<'_>,
        memory: &mut BufferMemory,
    ) -> Option<Result<Rc<Vec<u8>>, FailedBatch>> {
        let index = match next {
            Next::Again(index) => index,
            Next::New => match self.queue.take(rules.batches, memory)? {
                Ok(batch) => self.append_to_sent(batch),
                Err(failed) => return Some(Err(failed)),
            },
        };
        self.in_flight_at = Some(leader);
        let identity = self.identity.filter(|_| rules.is_idempotent);
        let sent = self.sent.get_mut(index)?;
        sent.in_flight = Some(request);
        sent.batch.sealed.stamp(producer(identity, sent.base_sequence));
        Some(Ok(sent.batch.sealed.bytes()))
    }

    fn append_to_sent(&mut self, batch: QueuedBatch) -> usize {
        let base_sequence = self.next_sequence;
        self.next_sequence = sequence_after(base_sequence, batch.sealed.record_count());
        self.sent.push_back(SentBatch {
            batch,
            base_sequence,
            in_flight: None,
            fate: Fate::Absent,
            number: self.sent_count,
            is_retry: false,
            is_given_up: false,
        });
        self.sent_count += 1;
        self.sent.len() - 1
    }

    /// Takes the answer for the batch that was under way in `request`.
    pub(crate) fn settle(
        &mut self,
        request: RequestId,
        verdict: Verdict,
        setback: &mut Setback<'_>,
        memory: &mut BufferMemory,
    ) -> Settled {
        let Some(index) = self.sent.iter().position(|sent| sent.in_flight == Some(request)) else {
            return Settled::Forgotten;
        };
        let sent = &mut self.sent[index];
        sent.in_flight = None;
        sent.is_retry = true;
        match verdict {
            Verdict::Appended => return self.complete(index, memory),
            Verdict::Retry(fate) => sent.fate = sent.fate.max(fate),
            Verdict::OutOfSequence if setback.is_idempotent => {
                sent.fate = Fate::Absent;
                self.is_broken |= index == 0;
            }
            Verdict::Fenced if setback.is_idempotent && sent.fate == Fate::Absent => {
                self.is_broken = true;
                self.is_fenced = true;
            }
            Verdict::OutOfSequence | Verdict::Fenced => return self.end(index, memory),
            Verdict::Refused(fate) => {
                sent.fate = sent.fate.max(fate);
                return self.end(index, memory);
            }
        }
        self.pause(setback);
        if self.sent[index].is_given_up { self.end(index, memory) } else { Settled::Waiting }
    }

    fn complete(&mut self, index: usize, memory: &mut BufferMemory) -> Settled {
        self.failures = 0;
        self.retry_at = None;
        let sent = self.sent.remove(index).expect("the index was found in the list");
        let id = sent.batch.id;
        memory.release(sent.batch);
        if sent.is_given_up { Settled::Forgotten } else { Settled::Appended(id) }
    }

    /// Gives a batch up that is not under way: what follows it can't continue its sequence.
    fn end(&mut self, index: usize, memory: &mut BufferMemory) -> Settled {
        let sent = self.sent.remove(index).expect("the index was found in the list");
        assert!(sent.in_flight.is_none(), "a batch under way is kept until it is back");
        self.is_broken = true;
        let undelivered = Undelivered { batch: sent.batch.id, fate: sent.fate };
        memory.release(sent.batch);
        if sent.is_given_up { Settled::Forgotten } else { Settled::Failed(undelivered) }
    }

    /// Several batches that fail together count as one failure.
    fn pause(&mut self, setback: &mut Setback<'_>) {
        if self.retry_at.is_none_or(|at| at <= setback.now) {
            self.failures = self.failures.saturating_add(1);
            let delay = setback.backoff.delay(self.failures, setback.generator);
            self.retry_at = Some(setback.now.after(delay));
        }
    }

    /// Gives up what is older than `timeout`, oldest first. What is under way stays until it is back.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        timeout: Duration,
        memory: &mut BufferMemory,
    ) -> Vec<Undelivered> {
        let is_over = |began: Instant| began.after(timeout) <= now;
        let mut over = Vec::new();
        let mut index = 0;
        while let Some(sent) = self.sent.get_mut(index).filter(|sent| is_over(sent.batch.began)) {
            if sent.in_flight.is_none() {
                over.push(self.end(index, memory));
                continue;
            }
            let told_before = core::mem::replace(&mut sent.is_given_up, true);
            let undelivered = Undelivered { batch: sent.batch.id, fate: Fate::Unknown };
            over.push(if told_before { Settled::Forgotten } else { Settled::Failed(undelivered) });
            index += 1;
        }
        let mut undelivered: Vec<_> = over.into_iter().filter_map(Settled::undelivered).collect();
        while self.queue.oldest_began().is_some_and(is_over) {
            undelivered
                .extend(self.queue.discard(memory).map(|batch| Undelivered { batch, fate: Fate::Absent }));
        }
        undelivered
    }

    /// The topic was deleted and created again: nothing that was sent before is in the new one.
    pub(crate) fn begin_anew(&mut self) {
        for sent in &mut self.sent {
            sent.fate = Fate::Absent;
        }
        self.is_broken = !self.sent.is_empty() || self.next_sequence != 0;
        self.retry_at = None;
    }

    /// A new leader is known: there is no reason to wait longer.
    pub(crate) const fn hurry(&mut self) {
        self.retry_at = None;
    }

    /// When time alone will change what [`Outbox::next`] or [`Outbox::expire`] say.
    pub(crate) fn wake_at(&self, rules: &SendRules<'_>, timeout: Duration, now: Instant) -> Option<Instant> {
        let untold = self.sent.iter().find(|sent| !sent.is_given_up).map(|sent| sent.batch.began);
        let oldest = untold.or_else(|| self.queue.oldest_began());
        let expiry = oldest.map(|began| began.after(timeout));
        let ready = self.queue.ready_at(rules.batches, now).filter(|&at| at > now);
        let retry = self.retry_at.filter(|&at| at > now);
        [expiry, ready, retry].into_iter().flatten().min()
    }
}

impl Settled {
    const fn undelivered(self) -> Option<Undelivered> {
        match self {
            Self::Failed(undelivered) => Some(undelivered),
            Self::Appended(_) | Self::Waiting | Self::Forgotten => None,
        }
    }
}

fn producer(identity: Option<Identity>, base_sequence: i32) -> Producer {
    identity.map_or(Producer::NONE, |Identity { id, epoch }| Producer { id, epoch, base_sequence })
}

/// The sequence `count` records after `sequence`: after 2^31 - 1 comes 0.
fn sequence_after(sequence: i32, count: u32) -> i32 {
    let after = i64::from(sequence) + i64::from(count);
    i32::try_from(after & i64::from(i32::MAX)).expect("31 bits fit an i32")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_wraps_to_zero() {
        assert_eq!(sequence_after(i32::MAX, 1), 0);
        assert_eq!(sequence_after(i32::MAX - 1, 3), 1);
        assert_eq!(sequence_after(0, 7), 7);
    }
}
