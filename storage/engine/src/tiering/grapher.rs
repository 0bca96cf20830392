//! The grapher: moves events down the tiers in the background (F29–F33).
//!
//! ```text
//!   every PAUSE, and when an append lacks memory:
//!                 Load of each chronicle ─► choose ─► collect, or merge ─► raise_floor
//!   every second: due moves of every chronicle ─► collect ─► merge, stories, until none is due
//! ```
//! One thread makes all moves: moves take at most one CPU core from appends and queries. A *look*
//! is one turn of the thread's loop.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use stratalog_model::{ChronicleId, Error, ErrorKind, Result, store::MoveCounts};

use crate::{
    Engine,
    ingest::{backpressure::MoveOutcome, keeper::Keeper},
    tiering::{
        choose::Pressure,
        collect::{self, floor},
        expiry,
        mover::Mover,
        prefetch::Prefetch,
        pressure_flush,
    },
};

/// Time between two looks (turns of the loop).
const PAUSE: Duration = Duration::from_millis(100);

/// Number of looks that are skipped after a failed or useless move, unless appends wait for memory.
const RESTS: u32 = 50;

/// Every n-th look also checks the pieces of every chronicle.
const SETTLE_EVERY: u64 = 10;

/// Minimum number of overlapping or small pieces for a merge.
const MERGE_FAN_IN: usize = 8;

/// The grapher's thread. The drop stops the thread, and waits for the current move.
#[derive(Debug)]
pub struct Grapher {
    mover: Weak<Mover>,
    /// The keeper separately from the mover: open appends keep the keeper alive longer, and wait
    /// for the grapher.
    keeper: Weak<Keeper>,
    stop: Arc<AtomicBool>,
    wake: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Grapher {
    /// Starts the thread. From now on, appends that lack memory wait for the grapher.
    ///
    /// # Errors
    /// The error of the operating system if the thread cannot start.
    pub fn start(engine: &Engine) -> io::Result<Self> {
        let (wake, woken) = channel();
        let mover = Arc::downgrade(engine.mover());
        let keeper = Arc::downgrade(&engine.mover().keeper);
        let stop = Arc::new(AtomicBool::new(false));
        let work = GrapherLoop {
            mover: mover.clone(),
            keeper: keeper.clone(),
            stop: Arc::clone(&stop),
            rests: 0,
            looks: 0,
            look_again: false,
            settled: None,
            prefetch: Prefetch::default(),
        };
        let builder = std::thread::Builder::new().name("grapher".to_string());
        let thread = builder.spawn(move || work.run(&woken))?;
        engine.mover().keeper.backpressure.begin(wake.clone());
        Ok(Self { mover, keeper, stop, wake, thread: Some(thread) })
    }
}

impl Drop for Grapher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(mover) = self.mover.upgrade() {
            mover.write_throttle.end();
        }
        // An error means that the thread has ended already.
        self.wake.send(()).ok();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the grapher panicked");
        }
        if let Some(keeper) = self.keeper.upgrade() {
            keeper.backpressure.end();
        }
    }
}

struct GrapherLoop {
    mover: Weak<Mover>,
    /// The keeper separately from the mover: open appends keep the keeper alive longer, and wait
    /// for the grapher.
    keeper: Weak<Keeper>,
    stop: Arc<AtomicBool>,
    /// Number of looks still to skip.
    rests: u32,
    /// Number of looks so far.
    looks: u64,
    /// True if the last look checked all chronicles and moved events: the next look follows at
    /// once.
    look_again: bool,
    /// The last chronicle of the last look over all chronicles, if the look was interrupted.
    settled: Option<ChronicleId>,
    prefetch: Prefetch,
}

impl GrapherLoop {
    fn run(mut self, woken: &Receiver<()>) {
        loop {
            let pause = if self.look_again { Duration::ZERO } else { PAUSE };
            if woken.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            // This turn serves all wake-ups that have arrived so far.
            while woken.try_recv().is_ok() {}
            let Some(mover) = self.mover.upgrade() else {
                // The engine is closing: no later turn makes room for the waiting appends.
                if let Some(keeper) = self.keeper.upgrade() {
                    keeper.backpressure.end();
                }
                return;
            };
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            mover.note_commits();
            self.rests = self.rests.saturating_sub(1);
            if self.rests > 0 && mover.keeper.backpressure.demand_bytes() == 0 {
                self.look_again = false;
                continue;
            }
            self.looks += 1;
            let all = self.look_again || self.looks.is_multiple_of(SETTLE_EVERY);
            mover.keeper.backpressure.turn_begins();
            let settled = &mut self.settled;
            let work =
                AssertUnwindSafe(|| mover.blocking_pool.block_on(step(&mover, all, settled)));
            let turn = catch_unwind(work).unwrap_or_else(|_| {
                mover.move_history.break_off(mover.clock.as_ref());
                Err(Error::internal("a move failed"))
            });
            mover.keeper.backpressure.turn_ends(&turn);
            self.look_again = all && matches!(turn, Ok(Some(MoveOutcome { useful: true })));
            match turn {
                Ok(None) => self.prefetch(&mover, all),
                Ok(Some(MoveOutcome { useful: true })) => {}
                Ok(Some(MoveOutcome { useful: false })) => self.rests = RESTS,
                Err(error) if error.kind() == ErrorKind::Shutdown => {
                    mover.keeper.backpressure.end();
                    return;
                }
                Err(error) => {
                    tracing::error!(%error, "the events stay in their tier for now");
                    self.rests = RESTS;
                }
            }
        }
    }
}

