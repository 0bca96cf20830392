//! Keeps deletes and merges apart (`collision = 'merge'`): without the reservation, a merge could
//! bring values of a deleted event back.
//!
//! ```text
//!   delete:  reserves its ticks ─► waits for uncommitted merges with these ticks ─► fence published
//!   merge:   waits for deletes with its tick ─► reserves its key ─► committed
//! ```

use std::sync::Arc;

use stratalog_model::{Result, TickRange};

use super::{Chronicle, state::UnfinishedDelete};
use crate::{
    ingest::outcome::{Outcome, OutcomeEnd, WaitGraph},
    sabotage,
};

/// The reserved ticks of an unfinished delete. The drop frees the ticks.
#[derive(Debug)]
pub struct DeleteReservation {
    // Fields drop in this order: the ticks are free before waiting appends wake.
    _ticks: ReservedTicks,
    /// The outcome of a delete outside of an append.
    _ending: Option<OutcomeEnd>,
}

impl DeleteReservation {
    /// Adds the outcome of a delete outside of an append. The drop of the reservation ends the
    /// outcome, and wakes the appends that wait.
    #[must_use]
    pub fn ending(self, ending: OutcomeEnd) -> Self {
        debug_assert!(self._ending.is_none(), "a delete has two outcomes");
        Self { _ending: Some(ending), ..self }
    }
}

#[derive(Debug)]
struct ReservedTicks {
    chronicle: Arc<Chronicle>,
    range: TickRange,
    outcome: Arc<Outcome>,
}

impl Drop for ReservedTicks {
    fn drop(&mut self) {
        let deletes = &mut self.chronicle.state.lock().deletes;
        let own = |delete: &UnfinishedDelete| {
            delete.ticks == self.range && Arc::ptr_eq(&delete.outcome, &self.outcome)
        };
        let at = deletes.iter().position(own);
        debug_assert!(at.is_some(), "the reserved ticks are free already");
        if let Some(at) = at {
            deletes.swap_remove(at);
        }
    }
}

impl Chronicle {
    /// Reserves the ticks of a delete by the statement of `outcome`, and waits for uncommitted
    /// merges of other statements with these ticks. The statements of these merges may merge further
    /// events; all other merges wait for the delete. `None` for a chronicle without merges.
    ///
    /// # Errors
    /// `DeadlockDetected`.
    pub async fn reserve_delete(
        self: &Arc<Self>,
        ticks: TickRange,
        outcome: &Arc<Outcome>,
        wait_graph: &WaitGraph,
    ) -> Result<Option<DeleteReservation>> {
        if !self.collision.takes_earlier_values()
            || ticks.is_empty()
            || sabotage::active("merge-beside-delete")
        {
            return Ok(None);
        }
        let reserved = {
            let mut state = self.state.lock();
            let waits_for = state.merges_of_others(&ticks, outcome).map(|other| other.id());
            let waits_for = waits_for.collect();
            let outcome = Arc::clone(outcome);
            state.deletes.push(UnfinishedDelete { ticks, outcome: outcome.clone(), waits_for });
            ReservedTicks { chronicle: Arc::clone(self), range: ticks, outcome }
        };
        loop {
            let merge = self.state.lock().merges_of_others(&ticks, outcome).next().cloned();
            match merge {
                Some(merge) => wait_graph.wait(outcome.id(), &merge).await?,
                None => return Ok(Some(DeleteReservation { _ticks: reserved, _ending: None })),
            }
        }
    }
}
