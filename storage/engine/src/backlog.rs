//! The event backlog (F12, F29): events that have left the journal stay in memory as well,
//! ready to be read, while there is room.
//!
//! ```text
//!   blocks of a new tablet, read back ─► kept with it ─► let go, the oldest first
//!                                        (backlog_bytes_max)  those of pinned chronicles last
//! ```

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use stratalog_model::ChronicleId;

use crate::{
    budget::{Budget, Claim},
    pieces::{block::Block, piece::OpenPiece},
};

/// Blocks of a tablet, by number, in memory until this drops.
#[derive(Debug)]
pub struct Kept {
    blocks: BTreeMap<u32, Block>,
    claim: Claim,
}

impl Kept {
    /// A block.
    pub fn block(&self, number: u32) -> Option<&Block> {
        self.blocks.get(&number)
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.claim.bytes()
    }
}

/// Which tablets are kept in memory.
#[derive(Debug)]
pub struct Backlog {
    budget: Arc<Budget>,
    /// By when their events were committed, and number.
    kept: Mutex<BTreeMap<(i64, u64), Weak<OpenPiece>>>,
}

impl Backlog {
    /// One of so many bytes; of 0 it keeps nothing.
    pub fn new(bytes_max: u64) -> Self {
        Self { budget: Budget::new(bytes_max), kept: Mutex::default() }
    }

    /// Whether it keeps anything.
    pub fn is_open(&self) -> bool {
        self.budget.bytes_max() > 0
    }

    /// Keeps the blocks of a new tablet, by number, if there is room, or may be. `is_pinned`
    /// says whether events of a chronicle that were committed at a time (ns since 1970) are
    /// to be kept longer than others: those give way to none but their own kind.
    pub fn keep(
        &self,
        piece: &Arc<OpenPiece>,
        blocks: BTreeMap<u32, Block>,
        is_pinned: impl Fn(ChronicleId, i64) -> bool,
    ) {
        let of = |piece: &OpenPiece| is_pinned(piece.chronicle(), piece.record().since_ns);
        let bytes = blocks.values().map(Block::bytes).sum();
        if bytes as u64 > self.budget.bytes_max() {
            return;
        }
        // Dropped last: files of no use may go with them.
        let mut gone = Vec::new();
        let mut kept = self.kept.lock();
        kept.retain(|_, piece| piece.strong_count() > 0);
        let claim = loop {
            match self.budget.claim(bytes) {
                Ok(claim) => break claim,
                Err(_) => match let_go(&mut kept, of(piece), of) {
                    Some(piece) => gone.push(piece),
                    None => return,
                },
            }
        };
        kept.insert((piece.record().since_ns, piece.record().id), Arc::downgrade(piece));
        piece.keep(Some(Arc::new(Kept { blocks, claim })));
    }
}

/// Lets go of the oldest that is not pinned, or of the oldest of all when `any`; `None` when
/// there is none.
fn let_go(
    kept: &mut BTreeMap<(i64, u64), Weak<OpenPiece>>,
    any: bool,
    is_pinned: impl Fn(&OpenPiece) -> bool,
) -> Option<Option<Arc<OpenPiece>>> {
    let free = |piece: &Weak<OpenPiece>| piece.upgrade().is_none_or(|piece| !is_pinned(&piece));
    let oldest = kept
        .iter()
        .find(|(_, piece)| free(piece))
        .or_else(|| kept.first_key_value().filter(|_| any));
    let place = oldest.map(|(place, _)| *place)?;
    let piece = kept.remove(&place).and_then(|piece| piece.upgrade());
    piece.iter().for_each(|piece| piece.keep(None));
    Some(piece)
}
