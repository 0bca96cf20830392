//! What a statement is doing, so that it can be stopped: by a cancel request, by
//! `statement_timeout`, by shutdown, or by its result being dropped.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
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

use crate::service::share::Share;

/// Why a statement is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A cancel request.
    User = 1,
    /// The server shuts down.
    Shutdown = 2,
    /// The session ends.
    Closed = 3,
    /// Another session ended this one.
    Terminated = 4,
}

/// One running statement.
#[derive(Debug)]
pub struct Work {
    stopped: AtomicU8,
    stop: Notify,
    deadline: Option<Instant>,
    timeout_ms: u64,
    /// Whether it is carried out is the log's to say now.
    committing: AtomicBool,
    /// The statement that this is a part of.
    whole: Option<Arc<Work>>,
    /// `None` without a budget.
    values: Option<Arc<Share>>,
}

impl Governor for Work {
    fn check(&self) -> Result<()> {
        self.check()
    }

    fn grow(&self, bytes: usize) -> Result<()> {
        self.values.as_ref().map_or(Ok(()), |values| values.grow(bytes))
    }

    fn shrink(&self, bytes: usize) {
        if let Some(values) = &self.values {
            values.shrink(bytes);
        }
    }
}

impl Work {
    /// A statement that starts now and may take `timeout_ms`; 0 means no limit.
    #[cfg(test)]
    pub fn start(timeout_ms: u64) -> Arc<Self> {
        Self::begin(timeout_ms, None)
    }

    /// As `start`, with the budget of values.
    pub fn within(timeout_ms: u64, pool: &Arc<dyn MemoryPool>) -> Arc<Self> {
        Self::begin(timeout_ms, Some(Share::new("values of expressions", pool)))
    }

    fn begin(timeout_ms: u64, values: Option<Arc<Share>>) -> Arc<Self> {
        let deadline = (timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(timeout_ms));
        Arc::new(Self {
            stopped: AtomicU8::new(0),
            stop: Notify::new(),
            deadline,
            timeout_ms,
            committing: AtomicBool::new(false),
            whole: None,
            values,
        })
    }

    /// The statement as the functions of its expressions see it.
    pub fn governor(self: &Arc<Self>) -> Arc<dyn Governor> {
        Arc::clone(self) as Arc<dyn Governor>
    }

    /// A part of the statement: it ends with it, and can be stopped alone.
    pub fn part(self: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self {
            stopped: AtomicU8::new(0),
            stop: Notify::new(),
            deadline: self.deadline,
            timeout_ms: self.timeout_ms,
            committing: AtomicBool::new(false),
            whole: Some(Arc::clone(self)),
            values: self.values.clone(),
        })
    }

    /// Stops the statement; it ends with an error the next time it is polled.
    pub fn stop(&self, reason: Stop) {
        // The first reason stays.
        let _ = self.stopped.compare_exchange(0, reason as u8, Ordering::AcqRel, Ordering::Acquire);
        self.stop.notify_waiters();
    }

    /// From here on nothing stops the statement: what it wrote may be durable at any moment,
    /// and whoever is told that it was cancelled would write it again.
    ///
    /// # Errors
    /// As [`Self::check`]; then nothing may be committed.
    pub fn commit(&self) -> Result<()> {
        self.check()?;
        self.committing.store(true, Ordering::Release);
        Ok(())
    }

    fn is_committing(&self) -> bool {
        self.committing.load(Ordering::Acquire)
    }

    /// The error of a statement that was stopped or has run too long.
    ///
    /// # Errors
    /// `QueryCanceled` or `Shutdown`.
    pub fn check(&self) -> Result<()> {
        if self.is_committing() {
            return Ok(());
        }
        if let Some(error) = self.stop_error() {
            return Err(error);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(self.timeout_error()),
            _ => Ok(()),
        }
    }

    /// Runs `future` unless the statement is stopped first.
    pub async fn guard<T>(self: &Arc<Self>, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.check()?;
        tokio::select! {
            biased;
            error = self.stopped() => Err(error),
            result = governed(self.governor(), future) => result,
        }
    }

    /// Passes the batches of `stream` on until the statement is stopped.
    pub fn guard_stream(
        self: &Arc<Self>,
        stream: BoxStream<'static, Result<RecordBatch>>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let work = Arc::clone(self);
        let stopped: BoxFuture<'static, Error> = Box::pin(async move { work.stopped().await });
        Box::pin(Guarded { stopped, stream: Some(stream) })
    }

    /// Ends when the statement is to be stopped.
    pub async fn stopped(&self) -> Error {
        loop {
            let notified = self.stop.notified();
            if self.is_committing() {
                std::future::pending::<()>().await;
            }
            if let Some(error) = self.stop_error() {
                return error;
            }
            match self.deadline {
                Some(deadline) => {
                    tokio::select! {
                        () = notified => {}
                        () = tokio::time::sleep_until(deadline) => {
                            if !self.is_committing() {
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
            0 => self.whole.as_ref().and_then(|whole| whole.stop_error()),
            2 => Some(Error::new(
                ErrorKind::Shutdown,
                "terminating connection: the server is shutting down",
            )),
            4 => Some(terminated()),
            3 => Some(Error::new(
                ErrorKind::QueryCanceled,
                "canceling statement: its session was closed",
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

/// The error of a session that another one ended.
pub fn terminated() -> Error {
    Error::new(ErrorKind::Shutdown, "terminating connection due to administrator command")
}

/// A stream that ends with an error when its statement is stopped, and then drops what it
/// was reading from.
struct Guarded {
    stopped: BoxFuture<'static, Error>,
    stream: Option<BoxStream<'static, Result<RecordBatch>>>,
}

impl Stream for Guarded {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.stream.is_none() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(error) = self.stopped.as_mut().poll(context) {
            self.stream = None;
            return Poll::Ready(Some(Err(error)));
        }
        let next = match self.stream.as_mut() {
            Some(stream) => stream.as_mut().poll_next(context),
            None => return Poll::Ready(None),
        };
        if matches!(&next, Poll::Ready(None | Some(Err(_)))) {
            self.stream = None;
        }
        next
    }
}

#[cfg(test)]
mod tests;
