//! The chronicles that a block uses, from the first use to the end of the block.

use stratalog_model::ChronicleId;
use stratalog_visor_core::acquisition::UseGuard;

use super::Transaction;
use crate::TransactionState;

impl Transaction {
    /// Stores the guard of a use until the end of the block. Outside of a block, returns the guard
    /// to the statement.
    pub fn hold(&self, using: UseGuard) -> Option<UseGuard> {
        let mut block = self.0.lock();
        if block.state != TransactionState::Block {
            return Some(using);
        }
        let is_same = |known: &UseGuard| {
            known.chronicle() == using.chronicle() && known.what().writes() == using.what().writes()
        };
        // Keep the first guard: if its lease runs out, rows written under it are lost.
        if !block.uses.iter().any(is_same) {
            block.uses.push(using);
        }
        None
    }

    /// Whether a statement of the block has written to a chronicle, or has begun to write.
    pub fn is_writing(&self, chronicle: ChronicleId) -> bool {
        let block = self.0.lock();
        block.uses.iter().any(|using| using.chronicle() == chronicle && using.what().writes())
    }
}
