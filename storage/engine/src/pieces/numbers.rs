//! Numbers of pieces that are being made.

use std::collections::BTreeSet;

use stratalog_model::{ChronicleId, TierName};
use stratalog_story::{StoryId, StoryName};
use stratalog_tablet::TabletId;

use crate::{collect::Files, engine::Core};

/// The numbers of one move. Another move may take numbers at the same time: those of one are
/// ascending, and not without gaps.
pub struct Numbers<'a> {
    core: &'a Core,
    files: &'a Files,
    tier: TierName,
    taken: BTreeSet<u64>,
}

impl<'a> Numbers<'a> {
    /// None yet, of pieces of a tier.
    pub fn new(core: &'a Core, files: &'a Files, tier: TierName) -> Self {
        Self { core, files, tier, taken: BTreeSet::new() }
    }

    /// One that no piece was ever made under.
    pub fn take(&mut self) -> u64 {
        let number = self.core.next_piece(self.files);
        self.taken.insert(number);
        number
    }

    /// What was made under them is of no use, and goes.
    pub fn give_up(self, chronicle: ChronicleId) {
        let shelves = &self.files.shelves;
        if self.tier == TierName::Story {
            for id in self.taken.into_iter().map(StoryId) {
                shelves.stories.doom(StoryName { chronicle, id });
            }
            return;
        }
        let tablets = self.taken.into_iter().map(TabletId).collect();
        if let Err(error) = shelves.tablets.remove_all(&tablets) {
            tracing::warn!(%error, "tablets that are of no use are left for the next start");
        }
    }
}
