//! A partition that this shard leads: joins its log with the rule for its high watermark.

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Wake;

use engine_io::{Io, Signal, Wait};
use engine_record::{LeaderEpoch, NodeId, Offset};
use engine_store::{LogOffsets, PartitionLog, StoreError};
use replication::leader::{LeaderError, LeaderState, Progress};
use replication::metadata::image;

use crate::disk_space::DiskSpace;
use crate::settings::TopicSettings;

/// A partition led by this shard.
pub(crate) struct Partition<I: Io> {
    log: PartitionLog<I>,
    node: NodeId,
    settings: RefCell<Rc<TopicSettings>>,
    leader: RefCell<LeaderState>,
    /// How full the drive is that the log lies on.
    space: DiskSpace,
    /// Given when the high watermark or the log's start has moved, or the partition is closed.
    moved: Signal,
    /// Where the log started when that was last looked at.
    log_start: Cell<Offset>,
    closed: Cell<bool>,
    /// Whether that is because its log directory has failed.
    failed: Cell<bool>,
}

/// Why an offset isn't waited for any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReached {
    /// The partition was deleted, moved away, or its shard is stopping.
    Closed,
    /// Its log directory has failed.
    Failed,
    /// By the settings of now, fewer replicas are in sync than must be.
    TooFewInSync,
}

impl<I: Io> Partition<I> {
    /// Begins to lead the partition on `node`, as the metadata describe it.
    ///
    /// # Errors
    /// The metadata don't make this node the partition's leader.
    pub(crate) fn lead(
        node: NodeId,
        partition: &image::Partition,
        (log, space): (PartitionLog<I>, DiskSpace),
        settings: Rc<TopicSettings>,
    ) -> Result<Self, LeaderError> {
        let offsets = log.offsets();
        let leader = LeaderState::new(
            (node, partition.leader_epoch),
            settings.commit_rules(),
            &partition.replicas,
            &partition.isr,
            progress(&offsets),
            offsets.high_watermark,
        )?;
        log.advance_high_watermark(leader.high_watermark());
        let (moved, log_start) = (Signal::new(), Cell::new(offsets.log_start));
        let (leader, closed, failed) = (RefCell::new(leader), Cell::new(false), Cell::new(false));
        let settings = RefCell::new(settings);
        Ok(Self { log, node, settings, leader, space, moved, log_start, closed, failed })
    }

    pub(crate) fn log(&self) -> &PartitionLog<I> {
        &self.log
    }

    pub(crate) fn disk_space(&self) -> &DiskSpace {
        &self.space
    }

    /// The settings in force. They may be others after an await.
    pub(crate) fn settings(&self) -> Rc<TopicSettings> {
        Rc::clone(&self.settings.borrow())
    }

    /// Goes on by other settings, from the next batch on. What is committed by the new ones is so at once, and what is
    /// committed already stays.
    ///
    /// # Errors
    /// What the log refuses: it goes on by what it had.
    pub(crate) fn change_settings(&self, settings: Rc<TopicSettings>) -> Result<(), StoreError> {
        let (rules, log_config) = (settings.commit_rules(), settings.log_config());
        self.settings.replace(settings);
        let ruled = self.leader.borrow_mut().set_rules(rules);
        ruled.expect("min.insync.replicas is at least 1 where settings are set");
        let changed = self.log.set_config(log_config);
        self.advance();
        if !self.has_min_insync() {
            self.moved.notify();
        }
        changed
    }

    pub(crate) fn leader_epoch(&self) -> LeaderEpoch {
        self.leader.borrow().epoch()
    }

