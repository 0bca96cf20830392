//! Processes the queue: writes, syncs and completes groups of frames.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use stratalog_model::{Durability, Error, ErrorKind, Lsn, Result, invariant, log::Reservation};
use tokio::sync::OwnedSemaphorePermit;

use super::{PendingFrame, SharedQueue, Task, WriterContext};
#[cfg(feature = "sabotage")]
use crate::{defects::sabotaged, queue::FrameCompletion};
use crate::{rotation::WriterFailure, writer::Writer};

/// Which waiting frames a group takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum GroupFrames {
    /// All waiting frames, plus the frames that arrive while the group waits for more appends.
    All,
    /// Only the first frame: later frames may need a higher durability.
    First,
}

impl SharedQueue {
    /// Processes the queue until it is closed or the writer is poisoned.
    pub(crate) fn serve(&self) {
        let served = self.catch_panic(|| {
            self.serve_until_end();
            Ok(())
        });
        if let Err(reason) = served {
            self.poison(reason, Vec::new());
        }
    }

    /// Calls `serve`. If `serve` panics, returns an error, which is a reason to poison the journal.
    pub(super) fn catch_panic(
        &self,
        serve: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(serve))
            .unwrap_or_else(|_| Err("a defect: the writer panicked".to_string()))
    }

    fn serve_until_end(&self) {
        loop {
            let task = self.wait();
            let is_last = matches!(task, Task::Finish | Task::Stop);
            let mut context = self.context.lock();
            // A lone appender failed while this thread waited for the context (CL-7).
            if self.state.lock().poisoned.is_some() {
                return;
            }
            if let Err(reason) = self.catch_panic(|| self.serve_task(&mut context, task)) {
                // Poison the journal before the context is unlocked: no appender may write after a
                // failure (CL-7).
                return self.poison(reason, Vec::new());
            }
            if is_last {
                return;
            }
        }
    }

    /// Performs one task. An error is a reason to poison the journal.
    fn serve_task(&self, context: &mut WriterContext, task: Task) -> Result<(), String> {
        let done = match task {
            Task::Write => return self.serve_group(context, GroupFrames::All),
            Task::Mark => context.writer.mark(),
            Task::Finish => context.writer.finish(),
            Task::Stop => return Ok(()),
        };
        self.report(&context.writer);
        match done {
            Ok(()) => Ok(()),
            Err(WriterFailure::Poisoned(reason)) => Err(reason),
            Err(WriterFailure::Refused(error)) => Err(error.to_string()),
        }
    }

    fn report(&self, writer: &Writer) {
        let mut state = self.state.lock();
        writer.report(&mut state.status);
        state.wants_mark = writer.wants_mark();
    }

    /// If frames wait, forms a group of them, writes and syncs the group, and completes its frames.
    /// An error is a reason to poison the journal.
    pub(super) fn serve_group(
        &self,
        context: &mut WriterContext,
        group_frames: GroupFrames,
    ) -> Result<(), String> {
        let first = self.state.lock().queue.front().map(PendingFrame::extent);
        let Some(extent) = first else { return Ok(()) };
        let group_bytes_max = self.place.settings.group_bytes_max;
        match context.writer.make_room(extent) {
            Ok(()) => {}
            Err(WriterFailure::Refused(error)) => {
                self.fail(self.take(group_bytes_max), &error);
                return Ok(());
            }
            Err(WriterFailure::Poisoned(reason)) => return Err(reason),
        }
        debug_assert!(extent <= context.writer.room(), "the first frame has no room");
        let group = match group_frames {
            GroupFrames::First => self.take(extent),
            GroupFrames::All => {
                self.gather(&mut context.gather);
                self.take(group_bytes_max.min(context.writer.room()))
            }
        };
        let frames = group.len();
        debug_assert!(
            frames == 1 || matches!(group_frames, GroupFrames::All),
            "later frames came along with the first frame"
        );
        #[expect(clippy::disallowed_methods, reason = "how fast the disk is, not a time to keep")]
        let started = Instant::now();
        self.write(&mut context.writer, group)?;
        context.took = started.elapsed();
        let mut state = self.state.lock();
        state.groups += 1;
        context.gather.done(frames, state.queue.len());
        Ok(())
    }

    /// Writes a group and completes its frames. An error is a reason to poison the journal.
    fn write(&self, writer: &mut Writer, group: Vec<PendingFrame>) -> Result<(), String> {
        invariant!(
            halt FailedSyncPoisons,
            self.state.lock().poisoned.is_none(),
            "a group is written after the journal has stopped"
        );
        let first = Lsn(writer.written().0 + 1);
        #[cfg(feature = "sabotage")]
        let group = self.acknowledge_too_early(first, group);
        match writer.write(&group) {
            Ok(()) => {
                self.report(writer);
                let end = first.0 + group.len() as u64;
                let is_synced = group.iter().any(|pending| pending.durability >= Durability::Disk);
                invariant!(
                    halt AcknowledgedIsRecovered,
                    writer.written().0 + 1 == end
                        && (!is_synced || writer.durable() == writer.written()),
                    "frames {first} to {end} are written up to {}, durable up to {}",
                    writer.written(),
                    writer.durable()
                );
                // Releases the queue space of the whole group in one call. To wake a waiting
                // appender for each frame would take longer than processing the frames.
                let mut room = Vec::with_capacity(group.len());
                for (lsn, pending) in (first.0..).map(Lsn).zip(group) {
                    let PendingFrame { completion, reservation, frame, .. } = pending;
                    drop(frame);
                    room.push(reservation);
                    completion.give(Ok(lsn));
                }
                self.give_back(room);
                Ok(())
            }
            Err(WriterFailure::Refused(error)) => {
                self.fail(group, &error);
                Ok(())
            }
            Err(WriterFailure::Poisoned(reason)) => {
                self.poison(reason.clone(), group);
                Err(reason)
            }
        }
    }

    /// Releases the queue space of several reservations in one call.
    fn give_back(&self, reservations: Vec<Reservation>) {
        let mut room: Option<OwnedSemaphorePermit> = None;
        for reservation in reservations {
            match (reservation.downcast::<OwnedSemaphorePermit>(), &mut room) {
                (Ok(permit), None) => room = Some(*permit),
                (Ok(permit), Some(room)) if Arc::ptr_eq(room.semaphore(), permit.semaphore()) => {
                    room.merge(*permit);
                }
                // A reservation of another log: its drop releases the space.
                (other, _) => drop(other),
            }
        }
    }

    /// Sabotage: completes the frames of a group, then sleeps before the write.
    #[cfg(feature = "sabotage")]
    fn acknowledge_too_early(&self, first: Lsn, group: Vec<PendingFrame>) -> Vec<PendingFrame> {
        if !sabotaged!(self.place.settings, AcknowledgedBeforeWrite) {
            return group;
        }
        let mut unwritten = Vec::with_capacity(group.len());
        for (lsn, pending) in (first.0..).map(Lsn).zip(group) {
            let PendingFrame { frame, checksum, durability, completion, reservation } = pending;
            completion.give(Ok(lsn));
            let completion = FrameCompletion::new(Box::new(|_| {}));
            unwritten.push(PendingFrame { frame, checksum, durability, completion, reservation });
        }
        std::thread::sleep(std::time::Duration::from_millis(
            self.place.settings.mark_idle_ms.min(5),
        ));
        unwritten
    }

    fn fail(&self, group: Vec<PendingFrame>, error: &Error) {
        debug_assert!(!group.is_empty(), "no frame was refused");
        if error.kind() == ErrorKind::DiskFull {
            self.wanted_free.store(self.place.segment_bytes_min(), Ordering::Relaxed);
        }
        tracing::error!(%error, frames = group.len(), "a group of frames was refused");
        for pending in group {
            pending.complete(Err(error.duplicate()));
        }
    }

    /// Poisons the journal (CL-7): `group`, all waiting frames and all later frames fail with
    /// `reason`.
    pub(super) fn poison(&self, reason: String, group: Vec<PendingFrame>) {
        let mut state = self.state.lock();
        if state.poisoned.is_none() {
            tracing::error!(directory = %self.place.directory.display(), reason, "the journal has stopped for good");
            state.poisoned = Some(reason);
        }
        let waiting: Vec<PendingFrame> = state.queue.drain(..).collect();
        state.queued_bytes = 0;
        state.assert_consistent();
        drop(state);
        self.room.close();
        for pending in group.into_iter().chain(waiting) {
            let error = self.refusal().unwrap_or_else(|| Error::internal("not poisoned"));
            pending.complete(Err(error));
        }
    }
}
