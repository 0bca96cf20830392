mod jumps;
mod memory_disk;
mod starts;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use proptest::prelude::*;
use stratalog_model::{Clock, ErrorKind, Result};

use super::{AHEAD_NS, ClockSettings, LEASE_NS, MasterClock, TimeSource};
use memory_disk::MemoryDisk;

const DIRECTORY: &str = "/visor";
const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_700_000_000 * SECOND;

/// Clocks that the test sets.
#[derive(Debug)]
struct Hands {
    wall_ns: AtomicI64,
    monotonic_ns: AtomicU64,
}

impl Hands {
    fn at(wall_ns: i64) -> Arc<Self> {
        Arc::new(Self { wall_ns: AtomicI64::new(wall_ns), monotonic_ns: AtomicU64::new(5) })
    }

    /// Lets time pass on both clocks.
    fn pass(&self, ns: i64) {
        self.wall_ns.fetch_add(ns, Ordering::Relaxed);
        self.monotonic_ns.fetch_add(ns as u64, Ordering::Relaxed);
    }

    /// Sets the wall clock.
    fn step(&self, ns: i64) {
        self.wall_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

impl TimeSource for Hands {
    fn wall_ns(&self) -> i64 {
        self.wall_ns.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.monotonic_ns.load(Ordering::Relaxed)
    }
}

fn open(disk: &Arc<MemoryDisk>, hands: &Arc<Hands>) -> Arc<MasterClock> {
    try_open(disk, hands).unwrap()
}

fn try_open(disk: &Arc<MemoryDisk>, hands: &Arc<Hands>) -> Result<Arc<MasterClock>> {
    let (disk, hands) = (Arc::clone(disk) as Arc<_>, Arc::clone(hands) as Arc<_>);
    MasterClock::open(disk, Path::new(DIRECTORY), hands, ClockSettings::default())
}

#[test]
fn follows_the_wall_clock() {
    let (disk, hands) = (Arc::default(), Hands::at(START));
    let clock = open(&disk, &hands);
    assert_eq!(clock.now_ns(), START);
    hands.pass(7 * SECOND);
    assert_eq!(clock.now_ns(), START + 7 * SECOND);
}

#[test]
fn goes_at_half_speed_after_a_step_back_until_it_is_met() {
    let (disk, hands) = (Arc::default(), Hands::at(START));
    let clock = open(&disk, &hands);
    clock.now_ns();
    hands.step(-10 * SECOND);
    assert_eq!(clock.now_ns(), START);
    hands.pass(4 * SECOND);
    assert_eq!(clock.now_ns(), START + 2 * SECOND);
    hands.pass(16 * SECOND);
    assert_eq!(clock.now_ns(), START + 10 * SECOND);
    hands.pass(SECOND);
    assert_eq!(clock.now_ns(), START + 11 * SECOND);
}

#[test]
fn readings_closer_than_its_resolution_still_make_it_move() {
    let (disk, hands) = (Arc::default(), Hands::at(START));
    let clock = open(&disk, &hands);
    hands.step(-10 * SECOND);
    let first = clock.now_ns();
    for _ in 0..1_000 {
        hands.pass(1);
        clock.now_ns();
    }
    assert_eq!(clock.now_ns(), first + 500);
}

#[test]
fn a_restart_after_a_crash_starts_at_the_lease() {
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    let clock = open(&disk, &hands);
    hands.pass(SECOND / 2);
    let last = clock.now_ns();
    drop(clock);
    disk.crash();
    hands.step(-3600 * SECOND);
    let clock = open(&disk, &hands);
    let first = clock.now_ns();
    assert!(first >= last && first <= last + LEASE_NS, "{first} {last}");
}

#[test]
fn a_settled_clock_starts_where_it_stopped() {
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    let clock = open(&disk, &hands);
    let last = clock.now_ns();
    clock.settle().unwrap();
    disk.crash();
    assert_eq!(open(&disk, &hands).now_ns(), last);
    hands.pass(1);
    assert!(clock.now_ns() > last, "a settled clock can still be read");
}

#[test]
fn few_writes() {
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    let clock = open(&disk, &hands);
    let before = disk.syncs();
    for _ in 0..10_000 {
        hands.pass(1_000_000);
        clock.now_ns();
    }
    assert!(disk.syncs() - before <= 10, "{}", disk.syncs() - before);
}

#[test]
fn a_torn_lease_falls_back_to_the_other_copy() {
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    let clock = open(&disk, &hands);
    let last = clock.now_ns();
    disk.flip(4096 + 20);
    hands.step(-SECOND);
    // The first lease was written to slot 1; slot 0 is still unwritten.
    let refused = try_open(&disk, &hands);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::DataCorrupted);
    disk.flip(4096 + 20);
    hands.pass(3 * SECOND);
    clock.now_ns();
    disk.flip(20);
    assert!(open(&disk, &hands).now_ns() >= last);
}

#[test]
fn an_epoch_is_not_given_again_though_a_copy_is_damaged() {
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    drop(open(&disk, &hands));
    // The second start writes to slot 0 only.
    let before = open(&disk, &hands).reading().line.epoch;
    assert_eq!(before, 2);
    disk.crash();
    disk.flip(20);
    assert!(open(&disk, &hands).reading().line.epoch > before);
}

#[test]
fn a_lost_lease_is_reported_until_somebody_lets_time_start_anew() {
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    let existing = || {
        let disk = Arc::clone(&disk) as Arc<_>;
        let (path, hands) = (Path::new(DIRECTORY), Arc::clone(&hands) as Arc<_>);
        MasterClock::open_existing(disk, path, hands, ClockSettings::default())
    };
    drop(open(&disk, &hands));
    assert!(existing().unwrap().now_ns() >= START);
    hands.step(-3600 * SECOND);
    let ahead = existing().unwrap().now_ns();
    assert!(ahead >= START);
    for lost in [None, Some(&[][..]), Some(&[0; 8192]), Some(b"never\n"), Some(b"now or never\n")] {
        disk.replace(lost);
        let error = existing().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{lost:?}");
        assert!(error.message().contains("/visor/clock"), "{error}");
        assert!(error.hint().unwrap().contains("echo now > /visor/clock"), "{error:?}");
    }
    for word in [&b"now\n"[..], b"now"] {
        disk.replace(Some(word));
        let clock = existing().unwrap();
        assert_eq!(clock.now_ns(), START - 3600 * SECOND);
        // From then on, a lease exists again, even after a crash.
        disk.crash();
        hands.step(-SECOND);
        assert!(existing().unwrap().now_ns() >= START - 3600 * SECOND);
        hands.step(SECOND);
    }
}

#[test]
fn a_file_system_that_reserves_nothing_will_do() {
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    disk.reserve_nothing();
    let clock = open(&disk, &hands);
    let last = clock.now_ns();
    hands.pass(3 * SECOND);
    clock.now_ns();
    disk.crash();
    assert!(open(&disk, &hands).now_ns() > last);
}

#[test]
fn a_failed_sync_stops_time_instead_of_risking_it() {
    let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
    let clock = open(&disk, &hands);
    clock.now_ns();
    disk.fail_syncs();
    hands.pass(10 * SECOND);
    let stopped = clock.now_ns();
    assert!(stopped <= START + LEASE_NS);
    assert!(clock.failure().is_some());
    let tried = disk.syncs();
    hands.pass(10 * SECOND);
    assert_eq!(clock.now_ns(), stopped);
    assert_eq!(disk.syncs(), tried, "a failed sync was tried again");
    assert_eq!(clock.settle().unwrap_err().kind(), ErrorKind::Io);
}

#[derive(Debug, Clone)]
enum Step {
    Pass(i64),
    Set(i64),
    Crash,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3 * SECOND).prop_map(Step::Pass),
        2 => (-50 * SECOND..50 * SECOND).prop_map(Step::Set),
        1 => Just(Step::Crash),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #[test]
    fn never_goes_backwards(steps in prop::collection::vec(step(), 1..60)) {
        let (disk, hands) = (Arc::new(MemoryDisk::default()), Hands::at(START));
        let mut clock = open(&disk, &hands);
        let mut last = clock.now_ns();
        for step in steps {
            match step {
                Step::Pass(ns) => hands.pass(ns),
                Step::Set(ns) => hands.step(ns),
                Step::Crash => {
                    disk.crash();
                    clock = open(&disk, &hands);
                }
                Step::Restart => {
                    clock.settle().unwrap();
                    disk.crash();
                    clock = open(&disk, &hands);
                }
            }
            let now = clock.now_ns();
            prop_assert!(now >= last, "{now} after {last}");
            prop_assert!(now >= hands.wall_ns(), "behind the wall clock");
            last = now;
        }
    }
}

