//! The moves of this process, for operators.

use std::collections::VecDeque;

use parking_lot::Mutex;
use stratalog_metrics::MoveMetrics;
use stratalog_model::{
    ChronicleId, Clock, Result,
    store::{MoveCounts, MoveKind, MoveStatus},
};

/// Maximum number of moves in the list; the oldest ended move goes first.
const ENDED_MAX: usize = 1000;

/// The moves under way, and the last ended moves.
#[derive(Debug, Default)]
pub struct MoveHistory(Mutex<MoveHistoryState>);

#[derive(Debug, Default)]
struct MoveHistoryState {
    last: u64,
    /// By number.
    moves: VecDeque<MoveStatus>,
    metrics: MoveMetrics,
}

impl MoveHistory {
    /// Also records the following ends of moves in `metrics`.
    pub fn measure_by(&self, metrics: MoveMetrics) {
        self.0.lock().metrics = metrics;
    }

    /// Records the begin of a move; returns the number of the move.
    pub fn begin(&self, clock: &dyn Clock, chronicle: ChronicleId, kind: MoveKind) -> u64 {
        let mut state = self.0.lock();
        state.last += 1;
        let number = state.last;
        if state.moves.len() >= ENDED_MAX
            && let Some(oldest) = state.moves.iter().position(|moved| moved.ended_ns.is_some())
        {
            state.moves.remove(oldest);
        }
        state.moves.push_back(MoveStatus {
            number,
            chronicle,
            kind,
            started_ns: clock.now_ns(),
            ended_ns: None,
            moved: MoveCounts::default(),
            error: None,
        });
        number
    }

    /// Records the end of a move; a move without moved events leaves the list.
    pub fn end(&self, clock: &dyn Clock, number: u64, result: &Result<MoveCounts>) {
        let mut state = self.0.lock();
        let state = &mut *state;
        let Some(at) = state.moves.iter().position(|moved| moved.number == number) else { return };
        match result {
            Ok(moved) if *moved == MoveCounts::default() => {
                state.moves.remove(at);
            }
            result => {
                let Some(status) = state.moves.get_mut(at) else { return };
                let now_ns = clock.now_ns();
                status.ended_ns = Some(now_ns);
                let took_ns = now_ns.saturating_sub(status.started_ns);
                match result {
                    Ok(moved) => {
                        status.moved = *moved;
                        state.metrics.moved(status.kind, took_ns, moved.bytes);
                    }
                    Err(error) => {
                        status.error = Some(error.message().to_string());
                        state.metrics.failed(status.kind, took_ns);
                    }
                }
            }
        }
    }

    /// Ends every move under way with an error.
    pub fn break_off(&self, clock: &dyn Clock) {
        let mut state = self.0.lock();
        let MoveHistoryState { moves, metrics, .. } = &mut *state;
        for moved in moves.iter_mut().filter(|moved| moved.ended_ns.is_none()) {
            let now_ns = clock.now_ns();
            metrics.failed(moved.kind, now_ns.saturating_sub(moved.started_ns));
            moved.ended_ns = Some(now_ns);
            moved.error = Some("the move failed".to_string());
        }
    }

    /// All moves in the list.
    pub fn list(&self) -> Vec<MoveStatus> {
        self.0.lock().moves.iter().cloned().collect()
    }
}
