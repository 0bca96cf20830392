//! The queue of the writer, and the threads that process it.
//!
//! ```text
//!   appends overlap   appender ─► queue ─► writer thread: gather, write, sync ─► completions
//!   a lone appender   appender itself: write, sync if requested, completion    (wakes no thread)
//! ```
//! The thread that processes the queue locks the writer's context: frames leave the queue, are
//! written and are completed in the same order.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use stratalog_model::{
    Durability, Error, ErrorKind, Frame, Lsn, Result,
    log::{Completion, LogStatus, Reservation},
};
use tokio::sync::Semaphore;

use crate::{
    defects::sabotaged, extent::Extent, frame, gather::Gather, rotation::JournalPlace,
    writer::Writer,
};

mod serve;

use self::serve::GroupFrames;

/// The free disk space is checked after reservations of this number of bytes. Each reservation
/// counts as at least [`FREE_CHECK_WEIGHT`] bytes.
const FREE_CHECK_BYTES: u64 = 64 << 10;
const FREE_CHECK_WEIGHT: u64 = FREE_CHECK_BYTES / 16;

/// Maximum size of a frame that its appender's own thread may write. The writer's thread writes
/// larger frames and makes new segments.
const OWN_BYTES_MAX: u64 = 64 << 10;

/// A frame that the log has accepted, but that is not written yet.
pub(crate) struct PendingFrame {
    pub(crate) frame: Frame,
    /// Checksum of the payload and its padding, computed by the submitting thread.
    pub(crate) checksum: u32,
    pub(crate) durability: Durability,
    pub(crate) completion: FrameCompletion,
    /// Releases the frame's space in the queue when dropped, after the frame is done.
    pub(crate) reservation: Reservation,
}

/// A completion callback that is called exactly once, even if the writer panics.
pub(crate) struct FrameCompletion(Option<Completion>);

impl FrameCompletion {
    pub(crate) fn new(done: Completion) -> Self {
        Self(Some(done))
    }

    fn give(mut self, outcome: Result<Lsn>) {
        if let Some(done) = self.0.take() {
            done(outcome);
        }
    }
}

impl Drop for FrameCompletion {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(Error::internal("the journal's writer panicked: a frame's fate is unknown")));
        }
    }
}

impl PendingFrame {
    /// Bytes of the frame on disk.
    pub(crate) fn extent(&self) -> u64 {
        frame::extent_bytes(self.frame.payload.len() as u64)
    }

    fn complete(self, outcome: Result<Lsn>) {
        let Self { completion, reservation, frame, .. } = self;
        drop(frame);
        drop(reservation);
        completion.give(outcome);
    }
}

/// State shared by the journal's callers and the writer.
#[derive(Debug)]
pub(crate) struct SharedQueue {
    pub(crate) place: JournalPlace,
    /// Bytes available for reservations. The semaphore is closed when the journal accepts no more
    /// frames.
    pub(crate) room: Arc<Semaphore>,
    context: Mutex<WriterContext>,
    state: Mutex<QueueState>,
    work: Condvar,
    /// While appends are refused for a lack of disk space: the free bytes above `free_bytes_min` at
    /// which appends are accepted again. 0 while the disk has space. Without this margin, the
    /// deletion of a small file would already end the refusal.
    wanted_free: AtomicU64,
    /// Bytes reserved since the last check of the free disk space.
    unchecked: AtomicU64,
    /// True after a failed sync of the directory: a removed segment may come back after a power cut
    /// (CL-7).
    unsure_what_is_gone: AtomicBool,
}

/// State that only the thread that processes the queue may access.
#[derive(Debug)]
struct WriterContext {
    writer: Writer,
    gather: Gather,
    /// Time that the last group took to write and sync.
    took: Duration,
}

