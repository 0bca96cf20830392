//! Exclusive write access to a chronicle, for a statement or a block: other sessions cannot write
//! to the chronicle.

use std::sync::Arc;

use stratalog_model::{ChronicleDefinition, ChronicleId, Error, ErrorKind, Result, TickRange};
use stratalog_visor_core::{
    Acquisitions,
    acquisition::{Claim, HolderId, Mode},
};

use super::Session;
use crate::statement::acquire::wait_for;

/// A guard of exclusive write access. Until the drop, other sessions can read the chronicle, but
/// cannot write.
#[derive(Debug)]
pub struct ExclusiveHold {
    chronicle: ChronicleId,
    holder: HolderId,
    acquisitions: Arc<Acquisitions>,
}

impl Session {
    /// Waits for other sessions that write to a chronicle, and prevents new writers until the
    /// returned guard drops.
    ///
    /// # Errors
    /// `LockNotAvailable` after `lock_timeout`; `ObjectInUse` if this session has acquired the
    /// chronicle; `FeatureNotSupported` if the open block has changed the chronicle; the errors of
    /// ACQUIRE.
    pub(crate) async fn hold_exclusively(
        &self,
        chronicle: &ChronicleDefinition,
    ) -> Result<ExclusiveHold> {
        let id = chronicle.id;
        self.check_lease(id)?;
        if self.transaction.is_writing(id) {
            return Err(Error::not_yet(
                "adding a key to a table after writes or changes in the same transaction",
            )
            .with_hint("COMMIT first"));
        }
        let acquisitions = Arc::clone(self.acquisitions());
        let is_own = |holder: HolderId| holder == self.holder();
        let mut all = acquisitions.list().into_iter();
        if all.any(|one| one.chronicle == id && is_own(one.holder) && !one.standing.is_implicit()) {
            return Err(Error::new(
                ErrorKind::ObjectInUse,
                format!("chronicle \"{}\" is acquired by this session", chronicle.name),
            )
            .with_subject(chronicle.subject())
            .with_hint(format!("RELEASE CHRONICLE {} first", chronicle.name)));
        }
        // Use a separate holder: other sessions of the same client must not write, either.
        let holder = HolderId(self.process_id()).alone();
        let claim = Claim { mode: Mode::Exclusive, ticks: TickRange::ALL, lease_ns: None };
        let outcome = acquisitions.ask(id, holder, claim);
        let waiting = outcome.map_err(|refusal| self.refusal_error(id, refusal))?;
        if let Some(waiting) = waiting {
            self.waits().wait(wait_for(self, chronicle, waiting)).await?;
        }
        let hold = ExclusiveHold { chronicle: id, holder, acquisitions };
        self.drop_lost_writes(id);
        Ok(hold)
    }
}

impl Drop for ExclusiveHold {
    fn drop(&mut self) {
        self.acquisitions.release(self.chronicle, self.holder);
    }
}
