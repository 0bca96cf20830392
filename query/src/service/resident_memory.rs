//! The resident memory of the process, and the reaction to memory beyond the limit (CL-10).
//!
//! The memory pool counts only the memory that statements request. Copies inside an operator,
//! batches in channels and memory kept by the allocator are not in the pool. A thread therefore
//! watches the process:
//!
//! ```text
//!   resident bytes  0 ─── 3/4 limit ─── 7/8 limit ──────── limit ──────────── 17/16 limit ───►
//!   what is done    nothing   │ large        │ the allocator    │ large requests for  │ all large
//!                             │ statements   │ gives back what  │ memory are refused, │ statements
//!                             │ take turns   │ it keeps         │ the largest         │ end
//!                             │              │                  │ statement ends      │
//! ```
//! A sort or a join may copy all its memory before the operator checks for a stop. Therefore large
//! statements take turns if less than 1/4 of the limit is left, and less than the large statements
//! already use: one statement of 32 MiB or more runs at a time. The other large statements pause
//! between two polls, where a stop takes effect at once. Past 17/16 of the limit, all statements of
//! 64 MiB or more end.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::session::work::{Stop, Work};

/// A statement with at least this number of allocated bytes is a candidate for termination.
pub(crate) const KNOWN_BYTES_MIN: isize = 4 << 20;

/// Smaller memory requests always succeed, so that short statements can continue.
const REFUSED_BYTES_MIN: usize = 2 << 20;

/// A granted request of at least this size counts as a promise until its release: the request can
/// fill the memory before the thread checks again. If the margin below the limit is small, such a
/// request first reads the current memory of the process.
const PROMISED_BYTES_MIN: usize = 8 << 20;

/// The maximum assumed growth of the process in bytes per second: the first use of new memory takes
/// time.
const GROWTH_BYTES_PER_SECOND: u64 = 2 << 30;

/// The bounds of the time between two checks of the memory, in milliseconds.
const LOOK_MS_MIN: u64 = 2;
const LOOK_MS_MAX: u64 = 500;

/// The bounds of the time between two calls of [`Process::give_back`].
const GIVE_BACK_MIN: Duration = Duration::from_millis(50);
const GIVE_BACK_MAX: Duration = Duration::from_secs(5);

/// The time until the next call of `give_back`, after a statement ended because of too much memory.
const GIVE_BACK_SOON: Duration = Duration::from_millis(10);

/// The time in which a terminated statement can free its memory, before the watch terminates
/// another statement.
const LAST_MOMENTS: Duration = Duration::from_millis(500);

/// Like [`LAST_MOMENTS`], for memory that exceeds the limit by more than 1/32.
const LAST_MOMENTS_MIN: Duration = Duration::from_millis(150);

/// All statements with at least this number of bytes end together if the memory exceeds the limit
/// by 1/16: the end of a single statement frees memory too slowly.
const LARGE_BYTES_MIN: usize = 64 << 20;

/// Statements with at least this number of bytes take turns when memory is scarce.
pub(crate) const RESTING_BYTES_MIN: usize = 32 << 20;

/// The time for which one large statement runs before the next large statement gets its turn.
const TURN: Duration = Duration::from_millis(250);

/// The longest time between two checks of the memory while statements take turns, in milliseconds.
const LOOK_MS_TURNS: u64 = 25;

/// After this time, the watch assumes that half of the promised bytes are in use or will never be
/// used. A busy machine fills a granted hash table of half a gigabyte in about a second: with a
/// shorter time, other statements get the same memory once more.
const PROMISE_HALF_LIFE: Duration = Duration::from_secs(1);

/// The functions that read the memory of the process and give memory back.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    /// The resident bytes; `None` if the system does not report the value.
    pub resident: fn() -> Option<usize>,
    /// Returns freed memory to the system: with `true` all freed memory of the process, with `false`
    /// the memory that the calling thread keeps, once the allocator's delay is over.
    pub give_back: fn(bool),
}

