//! The server's time, told without asking for it each time.
//!
//! ```text
//!   sync_clock ─► SyncClock, a few times ─► Estimator ─► time(): no round trip
//! ```
//!
//! The clock of this machine is never changed, and never asked for the time of day: only its monotonic
//! clock counts.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use stratalog_model::clock::{ClockRates, ClockReading, Estimator, RoundTrip, Told};

use crate::{
    client::{Care, Client},
    connection::within,
    error::{Error, ErrorKind, Result},
    pool::Lease,
};

/// Round trips of one synchronization.
const ROUND_TRIPS: usize = 4;

/// The session option that tells the server of the latency.
const ROUND_TRIP: &str = "stratalog.round_trip_us";

/// The longest round trip that counts.
const ROUND_TRIP_US_MAX: i64 = 60_000_000;

/// What a client knows of the server's clock.
#[derive(Debug)]
pub(crate) struct ServerClock {
    began: Instant,
    estimator: Mutex<Estimator>,
    /// What the sessions were told of the latency.
    told_us: AtomicI64,
}

impl Default for ServerClock {
    fn default() -> Self {
        let estimator = Mutex::new(Estimator::new(ClockRates::MACHINES));
        Self { began: Instant::now(), estimator, told_us: AtomicI64::new(0) }
    }
}

impl ServerClock {
    /// This machine's monotonic clock.
    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sync(&self) -> Option<ClockSync> {
        let mut estimator = self.estimator.lock();
        let (line, distance_ns) = (estimator.line()?, estimator.distance_ns()?);
        let told = estimator.tell(self.monotonic_ns())?;
        Some(ClockSync {
            told,
            drift: estimator.drift(),
            distance_ns,
            round_trip: Duration::from_nanos(estimator.round_trip_ns()),
            epoch: line.epoch,
            jumps: estimator.jumps(),
        })
    }
}

/// How this client's clock and the server's go together.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ClockSync {
    /// The server's time now, and how far from it the truth may be.
    pub told: Told,
    /// How much this machine's monotonic clock advances while the server's advances by one.
    pub drift: f64,
    /// What is added to this machine's monotonic time, divided by the drift, to have the server's.
    pub distance_ns: i64,
    /// The longest of the round trips that this is known from: twice the latency.
    pub round_trip: Duration,
    /// Counts starts and fences of the server's clock.
    pub epoch: u64,
    /// How often one of the clocks jumped without a word.
    pub jumps: u64,
}

impl Client {
    /// Compares this machine's monotonic clock with the server's clock, by a few round trips. To be done
    /// again now and then: what [`Self::time`] tells is less certain the longer that was ago.
    ///
    /// # Errors
    /// `Connection`, `Timeout`.
    pub async fn sync_clock(&self) -> Result<ClockSync> {
        let synchronized = |lease: Lease| async move {
            for _ in 0..ROUND_TRIPS {
                self.ask_clock(&lease).await?;
            }
            Ok(())
        };
        self.safely(Care::Pure, synchronized).await?;
        let sync = self.pool.clock.sync().ok_or_else(|| unreadable("it says nothing"))?;
        self.tell_latency(sync.round_trip);
        Ok(sync)
    }

    /// Lets the sessions of this client know how long a round trip takes: by that, the server decides
    /// how old events may be. Told again when it is longer, or has become much shorter.
    fn tell_latency(&self, round_trip: Duration) {
        let us =
            i64::try_from(round_trip.as_micros()).unwrap_or(i64::MAX).clamp(1, ROUND_TRIP_US_MAX);
        let told = self.pool.clock.told_us.load(Ordering::Acquire);
        if us > told || us < told / 4 {
            // Some room, so that not each of them is told.
            let us = us.saturating_add(us / 4).min(ROUND_TRIP_US_MAX);
            self.pool.clock.told_us.store(us, Ordering::Release);
            self.pool.want(ROUND_TRIP.to_string(), Some(us.into()));
        }
    }

    /// The server's time, by this machine's monotonic clock: no round trip. Each call tells a later one
    /// than the call before; only after this clock was found to have leapt more than a minute ahead, so
    /// that the server accepted nothing of what was told then, an earlier one. `None` before the first
    /// [`Self::sync_clock`].
    pub fn time(&self) -> Option<Told> {
        let clock = &self.pool.clock;
        let mut estimator = clock.estimator.lock();
        estimator.tell(clock.monotonic_ns())
    }

    async fn ask_clock(&self, lease: &Lease) -> Result<()> {
        let clock = &self.pool.clock;
        let sent_ns = clock.monotonic_ns();
        let asked = lease.connection.act("SyncClock", Vec::new());
        let body = within(self.pool.settings.request_timeout, asked).await?;
        let received_ns = clock.monotonic_ns();
        let reading: ClockReading =
            serde_json::from_slice(&body).map_err(|error| unreadable(&error.to_string()))?;
        clock.estimator.lock().learn(RoundTrip { sent_ns, reading, received_ns });
        Ok(())
    }
}

fn unreadable(why: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("the server's time cannot be read: {why}"))
}
