//! A plan during its execution. The plan runs on the thread of the reader of its rows, or on the
//! threads of [`Execution`](super::execution::Execution).
//!
//! ```text
//!   plan ─► queue: at most 4 MB of batches ─► the last batch at the reader
//!           └──────────── charged to the statement ───────────────────┘
//! ```
//! A stop of the statement immediately frees the plan and the queued batches, even while the client
//! reads nothing. A batch at the reader counts as memory of the statement until the reader requests
//! the next batch.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use stratalog_functions::governor::{self, CHARGED_BYTES_MIN, Charge, batch_bytes, within};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_postgres::errors::from_datafusion;
use tokio::{
    runtime::Handle,
    sync::{
        OwnedSemaphorePermit, Semaphore,
        mpsc::{Receiver, Sender, channel},
    },
    task::JoinHandle,
};

use super::short_plans::TURNS;
use crate::session::work::{Stop, Work};

/// The maximum number of queued batches for a slow client.
const BATCHES_AHEAD: usize = 2;

/// The maximum size of all queued batches, in bytes. A single larger batch may be queued alone. The
/// plan continues while the queue is below the limit.
const BYTES_AHEAD: usize = 4 << 20;

/// Bytes of queued batches for one permit of the semaphore.
const PERMIT_BYTES: usize = 4 << 10;

/// A queued batch.
struct QueuedBatch {
    batch: Result<RecordBatch>,
    charge: Option<Charge>,
    _place: Option<OwnedSemaphorePermit>,
}

/// A queue entry for a batch. A stop of the statement empties the entries.
type Slot = Mutex<Option<QueuedBatch>>;

/// The last batch that the reader received.
struct ReaderBatch {
    bytes: usize,
    _charge: Option<Charge>,
}

impl ReaderBatch {
    fn new(batch: &RecordBatch, charge: Option<Charge>) -> Self {
        Self { bytes: batch_bytes(batch), _charge: charge }
    }
}

/// The execution of a plan, which returns batches. A drop stops the plan.
pub struct RunningPlan {
    place: ExecutionPlace,
    own: Arc<Work>,
    read: Option<ReaderBatch>,
}

/// Where a plan runs.
enum ExecutionPlace {
    /// On the reader's thread, for at most `turns` more polls.
    Here { rows: SendableRecordBatchStream, turns: u32, threads: Handle },
    /// On the threads of plans; the batches arrive through a queue.
    There { batches: Receiver<Arc<Slot>>, task: JoinHandle<Option<Error>> },
    /// The plan could not start.
    Failed(Error),
    /// The plan has ended.
    Ended,
}

impl RunningPlan {
    /// Starts a plan on the reader's thread. A plan that is not short then moves to `threads`.
    pub fn on_reader(
        start: impl FnOnce() -> Result<SendableRecordBatchStream>,
        threads: Handle,
        own: Arc<Work>,
    ) -> Self {
        let place = match catch_panic(|| within(&own.governor(), start)).and_then(|started| started)
        {
            Ok(rows) => ExecutionPlace::Here { rows, turns: TURNS, threads },
            Err(error) => ExecutionPlace::Failed(error),
        };
        Self { place, own, read: None }
    }

    /// Starts a plan on `threads`.
    pub fn on_threads(
        start: impl FnOnce() -> Result<SendableRecordBatchStream> + Send + 'static,
        threads: &Handle,
        own: Arc<Work>,
    ) -> Self {
        let (sender, batches) = channel(BATCHES_AHEAD);
        let stopped = Arc::clone(&own);
        let run = async move {
            match start() {
                Ok(rows) => pump(rows, sender, stopped).await,
                Err(error) => Some(error),
            }
        };
        let task = threads.spawn(governor::task(own.governor(), run));
        Self { place: ExecutionPlace::There { batches, task }, own, read: None }
    }

    /// Moves the rest of the plan from the reader's thread to the threads of plans.
    fn hand_over(&mut self) {
        let place = std::mem::replace(&mut self.place, ExecutionPlace::Ended);
        let ExecutionPlace::Here { rows, threads, .. } = place else {
            self.place = place;
            return;
        };
        let (sender, batches) = channel(BATCHES_AHEAD);
        let pump = pump(rows, sender, Arc::clone(&self.own));
        let task = threads.spawn(governor::task(self.own.governor(), pump));
        self.place = ExecutionPlace::There { batches, task };
    }

    /// Stops counting the reader's last batch as memory of the statement.
    fn take_back(&mut self) {
        if let Some(read) = self.read.take() {
            self.own.hand_on(read.bytes);
        }
    }
}

/// Sends the batches of a plan to the queue, until the plan ends, the reader is gone or the
/// statement is stopped. Returns the error of a stopped statement; otherwise the reader would
/// mistake the stop for the end of the rows.
async fn pump(
    rows: SendableRecordBatchStream,
    sender: Sender<Arc<Slot>>,
    own: Arc<Work>,
) -> Option<Error> {
    let mut waiting = Vec::new();
    let stopped = tokio::select! {
        () = send_all(rows, sender, &mut waiting) => return None,
        error = own.stopped() => error,
    };
    // Empty the queue entries now: the client may read nothing for hours.
    waiting.iter().filter_map(Weak::upgrade).for_each(|slot| drop(slot.lock().take()));
    Some(stopped)
}

