//! What waits for the writer, and the thread that serves it.

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use stratalog_model::{
    Durability, Error, ErrorKind, Frame, Lsn, Result,
    log::{Completion, LogStatus, Reservation},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    frame,
    gather::Gather,
    rotation::{Fault, Place},
    writer::Writer,
};

/// Reserved bytes, and reservations, after which free space is looked at again.
const FREE_CHECK_BYTES: u64 = 64 << 10;
const FREE_CHECK_WEIGHT: u64 = FREE_CHECK_BYTES / 16;

/// A frame on its way to the disk.
pub(crate) struct Pending {
    pub(crate) frame: Frame,
    /// Of payload and padding, computed by whoever submitted.
    pub(crate) checksum: u32,
    pub(crate) durability: Durability,
    pub(crate) done: Answer,
    /// Gives its room in the queue back when the frame is done.
    pub(crate) reservation: Reservation,
}

/// A completion that is called even if the writer panics.
pub(crate) struct Answer(Option<Completion>);

impl Answer {
    pub(crate) fn new(done: Completion) -> Self {
        Self(Some(done))
    }

    fn give(mut self, outcome: Result<Lsn>) {
        if let Some(done) = self.0.take() {
            done(outcome);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(Error::internal("the journal's writer panicked: a frame's fate is unknown")));
        }
    }
}

impl Pending {
    /// Bytes that the frame takes on disk.
    pub(crate) fn extent(&self) -> u64 {
        frame::extent_bytes(self.frame.payload.len() as u64)
    }

    fn complete(self, outcome: Result<Lsn>) {
        let Self { done, reservation, frame, .. } = self;
        drop(frame);
        drop(reservation);
        done.give(outcome);
    }
}

/// What the journal's callers and its writer share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) place: Place,
    /// Bytes that may still be reserved. Closed when nothing more is accepted.
    pub(crate) room: Arc<Semaphore>,
    state: Mutex<State>,
    work: Condvar,
    /// The disk lacked room when it was last looked at.
    full: AtomicBool,
    /// Bytes reserved since the disk was last looked at.
    unchecked: AtomicU64,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Pending>,
    queued_bytes: u64,
    /// The writer sleeps until so many frames wait.
    wanted: usize,
    submitted: bool,
    closing: bool,
    poisoned: Option<String>,
    status: LogStatus,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("queued", &self.queue.len()).finish_non_exhaustive()
    }
}

/// What the writer does next.
enum Task {
    /// The first waiting frame takes so many bytes.
    Write(u64),
    Mark,
    Finish,
}

impl Shared {
    pub(crate) fn new(place: Place, writer: &Writer) -> Self {
        let mut state = State::default();
        writer.report(&mut state.status);
        let room = usize::try_from(place.settings.queue_bytes_max).unwrap_or(usize::MAX);
        Self {
            room: Arc::new(Semaphore::new(room.min(Semaphore::MAX_PERMITS))),
            place,
            state: Mutex::new(state),
            work: Condvar::new(),
            full: AtomicBool::new(false),
            unchecked: AtomicU64::new(FREE_CHECK_BYTES),
        }
    }

    /// Numbers for operators.
    pub(crate) fn status(&self) -> LogStatus {
        let state = self.state.lock();
        let mut status = state.status.clone();
        status.queued_bytes = state.queued_bytes;
        status.poisoned = state.poisoned.clone();
        status
    }

    /// Whether something was submitted: then the log can no longer be replayed.
    pub(crate) fn has_started(&self) -> bool {
        self.state.lock().submitted
    }

    /// Why nothing is accepted, if so.
    pub(crate) fn refusal(&self) -> Option<Error> {
        let state = self.state.lock();
        self.refusal_in(&state)
    }

    fn refusal_in(&self, state: &State) -> Option<Error> {
        let directory = self.place.directory.display();
        if let Some(reason) = &state.poisoned {
            let message = format!("the journal {directory} has stopped for good: {reason}");
            return Some(Error::new(ErrorKind::Io, message).with_hint(
                "check the disk and the system's log, then restart the server; what was acknowledged is kept",
            ));
        }
        state
            .closing
            .then(|| Error::new(ErrorKind::Shutdown, format!("the journal {directory} is closed")))
    }