/// The memory limits of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// The sum of all budgets plus a margin, in bytes.
    pub bytes_max: usize,
    /// The memory of the machine or of the control group, in bytes.
    pub hard_bytes_max: usize,
    /// The budget of statements. Statements may always use half of the budget within
    /// `hard_bytes_max`, however much memory the rest of the process takes.
    pub statement_bytes: usize,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// The limit of resident bytes; 0 means no limit.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// The resident bytes at the last check.
static RESIDENT: AtomicUsize = AtomicUsize::new(0);

/// Bytes of granted large requests that do not yet appear in the resident memory.
static PROMISED: AtomicUsize = AtomicUsize::new(0);

/// True while large statements take turns.
static TURNS: AtomicBool = AtomicBool::new(false);

/// [`Work::address`] of the statement with the turn; 0 means no statement.
static TURN_OF: AtomicUsize = AtomicUsize::new(0);

/// Statements that have, or once had, enough memory to be candidates for termination.
static LARGE: Mutex<Vec<Weak<Work>>> = Mutex::new(Vec::new());

/// Gives back the freed memory of this thread to the system, if the memory of the process is nearly
/// full. The allocator keeps freed memory by thread, and each of many short statements may run on a
/// different thread.
pub(crate) fn give_back_of_thread() {
    let limit = LIMIT.load(Ordering::Relaxed);
    if limit > 0
        && is_nearly_full(RESIDENT.load(Ordering::Relaxed), limit)
        && let Some(process) = PROCESS.get()
    {
        (process.give_back)(false);
    }
}

/// True from 7/8 of the limit on, where the allocator gives back freed memory.
fn is_nearly_full(resident: usize, limit: usize) -> bool {
    resident > limit - limit / 8
}

/// Makes a statement a candidate for termination.
pub(crate) fn register(work: Weak<Work>) {
    let mut large = LARGE.lock();
    if large.len() >= large.capacity() {
        large.retain(|work| work.strong_count() > 0);
    }
    large.push(work);
}

/// True while large statements take turns.
#[inline]
pub(crate) fn takes_turns() -> bool {
    TURNS.load(Ordering::Relaxed)
}

/// True if the statement with this address has the turn.
pub(crate) fn has_turn(address: usize) -> bool {
    TURN_OF.load(Ordering::Relaxed) == address
}

/// The total memory of the registered statements, in bytes.
fn statement_bytes() -> usize {
    let mut large = LARGE.lock();
    large.retain(|work| work.strong_count() > 0);
    let running = large.iter().filter_map(Weak::upgrade);
    running.map(|work| work.bytes()).fold(0, usize::saturating_add)
}

/// Ends the promise of a granted request. Many short statements request memory without using the
/// memory: without this call, the promises of ended statements would add up until they expire.
/// Memory that grew in small requests has no promise. Its release may end the promise of another
/// statement early; in that case, the watch later terminates the largest statement.
pub(crate) fn release_promise(bytes: usize) {
    if !needs_promise(bytes) {
        return;
    }
    let without = |promised: usize| Some(promised.saturating_sub(bytes));
    // `without` always returns a value: the update cannot fail.
    let _ = PROMISED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, without);
}

/// Memory granted to one owner. A drop ends the promise.
#[derive(Debug, Default)]
pub struct MemoryPromise {
    bytes: usize,
}

impl MemoryPromise {
    /// Requests `bytes`; `None` if the process has too little memory.
    pub fn of(bytes: usize) -> Option<Self> {
        has_memory(bytes).then(|| Self { bytes: if needs_promise(bytes) { bytes } else { 0 } })
    }

