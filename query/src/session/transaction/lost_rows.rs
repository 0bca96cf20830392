//! Rows written by a block through an expired lease (F10): no session may wait for these rows.

use stratalog_model::{ChronicleId, Error};
use stratalog_visor_core::acquisition::Refusal;

use super::{Block, Transaction, append_is_lent};

impl Transaction {
    /// A chronicle written by the open block through an expired lease, and the reason of the loss.
    /// A block that is committing is no longer open.
    pub fn void(&self) -> Option<(ChronicleId, Refusal)> {
        self.0.lock().void()
    }

    /// Drops the rows written by the open block, despite savepoints, with their keys and times, if
    /// the rows can never be committed. The block continues without the rows. Each statement that
    /// needs the rows, COMMIT included, fails with `error`.
    pub fn lose(&self, error: Error) {
        let mut block = self.0.lock();
        // Another block may be open by now.
        if block.void().is_none() {
            return;
        }
        // The expired uses are no longer needed: the error stays.
        block.uses.retain(|using| using.lost().is_none());
        block.lost = Some(error);
        block.own = None;
        // A lent append is dropped on its return.
        let append = block.append.take();
        drop(block);
        drop(append);
    }
}

impl Block {
    fn void(&self) -> Option<(ChronicleId, Refusal)> {
        self.uses.iter().find_map(|using| Some((using.chronicle(), using.lost()?)))
    }
}

/// The error of a statement whose block has no append.
pub fn missing_append_error(lost: Option<&Error>) -> Error {
    lost.map_or_else(append_is_lent, Error::duplicate)
}
