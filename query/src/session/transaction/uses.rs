//! The chronicles that a block uses, from its first statement that does until it ends.

use stratalog_model::ChronicleId;
use stratalog_visor_core::acquisition::Using;

use super::Transaction;
use crate::TransactionState;

impl Transaction {
    /// A statement has begun to use a chronicle: a block does so until it ends. Outside of one the
    /// statement gets it back.
    pub fn hold(&self, using: Using) -> Option<Using> {
        let mut block = self.0.lock();
        if block.state != TransactionState::Block {
            return Some(using);
        }
        let is_same = |known: &Using| {
            known.chronicle() == using.chronicle() && known.what().writes() == using.what().writes()
        };
        // The first stays: what was written through it may be in vain.
        if !block.uses.iter().any(is_same) {
            block.uses.push(using);
        }
        None
    }

    /// Whether a statement of the block has written to a chronicle, or was about to.
    pub fn is_writing(&self, chronicle: ChronicleId) -> bool {
        let block = self.0.lock();
        block.uses.iter().any(|using| using.chronicle() == chronicle && using.what().writes())
    }
}
