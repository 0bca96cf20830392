//! Decoded blocks of a tablet that stay in memory.

use std::collections::BTreeMap;

use super::{block::Block, budget::Claim};

/// Decoded blocks of a tablet, by number; in memory until this value drops.
#[derive(Debug)]
pub struct BlockCache {
    blocks: BTreeMap<u32, Block>,
    claim: Claim,
}

impl BlockCache {
    /// A cache of `blocks`, with a claim for their bytes.
    pub fn new(blocks: BTreeMap<u32, Block>, claim: Claim) -> Self {
        debug_assert!(blocks.is_empty() || claim.bytes() > 0, "the budget ignores the blocks");
        Self { blocks, claim }
    }

    /// The block with a number; `None` if the cache does not have it.
    pub fn block(&self, number: u32) -> Option<&Block> {
        self.blocks.get(&number)
    }

    /// Bytes of all blocks.
    pub fn bytes(&self) -> u64 {
        self.claim.bytes()
    }
}
