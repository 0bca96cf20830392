//! An ACQUIRE that waits for others.

use std::{sync::Arc, time::Duration};

use futures::channel::oneshot;
use stratalog_model::ChronicleId;

use super::{
    Acquisitions,
    claim::{Acquisition, Moment, Refusal},
    register::Look,
};

/// A place among those who wait for a chronicle; given up when this is dropped.
#[derive(Debug)]
pub struct Waiting {
    acquisitions: Arc<Acquisitions>,
    chronicle: ChronicleId,
    /// `None` once it waits no longer.
    ticket: Option<u64>,
}

/// When to look again.
#[derive(Debug)]
pub struct Pause {
    /// After this at the latest: a lease runs out then.
    pub at_most: Option<Duration>,
    /// As soon as this is told.
    pub changed: oneshot::Receiver<()>,
}

impl Pause {
    pub(super) fn new(now: Moment, until: Option<Moment>, changed: oneshot::Receiver<()>) -> Self {
        let at_most = until.map(|until| Duration::from_nanos(until.0.saturating_sub(now.0)));
        Self { at_most, changed }
    }
}

impl Waiting {
    pub(super) fn new(
        acquisitions: Arc<Acquisitions>,
        chronicle: ChronicleId,
        ticket: u64,
    ) -> Self {
        Self { acquisitions, chronicle, ticket: Some(ticket) }
    }

    /// Looks whether the chronicle is acquired by now; if not, when to look again.
    ///
    /// # Errors
    /// `Closing`, `Deadlock`: it waits no longer.
    pub fn look(&mut self) -> Result<Option<Pause>, Refusal> {
        let Some(ticket) = self.ticket else { return Ok(None) };
        // Not under the lock: it may have to wait for the disk.
        let time_ns = self.acquisitions.clock.now_ns();
        let mut inner = self.acquisitions.inner.lock();
        let now = self.acquisitions.now();
        match inner.register.look(now, time_ns, self.chronicle, ticket) {
            Ok(Look::Waits(until)) => {
                let changed = inner.listen(self.chronicle);
                Ok(Some(Pause::new(now, until, changed)))
            }
            Ok(Look::Granted) => {
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

    /// Those in its way.
    pub fn in_the_way(&self) -> Vec<Acquisition> {
        let Some(ticket) = self.ticket else { return Vec::new() };
        let mut inner = self.acquisitions.inner.lock();
        inner.register.in_the_way(self.acquisitions.now(), self.chronicle, ticket)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut inner = self.acquisitions.inner.lock();
        inner.register.withdraw(self.chronicle, ticket);
        inner.changed(self.chronicle);
    }
}