#[derive(Default)]
struct QueueState {
    queue: VecDeque<PendingFrame>,
    queued_bytes: u64,
    /// The writer thread sleeps until the queue has this number of frames.
    wanted_frames: usize,
    /// The writer thread sleeps without a timeout, and must be woken to write a mark.
    asleep: bool,
    wants_mark: bool,
    /// Number of groups written.
    groups: u64,
    submitted: bool,
    closing: bool,
    poisoned: Option<String>,
    status: LogStatus,
}

impl std::fmt::Debug for QueueState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("queued", &self.queue.len()).finish_non_exhaustive()
    }
}

impl QueueState {
    /// Asserts the relations between the fields; called after each change.
    fn assert_consistent(&self) {
        debug_assert!(
            self.queued_bytes >= self.queue.len() as u64 * frame::HEADER_BYTES,
            "the queue has fewer bytes than its frames"
        );
        debug_assert!(!self.queue.is_empty() || self.queued_bytes == 0, "an empty queue has bytes");
        debug_assert!(
            self.queue.is_empty() || self.submitted,
            "a frame waits that nobody submitted"
        );
        debug_assert!(
            self.queue.is_empty() || self.poisoned.is_none(),
            "a frame waits for a journal that has stopped"
        );
    }
}

/// The next task of the writer.
enum Task {
    Write,
    Mark,
    Finish,
    /// The journal is poisoned: the thread must end.
    Stop,
}

impl SharedQueue {
    pub(crate) fn new(place: JournalPlace, writer: Writer) -> Self {
        let mut state = QueueState { wants_mark: writer.wants_mark(), ..QueueState::default() };
        writer.report(&mut state.status);
        let gather = Gather::new(Duration::from_micros(place.settings.gather_us_max));
        let room = usize::try_from(place.settings.queue_bytes_max).unwrap_or(usize::MAX);
        Self {
            room: Arc::new(Semaphore::new(room.min(Semaphore::MAX_PERMITS))),
            place,
            context: Mutex::new(WriterContext {
                writer,
                gather,
                took: Duration::from_micros(u64::MAX),
            }),
            state: Mutex::new(state),
            work: Condvar::new(),
            wanted_free: AtomicU64::new(0),
            unchecked: AtomicU64::new(FREE_CHECK_BYTES),
            unsure_what_is_gone: AtomicBool::new(false),
        }
    }

    /// The status for operators.
    pub(crate) fn status(&self) -> LogStatus {
        let state = self.state.lock();
        let mut status = state.status.clone();
        status.queued_bytes = state.queued_bytes;
        status.poisoned = state.poisoned.clone();
        status
    }

    /// Removes the segments that contain only frames below `before`; returns the number of freed
    /// bytes. Once a sync of the directory has failed, removes no more segments: after a power cut,
    /// a removed segment may come back, and later removals would leave a gap.
    ///
    /// # Errors
    /// Errors of the disk. The next release, or the next open of the journal, removes the remaining
    /// segments.
    pub(crate) fn release(&self, before: Lsn) -> Result<u64> {
        if self.unsure_what_is_gone.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let released = {
            let mut context = self.context.lock();
            let released = context.writer.release(before);
            context.writer.report(&mut self.state.lock().status);
            released
        };
        let mut bytes = 0;
        let mut released = released.into_iter();
        while let Some(segment) = released.next() {
            if let Err(error) = self.place.disk.remove_file(&segment.path) {
                let path = segment.path.display();
                let error = Error::io(format_args!("cannot remove {path}"), error);
                let mut context = self.context.lock();
                context.writer.take_back(std::iter::once(segment).chain(released));
                context.writer.report(&mut self.state.lock().status);
                return Err(error);
            }
            // Syncs the directory after each removal, so that a power cut leaves no gap.
            let directory = &self.place.directory;
            self.place.disk.sync_dir(directory).map_err(|error| {
                self.unsure_what_is_gone.store(true, Ordering::Relaxed);
                Error::io(format_args!("cannot sync {}", directory.display()), error)
            })?;
            bytes += segment.bytes;
        }
        Ok(bytes)
    }

