//! The use of a chronicle by a statement or a transaction, which is an implicit shared acquisition
//! until its end.

use std::sync::Arc;

use stratalog_model::{ChronicleId, TickRange};

use super::{
    Acquisitions,
    claim::{HolderId, Refusal, Use},
    entry::StartedUse,
};

/// One use of a chronicle. Dropping the value ends the use.
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

    /// How the statement uses the chronicle.
    pub fn what(&self) -> Use {
        self.what
    }

    /// The ticks of the events that the statement may read and write: the range that its holder has
    /// acquired, or all ticks.
    pub fn ticks(&self) -> TickRange {
        self.entered.ticks
    }

    /// The wall-clock time of the holder's acquisition, in nanoseconds since 1970; `None` without
    /// an ACQUIRE. For chronicles with a clocked time source, earlier events are refused (F24).
    pub fn since_ns(&self) -> Option<i64> {
        self.entered.since_ns
    }

    /// For long uses: checks that the holder may continue.
    ///
    /// # Errors
    /// `Lost` if the lease has run out and the holder has neither acquired again nor released.
    pub fn check(&self) -> Result<(), Refusal> {
        self.acquisitions.check(self.chronicle, self.holder)
    }

    /// The reason why the writes will never be committed: their lease has run out. `None` if a
    /// commit is possible or has started.
    pub fn lost(&self) -> Option<Refusal> {
        if self.committing || !self.what.writes() {
            return None;
        }
        let mut inner = self.acquisitions.inner.lock();
        let (now, epoch) = (self.acquisitions.now(), self.entered.epoch);
        inner.register.lost(now, self.chronicle, self.holder, epoch)
    }

    /// Starts the commit: from now on, the writes may become durable at any moment. If the lease
    /// runs out during the commit, other holders still wait for the end of this use.
    ///
    /// # Errors
    /// `Lost` if the lease has run out; then the caller must not commit.
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
