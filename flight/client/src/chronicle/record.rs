//! Records events: the client assigns a tick to each payload and passes the event to a writer; the
//! server's acknowledgement becomes a receipt. If the server refuses the tick of an event, the
//! client sends the event again with a new tick.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use arrow::array::{ArrayRef, BinaryArray};
use futures::future::BoxFuture;
use stratalog_model::{Durability, TickSource};

use super::handle::HandleState;
use crate::{
    error::{Error, ErrorKind, Result},
    writer::{Acknowledgement, AppendedEvent, Delivery, raw_batch},
};

/// The wait before the client tries a second tick for an event; doubles with each attempt.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES_DOUBLED_MAX: u32 = 8;

/// The receipt of a recorded event: its position (the EventID of the ChronoLog paper), and its
/// durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The tick: the distance from the chronicle's base in units of its granularity. `None` if the
    /// server assigns ticks, with `time_source = 'server'` or `collision = 'next'`; in this case
    /// [`Chronicle::read_record`](crate::Chronicle::read_record) returns the tick.
    pub tick: Option<i64>,
    /// The time at which the tick begins: nanoseconds since 1970, UTC.
    pub time_ns: Option<i64>,
    /// The position in the order of commits. `None` if the acknowledgement was lost with its
    /// connection: the client sent the event again, and the server reported only a duplicate.
    pub gsn: Option<u64>,
    /// The durability of the event at the time of the acknowledgement.
    pub durability: Option<Durability>,
    /// The number of ticks that the server refused for this event before it accepted one.
    pub new_ticks: u32,
}

/// The future receipt of an appended event: await the receipt, or drop the future and use
/// [`Chronicle::flush`](crate::Chronicle::flush). After a refusal of the tick, the client assigns a
/// new tick only if the caller awaits this future.
#[must_use = "only an awaited event gets another tick after a refusal of its tick"]
pub struct Pending {
    shared: Arc<HandleState>,
    state: PendingState,
}

enum PendingState {
    /// The writer has the event with its first tick.
    First { time: Option<i64>, sent: AppendedEvent },
    /// The server refused the first tick; the future records the event with new ticks.
    Again(BoxFuture<'static, Result<Receipt>>),
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

impl Future for Pending {
    type Output = Result<Receipt>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let (time, error, payload) = match &mut self.state {
                PendingState::Again(receipt) => return receipt.as_mut().poll(context),
                PendingState::First { time, sent } => match ready!(Pin::new(sent).poll(context)) {
                    Ok(stored) => {
                        let (time, shared) = (*time, &self.shared);
                        return Poll::Ready(one(shared.receipts(time.as_slice(), &stored, 0)));
                    }
                    Err((error, payload)) => (*time, error, payload),
                },
            };
            let (Some(time), Some(payload)) = (time, payload) else {
                return Poll::Ready(Err(error));
            };
            let shared = Arc::clone(&self.shared);
            self.state = PendingState::Again(Box::pin(async move {
                one(shared.record_with_new_ticks(payload, vec![time], error).await?)
            }));
        }
    }
}

/// Events in the buffer of the writer, with their times and the future outcome of their batch.
pub(crate) struct SentEvents {
    payloads: ArrayRef,
    times: Vec<i64>,
    delivery: Delivery,
}

impl HandleState {
    /// Passes events to the writer, each with its own tick; returns as soon as the buffer has room
    /// for the events.
    pub(crate) async fn send(&self, payloads: ArrayRef) -> Result<SentEvents> {
        let columns = self.table.raw()?;
        let writer = self.writer().await?;
        let mut times = Vec::with_capacity(payloads.len());
        if self.table.source != TickSource::Server {
            for _ in 0..payloads.len() {
                times.push(self.now().await?);
            }
        }
        let batch = raw_batch(columns, times.clone(), Arc::clone(&payloads))?;
        let delivery = writer.write(batch).await?;
        Ok(SentEvents { payloads, times, delivery })
    }

    /// Passes one event with a new tick to the writer; returns as soon as the buffer has room for
    /// the event.
    pub(crate) async fn append(self: &Arc<Self>, payload: &[u8]) -> Result<Pending> {
        let columns = self.table.raw()?;
        let writer = self.writer().await?;
        let time = match self.table.source {
            TickSource::Server => None,
            _ => Some(self.now().await?),
        };
        let sent = writer.append(columns, time.unwrap_or(0), payload).await?;
        Ok(Pending { shared: Arc::clone(self), state: PendingState::First { time, sent } })
    }

