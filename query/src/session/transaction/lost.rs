//! What a block wrote through a lease that ran out (F10): nobody is to wait for it.

use stratalog_model::{ChronicleId, Error};
use stratalog_visor_core::acquisition::Refusal;

use super::{Block, Transaction, lent_out};

impl Transaction {
    /// The chronicle to which the open block wrote through a lease that ran out, and why that is lost.
    /// A block that is being committed is open no longer.
    pub fn void(&self) -> Option<(ChronicleId, Refusal)> {
        self.0.lock().void()
    }

    /// Drops what the open block wrote, savepoints or not, with the keys and times that it holds, if it can
    /// never be committed. The block goes on without; what needs it, COMMIT too, fails with `error`.
    pub fn lose(&self, error: Error) {
        let mut block = self.0.lock();
        // Another one may be open by now.
        if block.void().is_none() {
            return;
        }
        // They have told what they had to: the error stays.
        block.uses.retain(|using| using.lost().is_none());
        block.lost = Some(error);
        block.own = None;
        // One that is lent out is dropped when it comes home.
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

/// The error of a statement for which the append of its block is not there.
pub fn missing(lost: Option<&Error>) -> Error {
    lost.map_or_else(lent_out, Error::duplicate)
}
