//! Stories are decoded into memory before anybody asks for them: what was queried before a start,
//! or lay in tablets until now, is soon queried again.
//!
//! ```text
//!   stories of all chronicles ─► groups, the newest first ─► decoded, as long as there is room
//! ```
//! The grapher does so when nothing else is due, a little at a time. Nothing that is in memory has to
//! go for it, and nothing is read over a network for it.

use std::{
    collections::HashSet,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use ahash::RandomState;
use stratalog_model::{Result, TierName};

use crate::{engine::Core, pieces::piece::OpenPiece};

/// How long one turn decodes, about: what is due then waits no longer.
const TURN: Duration = Duration::from_millis(50);

/// What was decoded so far, and what is to be.
#[derive(Debug, Default)]
pub struct Warm {
    /// Stories that were looked at.
    looked_at: HashSet<u64, RandomState>,
    /// Groups, the newest last.
    next: Vec<(Weak<OpenPiece>, u32)>,
}

impl Warm {
    /// Looks for stories that were not there before.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`: of a story that cannot be opened; the others are looked at.
    pub async fn look(&mut self, core: &Core) -> Result<()> {
        if !core.files.as_ref().is_some_and(|files| files.shelves.stories.is_near()) {
            return Ok(());
        }
        let mut there: HashSet<u64, RandomState> = HashSet::default();
        let mut found = Vec::new();
        let mut failed = Ok(());
        let published = core.published();
        for pinned in published.versions.values() {
            for piece in pinned.version.pieces().iter() {
                let id = piece.record().id;
                there.insert(id);
                if piece.tier() != TierName::Story || self.looked_at.contains(&id) {
                    continue;
                }
                match piece.parts().await {
                    Ok(parts) => found.extend(
                        parts
                            .iter()
                            .map(|part| (part.hull.end, (Arc::downgrade(piece), part.number))),
                    ),
                    Err(error) => failed = Err(error),
                }
            }
        }
        self.looked_at = there;
        if !found.is_empty() {
            found.sort_by_key(|(end, _)| *end);
            self.next.extend(found.into_iter().map(|(_, group)| group));
        }
        failed
    }

    /// Decodes some groups.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`: of a group that cannot be read, which is left out.
    #[expect(clippy::disallowed_methods, reason = "time that is spent, not time of events")]
    pub async fn turn(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < TURN
            && let Some((piece, group)) = self.next.pop()
        {
            // Nobody must wait for us to let go of it.
            let Some(piece) = piece.upgrade() else { continue };
            let Some(story) = piece.story().await? else { continue };
            if !story.warm(group).await? {
                self.next.clear();
            }
        }
        Ok(())
    }
}