    /// Adds the bytes of another promise.
    pub fn merge(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for MemoryPromise {
    fn drop(&mut self) {
        release_promise(self.bytes);
    }
}

fn needs_promise(bytes: usize) -> bool {
    bytes >= PROMISED_BYTES_MIN
}

/// Requests `bytes` of memory: true if the resident memory stays within the limit. A granted large
/// request counts as a promise.
pub(crate) fn has_memory(bytes: usize) -> bool {
    let limit = LIMIT.load(Ordering::Relaxed);
    if limit == 0 || bytes < REFUSED_BYTES_MIN {
        return true;
    }
    let wanted = bytes.saturating_add(PROMISED.load(Ordering::Relaxed));
    let fits = |resident: usize| resident.saturating_add(wanted) <= limit;
    if !needs_promise(bytes) {
        return RESIDENT.load(Ordering::Relaxed) <= limit;
    }
    let Some(process) = PROCESS.get() else { return true };
    // Reading the memory costs a system call, and each sort of a short statement requests 10 MiB.
    let margin = (limit / 2).saturating_sub(RESIDENT.load(Ordering::Relaxed));
    let granted = wanted <= margin
        || match (process.resident)() {
            Some(resident) if !fits(resident) => {
                (process.give_back)(true);
                (process.resident)().is_none_or(fits)
            }
            _ => true,
        };
    if granted {
        PROMISED.fetch_add(bytes, Ordering::Relaxed);
    }
    granted
}

/// Checks the memory of the process again and again, and terminates statements above the limit. The
/// owner calls [`Watch::look`] on a separate thread.
#[derive(Debug)]
pub struct Watch {
    process: Process,
    allowance: Allowance,
    gave_back: Option<Instant>,
    /// The time until the next call of `give_back`.
    pause: Duration,
    /// The time when half of the promises last expired.
    forgot: Instant,
    /// The start of the current turn.
    turn: Instant,
    /// The last terminated statement, and the time of its termination.
    ended: Option<(Weak<Work>, Instant)>,
    warned: Option<Instant>,
}

impl Watch {
    /// Creates the watch of this process. Functions of the first watch serve all services of the
    /// process.
    pub fn new(process: Process, allowance: Allowance) -> Self {
        let _first = PROCESS.set(process);
        let limit = allowance.bytes_max.min(allowance.hard_bytes_max);
        LIMIT.store(limit, Ordering::Relaxed);
        Self {
            process,
            allowance,
            gave_back: None,
            pause: GIVE_BACK_MIN,
            forgot: Instant::now(),
            turn: Instant::now(),
            ended: None,
            warned: None,
        }
    }

    /// Checks the memory once and reacts; returns the time until the next check.
    pub fn look(&mut self) -> Duration {
        let Some(mut resident) = (self.process.resident)() else {
            return Duration::from_millis(LOOK_MS_MAX);
        };
        let limit = self.limit(resident, statement_bytes());
        LIMIT.store(limit, Ordering::Relaxed);
        if is_nearly_full(resident, limit) && self.is_due(resident > limit) {
            (self.process.give_back)(true);
            let after = (self.process.resident)().unwrap_or(resident);
            let little = resident.saturating_sub(after) < limit / 64;
            self.pause = match little {
                true => self.pause.saturating_mul(2).min(GIVE_BACK_MAX),
                false => GIVE_BACK_MIN,
            };
            self.gave_back = Some(Instant::now());
            if self.frees() {
                self.ended = None;
            }
            resident = after;
        }
        let grown = resident.saturating_sub(RESIDENT.swap(resident, Ordering::Relaxed));
        let forgets = self.forgot.elapsed() >= PROMISE_HALF_LIFE;
        if forgets {
            self.forgot = Instant::now();
        }
        let kept = |promised: usize| {
            let left = promised.saturating_sub(grown);
            Some(if forgets { left / 2 } else { left })
        };
        let _kept = PROMISED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, kept);
        if resident > limit && !self.frees() {
            self.end_largest(resident, limit);
        }
        // Each statement may double its memory within one poll.
        let left = limit.saturating_sub(resident);
        let turns = left < limit / 4 && left < statement_bytes();
        if turns {
            self.give_turn();
        }
        TURNS.store(turns, Ordering::Relaxed);
        let headroom = u64::try_from(left).unwrap_or(u64::MAX);
        let quiet = headroom.saturating_mul(1_000) / GROWTH_BYTES_PER_SECOND;
        let longest = if turns { LOOK_MS_TURNS } else { LOOK_MS_MAX };
        Duration::from_millis(quiet.clamp(LOOK_MS_MIN, longest))
    }

    /// Gives the turn to the next large statement when the turn is over.
    fn give_turn(&mut self) {
        let large = LARGE.lock();
        let running = large.iter().filter_map(Weak::upgrade);
        let running: Vec<usize> = running
            .filter(|work| !work.is_ending() && work.bytes() >= RESTING_BYTES_MIN)
            .map(|work| work.address())
            .collect();
        drop(large);
        let now = TURN_OF.load(Ordering::Relaxed);
        let at = running.iter().position(|address| *address == now);
        if at.is_none() || self.turn.elapsed() >= TURN {
            let next = at.map_or(0, |at| at + 1);
            let next = running.get(next).or(running.first()).copied().unwrap_or(0);
            TURN_OF.store(next, Ordering::Relaxed);
            self.turn = Instant::now();
        }
    }

    /// The current limit of resident bytes. The limit exceeds `bytes_max` if memory outside of
    /// statements exceeds its budgets: statements may always use half of their budget.
    fn limit(&self, resident: usize, statements: usize) -> usize {
        let others = resident.saturating_sub(statements);
        let least = others.saturating_add(self.allowance.statement_bytes / 2);
        // Without a statement that could free memory, the limit would only follow the memory.
        let wanted = match statements {
            0 => self.allowance.bytes_max,
            _ => self.allowance.bytes_max.max(least),
        };
        wanted.min(self.allowance.hard_bytes_max)
    }

    fn is_due(&self, urgent: bool) -> bool {
        let pause = match urgent {
            true if self.frees() => GIVE_BACK_SOON,
            true => GIVE_BACK_MIN,
            false => self.pause,
        };
        self.gave_back.is_none_or(|then| then.elapsed() >= pause)
    }

    /// True if a statement was terminated and its memory has not been given back since.
    fn frees(&self) -> bool {
        self.ended.as_ref().is_some_and(|(work, _)| work.strong_count() == 0)
    }

    /// Terminates the statement with the most memory, unless another statement is about to end.
    fn end_largest(&mut self, resident: usize, limit: usize) {
        let over = resident - limit;
        let moments = match over > limit / 32 {
            true => LAST_MOMENTS_MIN,
            false => LAST_MOMENTS,
        };
        let waits = self.ended.as_ref().is_some_and(|(_, then)| then.elapsed() < moments);
        if waits && over <= limit / 16 {
            return;
        }
        let largest = {
            let large = LARGE.lock();
            let running = large.iter().filter_map(Weak::upgrade);
            running.filter(|work| !work.is_ending()).max_by_key(|work| work.bytes())
        };
        let own = largest.as_ref().map_or(0, |work| work.bytes());
        let known = usize::try_from(KNOWN_BYTES_MIN).unwrap_or(usize::MAX);
        let least = if waits { LARGE_BYTES_MIN } else { known };
        if let Some(work) = largest.filter(|_| own >= least) {
            tracing::warn!(
                resident,
                limit,
                own,
                "the memory is used up: the server ends the largest statement"
            );
            work.stop(Stop::Memory);
            self.ended = Some((Arc::downgrade(&work), Instant::now()));
        } else if !waits && self.warned.is_none_or(|then| then.elapsed() > Duration::from_secs(10))
        {
            tracing::warn!(
                resident,
                limit,
                "the memory is used up, but no statement uses much memory"
            );
            self.warned = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
