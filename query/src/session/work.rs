//! A running statement ("work"), and the ways to stop the statement: a cancel request,
//! `statement_timeout`, shutdown, or the drop of its result.

use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicIsize, AtomicU8, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use arrow::array::RecordBatch;
use datafusion::execution::memory_pool::MemoryPool;
use futures::{Stream, future::BoxFuture, stream::BoxStream};
use stratalog_functions::governor::{Governor, governed};
use stratalog_model::{Error, ErrorKind, Result};
use tokio::{sync::Notify, time::Instant};

use crate::service::{
    resident_memory::{self, KNOWN_BYTES_MIN},
    share::Share,
};

/// Maximum time by which an error is delayed until the tasks of its statement have ended.
const PATIENCE: Duration = Duration::from_millis(500);

/// The reason for the stop of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A cancel request.
    User = 1,
    /// The server shuts down.
    Shutdown = 2,
    /// The session ends.
    Closed = 3,
    /// Another session ended this session.
    Terminated = 4,
    /// The server has too little memory, and this statement is one of the largest.
    Memory = 5,
}

/// A running statement, or a part of a running statement that can be stopped alone.
#[derive(Debug)]
pub struct Work {
    stopped: AtomicU8,
    /// Notified when the statement or a part of the statement is stopped.
    stop: Arc<Notify>,
    deadline: Option<Instant>,
    timeout_ms: u64,
    /// Whether the statement is committing: from then on, only the log decides whether the
    /// statement succeeds.
    committing: AtomicBool,
    /// True after a failed [`Governor::check`].
    refused: AtomicBool,
    /// The whole statement, if this is a part.
    whole: Option<Arc<Work>>,
    /// The memory account for values of expressions; `None` without a limit.
    values: Option<Arc<Share>>,
    /// The resources of the statement, shared by all its parts.
    usage: Arc<Usage>,
}

/// The resources of a statement.
#[derive(Debug, Default)]
struct Usage {
    /// Bytes that the statement's threads allocated, minus bytes that these threads freed or passed
    /// to the client. Memory freed by other threads still counts: the number is an estimate.
    bytes: AtomicIsize,
    /// Number of tasks working for the statement.
    tasks: AtomicUsize,
    /// Notified at the end of the last task.
    tasks_ended: Notify,
    /// Whether [`resident_memory`] has registered the statement as a candidate for termination.
    known: AtomicBool,
    /// The [`Work`] of the whole statement.
    whole: Weak<Work>,
}

impl Governor for Work {
    fn check(&self) -> Result<()> {
        self.check().inspect_err(|_| self.refused.store(true, Ordering::Release))
    }

    fn grow(&self, bytes: usize) -> Result<()> {
        self.values.as_ref().map_or(Ok(()), |values| values.grow(bytes))
    }

    fn shrink(&self, bytes: usize) {
        if let Some(values) = &self.values {
            values.shrink(bytes);
        }
    }

    fn allocated(&self, bytes: isize) {
        let before = self.usage.bytes.fetch_add(bytes, Ordering::Relaxed);
        let large = before.saturating_add(bytes) >= KNOWN_BYTES_MIN;
        if large && !self.usage.known.swap(true, Ordering::Relaxed) {
            resident_memory::register(Weak::clone(&self.usage.whole));
        }
    }

    fn rests(&self) -> bool {
        // An ending statement frees memory, and therefore needs no turn.
        resident_memory::takes_turns()
            && self.bytes() >= resident_memory::RESTING_BYTES_MIN
            && !resident_memory::has_turn(self.address())
            && self.check().is_ok()
            && !self.is_ending()
    }

    fn task_begins(&self) {
        self.usage.tasks.fetch_add(1, Ordering::AcqRel);
    }

    fn task_ends(&self) {
        if self.usage.tasks.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.usage.tasks_ended.notify_waiters();
        }
    }
}

impl Work {
    /// A statement that starts now, with a timeout of `timeout_ms`; 0 means no limit.
    #[cfg(test)]
    pub fn start(timeout_ms: u64) -> Arc<Self> {
        Self::begin(timeout_ms, None)
    }

    /// A statement that starts now, with a timeout of `timeout_ms` (0 means no limit). `pool`
    /// limits the memory of values of expressions.
    pub fn within(timeout_ms: u64, pool: &Arc<dyn MemoryPool>) -> Arc<Self> {
        Self::begin(timeout_ms, Some(Share::new("values of expressions", pool)))
    }

