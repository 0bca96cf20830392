//! Decodes stories into memory before a query needs them. Stories that were queried before a
//! restart, or that were just made from tablets, are likely to be queried soon.
//!
//! ```text
//!   stories of all chronicles ─► row groups, the newest first ─► decoded, while there is room
//! ```
//! The grapher decodes stories when no move is due, a little at a time. This decoding evicts
//! nothing from memory, and reads nothing over a network.

use std::{
    collections::HashSet,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use ahash::RandomState;
use stratalog_model::{Result, TierName};

use crate::{
    tiering::files::EngineFiles,
    version::{piece::OpenPiece, publisher::Publisher},
};

/// Approximate duration of one turn: a due move waits no longer.
const TURN: Duration = Duration::from_millis(50);

/// The stories seen so far, and the row groups still to decode.
#[derive(Debug, Default)]
pub struct Prefetch {
    /// Numbers of the stories seen so far.
    visited: HashSet<u64, RandomState>,
    /// Row groups to decode; the newest is the last entry.
    next: Vec<(Weak<OpenPiece>, u32)>,
}

impl Prefetch {
    /// Looks for new stories, and adds their row groups to the list.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io` if a story cannot be opened; all other stories are still visited.
    pub async fn look(&mut self, files: Option<&EngineFiles>, publisher: &Publisher) -> Result<()> {
        if !files.is_some_and(|files| files.shelves.stories.is_near()) {
            return Ok(());
        }
        let mut story_ids: HashSet<u64, RandomState> = HashSet::default();
        let mut found = Vec::new();
        let mut failed = Ok(());
        let published = publisher.published();
        for pinned in published.versions.values() {
            for piece in pinned.version.pieces().iter() {
                let id = piece.record().id;
                story_ids.insert(id);
                if piece.tier() != TierName::Story || self.visited.contains(&id) {
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
        self.visited = story_ids;
        if !found.is_empty() {
            found.sort_by_key(|(end, _)| *end);
            self.next.extend(found.into_iter().map(|(_, group)| group));
        }
        failed
    }

    /// Decodes row groups of the list for the duration of one turn.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io` if a row group cannot be read; the row group is then skipped.
    #[expect(clippy::disallowed_methods, reason = "time that is spent, not time of events")]
    pub async fn turn(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < TURN
            && let Some((piece, group)) = self.next.pop()
        {
            // A weak reference: the list must not delay the removal of a piece.
            let Some(piece) = piece.upgrade() else { continue };
            let Some(story) = piece.story().await? else { continue };
            if !story.prefetch(group).await? {
                self.next.clear();
            }
        }
        Ok(())
    }
}
