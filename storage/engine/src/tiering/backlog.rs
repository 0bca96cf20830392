//! The event backlog (F12, F29): a cache of events that the journal no longer owns. Their tablets
//! are on disk; the events also stay in memory for fast reads, while the budget has room.
//!
//! ```text
//!   blocks of a new tablet, read back ─► kept in memory ─► evicted, the oldest first
//!                                        (backlog_bytes_max)  pinned chronicles last
//! ```

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use stratalog_model::{ChronicleId, TierName};

use crate::{
    events::{block::Block, block_cache::BlockCache, budget::Budget},
    version::piece::OpenPiece,
};

/// The tablets whose blocks are kept in memory.
#[derive(Debug)]
pub struct Backlog {
    budget: Arc<Budget>,
    /// Key: commit time of the oldest events, and number of the tablet.
    tablets: Mutex<BTreeMap<(i64, u64), Weak<OpenPiece>>>,
}

impl Backlog {
    /// A backlog of at most `bytes_max` bytes; 0 keeps no blocks.
    pub fn new(bytes_max: u64) -> Self {
        Self { budget: Budget::new(bytes_max), tablets: Mutex::default() }
    }

    /// True if the backlog may keep blocks (its budget is not 0).
    pub fn is_open(&self) -> bool {
        self.budget.bytes_max() > 0
    }

    /// Keeps the blocks of a new tablet in memory, by number, if the budget has room, or if
    /// evicting older tablets makes room. `is_pinned` takes a chronicle and a commit time (ns since
    /// 1970), and returns true if the chronicle keeps events of this time in memory (`pin_for`).
    /// Only a pinned tablet can evict another pinned tablet.
    pub fn keep(
        &self,
        piece: &Arc<OpenPiece>,
        blocks: BTreeMap<u32, Block>,
        is_pinned: impl Fn(ChronicleId, i64) -> bool,
    ) {
        debug_assert!(piece.tier() == TierName::Tablet, "a story has no blocks to keep");
        debug_assert!(!blocks.is_empty(), "there is no block to keep");
        let of = |piece: &OpenPiece| is_pinned(piece.chronicle(), piece.record().since_ns);
        let bytes = blocks.values().map(Block::bytes).sum();
        if bytes as u64 > self.budget.bytes_max() {
            return;
        }
        // Dropped after the lock is released, because the drop may remove the file of a piece.
        let mut evicted = Vec::new();
        let mut tablets = self.tablets.lock();
        tablets.retain(|_, piece| piece.strong_count() > 0);
        let claim = loop {
            match self.budget.claim(bytes) {
                Ok(claim) => break claim,
                Err(_) => match evict_oldest(&mut tablets, of(piece), of) {
                    Some(piece) => evicted.push(piece),
                    None => return,
                },
            }
        };
        debug_assert!(self.budget.used() <= self.budget.bytes_max(), "beyond the backlog");
        tablets.insert((piece.record().since_ns, piece.record().id), Arc::downgrade(piece));
        piece.keep(Some(Arc::new(BlockCache::new(blocks, claim))));
    }
}

/// Removes the oldest unpinned tablet from the list. If all are pinned, removes the oldest tablet
/// if `any` is set, and otherwise returns `None`.
fn evict_oldest(
    tablets: &mut BTreeMap<(i64, u64), Weak<OpenPiece>>,
    any: bool,
    is_pinned: impl Fn(&OpenPiece) -> bool,
) -> Option<Option<Arc<OpenPiece>>> {
    let free = |piece: &Weak<OpenPiece>| piece.upgrade().is_none_or(|piece| !is_pinned(&piece));
    let oldest = tablets
        .iter()
        .find(|(_, piece)| free(piece))
        .or_else(|| tablets.first_key_value().filter(|_| any));
    let place = oldest.map(|(place, _)| *place)?;
    let piece = tablets.remove(&place).and_then(|piece| piece.upgrade());
    piece.iter().for_each(|piece| piece.keep(None));
    Some(piece)
}
