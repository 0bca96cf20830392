//! A plan that runs: with whoever reads its rows, or on the threads of plans.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::{Stream, StreamExt};
use stratalog_functions::governor::{self, CHARGED_BYTES_MIN, Charge, batch_bytes, within};
use stratalog_model::{Error, ErrorKind, Result};
use tokio::{
    runtime::Handle,
    sync::{
        OwnedSemaphorePermit, Semaphore,
        mpsc::{Receiver, Sender, channel},
    },
    task::JoinHandle,
};

use super::short::TURNS;
use crate::{
    errors::from_datafusion,
    session::work::{Stop, Work},
};

/// Batches that wait for a slow client, at most.
const BATCHES_AHEAD: usize = 2;

/// Bytes of waiting batches, at most, unless one batch has more. A plan goes on below the limit.
const BYTES_AHEAD: usize = 4 << 20;

/// Bytes of one permit.
const PERMIT_BYTES: usize = 4 << 10;

/// A batch on the way to the reader.
struct Waiting {
    batch: Result<RecordBatch>,
    /// The memory of a large batch, until the reader takes the batch.
    _charge: Option<Charge>,
    _place: Option<OwnedSemaphorePermit>,
}

/// The batches of a plan. Dropping them stops it.
pub struct Running {
    place: Place,
    own: Arc<Work>,
}

/// Where a plan runs.
enum Place {
    /// With its reader, so many turns more.
    Here { rows: SendableRecordBatchStream, turns: u32, threads: Handle },
    /// On other threads.
    There { batches: Receiver<Waiting>, task: JoinHandle<()> },
    /// It could not start.
    Failed(Error),
    /// Nowhere any more.
    Ended,
}

impl Running {
    /// Starts a short plan; if it turns out to be longer, the rest of it runs on `threads`.
    pub fn here(
        start: impl FnOnce() -> Result<SendableRecordBatchStream>,
        threads: Handle,
        own: Arc<Work>,
    ) -> Self {
        let place = match caught(|| within(&own.governor(), start)).and_then(|started| started) {
            Ok(rows) => Place::Here { rows, turns: TURNS, threads },
            Err(error) => Place::Failed(error),
        };
        Self { place, own }
    }

    /// Starts a plan on `threads`.
    pub fn there(
        start: impl FnOnce() -> Result<SendableRecordBatchStream> + Send + 'static,
        threads: &Handle,
        own: Arc<Work>,
    ) -> Self {
        let (sender, batches) = channel(BATCHES_AHEAD);
        let run = async move {
            match start() {
                Ok(rows) => pump(rows, sender).await,
                Err(error) => drop(sender.send(Waiting::failed(error)).await),
            }
        };
        let task = threads.spawn(governor::task(own.governor(), run));
        Self { place: Place::There { batches, task }, own }
    }

    /// From its reader to other threads.
    fn hand_over(&mut self) {
        let place = std::mem::replace(&mut self.place, Place::Ended);
        let Place::Here { rows, threads, .. } = place else {
            self.place = place;
            return;
        };
        let (sender, batches) = channel(BATCHES_AHEAD);
        let task = threads.spawn(governor::task(self.own.governor(), pump(rows, sender)));
        self.place = Place::There { batches, task };
    }
}

/// Sends what comes, until it ends, or nobody wants it.
async fn pump(mut rows: SendableRecordBatchStream, sender: Sender<Waiting>) {
    let places = Arc::new(Semaphore::new(BYTES_AHEAD / PERMIT_BYTES));
    loop {
        // Room for one byte more, or no reader any more.
        let room = tokio::select! {
            room = places.acquire() => room.map(drop),
            () = sender.closed() => return,
        };
        let Some(batch) = rows.next().await.filter(|_| room.is_ok()) else { return };
        let waiting = match batch.map_err(from_datafusion) {
            Ok(batch) => tokio::select! {
                waiting = Waiting::of(batch, &places) => waiting,
                () = sender.closed() => return,
            },
            Err(error) => Waiting::failed(error),
        };
        let failed = waiting.batch.is_err();
        if sender.send(waiting).await.is_err() || failed {
            return;
        }
    }
}

impl Waiting {
    fn failed(error: Error) -> Self {
        Self { batch: Err(error), _charge: None, _place: None }
    }

    /// Waits for a place, and returns the batch with the place.
    async fn of(batch: RecordBatch, places: &Arc<Semaphore>) -> Self {
        let bytes = batch_bytes(&batch);
        let charge = match bytes >= CHARGED_BYTES_MIN {
            true => match governor::charge(bytes) {
                Ok(charge) => Some(charge),
                Err(error) => return Self::failed(error),
            },
            false => None,
        };
        let permits = (bytes / PERMIT_BYTES).clamp(1, BYTES_AHEAD / PERMIT_BYTES);
        let permits = u32::try_from(permits).unwrap_or(1);
        let place = Arc::clone(places).acquire_many_owned(permits).await.ok();
        Self { batch: Ok(batch), _charge: charge, _place: place }
    }
}

/// What `work` returns; an error where it panics.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_string());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
        failed_unexpectedly(&said.unwrap_or_default())
    })
}

fn failed_unexpectedly(panic: &str) -> Error {
    // Arrow's arrays of 32-bit offsets end with a panic past two gigabytes.
    if panic.to_ascii_lowercase().contains("offset overflow") {
        return Error::new(
            ErrorKind::LimitExceeded,
            "a batch of rows has more than 2 GB in one column",
        )
        .with_hint("make shorter values, or compute them for fewer rows at once");
    }
    tracing::error!(panic, "a plan panicked");
    Error::internal("the statement failed unexpectedly")
}

impl Stream for Running {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if matches!(self.place, Place::Here { turns: 0, .. }) {
            self.hand_over();
        }
        let own = Arc::clone(&self.own);
        if let Place::Here { rows, turns, .. } = &mut self.place {
            *turns -= 1;
            let polled = caught(|| within(&own.governor(), || rows.poll_next_unpin(context)));
            let next = match polled {
                Ok(Poll::Ready(next)) => next.map(|batch| batch.map_err(from_datafusion)),
                Ok(Poll::Pending) => return Poll::Pending,
                Err(panicked) => Some(Err(panicked)),
            };
            if !matches!(next, Some(Ok(_))) {
                self.place = Place::Ended;
            }
            return Poll::Ready(next);
        }
        if let Place::There { batches, task } = &mut self.place {
            let next = match batches.poll_recv(context) {
                Poll::Ready(None) => match Pin::new(task).poll(context) {
                    Poll::Ready(Err(error)) if error.is_panic() => {
                        Some(Err(failed_unexpectedly(&error.to_string())))
                    }
                    Poll::Ready(_) => None,
                    Poll::Pending => return Poll::Pending,
                },
                Poll::Ready(Some(waiting)) => {
                    if let Ok(batch) = &waiting.batch {
                        own.hand_on(batch);
                    }
                    return Poll::Ready(Some(waiting.batch));
                }
                Poll::Pending => return Poll::Pending,
            };
            self.place = Place::Ended;
            return Poll::Ready(next);
        }
        Poll::Ready(match std::mem::replace(&mut self.place, Place::Ended) {
            Place::Failed(error) => Some(Err(error)),
            _ => None,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.own.stop(Stop::Closed);
        if let Place::There { task, .. } = &self.place {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