    /// All segments, up to the current end of the journal; see [`Extent`].
    ///
    /// # Errors
    /// `Io` for a poisoned journal.
    pub(crate) fn extents(&self) -> Result<Vec<Extent>> {
        let context = self.context.lock();
        match self.refusal() {
            Some(error) if error.kind() == ErrorKind::Io => Err(error),
            _ => Ok(context.writer.extents()),
        }
    }

    /// Whether a frame was submitted: afterwards the log cannot be replayed.
    pub(crate) fn has_started(&self) -> bool {
        self.state.lock().submitted
    }

    /// The error for new frames, if the journal refuses frames.
    pub(crate) fn refusal(&self) -> Option<Error> {
        let state = self.state.lock();
        self.refusal_in(&state)
    }

    fn refusal_in(&self, state: &QueueState) -> Option<Error> {
        let directory = self.place.directory.display();
        if let Some(reason) = &state.poisoned {
            let message = format!("the journal {directory} has stopped for good: {reason}");
            return Some(Error::new(ErrorKind::Io, message).with_hint(
                "check the disk and the system's log, then restart the server; acknowledged rows are kept",
            ));
        }
        state
            .closing
            .then(|| Error::new(ErrorKind::Shutdown, format!("the journal {directory} is closed")))
    }

    /// Refuses a reservation while the disk lacks space. Checks the free space after every 64 KiB
    /// or 16 reservations; while the disk is full, at each reservation.
    pub(crate) fn check_free(&self, bytes: u64) -> Result<()> {
        let weight = bytes.max(FREE_CHECK_WEIGHT);
        let unchecked = self.unchecked.fetch_add(weight, Ordering::Relaxed);
        let wanted = self.wanted_free.load(Ordering::Relaxed);
        if unchecked < FREE_CHECK_BYTES && wanted == 0 {
            return Ok(());
        }
        self.unchecked.store(0, Ordering::Relaxed);
        let JournalPlace { disk, directory, settings, .. } = &self.place;
        let free = disk.free_bytes(directory).map_err(|error| {
            Error::io(format_args!("cannot read the free space of {}", directory.display()), error)
        })?;
        let full = free < settings.free_bytes_min.saturating_add(wanted);
        if full != (wanted > 0) {
            let wanted = if full { self.place.segment_bytes_min() } else { 0 };
            self.wanted_free.store(wanted, Ordering::Relaxed);
            let directory = directory.display();
            if full {
                tracing::error!(%directory, free, "disk full: appends are refused until space is free");
            } else {
                tracing::info!(%directory, free, "the disk has free space again");
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

    /// Queues a frame for the writer thread. If no other thread processes the queue, the calling
    /// thread may write the frame itself. If the journal refuses frames, the frame fails at once.
    pub(crate) fn push(&self, pending: PendingFrame) {
        let mut state = self.state.lock();
        if let Some(error) = self.refusal_in(&state) {
            drop(state);
            return pending.complete(Err(error));
        }
        state.submitted = true;
        debug_assert!(pending.frame.payload.len() as u64 <= self.place.settings.frame_bytes_max);
        state.queued_bytes += pending.extent();
        let synced = pending.durability >= Durability::Disk;
        state.queue.push_back(pending);
        state.assert_consistent();
        if let Some(mut context) = self.lone_context(&state) {
            drop(state);
            return self.serve_once(&mut context, synced);
        }
        if state.queue.len() >= state.wanted_frames {
            self.work.notify_one();
        }
    }

    /// Locks the writer's context for the calling appender, if its frame is the only waiting frame,
    /// recent appends did not overlap, and the disk is fast. Otherwise returns `None`.
    fn lone_context(&self, state: &QueueState) -> Option<MutexGuard<'_, WriterContext>> {
        let lone_us_max = self.place.settings.lone_us_max;
        let alone = lone_us_max > 0 && state.queue.len() == 1 && !state.closing;
        if !alone || sabotaged!(self.place.settings, AcknowledgedBeforeWrite) {
            return None;
        }
        let extent = state.queue.front().map_or(0, PendingFrame::extent);
        // A thread that has locked the context may wait for the lock of the state: `try_lock`
        // avoids a deadlock.
        let context = self.context.try_lock()?;
        let quick = context.took <= Duration::from_micros(lone_us_max)
            && extent <= OWN_BYTES_MAX.min(context.writer.room());
        (quick && context.gather.is_lone()).then_some(context)
    }

    /// Writes the waiting frames once, on the appender's thread. For a frame without a sync, the
    /// write is only a copy into the page cache. The copy takes less time than moving the runtime's
    /// tasks to another thread, so this case does not announce a blocking call. Frames that arrive
    /// meanwhile stay in the queue, because they may need a sync.
    fn serve_once(&self, context: &mut WriterContext, synced: bool) {
        let served = match synced {
            true => {
                run_blocking(|| self.catch_panic(|| self.serve_group(context, GroupFrames::All)))
            }
            false => self.catch_panic(|| self.serve_group(context, GroupFrames::First)),
        };
        if let Err(reason) = served {
            self.poison(reason, Vec::new());
            self.work.notify_one();
            return;
        }
        let state = self.state.lock();
        if !state.queue.is_empty() || state.asleep && state.wants_mark {
            self.work.notify_one();
        }
    }

    /// Makes the journal accept no more frames; the writer thread ends when the queue is empty.
    pub(crate) fn start_closing(&self) {
        self.state.lock().closing = true;
        self.room.close();
        self.work.notify_one();
    }

    fn wait(&self) -> Task {
        let mut state = self.state.lock();
        let delay = Duration::from_millis(self.place.settings.mark_idle_ms);
        let mut idle = false;
        loop {
            if !state.queue.is_empty() {
                return Task::Write;
            }
            if state.poisoned.is_some() {
                return Task::Stop;
            }
            if state.closing {
                return Task::Finish;
            }
            if idle {
                return Task::Mark;
            }
            if state.wants_mark && !delay.is_zero() {
                let groups = state.groups;
                let timed_out = self.work.wait_for(&mut state, delay).timed_out();
                idle = timed_out && state.groups == groups;
            } else {
                state.asleep = !delay.is_zero();
                self.work.wait(&mut state);
                state.asleep = false;
            }
        }
    }

    /// Waits for further appends to join the group, if the wait saves syncs.
    fn gather(&self, gather: &mut Gather) {
        let mut state = self.state.lock();
        // If no waiting append requests a sync, there is no sync to save.
        if !state.queue.iter().any(|pending| pending.durability >= Durability::Disk) {
            return;
        }
        let Some(wait) = gather.wait(state.queue.len(), state.queued_bytes) else { return };
        state.wanted_frames = wait.frames;
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
        state.wanted_frames = 0;
        debug_assert!(frames <= state.queue.len(), "frames left the queue during the wait");
        gather.learn_wait(wait, state.queue.len());
    }

    /// Removes the first waiting frames from the queue: up to `bytes` bytes, but at least one
    /// frame.
    fn take(&self, bytes: u64) -> Vec<PendingFrame> {
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
        let group: Vec<PendingFrame> = state.queue.drain(..count).collect();
        let group_bytes = group.iter().map(PendingFrame::extent).sum::<u64>();
        debug_assert!(!group.is_empty(), "no frame waits");
        debug_assert!(group.len() == 1 || group_bytes <= bytes, "the group is too large");
        state.queued_bytes -= group_bytes;
        state.assert_consistent();
        group
    }
}

/// Runs blocking work. If the calling thread is a worker of an async runtime, another thread takes
/// over its tasks and sockets: a slow disk does not delay them.
fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
