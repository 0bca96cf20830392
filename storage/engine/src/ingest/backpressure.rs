//! Appends that exceed the memory budget wait here until the grapher has moved events to disk. A
//! *turn* is one run of the grapher.
//!
//! ```text
//!   claim ✗ ─► wanted += bytes ─► wake ─► a later turn of the grapher ends
//!      ▲                                        │ events moved      │ no event moved
//!      ├────────────────────────────────────────┘                   │
//!      └─── PAUSE, a few times: running statements may commit ◄───┴─► OutOfMemory
//! ```

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::Sender,
    },
    time::Duration,
};

use parking_lot::Mutex;
use stratalog_model::{Error, ErrorKind, Result};
use tokio::sync::watch;

use crate::events::budget::{Budget, Claim};

/// Maximum number of turns of the grapher that one claim waits for.
const TURNS_MAX: usize = 1000;

/// Maximum number of consecutive turns that moved no event. A claim waits this long because the
/// memory may belong to statements that commit soon, or to other waiting statements.
const IDLE_TURNS_MAX: usize = 10;

/// Pause after a turn that moved no event.
const PAUSE: Duration = Duration::from_millis(50);

/// State shared by the waiting claims and the grapher.
#[derive(Debug, Default)]
pub struct Backpressure {
    /// Wakes the grapher; `None` without a grapher.
    wake: Mutex<Option<Sender<()>>>,
    demand_bytes: AtomicU64,
    turns: watch::Sender<GrapherTurns>,
}

#[derive(Debug, Default, Clone, Copy)]
struct GrapherTurns {
    begun: u64,
    ended: u64,
    /// True if the last turn freed memory or moved events.
    helped: bool,
    /// True if the last turn failed because the disk is full.
    full: bool,
}

/// The result of a move.
#[derive(Debug, Clone, Copy)]
pub struct MoveOutcome {
    /// True if the move freed memory or a part of the journal, or moved events for waiting appends.
    pub useful: bool,
}

impl Backpressure {
    /// Registers the grapher: each message to `wake` starts a turn.
    pub fn begin(&self, wake: Sender<()>) {
        *self.wake.lock() = Some(wake);
    }

    /// Removes the grapher, and ends its current turn for the waiting claims.
    pub fn end(&self) {
        *self.wake.lock() = None;
        self.turns.send_modify(|turns| {
            turns.begun += 1;
            turns.ended = turns.begun;
            (turns.helped, turns.full) = (false, false);
        });
    }

    /// Total bytes that the waiting claims want.
    pub fn demand_bytes(&self) -> u64 {
        self.demand_bytes.load(Ordering::Relaxed)
    }

    /// Records that a turn of the grapher has begun.
    pub fn turn_begins(&self) {
        self.turns.send_modify(|turns| {
            turns.begun += 1;
            debug_assert!(turns.ended < turns.begun, "a turn ended before it began");
        });
    }

    /// Records the end of a turn, and its result.
    pub fn turn_ends(&self, turn: &Result<Option<MoveOutcome>>) {
        let helped = matches!(turn, Ok(Some(MoveOutcome { useful: true })));
        let full = matches!(turn, Err(error) if error.kind() == ErrorKind::DiskFull);
        self.turns.send_modify(|turns| {
            turns.ended = turns.begun;
            (turns.helped, turns.full) = (helped, full);
        });
    }

    /// Claims `bytes` of `budget`, the memory budget for events. Waits while the grapher can make
    /// room.
    ///
    /// # Errors
    /// `OutOfMemory` if the grapher cannot make room or does not run; `DiskFull` if the grapher
    /// cannot move events because the disk is full.
    pub async fn claim(&self, budget: &Arc<Budget>, bytes: usize) -> Result<Claim> {
        let mut refused = match budget.claim(bytes) {
            Ok(claim) => return Ok(claim),
            Err(error) => error,
        };
        if bytes as u64 > budget.bytes_max() {
            return Err(refused);
        }
        let _wanted = ByteDemand::new(&self.demand_bytes, bytes as u64);
        let mut turns = self.turns.subscribe();
        let mut idle = 0;
        for _ in 0..TURNS_MAX {
            // Only a turn that begins from now on sees the wanted bytes.
            let begun = turns.borrow_and_update().begun;
            if !self.wake() {
                break;
            }
            let ended = turns.wait_for(|turns| turns.ended > begun).await;
            let helped = ended.is_ok_and(|turns| turns.helped);
            match budget.claim(bytes) {
                Ok(claim) => return Ok(claim),
                Err(error) => refused = error,
            }
            idle = if helped { 0 } else { idle + 1 };
            if idle > IDLE_TURNS_MAX {
                if turns.borrow().full {
                    refused = no_room(&refused);
                }
                break;
            }
            if idle > 0 {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Err(refused)
    }

    fn wake(&self) -> bool {
        self.wake.lock().as_ref().is_some_and(|wake| wake.send(()).is_ok())
    }
}

fn no_room(refused: &Error) -> Error {
    Error::new(
        ErrorKind::DiskFull,
        "the memory budget for events is used up, and events cannot move into tablets: the disk is full",
    )
    .with_detail(refused.message().to_string())
    .with_hint("free disk space; nothing of this statement was kept, and a restart is not needed")
}

/// The bytes of one waiting claim; subtracted from the total when dropped.
struct ByteDemand<'a>(&'a AtomicU64, u64);

impl<'a> ByteDemand<'a> {
    fn new(sum: &'a AtomicU64, bytes: u64) -> Self {
        sum.fetch_add(bytes, Ordering::Relaxed);
        Self(sum, bytes)
    }
}

impl Drop for ByteDemand<'_> {
    fn drop(&mut self) {
        debug_assert!(self.1 <= self.0.load(Ordering::Relaxed), "more bytes than wanted");
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}
