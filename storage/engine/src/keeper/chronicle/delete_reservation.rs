//! Keeps deletes and merges apart (`collision = 'merge'`): without the reservation, a merge could
//! bring values of a deleted event back.
//!
//! ```text
//!   delete:  waits for uncommitted merges of its ticks ─► reserves the ticks ─► fence published
//!   merge:   waits for deletes with its tick           ─► reserves its key   ─► committed
//! ```

use std::sync::Arc;

use stratalog_model::{Collision, Result, TickRange};

use super::{Chronicle, state::UnfinishedDelete};
use crate::keeper::outcome::{Outcome, OutcomeEnd, WaitGraph};

/// The reserved ticks of an unfinished delete. The drop frees the ticks.
#[derive(Debug)]
pub struct DeleteReservation {
    // Fields drop in this order: the ticks are free before waiting appends wake.
    _ticks: ReservedTicks,
    /// The outcome of a delete outside of an append.
    _ending: Option<OutcomeEnd>,
}

impl DeleteReservation {
    /// Adds the end of the delete's own statement.
    #[must_use]
    pub fn ending(self, ending: OutcomeEnd) -> Self {
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
        if let Some(at) = deletes.iter().position(own) {
            deletes.swap_remove(at);
        }
    }
}

impl Chronicle {
    /// Reserves the ticks of a delete by the statement of `outcome`. First waits for uncommitted
    /// merges of other statements with these ticks. `None` for a chronicle without merges.
    ///
    /// # Errors
    /// `DeadlockDetected`.
    pub async fn reserve_delete(
        self: &Arc<Self>,
        ticks: TickRange,
        outcome: &Arc<Outcome>,
        wait_graph: &WaitGraph,
    ) -> Result<Option<DeleteReservation>> {
        if self.collision != Collision::Merge || ticks.is_empty() {
            return Ok(None);
        }
        loop {
            let merge = {
                let mut state = self.state.lock();
                let other = state.pending.values().find(|pending| {
                    pending.outcome.id() != outcome.id() && pending.merged.overlaps(&ticks)
                });
                match other.map(|other| Arc::clone(&other.outcome)) {
                    Some(merge) => merge,
                    None => {
                        let outcome = Arc::clone(outcome);
                        state.deletes.push(UnfinishedDelete { ticks, outcome: outcome.clone() });
                        let chronicle = Arc::clone(self);
                        let ticks = ReservedTicks { chronicle, range: ticks, outcome };
                        return Ok(Some(DeleteReservation { _ticks: ticks, _ending: None }));
                    }
                }
            };
            wait_graph.wait(outcome.id(), &merge).await?;
        }
    }
}
