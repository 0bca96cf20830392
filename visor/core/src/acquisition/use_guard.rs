//! A chronicle in use by a statement or a transaction: an implicit shared acquisition until the end
//! of the use.

use std::sync::Arc;

use stratalog_model::{ChronicleId, TickRange};

use super::{
    Acquisitions,
    claim::{HolderId, Refusal, Use},
    entry::StartedUse,
};

/// A single use of a chronicle; a drop ends the use.
#[derive(Debug)]
pub struct UseGuard {
    acquisitions: Arc<Acquisitions>,
    chronicle: ChronicleId,
    holder: HolderId,
    what: Use,
    entered: StartedUse,
    committing: bool,
}

impl UseGuard {
    pub(super) fn new(
        acquisitions: Arc<Acquisitions>,
        chronicle: ChronicleId,
        holder: HolderId,
        what: Use,
        entered: StartedUse,
    ) -> Self {
        Self { acquisitions, chronicle, holder, what, entered, committing: false }
    }

    /// The chronicle's id.
    pub fn chronicle(&self) -> ChronicleId {
        self.chronicle
    }

    /// The kind of use.
    pub fn what(&self) -> Use {
        self.what
    }

    /// The events visible to the statement and open to its writes: the acquired projection of its
    /// holder, or all events.
    pub fn ticks(&self) -> TickRange {
        self.entered.ticks
    }

    /// The time of the holder's acquisition, in nanoseconds since 1970; `None` without an ACQUIRE.
    /// Events with times of the clock are not accepted from before the acquisition (F24).
    pub fn since_ns(&self) -> Option<i64> {
        self.entered.since_ns
    }

    /// Checks that the holder may continue: for a long use.
    ///
    /// # Errors
    /// `Lost` when a lease has run out, and the chronicle was neither acquired again nor released.
    pub fn check(&self) -> Result<(), Refusal> {
        self.acquisitions.check(self.chronicle, self.holder)
    }

    /// The reason why the writes will never be committed: the lease of the writes has run out.
    /// `None` when a commit is possible or in progress.
    pub fn lost(&self) -> Option<Refusal> {
        if self.committing || !self.what.writes() {
            return None;
        }
        let mut inner = self.acquisitions.inner.lock();
        let (now, epoch) = (self.acquisitions.now(), self.entered.epoch);
        inner.register.lost(now, self.chronicle, self.holder, epoch)
    }

    /// Starts the commit: the writes may be durable at any moment from here on. If the lease runs
    /// out now, other holders still wait for the end of the use.
    ///
    /// # Errors
    /// `Lost` when the lease has run out: then no write may be committed.
    pub fn commit(&mut self) -> Result<(), Refusal> {
        if self.committing || !self.what.writes() {
            return Ok(());
        }
        let mut inner = self.acquisitions.inner.lock();
        let (now, epoch) = (self.acquisitions.now(), self.entered.epoch);
        inner.register.commit(now, self.chronicle, self.holder, epoch)?;
        self.committing = true;
        Ok(())
    }
}

impl Drop for UseGuard {
    fn drop(&mut self) {
        let Self { chronicle, holder, what, entered, committing, .. } = *self;
        let mut inner = self.acquisitions.inner.lock();
        inner.register.exit(chronicle, holder, what, entered.epoch, committing);
        if what.writes() {
            inner.changed(chronicle);
        }
    }
}
