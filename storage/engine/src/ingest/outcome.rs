//! Waits for the outcome of another statement, without deadlocks.
//!
//! An unfinished statement may have reserved the key of a new event. The keeper cannot decide about
//! the new event until the statement ends: if the statement is rolled back or its frames fail,
//! there is no collision.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use stratalog_model::{Error, ErrorKind, Result};
use tokio::sync::watch;

/// A shared flag for the end of a statement; wakes the statements that wait for this end.
#[derive(Debug)]
pub struct Outcome {
    id: u64,
    ended: watch::Sender<bool>,
}

impl Outcome {
    /// The outcome of a running statement. `id` identifies the statement in the wait graph, and is
    /// unique in the engine.
    pub fn new(id: u64) -> Arc<Self> {
        Arc::new(Self { id, ended: watch::Sender::new(false) })
    }

    /// The id of the statement in the wait graph.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Waits for the end of the statement: a commit (its events are then visible), or a rollback.
    pub async fn ended(&self) {
        let mut receiver = self.ended.subscribe();
        // `self` owns the sender: the wait cannot fail.
        let _ = receiver.wait_for(|ended| *ended).await;
        debug_assert!(self.has_ended(), "the wait ends before the statement");
    }

    /// True after the end of the statement: a commit (its events are then visible), or a rollback.
    pub fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    fn end(&self) {
        self.ended.send_replace(true);
    }
}

/// Marks the statement as ended when dropped: after a commit, a rollback, a failure or a
/// cancellation.
#[derive(Debug)]
pub struct OutcomeEnd(pub Arc<Outcome>);

impl Drop for OutcomeEnd {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The wait graph, for the detection of deadlocks: each waiting statement, and the statement for
/// which it waits.
#[derive(Debug, Default)]
pub struct WaitGraph {
    edges: Mutex<HashMap<u64, u64, RandomState>>,
}

impl WaitGraph {
    /// Waits for the end of the statement `holder`, on behalf of the statement `waiter`.
    ///
    /// # Errors
    /// `DeadlockDetected` if `holder` waits for `waiter`, directly or indirectly.
    pub async fn wait(&self, waiter: u64, holder: &Outcome) -> Result<()> {
        let _edge = self.edge(waiter, holder.id())?;
        holder.ended().await;
        Ok(())
    }

    fn edge(&self, waiter: u64, holder: u64) -> Result<WaitEdge<'_>> {
        let mut edges = self.edges.lock();
        let mut at = Some(holder);
        while let Some(next) = at {
            if next == waiter {
                return Err(Error::new(ErrorKind::DeadlockDetected, "deadlock detected")
                    .with_detail(
                        "this statement and another statement wait for each other's uncommitted keys or deletes",
                    )
                    .with_hint(
                        "roll back, or to a savepoint before the rows of this block, and try again",
                    ));
            }
            at = edges.get(&next).copied();
        }
        debug_assert!(!edges.contains_key(&waiter), "a statement waits twice at once");
        edges.insert(waiter, holder);
        Ok(WaitEdge { waits: self, waiter })
    }
}

/// An entry of [`WaitGraph`]; the drop removes the entry, at the end or the cancellation of the
/// wait.
struct WaitEdge<'a> {
    waits: &'a WaitGraph,
    waiter: u64,
}

impl Drop for WaitEdge<'_> {
    fn drop(&mut self) {
        let edge = self.waits.edges.lock().remove(&self.waiter);
        debug_assert!(edge.is_some(), "the wait has ended already");
    }
}

#[cfg(test)]
mod tests;