    /// Refuses while the disk lacks room; looks at it after every 64 KiB or 16 frames,
    /// and every time as long as it is full.
    pub(crate) fn check_free(&self, bytes: u64) -> Result<()> {
        let weight = bytes.max(FREE_CHECK_WEIGHT);
        let unchecked = self.unchecked.fetch_add(weight, Ordering::Relaxed);
        if unchecked < FREE_CHECK_BYTES && !self.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.unchecked.store(0, Ordering::Relaxed);
        let Place { disk, directory, settings } = &self.place;
        let free = disk.free_bytes(directory).map_err(|error| {
            Error::io(format_args!("cannot see the free space of {}", directory.display()), error)
        })?;
        let full = free < settings.free_bytes_min;
        if self.full.swap(full, Ordering::Relaxed) != full {
            let directory = directory.display();
            if full {
                tracing::error!(%directory, free, "disk full: appends are refused until there is room");
            } else {
                tracing::info!(%directory, free, "the disk has room again");
            }
        }
        if full {
            return Err(Error::new(
                ErrorKind::DiskFull,
                format!("the disk of {} is full", directory.display()),
            )
            .with_detail(format!(
                "{free} bytes are free; free_bytes_min keeps {} free",
                settings.free_bytes_min
            ))
            .with_hint("free space on the disk; nothing else is needed"));
        }
        Ok(())
    }

    /// Queues a frame, or fails it at once.
    pub(crate) fn push(&self, pending: Pending) {
        let mut state = self.state.lock();
        if let Some(error) = self.refusal_in(&state) {
            drop(state);
            return pending.complete(Err(error));
        }
        state.submitted = true;
        state.queued_bytes += pending.extent();
        state.queue.push_back(pending);
        if state.queue.len() >= state.wanted {
            self.work.notify_one();
        }
    }

    /// Accepts nothing more; the writer ends when the queue is empty.
    pub(crate) fn start_closing(&self) {
        self.state.lock().closing = true;
        self.room.close();
        self.work.notify_one();
    }

    fn wait(&self, wants_mark: bool) -> Task {
        let mut state = self.state.lock();
        let delay = Duration::from_millis(self.place.settings.mark_idle_ms);
        let mut idle = false;
        loop {
            if let Some(first) = state.queue.front() {
                return Task::Write(first.extent());
            }
            if state.closing {
                return Task::Finish;
            }
            if idle {
                return Task::Mark;
            }
            if wants_mark && !delay.is_zero() {
                idle = self.work.wait_for(&mut state, delay).timed_out();
            } else {
                self.work.wait(&mut state);
            }
        }
    }

    /// Gives those who are about to append the time to do so, if that saves syncs.
    fn gather(&self, gather: &mut Gather) {
        let mut state = self.state.lock();
        // Relaxed appends alone need no sync that could be saved.
        if !state.queue.iter().any(|pending| pending.durability >= Durability::Disk) {
            return;
        }
        let Some(wait) = gather.wait(state.queue.len(), state.queued_bytes) else { return };
        state.wanted = wait.frames;
        let mut left = wait.longest;
        let mut frames = state.queue.len();
        while frames < wait.frames && !left.is_zero() && !state.closing {
            let pause = wait.pause.min(left);
            let timed_out = self.work.wait_for(&mut state, pause).timed_out();
            if timed_out && state.queue.len() == frames {
                break;
            }
            frames = state.queue.len();
            left -= pause;
        }
        state.wanted = 0;
        gather.waited(wait, state.queue.len());
    }

    /// What waits first, up to `bytes`, but at least one frame.
    fn take(&self, bytes: u64) -> Vec<Pending> {
        let mut state = self.state.lock();
        let mut taken = 0;
        let count = state
            .queue
            .iter()
            .take_while(|pending| {
                taken += pending.extent();
                taken <= bytes
            })
            .count()
            .max(1)
            .min(state.queue.len());
        let group: Vec<Pending> = state.queue.drain(..count).collect();
        state.queued_bytes -= group.iter().map(Pending::extent).sum::<u64>();
        group
    }

    /// Serves the queue until it is closed or the writer is poisoned.
    pub(crate) fn serve(&self, mut writer: Writer) {
        let served = catch_unwind(AssertUnwindSafe(|| self.serve_until_end(&mut writer)));
        match served {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => self.poison(reason, Vec::new()),
            Err(_) => self.poison("a defect: its writer panicked".to_string(), Vec::new()),
        }
    }

