//! Possible floors (beginnings) of the journal. A possible floor is a place between two frames at
//! which the highest gsn is known, and at which no statement is half written.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use stratalog_model::{Lsn, StatementId};

/// Maximum number of remembered places. At this number, every second place is forgotten.
const CANDIDATES_MAX: usize = 4096;

/// A possible floor: the place before a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloorCandidate {
    /// The lsn of the frame.
    pub lsn: Lsn,
    /// Highest gsn assigned before the frame.
    pub gsn: u64,
    /// Highest statement id before the frame.
    pub statement: StatementId,
}

/// The possible floors of a journal, and the unfinished statements.
#[derive(Debug, Default)]
pub struct FloorCandidates(Mutex<FloorCandidatesState>);

#[derive(Debug, Default)]
struct FloorCandidatesState {
    candidates: VecDeque<FloorCandidate>,
    /// First frame of each unfinished statement.
    open: BTreeMap<StatementId, Lsn>,
}

impl FloorCandidates {
    /// Records a frame of a statement that has no commit frame yet.
    pub fn opened(&self, statement: StatementId, lsn: Lsn) {
        self.0.lock().open.entry(statement).or_insert(lsn);
    }

    /// Records the end of a statement: commit, rollback or failure.
    pub fn ended(&self, statement: StatementId) {
        self.0.lock().open.remove(&statement);
    }

    /// Records a commit frame at `lsn`; the events of all commits up to here have gsn's up to
    /// `gsn`. Call in lsn order, and after [`Self::ended`] for the statement.
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

    /// The possible floors, ascending.
    pub fn list(&self) -> Vec<FloorCandidate> {
        self.0.lock().candidates.iter().copied().collect()
    }

    /// Forgets the places before `lsn`, the new floor.
    pub fn forget_before(&self, lsn: Lsn) {
        self.0.lock().candidates.retain(|candidate| candidate.lsn > lsn);
    }
}
