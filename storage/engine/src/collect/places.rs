//! Places in the journal at which it could begin: between two frames, where no statement has
//! frames on both sides, and where the number of the gsn's given so far is known.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use stratalog_model::{Lsn, StatementId};

/// Places that are remembered, at most; every other one is forgotten then.
const PLACES_MAX: usize = 4096;

/// A place before a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The frame.
    pub lsn: Lsn,
    /// Highest gsn that was given before it.
    pub gsn: u64,
    /// No statement before it has a higher number.
    pub statement: StatementId,
}

/// The places of a journal.
#[derive(Debug, Default)]
pub struct Places(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    places: VecDeque<Place>,
    /// First frames of statements that have not ended.
    open: BTreeMap<StatementId, Lsn>,
}

impl Places {
    /// A frame of a statement is in the journal, and its commit is not.
    pub fn opened(&self, statement: StatementId, lsn: Lsn) {
        self.0.lock().open.entry(statement).or_insert(lsn);
    }

    /// A statement has ended, one way or another.
    pub fn ended(&self, statement: StatementId) {
        self.0.lock().open.remove(&statement);
    }

    /// The frame of `lsn` made events count, up to `gsn`. Called in their order, after
    /// [`Self::ended`] of its statement.
    pub fn committed(&self, lsn: Lsn, gsn: u64, statement: u64) {
        let mut state = self.0.lock();
        if !state.open.is_empty() {
            return;
        }
        if state.places.len() >= PLACES_MAX {
            let mut keep = false;
            state.places.retain(|_| {
                keep = !keep;
                keep
            });
        }
        let statement = StatementId(statement);
        state.places.push_back(Place { lsn: Lsn(lsn.0 + 1), gsn, statement });
    }

    /// The places, in order.
    pub fn list(&self) -> Vec<Place> {
        self.0.lock().places.iter().copied().collect()
    }

    /// The journal begins at `lsn` now.
    pub fn forget_before(&self, lsn: Lsn) {
        self.0.lock().places.retain(|place| place.lsn > lsn);
    }
}