    /// Leads on as the metadata describe it now: in a later epoch, perhaps.
    ///
    /// # Errors
    /// The metadata don't make this node the partition's leader.
    pub(crate) fn follow(&self, partition: &image::Partition) -> Result<(), LeaderError> {
        if partition.leader_epoch <= self.leader_epoch() {
            return Ok(());
        }
        let offsets = self.log.offsets();
        let (epoch, rules) = ((self.node, partition.leader_epoch), self.settings().commit_rules());
        let (replicas, isr) = (&partition.replicas, &partition.isr);
        let leader =
            LeaderState::new(epoch, rules, replicas, isr, progress(&offsets), offsets.high_watermark)?;
        self.leader.replace(leader);
        self.advance();
        Ok(())
    }

    pub(crate) fn offsets(&self) -> LogOffsets {
        self.log.offsets()
    }

    /// Whether enough replicas are in sync for `acks=all`.
    pub(crate) fn has_min_insync(&self) -> bool {
        self.leader.borrow().has_min_insync()
    }

    /// Moves the high watermark as far as what is written and flushed allows, and tells those who wait what has moved.
    pub(crate) fn advance(&self) {
        let offsets = self.log.offsets();
        let high_watermark = {
            let mut leader = self.leader.borrow_mut();
            leader.advance(progress(&offsets));
            leader.high_watermark()
        };
        if high_watermark > offsets.high_watermark {
            self.log.advance_high_watermark(high_watermark);
        }
        let log_start_moved = self.log_start.replace(offsets.log_start) < offsets.log_start;
        if high_watermark > offsets.high_watermark || log_start_moved {
            self.moved.notify();
        }
    }

    /// Ends all waits; none begins any more.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.moved.notify();
    }

    /// Ends all waits: its log directory has failed.
    pub(crate) fn fail(&self) {
        self.failed.set(true);
        self.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// The next move of the high watermark, or the end of the partition.
    pub(crate) fn next_move(&self) -> Wait {
        self.moved.wait()
    }

    /// Resolves when the high watermark has reached `offset`, or can't before something else changes.
    pub(crate) async fn reached(&self, offset: Offset) -> Result<(), NotReached> {
        loop {
            let next = self.next_move();
            if self.offsets().high_watermark >= offset {
                return Ok(());
            }
            if self.closed.get() {
                return Err(if self.failed.get() { NotReached::Failed } else { NotReached::Closed });
            }
            if !self.has_min_insync() {
                return Err(NotReached::TooFewInSync);
            }
            next.await;
        }
    }
}

/// How far this replica is. What isn't written yet doesn't count as appended: a crash would take it.
fn progress(offsets: &LogOffsets) -> Progress {
    Progress { log_end: offsets.written, flushed: offsets.flushed }
}

/// Resolves with the first of many waits.
///
/// A client decides how many: they share one waker of their task, since a runtime counts those in few bits.
pub(crate) struct AnyOf(pub(crate) Vec<Wait>);

/// One waker of a task, shared by many waits.
struct SharedWaker(Waker);

impl Wake for SharedWaker {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake_by_ref();
    }
}

impl Future for AnyOf {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = Waker::from(Arc::new(SharedWaker(context.waker().clone())));
        let context = &mut Context::from_waker(&shared);
        for wait in &mut self.0 {
            if Pin::new(wait).poll(context).is_ready() {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Task {
        woken: AtomicUsize,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn many_waits_take_one_waker_of_their_task_and_each_ends_them() {
        let (task, signals) =
            (Arc::new(Task::default()), (0..40_000).map(|_| Signal::new()).collect::<Vec<_>>());
        let waker = Waker::from(Arc::clone(&task));
        let mut context = Context::from_waker(&waker);
        let before = Arc::strong_count(&task);
        let mut any = AnyOf(signals.iter().map(Signal::wait).collect());
        for _again in 0..3 {
            assert!(Pin::new(&mut any).poll(&mut context).is_pending());
            assert_eq!(Arc::strong_count(&task), before + 1);
        }
        signals[39_999].notify();
        assert!(task.woken.load(Ordering::Relaxed) > 0);
        assert!(Pin::new(&mut any).poll(&mut context).is_ready());
        drop(any);
        assert_eq!(Arc::strong_count(&task), before);
    }
}
