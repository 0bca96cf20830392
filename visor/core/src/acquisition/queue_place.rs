//! An ACQUIRE that waits.

use std::{sync::Arc, time::Duration};

use futures::channel::oneshot;
use stratalog_model::ChronicleId;

use super::{
    Acquisitions,
    claim::{Acquisition, Moment, Refusal},
    register::RequestState,
};

/// A place in the queue for a chronicle. Dropping the value withdraws the request.
#[derive(Debug)]
pub struct QueuePlace {
    acquisitions: Arc<Acquisitions>,
    chronicle: ChronicleId,
    /// The number of the request; `None` after the end of the wait.
    ticket: Option<u64>,
}

/// How long to wait before the next check.
#[derive(Debug)]
pub struct Pause {
    /// Maximum wait: until the next lease runs out, if any.
    pub at_most: Option<Duration>,
    /// Ends the wait early when the state of the chronicle changes.
    pub changed: oneshot::Receiver<()>,
}

impl Pause {
    pub(super) fn new(now: Moment, until: Option<Moment>, changed: oneshot::Receiver<()>) -> Self {
        debug_assert!(until.is_none_or(|until| now < until), "a pause ends in the past");
        let at_most = until.map(|until| Duration::from_nanos(until.0.saturating_sub(now.0)));
        Self { at_most, changed }
    }
}

impl QueuePlace {
    pub(super) fn new(
        acquisitions: Arc<Acquisitions>,
        chronicle: ChronicleId,
        ticket: u64,
    ) -> Self {
        Self { acquisitions, chronicle, ticket: Some(ticket) }
    }

    /// Checks whether the request can be granted now: returns `None` if it is granted, otherwise
    /// the wait before the next check.
    ///
    /// # Errors
    /// `Closing`, `Deadlock`: the request has been removed from the queue.
    pub fn check_request(&mut self) -> Result<Option<Pause>, Refusal> {
        let Some(ticket) = self.ticket else { return Ok(None) };
        // Read the clock before taking the lock, because the clock may have to wait for the disk.
        let time_ns = self.acquisitions.clock.now_ns();
        let mut inner = self.acquisitions.inner.lock();
        let now = self.acquisitions.now();
        match inner.register.check_request(now, time_ns, self.chronicle, ticket) {
            Ok(RequestState::Waits(until)) => {
                let changed = inner.listen(self.chronicle);
                Ok(Some(Pause::new(now, until, changed)))
            }
            Ok(RequestState::Granted) => {
                self.ticket = None;
                inner.changed(self.chronicle);
                Ok(None)
            }
            Err(refusal) => {
                self.ticket = None;
                inner.changed(self.chronicle);
                Err(refusal)
            }
        }
    }

    /// The acquisitions that the request waits for.
    pub fn blockers(&self) -> Vec<Acquisition> {
        let Some(ticket) = self.ticket else { return Vec::new() };
        let mut inner = self.acquisitions.inner.lock();
        inner.register.blockers(self.acquisitions.now(), self.chronicle, ticket)
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut inner = self.acquisitions.inner.lock();
        inner.register.withdraw(self.chronicle, ticket);
        inner.changed(self.chronicle);
    }
}
