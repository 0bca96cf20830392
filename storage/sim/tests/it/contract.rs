//! A random test of the contract of times (F23, F24, F25). A seed decides the statements of
//! clients, the times of clocks, the losses of networks, and the failures of servers and disks. The
//! model states the results that reads must return.
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
//! The invariants, under all accidents:
//! - Time never goes back (CL-8), never stands still, and never follows a jump that is too long. A
//!   client whose clock did not jump knows the time within its bounds (F23).
//! - The server accepts exactly the events inside of their session's window, and behind the seal
//!   (F24).
//! - Each of the five collision rules holds, to the tick (F25).
//! - An acknowledged statement is there once, and a refused statement is not. A statement without
//!   an answer is there completely or not at all, whatever was sent again (CL-1, F68).
//! - Scans are by tick and arrival; followers are by commit, without a gap or a repetition (CL-4).
//! - A sealed range always reads the same, and a pinned snapshot too (CL-5).
//!
//! The world runs on one thread and in its own time: the same seed repeats the same run.
//! `STRATALOG_SEED` chooses one seed, `STRATALOG_SEEDS=FIRST..END` several.

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

/// Seeds that differ in every run.
const FRESH: u64 = 1_000;

/// Counters of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    pub seeds: u64,
    /// Committed events.
    pub events: u64,
    /// Statements acknowledged to their clients.
    pub acknowledged: u64,
    /// Copies not stored again.
    pub duplicates: u64,
    /// Statements refused because of a window, and because of a taken tick.
    pub outside: u64,
    pub taken: u64,
    /// Statements that waited for another statement, and statements refused unless a copy was
    /// stored.
    pub waited: u64,
    pub doubted: u64,
    /// Rows stored at a later tick than requested; replaced rows; skipped rows.
    pub moved: u64,
    pub replaced: u64,
    pub skipped: u64,
    /// Statements refused because the disk was full.
    pub full: u64,
    /// Stored statements without an answer.
    pub unknown: u64,
    pub halts: u64,
    pub starts: u64,
    /// Events read below the sealed tick, and events sent to followers.
    pub sealed: u64,
    pub followed: u64,
    /// Moves down the tiers.
    pub moves: u64,
    /// Clock jumps accepted by an operator.
    pub jumps: u64,
    /// A hash of the sequence of all events.
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

/// Prints the seed and the last steps if its run panics; then no further run starts.
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
    // A world without events proves nothing.
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