impl GrapherLoop {
    /// Called when no move is due: decodes some of the stories that queries will probably read
    /// soon. `all` is true if the look checked all chronicles.
    fn prefetch(&mut self, mover: &Arc<Mover>, all: bool) {
        let prefetch = &mut self.prefetch;
        let work = AssertUnwindSafe(|| {
            mover.blocking_pool.block_on(async {
                if all {
                    prefetch.look(mover.files.as_ref(), &mover.publisher).await?;
                }
                prefetch.turn().await
            })
        });
        match catch_unwind(work) {
            // Not an error here: a query of the story will report it.
            Ok(Err(error)) => tracing::debug!(%error, "a story is not decoded in advance"),
            Ok(Ok(())) => {}
            Err(_) => self.prefetch = Prefetch::default(),
        }
    }
}

/// Makes one due move; `None` if no move is due. Checks every chronicle only if `all` is true,
/// because there may be many.
async fn step(
    mover: &Arc<Mover>,
    all: bool,
    settled: &mut Option<ChronicleId>,
) -> Result<Option<MoveOutcome>> {
    let pressure = Pressure::on(mover);
    if pressure.is_high() {
        let _turn = mover.move_lock.lock().await;
        if let Some(turn) = pressure_flush::flush(mover).await? {
            return Ok(Some(turn));
        }
    }
    tidy(mover, &pressure, all, settled).await
}

/// The work to do when neither memory nor journal is short: frees journal segments, and makes due
/// moves of every chronicle.
async fn tidy(
    mover: &Arc<Mover>,
    pressure: &Pressure,
    all: bool,
    settled: &mut Option<ChronicleId>,
) -> Result<Option<MoveOutcome>> {
    let dropped = !mover.publisher.chronicles.dropped.lock().is_empty();
    let freed = if dropped || (all && pressure.is_journal_long()) {
        floor::raise_floor(mover).await?
    } else if all {
        floor::free_segments(mover).await?
    } else {
        0
    };
    if freed > 0 {
        return Ok(Some(MoveOutcome { useful: true }));
    }
    if !all {
        return Ok(None);
    }
    let mut ids: Vec<ChronicleId> = mover.publisher.published().versions.keys().copied().collect();
    ids.sort_unstable();
    let first = settled.map_or(0, |last| ids.partition_point(|id| *id <= last));
    let began_ns = mover.clock.monotonic_ns();
    let (mut useful, mut failed) = (false, Ok(None));
    for id in ids.split_off(first) {
        match settle(mover, id).await {
            Ok(moved) => useful |= moved,
            Err(error) if error.kind() == ErrorKind::Shutdown => return Err(error),
            // If the files of a chronicle are out of reach, the other chronicles are still served.
            Err(error) => {
                tracing::error!(chronicle = %id, %error, "the events stay in their tier for now");
                failed = failed.and(Err(error));
            }
        }
        *settled = Some(id);
        // Returns after PAUSE, because memory may be short by now.
        let elapsed = Duration::from_nanos(mover.clock.monotonic_ns().saturating_sub(began_ns));
        if useful && elapsed >= PAUSE {
            return Ok(Some(MoveOutcome { useful }));
        }
    }
    *settled = None;
    if let Some(files) = &mover.files {
        collect::remove_doomed(files).await;
    }
    match useful {
        // Some chronicle moved: its success counts, and the next look meets the failure again.
        true => Ok(Some(MoveOutcome { useful })),
        false => failed,
    }
}

/// Makes one due move of a chronicle: expiry, flush or merge. Returns true after a move.
async fn settle(mover: &Arc<Mover>, id: ChronicleId) -> Result<bool> {
    let expired = expiry::expire(mover, id).await?;
    let dropped = expiry::drop_dead(mover, id).await?;
    if expired > 0 || dropped != MoveCounts::default() {
        let pieces = dropped.pieces_removed;
        tracing::debug!(chronicle = %id, expired, pieces, "events have expired");
        return Ok(true);
    }
    let moved = collect::collect_due(mover, id).await?;
    if moved != MoveCounts::default() {
        tracing::debug!(chronicle = %id, rows = moved.rows, "events moved into tablets by number or age");
        floor::raise_floor(mover).await?;
        return Ok(true);
    }
    let moved = collect::merge(mover, id, MERGE_FAN_IN).await?;
    if moved != MoveCounts::default() {
        tracing::debug!(chronicle = %id, rows = moved.rows, "pieces merged");
        return Ok(true);
    }
    Ok(false)
}
