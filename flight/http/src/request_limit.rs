//! The limit of running requests. When the limit is reached, a new request replaces a stalled
//! request: a request whose client has stopped sending the body.
//!
//! ```text
//!   new request ─► gets a place ─► working ⇄ waiting for bytes of the body
//!                                                │   no place is free: the longest wait ends with
//!                                                └─► an error, if it has lasted for STALLED
//! ```
//! Thus clients that stop in the middle of a body, however many, never block other clients. A
//! request keeps its place while its body makes progress and while it waits for the server.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::BoxError;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use stratalog_model::{Error, ErrorKind};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The shortest wait for bytes of a body after which a new request may take the place.
const STALLED: Duration = Duration::from_secs(1);

/// The limit of running requests. Each running request occupies one place. Clones of the limit
/// share the places.
#[derive(Debug, Clone)]
pub(crate) struct RequestLimit {
    table: Arc<Mutex<PlaceTable>>,
    places: usize,
}

#[derive(Debug, Default)]
struct PlaceTable {
    next: u64,
    /// The number of occupied places.
    count: usize,
    /// The requests that wait for bytes of their bodies: start of the wait, and the token that ends
    /// the request. The longest wait is first.
    waits: BTreeMap<u64, (Instant, CancellationToken)>,
}

/// The place of a running request. Dropping this value frees the place.
#[derive(Debug)]
pub(crate) struct RequestPlace {
    table: Arc<Mutex<PlaceTable>>,
    /// Cancelled when another request takes over the place.
    lost: CancellationToken,
}

impl RequestLimit {
    /// Creates a limit of `places` running requests.
    pub(crate) fn new(places: usize) -> Self {
        Self { table: Arc::default(), places }
    }

    /// Takes a free place, or else the place of the request that has waited longest for its body,
    /// if this wait has lasted for [`STALLED`]. `None` without such a place.
    pub(crate) fn try_enter(&self) -> Option<Arc<RequestPlace>> {
        self.enter_at(Instant::now())
    }

    fn enter_at(&self, now: Instant) -> Option<Arc<RequestPlace>> {
        let mut table = self.table.lock();
        if table.count < self.places {
            table.count += 1;
        } else {
            let longest = table.waits.first_entry()?;
            if now.saturating_duration_since(longest.get().0) < STALLED {
                return None;
            }
            // The new request takes over the place, so the number of occupied places does not
            // change.
            longest.remove().1.cancel();
        }
        let lost = CancellationToken::new();
        Some(Arc::new(RequestPlace { table: Arc::clone(&self.table), lost }))
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if !self.lost.is_cancelled() {
            table.count = table.count.saturating_sub(1);
        }
    }
}

/// The body of a running request. The body ends with an error when another request takes over the
/// place.
pub(crate) struct WatchedBody<B> {
    body: B,
    /// `None` for a request of a route without a limit.
    place: Option<Arc<RequestPlace>>,
    /// The current wait for bytes of the body; `None` while bytes arrive.
    wait: Option<BodyWait>,
}

/// A wait for bytes of a body.
struct BodyWait {
    place: Arc<RequestPlace>,
    /// The key of this wait in `PlaceTable::waits`.
    number: u64,
    lost: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl BodyWait {
    fn begin(place: &Arc<RequestPlace>) -> Self {
        let mut table = place.table.lock();
        let number = table.next;
        table.next += 1;
        table.waits.insert(number, (Instant::now(), place.lost.clone()));
        let lost = Box::pin(place.lost.clone().cancelled_owned());
        Self { place: Arc::clone(place), number, lost }
    }
}

impl Drop for BodyWait {
    fn drop(&mut self) {
        self.place.table.lock().waits.remove(&self.number);
    }
}

impl<B> WatchedBody<B> {
    /// Wraps the body of the request that has `place`. The wrapper records the waits for bytes.
    pub(crate) fn new(body: B, place: Option<Arc<RequestPlace>>) -> Self {
        Self { body, place, wait: None }
    }
}

impl<B> Body for WatchedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { body, place, wait } = &mut *self;
        if place.as_ref().is_some_and(|place| place.lost.is_cancelled()) {
            return Poll::Ready(Some(Err(lost_place().into())));
        }
        let polled = Pin::new(body).poll_frame(context).map_err(Into::into);
        let Some(place) = place else { return polled };
        if polled.is_ready() {
            *wait = None;
            return polled;
        }
        let wait = wait.get_or_insert_with(|| BodyWait::begin(place));
        match wait.lost.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(lost_place().into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn lost_place() -> Error {
    Error::new(
        ErrorKind::TooManyConnections,
        format!(
            "no more of the body came for {} ms, and another request needed the place; nothing of the request was stored",
            STALLED.as_millis()
        ),
    )
    .with_hint("send the request again, with the whole body at once, or raise connections_max")
}

#[cfg(test)]
mod tests;
