//! The contract of times (F23, F24, F25), by accident: a seed decides what clients send, what clocks
//! show, what networks lose, and when servers and disks fail; the model says what must be read.
//!
//! ```text
//!   clients: skewed, drifting, jumping clocks, the real estimator
//!      │  latency, loss, copies, no order
//!      ▼
//!   server: the real clock ─► the real engine ─► the real journal, tablets, stories ─► a disk that
//!      │                                                                               forgets
//!      └─► scans, AS OF SEALED, pinned snapshots, followers ══ the model: lists, and nothing else
//! ```
//!
//! What must hold, whatever happens:
//! - time never goes back (CL-8), stands still, or follows a jump that is too long; a client whose
//!   clock did not jump knows it within its bounds (F23);
//! - exactly those events are accepted that are in their session's window, and not before what is
//!   sealed (F24);
//! - each of the four rules of collisions, to the tick (F25);
//! - what was acknowledged is there once, what was refused is not, and a statement without an answer
//!   is there whole or not at all, whatever was sent again (CL-1, F68);
//! - scans are by tick and arrival, followers by commit, without a gap or a repetition (CL-4);
//! - what was sealed reads the same forever, and so does a pinned snapshot (CL-5).
//!
//! All of it is one thread, in the world's own time, so that a seed does the same again:
//! `STRATALOG_SEED` chooses one, `STRATALOG_SEEDS=FIRST..END` several.

mod accidents;
mod client;
mod clocks;
mod model;
mod network;
mod readers;
mod requests;
#[cfg(feature = "sabotage")]
mod sabotages;
mod server;
mod tables;
mod world;

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use world::{Steps, run};

/// Seeds of every run.
const KNOWN: u64 = 3_000;

/// Seeds that are others every time.
const FRESH: u64 = 1_000;

/// What happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    pub seeds: u64,
    /// Events that were committed.
    pub events: u64,
    /// Statements that were acknowledged to who sent them.
    pub acknowledged: u64,
    /// Copies that were not stored again.
    pub duplicates: u64,
    /// Statements refused for a window, and for a taken tick.
    pub outside: u64,
    pub taken: u64,
    /// Statements that waited for another one, and those that were refused if a copy was not stored.
    pub waited: u64,
    pub doubted: u64,
    /// Rows at a later tick than they asked for; rows that were replaced; rows that were skipped.
    pub moved: u64,
    pub replaced: u64,
    pub skipped: u64,
    /// Statements that found the disk full.
    pub full: u64,
    /// Statements whose answer never came, and that were stored.
    pub unknown: u64,
    pub halts: u64,
    pub starts: u64,
    /// Events that were read below the sealed tick, and that followers were told.
    pub sealed: u64,
    pub followed: u64,
    /// Moves down the tiers.
    pub moves: u64,
    /// Jumps of the wall clock that an operator accepted.
    pub jumps: u64,
    /// All of it, in its order, as a number.
    pub trace: u64,
}

impl Summary {
    fn add(&mut self, other: &Summary) {
        self.seeds += other.seeds;
        self.events += other.events;
        self.acknowledged += other.acknowledged;
        self.duplicates += other.duplicates;
        self.outside += other.outside;
        self.taken += other.taken;
        self.waited += other.waited;
        self.doubted += other.doubted;
        self.moved += other.moved;
        self.replaced += other.replaced;
        self.skipped += other.skipped;
        self.full += other.full;
        self.unknown += other.unknown;
        self.halts += other.halts;
        self.starts += other.starts;
        self.sealed += other.sealed;
        self.followed += other.followed;
        self.moves += other.moves;
        self.jumps += other.jumps;
        self.trace ^= other.trace;
    }
}

/// The seeds of this run.
fn seeds() -> Vec<u64> {
    let given = |name: &str| std::env::var(name).ok();
    if let Some(seed) = given("STRATALOG_SEED") {
        return vec![seed.parse().expect("STRATALOG_SEED is a number")];
    }
    if let Some(range) = given("STRATALOG_SEEDS") {
        let (first, end) = range.split_once("..").expect("STRATALOG_SEEDS is FIRST..END");
        let number = |text: &str| text.parse::<u64>().expect("STRATALOG_SEEDS is FIRST..END");
        return (number(first)..number(end)).collect();
    }
    let fresh = RandomState::new().hash_one(0_u64) >> 16;
    (0..KNOWN).chain(fresh..fresh + FRESH).collect()
}

/// Prints the seed, and what led there, if its run panics; then no other is begun.
struct AtSeed<'a> {
    seed: u64,
    steps: Steps,
    failed: &'a AtomicBool,
}

impl Drop for AtSeed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.failed.store(true, Ordering::Relaxed);
            let steps = self.steps.list().join("\n  ");
            eprintln!("seed {}; STRATALOG_SEED={} repeats it\n  {steps}", self.seed, self.seed);
        }
    }
}

/// Runs seeds on all cores.
fn run_all(seeds: &[u64]) -> Summary {
    let (next, failed, total) =
        (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(Summary::default()));
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            if failed.load(Ordering::Relaxed) {
                return;
            }
            let at = AtSeed { seed: *seed, steps: Steps::default(), failed: &failed };
            let summary = run(*seed, &at.steps);
            total.lock().unwrap().add(&summary);
        }
    };
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get());
    std::thread::scope(|scope| {
        for _ in 0..cores.min(seeds.len()) {
            scope.spawn(work);
        }
    });
    total.into_inner().unwrap()
}

#[test]
fn f23_f24_f25_hold_whatever_clocks_networks_and_servers_do() {
    let seeds = seeds();
    let total = run_all(&seeds);
    println!("{total:?}");
    assert_eq!(total.seeds, seeds.len() as u64);
    if total.seeds < 1_000 {
        return;
    }
    // A world in which nothing happens proves nothing.
    let per_seed = |count: u64| count / total.seeds;
    assert!(per_seed(total.acknowledged) >= 5 && per_seed(total.sealed) >= 10, "{total:?}");
    assert!(per_seed(total.followed) >= 10 && total.starts > total.seeds, "{total:?}");
    assert!(total.doubted > 0, "{total:?}");
    for count in [
        total.duplicates,
        total.outside,
        total.taken,
        total.waited,
        total.moved,
        total.replaced,
        total.skipped,
        total.full,
        total.unknown,
        total.halts,
        total.moves,
        total.jumps,
    ] {
        assert!(count >= 20, "{total:?}");
    }
}

#[test]
fn a_seed_does_the_same_again() {
    let seeds: Vec<u64> = (0..24).collect();
    for seed in seeds {
        let (once, again) = (run_all(&[seed]), run_all(&[seed]));
        assert_eq!(once, again, "STRATALOG_SEED={seed}");
    }
}
