//! What an open block deletes: a range of one table, removed by COMMIT.
//!
//! The journal has one record for a DELETE, which counts as soon as it is durable. So the block keeps the range
//! until COMMIT writes that record. Until then the block reads without the range, and everybody else with it. A
//! second record, of other rows or of another table, could be lost alone in a crash: such blocks are refused.

use std::sync::Arc;

use stratalog_model::{BoxFuture, ChronicleDefinition, Error, EventStore, Result, TickRange};

use super::Transaction;
use crate::TransactionState;

/// A range of a table that COMMIT deletes.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// The table.
    pub chronicle: Arc<ChronicleDefinition>,
    /// The events to delete.
    pub range: TickRange,
}

impl Deletion {
    /// Deletes the range, for a COMMIT.
    pub fn carry_out(self, store: Arc<dyn EventStore>) -> BoxFuture<'static, Result<u64>> {
        Box::pin(async move { store.delete(&self.chronicle, self.range).await })
    }

    /// One range that is both, where there is one.
    fn joined(&self, range: TickRange) -> Option<TickRange> {
        let touches = self.range.start <= range.end && range.start <= self.range.end;
        touches.then(|| self.range.hull(&range))
    }
}

impl Transaction {
    /// Adds a range, which has events, to what the block deletes.
    ///
    /// # Errors
    /// `FeatureNotSupported` beside rows or definitions of the block, a DELETE from another table, or one of a
    /// range apart from this one.
    pub fn delete(&self, chronicle: &Arc<ChronicleDefinition>, range: TickRange) -> Result<()> {
        let mut block = self.0.lock();
        if block.state != TransactionState::Block {
            return Ok(());
        }
        if !block.written.is_empty() {
            return Err(refused("DELETE in a block that has written rows"));
        }
        if block.definition.is_some() {
            return Err(refused("DELETE in a block that defines something"));
        }
        let range = match &block.deletion {
            None => range,
            Some(before) if before.chronicle.id != chronicle.id => {
                return Err(refused("DELETE from two tables in one block"));
            }
            Some(before) => before.joined(range).ok_or_else(|| {
                refused("DELETE of two ranges that do not touch each other in one block")
            })?,
        };
        block.deletion = Some(Deletion { chronicle: Arc::clone(chronicle), range });
        block.own = None;
        Ok(())
    }

    /// Checks that the block deletes nothing, before it writes or defines something.
    ///
    /// # Errors
    /// `FeatureNotSupported`.
    pub fn check_no_deletion(&self, what: &str) -> Result<()> {
        match self.0.lock().deletion {
            None => Ok(()),
            Some(_) => Err(refused(&format!("{what} in a block that has deleted rows"))),
        }
    }
}

fn refused(what: &str) -> Error {
    Error::not_yet(what).with_hint("COMMIT first")
}
