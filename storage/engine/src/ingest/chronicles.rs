//! The chronicles of the engine, by id: created on first use, and removed after a DROP.
//!
//! ```text
//!   first use ─► known ─► DROP ─► forgotten: no new chronicle under this id
//!                              └► dropped:   its pieces, which the manifest may still name
//! ```

use std::{collections::BTreeMap, sync::Arc};

use ahash::RandomState;
use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock};
use stratalog_model::{ChronicleDefinition, ChronicleId, Error, ErrorKind, Result};

use super::{chronicle::Chronicle, chunk::Chunk, delete::deletion::Deletion, step::Step};
use crate::{
    events::{budget::Budget, numberings},
    read::follow::feed::FeedBytes,
    version::piece::OpenPiece,
};

/// The chronicles, and the memory budgets that they share.
#[derive(Debug)]
pub struct Chronicles {
    known: RwLock<HashMap<ChronicleId, Arc<Chronicle>, RandomState>>,
    forgotten: RwLock<HashSet<ChronicleId, RandomState>>,
    /// Dropped chronicles whose pieces (files of events) the manifest may still name. The value
    /// lists the pieces that may still be open.
    pub dropped: Mutex<BTreeMap<ChronicleId, Vec<Arc<OpenPiece>>>>,
    /// Memory budget for events.
    budget: Arc<Budget>,
    /// Memory budget for the series numbers of all chronicles ([`Chronicle::numberings`]).
    numbers: Arc<Budget>,
    /// Memory for the recent commits that are kept for subscriptions.
    feeds: Arc<FeedBytes>,
    /// Time of the engine's start, in nanoseconds since 1970: every session began later.
    opened_ns: i64,
}

impl Chronicles {
    /// An empty set, for an engine opened at `opened_ns`. `feed_bytes_max` limits the memory of
    /// recent commits.
    pub fn new(budget: &Arc<Budget>, feed_bytes_max: u64, opened_ns: i64) -> Self {
        Self {
            known: RwLock::default(),
            forgotten: RwLock::default(),
            dropped: Mutex::default(),
            budget: Arc::clone(budget),
            numbers: Budget::new(numberings::BYTES_MAX),
            feeds: Arc::new(FeedBytes::new(feed_bytes_max)),
            opened_ns,
        }
    }

    /// The chronicle of a definition; created on first use.
    ///
    /// # Errors
    /// `UndefinedTable` after [`Self::forget`].
    pub fn chronicle(&self, definition: &ChronicleDefinition) -> Result<Arc<Chronicle>> {
        if let Some(known) = self.known.read().get(&definition.id) {
            debug_assert_eq!(known.id(), definition.id, "another chronicle has the id");
            return Ok(Arc::clone(known));
        }
        let mut chronicles = self.known.write();
        if self.is_forgotten(definition.id) {
            return Err(Error::new(
                ErrorKind::UndefinedTable,
                format!("table \"{}\" was dropped", definition.qualified_name()),
            ));
        }
        let made = || {
            let (numbers, feeds) = (&self.numbers, &self.feeds);
            Arc::new(Chronicle::new(definition, &self.budget, numbers, feeds, self.opened_ns))
        };
        Ok(Arc::clone(chronicles.entry(definition.id).or_insert_with(made)))
    }

    /// The chronicle with an id; `None` if [`Self::chronicle`] has not created it.
    pub fn known(&self, id: ChronicleId) -> Option<Arc<Chronicle>> {
        self.known.read().get(&id).cloned()
    }

    /// True after [`Self::forget`]: the chronicle was dropped.
    pub fn is_forgotten(&self, id: ChronicleId) -> bool {
        self.forgotten.read().contains(&id)
    }

    /// Removes a dropped chronicle, and never creates a chronicle under this id again. Call only
    /// under the publisher's lock.
    pub fn forget(&self, id: ChronicleId) {
        self.forgotten.write().insert(id);
        let known = self.known.write().remove(&id);
        if let Some(known) = known {
            debug_assert_eq!(known.id(), id, "another chronicle has the id");
            let pieces = known.forget();
            self.dropped.lock().insert(id, pieces);
        }
    }

    /// Checks that the chronicles of `steps` still exist.
    ///
    /// # Errors
    /// `UndefinedTable` if one of the chronicles was dropped.
    pub fn check_known<'a>(
        &self,
        steps: impl IntoIterator<Item = Step<&'a Chunk, &'a Deletion>>,
    ) -> Result<()> {
        let forgotten = self.forgotten.read();
        let is_dropped = |step: Step<&Chunk, &Deletion>| forgotten.contains(&step.chronicle().id());
        if steps.into_iter().any(is_dropped) { Err(dropped()) } else { Ok(()) }
    }
}

/// The error of a statement that stores events in a dropped chronicle.
pub fn dropped() -> Error {
    Error::new(
        ErrorKind::UndefinedTable,
        "the table was dropped before the statement was committed",
    )
    .with_detail("the statement stored no row in the table")
}