async fn send_all(
    mut rows: SendableRecordBatchStream,
    sender: Sender<Arc<Slot>>,
    slots: &mut Vec<Weak<Slot>>,
) {
    let places = Arc::new(Semaphore::new(BYTES_AHEAD / PERMIT_BYTES));
    loop {
        // Wait until the queue has room, or until the reader is gone.
        let room = tokio::select! {
            room = places.acquire() => room.map(drop),
            () = sender.closed() => return,
        };
        let Some(batch) = rows.next().await.filter(|_| room.is_ok()) else { return };
        let waiting = match batch.map_err(from_datafusion) {
            Ok(batch) => tokio::select! {
                waiting = QueuedBatch::of(batch, &places) => waiting,
                () = sender.closed() => return,
            },
            Err(error) => QueuedBatch::failed(error),
        };
        let failed = waiting.batch.is_err();
        let slot = waiting.slot();
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        if sender.send(slot).await.is_err() || failed {
            return;
        }
    }
}

/// Charges the memory of a batch to the running statement, unless the batch is small.
///
/// # Errors
/// `OutOfMemory`.
fn charge_batch(batch: &RecordBatch) -> Result<Option<Charge>> {
    let bytes = batch_bytes(batch);
    (bytes >= CHARGED_BYTES_MIN).then(|| governor::charge(bytes)).transpose()
}

impl QueuedBatch {
    fn failed(error: Error) -> Self {
        Self { batch: Err(error), charge: None, _place: None }
    }

    fn slot(self) -> Arc<Slot> {
        Arc::new(Mutex::new(Some(self)))
    }

    /// Waits for room in the queue for the batch.
    async fn of(batch: RecordBatch, places: &Arc<Semaphore>) -> Self {
        let charge = match charge_batch(&batch) {
            Ok(charge) => charge,
            Err(error) => return Self::failed(error),
        };
        let permits = (batch_bytes(&batch) / PERMIT_BYTES).clamp(1, BYTES_AHEAD / PERMIT_BYTES);
        let permits = u32::try_from(permits).unwrap_or(1);
        let place = Arc::clone(places).acquire_many_owned(permits).await.ok();
        Self { batch: Ok(batch), charge, _place: place }
    }
}

/// Runs `work`; returns an error if `work` panics.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_string());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
        failed_unexpectedly(&said.unwrap_or_default())
    })
}

fn failed_unexpectedly(panic: &str) -> Error {
    // Arrow's arrays with 32-bit offsets panic beyond two gigabytes.
    if panic.to_ascii_lowercase().contains("offset overflow") {
        return Error::new(
            ErrorKind::LimitExceeded,
            "a batch of rows has more than 2 GB in one column",
        )
        .with_hint("make shorter values, or process fewer rows at once");
    }
    tracing::error!(panic, "a plan panicked");
    Error::internal("the statement failed unexpectedly")
}

impl Stream for RunningPlan {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if matches!(self.place, ExecutionPlace::Here { turns: 0, .. }) {
            self.hand_over();
        }
        self.take_back();
        let own = Arc::clone(&self.own);
        let this = &mut *self;
        if let ExecutionPlace::Here { rows, turns, .. } = &mut this.place {
            *turns -= 1;
            let polled = catch_panic(|| {
                within(&own.governor(), || {
                    rows.poll_next_unpin(context).map_err(from_datafusion).map_ok(|batch| {
                        let charge = charge_batch(&batch)?;
                        Ok((batch, charge))
                    })
                })
            });
            let next = match polled {
                Ok(Poll::Ready(next)) => next.map(Result::flatten),
                Ok(Poll::Pending) => return Poll::Pending,
                Err(panicked) => Some(Err(panicked)),
            };
            return Poll::Ready(match next {
                Some(Ok((batch, charge))) => {
                    this.read = Some(ReaderBatch::new(&batch, charge));
                    Some(Ok(batch))
                }
                end => {
                    this.place = ExecutionPlace::Ended;
                    end.map(|failed| failed.map(|(batch, _)| batch))
                }
            });
        }
        if let ExecutionPlace::There { batches, task } = &mut this.place {
            let next = loop {
                match batches.poll_recv(context) {
                    Poll::Ready(None) => match Pin::new(&mut *task).poll(context) {
                        Poll::Ready(Err(error)) if error.is_panic() => {
                            break Some(Err(failed_unexpectedly(&error.to_string())));
                        }
                        Poll::Ready(Ok(stopped)) => break stopped.map(Err),
                        Poll::Ready(Err(_)) => break None,
                        Poll::Pending => return Poll::Pending,
                    },
                    Poll::Ready(Some(slot)) => match slot.lock().take() {
                        Some(QueuedBatch { batch: Ok(batch), charge, .. }) => {
                            this.read = Some(ReaderBatch::new(&batch, charge));
                            return Poll::Ready(Some(Ok(batch)));
                        }
                        Some(QueuedBatch { batch: Err(error), .. }) => {
                            return Poll::Ready(Some(Err(error)));
                        }
                        // The statement was stopped; the task returns the error.
                        None => {}
                    },
                    Poll::Pending => return Poll::Pending,
                }
            };
            this.place = ExecutionPlace::Ended;
            return Poll::Ready(next);
        }
        Poll::Ready(match std::mem::replace(&mut this.place, ExecutionPlace::Ended) {
            ExecutionPlace::Failed(error) => Some(Err(error)),
            _ => None,
        })
    }
}

impl Drop for RunningPlan {
    fn drop(&mut self) {
        self.take_back();
        self.own.stop(Stop::Closed);
        if let ExecutionPlace::There { task, .. } = &self.place {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
