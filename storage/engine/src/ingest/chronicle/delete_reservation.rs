//! Prevents deletes and merges of the same events from overlapping (`collision = 'merge'`). Without
//! this reservation, a merge could copy values of a deleted event into a new event.
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

/// The ticks that an unfinished delete has reserved; dropping this value frees the ticks.
#[derive(Debug)]
pub struct DeleteReservation {
    // Fields drop in this order: the ticks must be free before waiting appends wake.
    _ticks: ReservedTicks,
    /// Ends the outcome of a delete that is not part of an append.
    _ending: Option<OutcomeEnd>,
}

impl DeleteReservation {
    /// Adds the outcome of a delete that is not part of an append. When the reservation drops, the
    /// outcome ends and the waiting appends wake.
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
    /// Reserves `ticks` for a delete by the statement of `outcome`, and waits until other
    /// statements have finished their uncommitted merges in these ticks. While the delete waits,
    /// these statements may merge further events; merges of all other statements wait for the
    /// delete. Returns `None` for a chronicle without merges.
    ///
    /// # Errors
    /// `DeadlockDetected` if one of these statements waits for `outcome`.
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
