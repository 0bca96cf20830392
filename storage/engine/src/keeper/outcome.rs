//! Waiting for another statement's outcome, without waiting in a circle.
//!
//! An event whose key is reserved by a statement that has not ended must not be judged
//! yet: if that statement is rolled back, or its frames fail, there was no collision.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use stratalog_model::{Error, ErrorKind, Result};
use tokio::sync::watch;

/// Whether a statement has ended, and for whom to wake.
#[derive(Debug)]
pub struct Outcome {
    id: u64,
    ended: watch::Sender<bool>,
}

impl Outcome {
    /// A statement under way; `id` is unique in the engine.
    pub fn new(id: u64) -> Arc<Self> {
        Arc::new(Self { id, ended: watch::Sender::new(false) })
    }

    /// The statement.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Waits until the statement is visible or rolled back.
    pub async fn ended(&self) {
        let mut receiver = self.ended.subscribe();
        // The sender lives in `self`, so this cannot fail.
        let _ = receiver.wait_for(|ended| *ended).await;
    }

    /// Whether the statement is visible or rolled back.
    pub fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    fn end(&self) {
        self.ended.send_replace(true);
    }
}

/// Ends the outcome when it drops: after commit, rollback, failure and cancellation alike.
#[derive(Debug)]
pub struct Ending(pub Arc<Outcome>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Which statement waits for which.
#[derive(Debug, Default)]
pub struct Waits {
    edges: Mutex<HashMap<u64, u64, RandomState>>,
}

impl Waits {
    /// Waits in the name of `waiter` until `holder` has ended.
    ///
    /// # Errors
    /// `DeadlockDetected` when `holder` waits, directly or not, for `waiter`.
    pub async fn wait(&self, waiter: u64, holder: &Outcome) -> Result<()> {
        let _edge = self.edge(waiter, holder.id())?;
        holder.ended().await;
        Ok(())
    }

    fn edge(&self, waiter: u64, holder: u64) -> Result<Edge<'_>> {
        let mut edges = self.edges.lock();
        let mut at = Some(holder);
        while let Some(next) = at {
            if next == waiter {
                return Err(Error::new(ErrorKind::DeadlockDetected, "deadlock detected")
                    .with_detail(
                        "this statement and another one wait for each other's uncommitted keys",
                    )
                    .with_hint(
                        "roll back, or to a savepoint before the rows of this block, and try again",
                    ));
            }
            at = edges.get(&next).copied();
        }
        edges.insert(waiter, holder);
        Ok(Edge { waits: self, waiter })
    }
}

/// An entry of [`Waits`], removed when the wait ends or is cancelled.
struct Edge<'a> {
    waits: &'a Waits,
    waiter: u64,
}

impl Drop for Edge<'_> {
    fn drop(&mut self) {
        self.waits.edges.lock().remove(&self.waiter);
    }
}

#[cfg(test)]
mod tests;
