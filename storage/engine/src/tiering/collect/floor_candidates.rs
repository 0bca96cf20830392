//! Possible beginnings of the journal: places between two frames with a known gsn, and without a
//! statement with frames on both sides.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use stratalog_model::{Lsn, StatementId};

/// Maximum number of remembered places; at this number, every second place is dropped.
const CANDIDATES_MAX: usize = 4096;

/// A place before a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloorCandidate {
    /// The lsn of the frame.
    pub lsn: Lsn,
    /// Highest gsn given before the frame.
    pub gsn: u64,
    /// Highest statement id before the frame.
    pub statement: StatementId,
}

/// The places of a journal.
#[derive(Debug, Default)]
pub struct FloorCandidates(Mutex<FloorCandidatesState>);

#[derive(Debug, Default)]
struct FloorCandidatesState {
    candidates: VecDeque<FloorCandidate>,
    /// First frames of unfinished statements.
    open: BTreeMap<StatementId, Lsn>,
}

impl FloorCandidates {
    /// Records a frame of a statement without a commit frame.
    pub fn opened(&self, statement: StatementId, lsn: Lsn) {
        self.0.lock().open.entry(statement).or_insert(lsn);
    }

    /// Records the end of a statement, with any outcome.
    pub fn ended(&self, statement: StatementId) {
        self.0.lock().open.remove(&statement);
    }

    /// Records the commit frame at `lsn`, with committed events up to `gsn`. Called in lsn order,
    /// after [`Self::ended`] for the statement.
    pub fn committed(&self, lsn: Lsn, gsn: u64, statement: u64) {
        let mut state = self.0.lock();
        if !state.open.is_empty() {
            return;
        }
        if state.candidates.len() >= CANDIDATES_MAX {
            let mut keep = false;
            state.candidates.retain(|_| {
                keep = !keep;
                keep
            });
        }
        debug_assert!(state.candidates.back().is_none_or(|last| last.gsn <= gsn));
        let statement = StatementId(statement);
        debug_assert!(
            state.candidates.back().is_none_or(|last| last.statement <= statement),
            "the highest statement goes back"
        );
        debug_assert!(state.candidates.len() < CANDIDATES_MAX, "there are too many places");
        state.candidates.push_back(FloorCandidate { lsn: Lsn(lsn.0 + 1), gsn, statement });
    }

    /// The places, in order.
    pub fn list(&self) -> Vec<FloorCandidate> {
        self.0.lock().candidates.iter().copied().collect()
    }

    /// Sets the beginning of the journal to `lsn`.
    pub fn forget_before(&self, lsn: Lsn) {
        self.0.lock().candidates.retain(|candidate| candidate.lsn > lsn);
    }
}
