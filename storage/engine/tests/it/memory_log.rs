//! A log in memory: completes frames at once, or at a call of the test.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use stratalog_model::{
    BoxFuture, Durability, Error, ErrorKind, Frame, Log, Lsn, Result,
    log::{Completion, LogStatus, Reservation},
};

#[derive(Default)]
struct State {
    frames: Vec<Frame>,
    waiting: VecDeque<(Frame, Completion)>,
    held: bool,
    failing: Option<ErrorKind>,
    poisoned: bool,
    replays: usize,
}

/// The log. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryLog {
    state: Arc<Mutex<State>>,
    /// Locked while completions run, because completions must come in lsn order.
    order: Arc<Mutex<()>>,
}

impl std::fmt::Debug for MemoryLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryLog")
    }
}

impl MemoryLog {
    pub fn with_frames(frames: Vec<Frame>) -> Self {
        let log = Self::default();
        log.state.lock().frames = frames;
        log
    }

    pub fn frames(&self) -> Vec<Frame> {
        self.state.lock().frames.clone()
    }

    /// From now on, leaves all frames incomplete until they are released.
    pub fn hold(&self) {
        self.state.lock().held = true;
    }

    pub fn release(&self) {
        self.state.lock().held = false;
        self.drain(usize::MAX);
    }

    /// Completes the first `frames` waiting frames.
    pub fn release_some(&self, frames: usize) {
        self.drain(frames);
    }

    /// Number of replays of the log.
    pub fn replays(&self) -> usize {
        self.state.lock().replays
    }

    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// From now on, fails every frame; `None` ends the failures.
    pub fn fail(&self, kind: Option<ErrorKind>) {
        self.state.lock().failing = kind;
    }

    pub fn poison(&self) {
        let mut state = self.state.lock();
        state.poisoned = true;
        state.failing = Some(ErrorKind::Io);
    }

    fn drain(&self, frames: usize) {
        let _order = self.order.lock();
        for _ in 0..frames {
            let mut state = self.state.lock();
            let Some((frame, done)) = state.waiting.pop_front() else { return };
            let result = match state.failing {
                Some(kind) => Err(Error::new(kind, "the test lets the log fail")),
                None => {
                    state.frames.push(frame);
                    Ok(Lsn(state.frames.len() as u64))
                }
            };
            drop(state);
            done(result);
        }
    }
}

impl Log for MemoryLog {
    fn reserve(&self, _: usize) -> BoxFuture<'_, Result<Reservation>> {
        let poisoned = self.state.lock().poisoned;
        Box::pin(async move {
            tokio::task::yield_now().await;
            if poisoned {
                return Err(Error::new(ErrorKind::Io, "the log is poisoned"));
            }
            Ok(Box::new(()) as Reservation)
        })
    }

    fn submit(&self, frame: Frame, _: Reservation, _: Durability, done: Completion) {
        let mut state = self.state.lock();
        state.waiting.push_back((frame, done));
        let held = state.held;
        drop(state);
        if !held {
            self.drain(usize::MAX);
        }
    }

    fn replay(&self, visit: &mut dyn FnMut(Lsn, Frame) -> Result<()>) -> Result<()> {
        self.state.lock().replays += 1;
        for (at, frame) in self.frames().into_iter().enumerate() {
            visit(Lsn(at as u64 + 1), frame)?;
        }
        Ok(())
    }

    fn status(&self) -> LogStatus {
        let state = self.state.lock();
        let poisoned = state.poisoned.then(|| "the test has stopped it".to_string());
        LogStatus { written: Lsn(state.frames.len() as u64), poisoned, ..LogStatus::default() }
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
