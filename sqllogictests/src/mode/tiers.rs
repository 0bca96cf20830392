//! Moves events into lower storage tiers between statements: the results of the statements must not
//! change.

use std::sync::Arc;

use stratalog::{Embedded, demo::generator::Chance};
use stratalog_model::{ChronicleId, EventStore, TierName};
use tokio::sync::Mutex;

use crate::Failure;

/// On average, one of this number of moves in [`Moves::Mixed`] also merges the files of its table.
const COMPACT_ONE_IN: u64 = 8;

/// The moves of events between tiers that follow each statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moves {
    /// Moves all tables into tablets (files of the SSD tier).
    Tablet,
    /// Moves all tables into stories (files of the cold tier).
    Story,
    /// Moves each table with probability 1/2; sometimes also merges its tablets.
    Mixed {
        /// The seed of the random choices.
        seed: u64,
    },
}

impl Moves {
    /// The label of the mode, which names the state of the tables.
    pub fn label(self) -> &'static str {
        match self {
            Moves::Tablet => "tablet",
            Moves::Story => "story",
            Moves::Mixed { .. } => "mixed",
        }
    }
}

/// Moves the events of a database.
#[derive(Debug)]
pub struct Mover {
    store: Arc<dyn EventStore>,
    moves: Moves,
    chance: Mutex<Chance>,
}

impl Mover {
    pub(crate) fn new(embedded: &Embedded, moves: Moves) -> Self {
        let seed = match moves {
            Moves::Mixed { seed } => seed,
            Moves::Tablet | Moves::Story => 0,
        };
        Self { store: Arc::clone(embedded.store()), moves, chance: Mutex::new(Chance(seed)) }
    }

    /// Moves the committed events according to [`Moves`].
    ///
    /// # Errors
    /// Errors of the store; also an error if a moved table still has events in the journal, since
    /// no other statement runs meanwhile.
    pub async fn after_statement(&self) -> Result<(), Failure> {
        let mut chance = self.chance.lock().await;
        for table in self.in_journal() {
            match self.moves {
                Moves::Tablet => self.store.flush(table).await?,
                Moves::Story => self.store.compact(table).await?,
                Moves::Mixed { .. } if chance.below(2) == 0 => continue,
                Moves::Mixed { .. } if chance.below(COMPACT_ONE_IN) == 0 => {
                    self.store.compact(table).await?
                }
                Moves::Mixed { .. } => self.store.flush(table).await?,
            };
            if self.in_journal().contains(&table) {
                let table = table.0;
                return Err(Failure::of_harness(format!("table number {table} did not move")));
            }
        }
        Ok(())
    }

    /// Tables with events in the journal.
    fn in_journal(&self) -> Vec<ChronicleId> {
        let pieces = self.store.pieces().into_iter();
        let here = pieces.filter(|piece| piece.tier == TierName::Journal);
        here.map(|piece| piece.chronicle).collect()
    }
}
