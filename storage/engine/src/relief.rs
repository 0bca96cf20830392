//! Appends that found the memory budget used up: they wait while the grapher makes room.
//!
//! ```text
//!   claim ✗ ─► wanted += bytes ─► wake ─► a turn of the grapher that begins after that ends
//!      ▲                                        │ it moved events   │ it moved nothing
//!      ├────────────────────────────────────────┘                   │
//!      └─── PAUSE, a few times: statements under way may commit ◄───┴─► OutOfMemory
//! ```

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::Sender,
    },
    time::Duration,
};

use parking_lot::Mutex;
use stratalog_model::Result;
use tokio::sync::watch;

use crate::{budget::Claim, engine::Core};

/// Turns that one claim waits for, at most.
const TURNS_MAX: usize = 1000;

/// Turns in a row that may move nothing: the memory may be that of statements which are about
/// to commit, or of ones that wait as well.
const IDLE_TURNS_MAX: usize = 10;

/// Time between such turns.
const PAUSE: Duration = Duration::from_millis(50);

/// What whoever needs memory and whoever frees it know of each other.
#[derive(Debug, Default)]
pub struct Relief {
    /// Wakes the grapher; `None` while there is none.
    wake: Mutex<Option<Sender<()>>>,
    wanted: AtomicU64,
    turns: watch::Sender<Turns>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Turns {
    begun: u64,
    ended: u64,
    /// Whether the last one moved anything.
    helped: bool,
}

impl Relief {
    /// There is a grapher, which looks whenever the receiver of `wake` gets something.
    pub fn begin(&self, wake: Sender<()>) {
        *self.wake.lock() = Some(wake);
    }

    /// There is none any more.
    pub fn end(&self) {
        *self.wake.lock() = None;
        self.turns.send_modify(|turns| {
            turns.begun += 1;
            turns.ended = turns.begun;
            turns.helped = false;
        });
    }

    /// Bytes that are waited for.
    pub fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// The grapher begins to look at what is wanted.
    pub fn turn_begins(&self) {
        self.turns.send_modify(|turns| turns.begun += 1);
    }

    /// It has done what it could; `helped` says whether that was anything.
    pub fn turn_ends(&self, helped: bool) {
        self.turns.send_modify(|turns| {
            turns.ended = turns.begun;
            turns.helped = helped;
        });
    }

    fn wake(&self) -> bool {
        self.wake.lock().as_ref().is_some_and(|wake| wake.send(()).is_ok())
    }
}

impl Core {
    /// Claims bytes of the memory budget; waits when moving events out can make room.
    ///
    /// # Errors
    /// `OutOfMemory` when it cannot, or there is no grapher.
    pub async fn claim(&self, bytes: usize) -> Result<Claim> {
        let mut refused = match self.budget.claim(bytes) {
            Ok(claim) => return Ok(claim),
            Err(error) => error,
        };
        if bytes as u64 > self.budget.bytes_max() {
            return Err(refused);
        }
        let _wanted = Wanted::new(&self.relief.wanted, bytes as u64);
        let mut turns = self.relief.turns.subscribe();
        let mut idle = 0;
        for _ in 0..TURNS_MAX {
            // A turn that begins from here on knows of the bytes.
            let begun = turns.borrow_and_update().begun;
            if !self.relief.wake() {
                break;
            }
            let ended = turns.wait_for(|turns| turns.ended > begun).await;
            let helped = ended.is_ok_and(|turns| turns.helped);
            match self.budget.claim(bytes) {
                Ok(claim) => return Ok(claim),
                Err(error) => refused = error,
            }
            idle = if helped { 0 } else { idle + 1 };
            if idle > IDLE_TURNS_MAX {
                break;
            }
            if idle > 0 {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Err(refused)
    }
}

/// Bytes that one claim waits for.
struct Wanted<'a>(&'a AtomicU64, u64);

impl<'a> Wanted<'a> {
    fn new(sum: &'a AtomicU64, bytes: u64) -> Self {
        sum.fetch_add(bytes, Ordering::Relaxed);
        Self(sum, bytes)
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}
