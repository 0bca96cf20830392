//! Clocks: true time, which nobody reads, and the clocks of machines.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use stratalog_model::{Clock, ClockReading, Result, clock::ClockStatus};
use stratalog_visor_core::{MasterClock, TimeSource};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

/// The server's wall clock at the beginning of the world: nanoseconds since 1970.
pub const START_NS: i64 = 1_700_000_000 * SECOND as i64;

/// True time, in nanoseconds.
#[derive(Debug, Clone)]
pub struct TrueTime(Arc<AtomicU64>);

impl TrueTime {
    pub fn starting_at(ns: u64) -> Self {
        Self(Arc::new(AtomicU64::new(ns)))
    }

    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Lets time pass; returns the new time.
    pub fn pass(&self, ns: u64) -> u64 {
        self.0.fetch_add(ns, Ordering::Relaxed) + ns
    }

    /// Advances time to at least this instant.
    pub fn reach(&self, ns: u64) {
        self.0.fetch_max(ns, Ordering::Relaxed);
    }
}

/// A clock of a machine: slightly fast or slow, and sometimes stepped.
#[derive(Debug, Clone, Copy)]
pub struct Oscillator {
    from_ns: u64,
    shown_ns: i128,
    /// Advance per second.
    rate_ppb: i128,
}

impl Oscillator {
    pub fn new(from_ns: u64, shown_ns: i128, rate_ppb: i128) -> Self {
        Self { from_ns, shown_ns, rate_ppb }
    }

    /// The time of the clock.
    pub fn at(&self, true_ns: u64) -> i128 {
        let passed = i128::from(true_ns) - i128::from(self.from_ns);
        self.shown_ns + passed * self.rate_ppb / 1_000_000_000
    }

    /// Changes the rate from now on.
    pub fn turn(&mut self, true_ns: u64, rate_ppb: i128) {
        *self = Self { from_ns: true_ns, shown_ns: self.at(true_ns), rate_ppb };
    }

    pub fn jump(&mut self, ns: i128) {
        self.shown_ns += ns;
    }
}

/// The clocks of the server's machine.
#[derive(Debug, Clone)]
pub struct Machine {
    time: TrueTime,
    pub wall: Arc<Mutex<Oscillator>>,
    /// Time that passes during a read of the monotonic clock: the master's uncertainty.
    look_ns: u64,
}

impl Machine {
    pub fn new(time: &TrueTime, rate_ppb: i128, look_ns: u64) -> Self {
        let wall = Oscillator::new(time.now(), i128::from(START_NS), rate_ppb);
        Self { time: time.clone(), wall: Arc::new(Mutex::new(wall)), look_ns }
    }
}

impl TimeSource for Machine {
    fn wall_ns(&self) -> i64 {
        self.wall.lock().at(self.time.now()) as i64
    }

    fn monotonic_ns(&self) -> u64 {
        self.time.pass(self.look_ns)
    }
}

/// All times and readings of master clocks, in all lives of the server.
#[derive(Debug, Default)]
pub struct Seen(Mutex<Shown>);

#[derive(Debug, Default)]
struct Shown {
    last_ns: Option<i64>,
    times: Vec<i64>,
    readings: Vec<ClockReading>,
}

impl Seen {
    fn note(&self, now_ns: i64, reading: Option<ClockReading>) {
        let mut shown = self.0.lock();
        let last_ns = shown.last_ns.replace(now_ns);
        assert!(last_ns <= Some(now_ns), "CL-8 broken: {now_ns} after {last_ns:?}");
        match reading {
            Some(reading) => shown.readings.push(reading),
            None => shown.times.push(now_ns),
        }
    }

    /// The times requested since the last call.
    pub fn take_times(&self) -> Vec<i64> {
        std::mem::take(&mut self.0.lock().times)
    }

    /// The readings requested since the last call.
    pub fn take_readings(&self) -> Vec<ClockReading> {
        std::mem::take(&mut self.0.lock().readings)
    }
}

/// A master clock under observation: the time never goes back (CL-8).
#[derive(Debug)]
pub struct Watched {
    pub master: Arc<MasterClock>,
    pub seen: Arc<Seen>,
}

impl Clock for Watched {
    fn now_ns(&self) -> i64 {
        let now_ns = self.master.now_ns();
        self.seen.note(now_ns, None);
        now_ns
    }

    fn monotonic_ns(&self) -> u64 {
        self.master.monotonic_ns()
    }

    fn reading(&self) -> ClockReading {
        let reading = self.master.reading();
        self.seen.note(reading.now_ns, Some(reading));
        reading
    }

    fn status(&self) -> ClockStatus {
        self.master.status()
    }

    fn accept_jump(&self) -> Result<Option<u64>> {
        self.master.accept_jump()
    }
}
