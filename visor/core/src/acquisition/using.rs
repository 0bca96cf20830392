//! A chronicle in use by a statement or a transaction: acquired, shared, for as long as that takes.

use std::sync::Arc;

use stratalog_model::{ChronicleId, TickRange};

use super::{
    Acquisitions,
    claim::{HolderId, Refusal, Use},
    entry::Entered,
};

/// One use of a chronicle; it ends when this is dropped.
#[derive(Debug)]
pub struct Using {
    acquisitions: Arc<Acquisitions>,
    chronicle: ChronicleId,
    holder: HolderId,
    what: Use,
    entered: Entered,
    committing: bool,
}

impl Using {
    pub(super) fn new(
        acquisitions: Arc<Acquisitions>,
        chronicle: ChronicleId,
        holder: HolderId,
        what: Use,
        entered: Entered,
    ) -> Self {
        Self { acquisitions, chronicle, holder, what, entered, committing: false }
    }

    /// Which chronicle.
    pub fn chronicle(&self) -> ChronicleId {
        self.chronicle
    }

    /// What is done with it.
    pub fn what(&self) -> Use {
        self.what
    }

    /// The events that the statement sees and may write: those of the projection that its holder has
    /// acquired, or all.
    pub fn ticks(&self) -> TickRange {
        self.entered.ticks
    }

    /// When its holder acquired the chronicle: nanoseconds since 1970; `None` for one that did not say so.
    /// Events that go by the clock are not accepted from before that (F24).
    pub fn since_ns(&self) -> Option<i64> {
        self.entered.since_ns
    }

    /// Checks that the holder may still do what it does: for a use that goes on and on.
    ///
    /// # Errors
    /// `Lost` when a lease has run out, and the chronicle was neither acquired again nor released.
    pub fn check(&self) -> Result<(), Refusal> {
        self.acquisitions.check(self.chronicle, self.holder)
    }

    /// Why what was written will never be committed: a lease has run out through which it was. `None` where
    /// it may be, or is on its way.
    pub fn lost(&self) -> Option<Refusal> {
        if self.committing || !self.what.writes() {
            return None;
        }
        let mut inner = self.acquisitions.inner.lock();
        let (now, epoch) = (self.acquisitions.now(), self.entered.epoch);
        inner.register.lost(now, self.chronicle, self.holder, epoch)
    }

    /// What was written may be durable at any moment from here on: a lease that runs out now lets
    /// nobody else in before the use has ended.
    ///
    /// # Errors
    /// `Lost` when it has run out: then nothing may be committed.
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

impl Drop for Using {
    fn drop(&mut self) {
        let Self { chronicle, holder, what, entered, committing, .. } = *self;
        let mut inner = self.acquisitions.inner.lock();
        inner.register.exit(chronicle, holder, what, entered.epoch, committing);
        if what.writes() {
            inner.changed(chronicle);
        }
    }
}