    fn serve_until_end(&self, writer: &mut Writer) -> Result<(), String> {
        let group_bytes_max = self.place.settings.group_bytes_max;
        let mut gather = Gather::new(Duration::from_micros(self.place.settings.gather_us_max));
        loop {
            let fault = match self.wait(writer.wants_mark()) {
                Task::Write(extent) => match writer.make_room(extent) {
                    Ok(()) => {
                        self.gather(&mut gather);
                        let group = self.take(group_bytes_max.min(writer.room()));
                        let frames = group.len();
                        if self.write(writer, group).is_break() {
                            return Ok(());
                        }
                        gather.done(frames, self.state.lock().queue.len());
                        continue;
                    }
                    Err(Fault::Refused(error)) => {
                        self.fail(self.take(group_bytes_max), &error);
                        continue;
                    }
                    Err(fault) => Err(fault),
                },
                Task::Mark => writer.mark(),
                Task::Finish => {
                    let finished = writer.finish();
                    writer.report(&mut self.state.lock().status);
                    match finished {
                        Ok(()) => return Ok(()),
                        fault => fault,
                    }
                }
            };
            match fault {
                Err(Fault::Poisoned(reason)) => return Err(reason),
                Err(Fault::Refused(error)) => return Err(error.to_string()),
                Ok(()) => {}
            }
        }
    }

    /// Writes a group and completes its frames; breaks when that poisoned the journal.
    fn write(&self, writer: &mut Writer, group: Vec<Pending>) -> ControlFlow<()> {
        let first = Lsn(writer.written().0 + 1);
        #[cfg(feature = "sabotage")]
        let group = self.acknowledge_too_early(first, group);
        match writer.write(&group) {
            Ok(()) => {
                writer.report(&mut self.state.lock().status);
                // All of the group's room is given back at once: a waiter that is woken for
                // each frame's takes longer than the frames.
                let mut room = Vec::with_capacity(group.len());
                for (lsn, pending) in (first.0..).map(Lsn).zip(group) {
                    let Pending { done, reservation, frame, .. } = pending;
                    drop(frame);
                    room.push(reservation);
                    done.give(Ok(lsn));
                }
                self.give_back(room);
                ControlFlow::Continue(())
            }
            Err(Fault::Refused(error)) => {
                self.fail(group, &error);
                ControlFlow::Continue(())
            }
            Err(Fault::Poisoned(reason)) => {
                self.poison(reason, group);
                ControlFlow::Break(())
            }
        }
    }

    /// Gives room in the queue back, in one piece.
    fn give_back(&self, reservations: Vec<Reservation>) {
        let mut room: Option<OwnedSemaphorePermit> = None;
        for reservation in reservations {
            match (reservation.downcast::<OwnedSemaphorePermit>(), &mut room) {
                (Ok(permit), None) => room = Some(*permit),
                (Ok(permit), Some(room)) if Arc::ptr_eq(room.semaphore(), permit.semaphore()) => {
                    room.merge(*permit);
                }
                // Another log's: it goes back by itself.
                (other, _) => drop(other),
            }
        }
    }

    /// Sabotage: completes the frames of a group, then takes its time to write them.
    #[cfg(feature = "sabotage")]
    fn acknowledge_too_early(&self, first: Lsn, group: Vec<Pending>) -> Vec<Pending> {
        if !crate::sabotaged!(self.place.settings, AcknowledgedBeforeWrite) {
            return group;
        }
        let mut unwritten = Vec::with_capacity(group.len());
        for (lsn, pending) in (first.0..).map(Lsn).zip(group) {
            let Pending { frame, checksum, durability, done, reservation } = pending;
            done.give(Ok(lsn));
            let done = Answer::new(Box::new(|_| {}));
            unwritten.push(Pending { frame, checksum, durability, done, reservation });
        }
        std::thread::sleep(Duration::from_millis(self.place.settings.mark_idle_ms.min(5)));
        unwritten
    }

    fn fail(&self, group: Vec<Pending>, error: &Error) {
        if error.kind() == ErrorKind::DiskFull {
            self.full.store(true, Ordering::Relaxed);
        }
        tracing::error!(%error, frames = group.len(), "a group of frames was refused");
        for pending in group {
            pending.complete(Err(error.duplicate()));
        }
    }

    /// Stops for good (CL-7): `group` and all that waits fails, and so does all to come.
    fn poison(&self, reason: String, group: Vec<Pending>) {
        let mut state = self.state.lock();
        if state.poisoned.is_none() {
            tracing::error!(directory = %self.place.directory.display(), reason, "the journal has stopped for good");
            state.poisoned = Some(reason);
        }
        let waiting: Vec<Pending> = state.queue.drain(..).collect();
        state.queued_bytes = 0;
        drop(state);
        self.room.close();
        for pending in group.into_iter().chain(waiting) {
            let error = self.refusal().unwrap_or_else(|| Error::internal("not poisoned"));
            pending.complete(Err(error));
        }
    }
}