    fn begin(timeout_ms: u64, values: Option<Arc<Share>>) -> Arc<Self> {
        let deadline = (timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(timeout_ms));
        Arc::new_cyclic(|whole| Self {
            stopped: AtomicU8::new(0),
            stop: Arc::default(),
            deadline,
            timeout_ms,
            committing: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            whole: None,
            values,
            usage: Arc::new(Usage { whole: Weak::clone(whole), ..Usage::default() }),
        })
    }

    /// An estimate of the statement's bytes: the larger of the bytes allocated by the threads and
    /// the bytes granted by the pool.
    pub fn bytes(&self) -> usize {
        self.allocated_bytes().max(self.values.as_ref().map_or(0, |values| values.size()))
    }

    /// An estimate of the bytes that the statement's threads allocated and did not free.
    pub fn allocated_bytes(&self) -> usize {
        usize::try_from(self.usage.bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// An identifier of the statement: the same for all parts of a statement, different for each
    /// running statement.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.usage).addr()
    }

    /// Subtracts bytes from the statement's estimate: the rows leave the statement for the client.
    pub fn hand_on(&self, bytes: usize) {
        if self.usage.known.load(Ordering::Relaxed) {
            let bytes = isize::try_from(bytes).unwrap_or(isize::MAX);
            self.usage.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Whether the statement is about to end: the statement is committing, or was already stopped.
    pub fn is_ending(&self) -> bool {
        self.is_committing() || self.whole_is_committing() || self.stop_error().is_some()
    }

    /// Waits until the statement's tasks have ended and freed their memory, at most for
    /// [`PATIENCE`].
    pub async fn wait_for_tasks(&self) {
        if self.usage.tasks.load(Ordering::Acquire) == 0 {
            return;
        }
        let ended = async {
            loop {
                let notified = self.usage.tasks_ended.notified();
                if self.usage.tasks.load(Ordering::Acquire) == 0 {
                    return;
                }
                notified.await;
            }
        };
        let _late = tokio::time::timeout(PATIENCE, ended).await;
    }

    /// The object through which functions of the statement's expressions check for a stop and
    /// request memory.
    pub fn governor(self: &Arc<Self>) -> Arc<dyn Governor> {
        Arc::clone(self) as Arc<dyn Governor>
    }

    /// Creates a part of the statement. The part stops with the statement, and can also be stopped
    /// alone.
    pub fn part(self: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self {
            stopped: AtomicU8::new(0),
            stop: Arc::clone(&self.stop),
            deadline: self.deadline,
            timeout_ms: self.timeout_ms,
            committing: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            whole: Some(Arc::clone(self)),
            values: self.values.clone(),
            usage: Arc::clone(&self.usage),
        })
    }

    /// Stops the statement. The next poll of the statement returns an error.
    pub fn stop(&self, reason: Stop) {
        // The first reason stays.
        let _ = self.stopped.compare_exchange(0, reason as u8, Ordering::AcqRel, Ordering::Acquire);
        self.stop.notify_waiters();
    }

    /// Marks the statement as committing: from now on, nothing stops the statement. The written
    /// rows may become durable at any moment, and a client that receives a cancel error would write
    /// the rows again.
    ///
    /// # Errors
    /// The errors of [`Self::check`]; the caller must not commit then.
    pub fn commit(&self) -> Result<()> {
        self.check()?;
        self.committing.store(true, Ordering::Release);
        Ok(())
    }

    fn is_committing(&self) -> bool {
        self.committing.load(Ordering::Acquire)
    }

    /// Whether the statement to which this part belongs is committing. The part then continues,
    /// even past the deadline, unless the part itself is stopped.
    fn whole_is_committing(&self) -> bool {
        self.whole.as_ref().is_some_and(|whole| whole.is_committing())
    }

    /// Checks that the statement was not stopped and has not run too long.
    ///
    /// # Errors
    /// `QueryCanceled`, `Shutdown` or `OutOfMemory`.
    pub fn check(&self) -> Result<()> {
        if self.is_committing() {
            return Ok(());
        }
        if let Some(error) = self.stop_error() {
            return Err(error);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline && !self.whole_is_committing() => {
                Err(self.timeout_error())
            }
            _ => Ok(()),
        }
    }

    /// Runs `future`, unless the statement is stopped first.
    pub async fn guard<T>(self: &Arc<Self>, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.check()?;
        let result = tokio::select! {
            biased;
            error = self.stopped() => Err(error),
            result = governed(self.governor(), future) => match self.refused.load(Ordering::Acquire) {
                // The traversal of a tree ended early because of the stop: the result may be wrong.
                true => self.check().and(result),
                false => result,
            },
        };
        if result.is_err() {
            // Free the memory before the client receives the error.
            self.wait_for_tasks().await;
        }
        result
    }

    /// Passes on the batches of `stream` until the statement is stopped.
    pub fn guard_stream(
        self: &Arc<Self>,
        stream: BoxStream<'static, Result<RecordBatch>>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let work = Arc::clone(self);
        let stopped: BoxFuture<'static, Error> = Box::pin(async move { work.stopped().await });
        Box::pin(GuardedStream {
            work: Arc::clone(self),
            stopped: Some(stopped),
            stream: Some(stream),
            failing: None,
        })
    }

    /// Waits until the statement is stopped or its deadline passes; returns the error.
    pub async fn stopped(&self) -> Error {
        loop {
            let notified = self.stop.notified();
            if self.is_committing() {
                std::future::pending::<()>().await;
            }
            if let Some(error) = self.stop_error() {
                return error;
            }
            match self.deadline.filter(|_| !self.whole_is_committing()) {
                Some(deadline) => {
                    tokio::select! {
                        () = notified => {}
                        () = tokio::time::sleep_until(deadline) => {
                            if !self.is_committing() && !self.whole_is_committing() {
                                return self.timeout_error();
                            }
                        }
                    }
                }
                None => notified.await,
            }
        }
    }

    fn stop_error(&self) -> Option<Error> {
        match self.stopped.load(Ordering::Acquire) {
            0 if self.whole_is_committing() => None,
            0 => self.whole.as_ref().and_then(|whole| whole.stop_error()),
            2 => Some(Error::new(
                ErrorKind::Shutdown,
                "terminating connection: the server is shutting down",
            )),
            4 => Some(terminated()),
            5 => Some(
                Error::new(ErrorKind::OutOfMemory, "out of memory")
                    .with_detail(
                        "the memory of the server is used up, and this statement uses the most memory",
                    )
                    .with_hint("process fewer rows in one statement"),
            ),
            3 => Some(Error::new(
                ErrorKind::QueryCanceled,
                "canceling statement: the session was closed",
            )),
            _ => Some(Error::new(
                ErrorKind::QueryCanceled,
                "canceling statement due to user request",
            )),
        }
    }

    fn timeout_error(&self) -> Error {
        Error::new(ErrorKind::QueryCanceled, "canceling statement due to statement timeout")
            .with_detail(format!("statement_timeout is {} ms", self.timeout_ms))
    }
}

/// The error for a session that another session has terminated.
pub fn terminated() -> Error {
    Error::new(ErrorKind::Shutdown, "terminating connection due to administrator command")
}

/// A stream that ends with an error when its statement is stopped, and then drops its source.
struct GuardedStream {
    work: Arc<Work>,
    /// Resolves when the statement is stopped; `None` after the end of the stream. A future that
    /// waits without need would be woken by the end of its own plan.
    stopped: Option<BoxFuture<'static, Error>>,
    stream: Option<BoxStream<'static, Result<RecordBatch>>>,
    /// The error, while waiting for the end of the statement's tasks.
    failing: Option<BoxFuture<'static, Error>>,
}

impl GuardedStream {
    /// Ends the stream with an error, after the memory of the statement is free.
    fn fail(
        &mut self,
        error: Error,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        self.stopped = None;
        self.stream = None;
        let work = Arc::clone(&self.work);
        let failing = async move {
            work.wait_for_tasks().await;
            error
        };
        self.failing = Some(Box::pin(failing));
        self.poll_failing(context)
    }

    fn poll_failing(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let Some(failing) = &mut self.failing else { return Poll::Ready(None) };
        failing.as_mut().poll(context).map(|error| {
            self.failing = None;
            Some(Err(error))
        })
    }
}

impl Stream for GuardedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.stream.is_none() {
            return self.poll_failing(context);
        }
        if let Some(stopped) = &mut self.stopped
            && let Poll::Ready(error) = stopped.as_mut().poll(context)
        {
            return self.fail(error, context);
        }
        let next = match self.stream.as_mut() {
            Some(stream) => stream.as_mut().poll_next(context),
            None => return Poll::Ready(None),
        };
        match next {
            Poll::Ready(Some(Err(error))) => self.fail(error, context),
            Poll::Ready(None) => {
                self.stopped = None;
                self.stream = None;
                Poll::Ready(None)
            }
            next => next,
        }
    }
}

#[cfg(test)]
mod tests;
