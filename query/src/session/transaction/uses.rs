//! The chronicles used by a block, from the first use to the end of the block.

use stratalog_model::ChronicleId;
use stratalog_visor_core::acquisition::UseGuard;

use super::Transaction;
use crate::TransactionState;

impl Transaction {
    /// Keeps the use of a chronicle until the end of the block. Outside of a block, returns the use
    /// to the statement.
    pub fn hold(&self, using: UseGuard) -> Option<UseGuard> {
        let mut block = self.0.lock();
        if block.state != TransactionState::Block {
            return Some(using);
        }
        let is_same = |known: &UseGuard| {
            known.chronicle() == using.chronicle() && known.what().writes() == using.what().writes()
        };
        // Keep the first use: rows written through the first use may be lost.
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
