//! The list of recent moves since the start of this process, for operators.

use std::collections::VecDeque;

use parking_lot::Mutex;
use stratalog_metrics::{MoveMetrics, Stopwatch};
use stratalog_model::{
    ChronicleId, Clock, Result,
    store::{MoveCounts, MoveKind, MoveStatus},
};

/// Maximum number of moves in the list. If the list is full, the oldest move that has ended is
/// removed.
const ENDED_MAX: usize = 1000;

/// The running moves, and the last moves that have ended.
#[derive(Debug, Default)]
pub struct MoveHistory(Mutex<MoveHistoryState>);

#[derive(Debug, Default)]
struct MoveHistoryState {
    last: u64,
    /// Ascending by number.
    moves: VecDeque<RecordedMove>,
    metrics: MoveMetrics,
}

/// A move, and a stopwatch that measures its duration: the clock of the database may run slower
/// than real time.
#[derive(Debug)]
struct RecordedMove {
    status: MoveStatus,
    stopwatch: Stopwatch,
}

impl MoveHistory {
    /// From now on, also records the end of each move in `metrics`.
    pub fn measure_by(&self, metrics: MoveMetrics) {
        self.0.lock().metrics = metrics;
    }

    /// Records the begin of a move; returns the number of the move.
    pub fn begin(&self, clock: &dyn Clock, chronicle: ChronicleId, kind: MoveKind) -> u64 {
        let mut state = self.0.lock();
        state.last += 1;
        let number = state.last;
        if state.moves.len() >= ENDED_MAX
            && let Some(oldest) =
                state.moves.iter().position(|moved| moved.status.ended_ns.is_some())
        {
            state.moves.remove(oldest);
        }
        let status = MoveStatus {
            number,
            chronicle,
            kind,
            started_ns: clock.now_ns(),
            ended_ns: None,
            moved: MoveCounts::default(),
            error: None,
        };
        debug_assert!(state.moves.back().is_none_or(|last| last.status.number < number));
        state.moves.push_back(RecordedMove { status, stopwatch: Stopwatch::start() });
        number
    }

    /// Records the end of a move. A move that has changed nothing is removed from the list.
    pub fn end(&self, clock: &dyn Clock, number: u64, result: &Result<MoveCounts>) {
        let mut state = self.0.lock();
        let state = &mut *state;
        let Some(at) = state.moves.iter().position(|moved| moved.status.number == number) else {
            return;
        };
        match result {
            Ok(moved) if *moved == MoveCounts::default() => {
                state.moves.remove(at);
            }
            result => {
                let Some(RecordedMove { status, stopwatch }) = state.moves.get_mut(at) else {
                    return;
                };
                status.ended_ns = Some(clock.now_ns());
                match result {
                    Ok(moved) => {
                        status.moved = *moved;
                        state.metrics.moved(status.kind, stopwatch.elapsed(), moved.bytes);
                    }
                    Err(error) => {
                        status.error = Some(error.message().to_string());
                        state.metrics.failed(status.kind, stopwatch.elapsed());
                    }
                }
            }
        }
    }

    /// Marks every running move as failed, after a panic.
    pub fn break_off(&self, clock: &dyn Clock) {
        let mut state = self.0.lock();
        let MoveHistoryState { moves, metrics, .. } = &mut *state;
        for RecordedMove { status, stopwatch } in moves {
            if status.ended_ns.is_none() {
                metrics.failed(status.kind, stopwatch.elapsed());
                status.ended_ns = Some(clock.now_ns());
                status.error = Some("the move failed".to_string());
            }
        }
    }

    /// All moves in the list.
    pub fn list(&self) -> Vec<MoveStatus> {
        self.0.lock().moves.iter().map(|moved| moved.status.clone()).collect()
    }
}