    /// The client's estimate of the server's time.
    async fn now(&self) -> Result<i64> {
        if let Some(estimate) = self.client.time() {
            return Ok(estimate.time_ns);
        }
        Ok(self.client.sync_clock().await?.estimate.time_ns)
    }

    /// Awaits the outcome of events; records refused events again with new ticks.
    ///
    /// # Errors
    /// As [`Chronicle::record`](crate::Chronicle::record).
    pub(crate) async fn settle(&self, sent: SentEvents) -> Result<Vec<Receipt>> {
        // If the writer split the batch, the server may have stored some events and refused others.
        let whole = sent.delivery.is_whole();
        match sent.delivery.await {
            Ok(stored) => Ok(self.receipts(&sent.times, &stored, 0)),
            Err(error) if whole => {
                self.record_with_new_ticks(sent.payloads, sent.times, error).await
            }
            Err(error) => Err(error),
        }
    }

    /// Records events again with new ticks if `error` is a refusal of their times; otherwise
    /// returns `error`.
    async fn record_with_new_ticks(
        &self,
        payloads: ArrayRef,
        mut times: Vec<i64>,
        mut error: Error,
    ) -> Result<Vec<Receipt>> {
        let mut new_ticks = 0;
        loop {
            let outside = error.is_outside_window();
            let again = outside || (error.needs_new_time() && self.options.retries_collisions);
            if !again || times.is_empty() || new_ticks >= self.options.new_ticks {
                return Err(error);
            }
            new_ticks += 1;
            tracing::debug!(%error, new_ticks, "events are recorded with other ticks");
            if outside {
                self.resynchronize().await?;
            } else {
                self.next_tick(&times).await;
            }
            let doublings = (new_ticks - 1).min(PAUSES_DOUBLED_MAX);
            tokio::time::sleep(PAUSE.saturating_mul(1 << doublings)).await;
            let sent = self.send(Arc::clone(&payloads)).await?;
            let whole = sent.delivery.is_whole();
            times = sent.times;
            error = match sent.delivery.await {
                Ok(stored) => return Ok(self.receipts(&times, &stored, new_ticks)),
                Err(error) if whole => error,
                Err(error) => return Err(error),
            };
        }
    }

    /// Waits until the server's clock is past the last tick of `times`, the times that the server
    /// refused.
    async fn next_tick(&self, times: &[i64]) {
        let taken = times.iter().filter_map(|time| self.table.tick_of(*time)).max();
        let next = taken.and_then(|taken| self.table.time_of(taken.checked_add(1)?));
        let (Some(next), Some(now)) = (next, self.client.time()) else { return };
        let left = u64::try_from(next.saturating_sub(now.time_ns)).unwrap_or(0);
        tokio::time::sleep(Duration::from_nanos(left)).await;
    }

    fn receipts(&self, times: &[i64], stored: &Acknowledgement, new_ticks: u32) -> Vec<Receipt> {
        let count = stored.rows;
        let apart = stored.last_gsn.zip(stored.first_gsn);
        let each =
            apart.is_some_and(|(last, first)| last.checked_sub(first) == count.checked_sub(1));
        // Under some collision rules the server may have stored the events at later ticks.
        let moved = self.table.collision.moves_ticks();
        let receipt = |at: u64| {
            let time = usize::try_from(at).ok().and_then(|at| times.get(at)).filter(|_| !moved);
            let tick = time.and_then(|time| self.table.tick_of(*time));
            Receipt {
                tick,
                time_ns: tick.and_then(|tick| self.table.time_of(tick)),
                gsn: stored.first_gsn.filter(|_| each).and_then(|first| first.checked_add(at)),
                durability: stored.durability,
                new_ticks,
            }
        };
        (0..count).map(receipt).collect()
    }
}

/// The first receipt; for callers that recorded a single event.
pub(crate) fn one(receipts: Vec<Receipt>) -> Result<Receipt> {
    receipts.into_iter().next().ok_or_else(|| Error::protocol("an event has no acknowledgement"))
}

/// Converts payloads to a column.
///
/// # Errors
/// `InvalidBatch` for more than 2 GiB, the limit of a column.
pub(crate) fn column<T: AsRef<[u8]>>(payloads: &[T]) -> Result<ArrayRef> {
    let bytes: usize = payloads.iter().map(|payload| payload.as_ref().len()).sum();
    if i32::try_from(bytes).is_err() {
        return Err(Error::new(
            ErrorKind::InvalidBatch,
            format!("{} events of {bytes} bytes at once", payloads.len()),
        )
        .with_hint("record the events in several batches of less than 2 GiB"));
    }
    Ok(Arc::new(BinaryArray::from_iter_values(payloads)))
}
