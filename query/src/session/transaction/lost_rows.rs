//! Rows that a block wrote under a lease that has since expired (F10). The rows can never be
//! committed, so no session may wait for them.

use stratalog_model::{ChronicleId, Error};
use stratalog_visor_core::acquisition::Refusal;

use super::{Block, Transaction, append_is_lent};

impl Transaction {
    /// A chronicle that the open block has written to and whose lease has expired, with the reason;
    /// `None` without such a chronicle. A block that is committing no longer counts as open.
    pub fn void(&self) -> Option<(ChronicleId, Refusal)> {
        self.0.lock().void()
    }

    /// Drops the rows of the open block, with their keys and times, if the rows can never be
    /// committed. Savepoints do not keep the rows. The block continues without the rows. Each
    /// statement that needs the rows, including COMMIT, fails with `error`.
    pub fn lose(&self, error: Error) {
        let mut block = self.0.lock();
        // Another block may be open by now.
        if block.void().is_none() {
            return;
        }
        // Remove the expired uses: `lost` stores the error.
        block.uses.retain(|using| using.lost().is_none());
        block.lost = Some(error);
        block.own = None;
        // If a statement has borrowed the append, the append is dropped on its return.
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

/// The error for a statement whose block has no append: `lost`, or an internal error if another
/// statement borrows the append.
pub fn missing_append_error(lost: Option<&Error>) -> Error {
    lost.map_or_else(append_is_lent, Error::duplicate)
}