#[test]
fn a_lease_that_is_renewed_in_time_makes_nobody_wait() {
    let (disk, hands) = (Arc::<MemoryDisk>::default(), Hands::at(START));
    let clock = open(&disk, &hands);
    clock.now_ns();
    // The end of the lease is far enough away: nothing to do.
    clock.renew();
    assert_eq!(clock.state.lock().lease_ns, START + LEASE_NS);
    hands.pass(LEASE_NS / 2);
    clock.renew();
    let lease_ns = START + LEASE_NS / 2 + AHEAD_NS;
    assert_eq!(clock.state.lock().lease_ns, lease_ns);
    // A thread that has locked the lease file does not delay time.
    let writing = clock.lease.lock();
    hands.pass(LEASE_NS);
    assert_eq!(clock.now_ns(), START + LEASE_NS * 3 / 2);
    drop(writing);
    // A leased time is not issued again after a crash.
    drop(clock);
    assert_eq!(open(&disk, &hands).now_ns(), lease_ns);
}

#[test]
fn an_idle_or_settled_clock_is_not_kept_ahead() {
    let (disk, hands) = (Arc::<MemoryDisk>::default(), Hands::at(START));
    let clock = open(&disk, &hands);
    clock.now_ns();
    hands.pass(2 * 60 * SECOND);
    clock.renew();
    assert_eq!(clock.state.lock().lease_ns, START + LEASE_NS);
    let issued_ns = clock.now_ns();
    clock.settle().unwrap();
    clock.renew();
    assert_eq!(clock.state.lock().lease_ns, issued_ns);
    drop(clock);
    assert_eq!(open(&disk, &hands).now_ns(), issued_ns);
}
