//! The client's estimate of the server's clock.

use std::{
    sync::atomic::AtomicI64,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use stratalog_model::clock::{ClockRates, EstimatedTime, Estimator};

/// The client's estimate of the server's clock.
#[derive(Debug)]
pub(crate) struct ServerClock {
    began: Instant,
    pub(crate) estimator: Mutex<Estimator>,
    /// The round-trip time that the sessions have reported to the server; 0 before the first
    /// report.
    pub(crate) reported_us: AtomicI64,
}

impl Default for ServerClock {
    fn default() -> Self {
        let estimator = Mutex::new(Estimator::new(ClockRates::MACHINES));
        Self { began: Instant::now(), estimator, reported_us: AtomicI64::new(0) }
    }
}

impl ServerClock {
    /// This machine's monotonic clock, in nanoseconds since the creation of `self`.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn sync(&self) -> Option<ClockSync> {
        let mut estimator = self.estimator.lock();
        let (line, distance_ns) = (estimator.line()?, estimator.distance_ns()?);
        let estimate = estimator.tell(self.monotonic_ns())?;
        Some(ClockSync {
            estimate,
            drift: estimator.drift(),
            distance_ns,
            round_trip: Duration::from_nanos(estimator.round_trip_ns()),
            epoch: line.epoch,
            jumps: estimator.jumps(),
        })
    }
}

/// The relation of this client's clock to the server's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ClockSync {
    /// The server's present time, and the maximal error of the estimate.
    pub estimate: EstimatedTime,
    /// The drift rate: the advance of this machine's monotonic clock per unit of the server's
    /// clock.
    pub drift: f64,
    /// The offset of the server's clock in nanoseconds: the server's time is this machine's
    /// monotonic time divided by `drift`, plus this offset.
    pub distance_ns: i64,
    /// The longest round trip on which the estimate is based: twice the latency.
    pub round_trip: Duration,
    /// The epoch of the server's clock. The epoch increases at every start of the server's clock,
    /// and whenever the server handles a jump of its wall clock. Times of different epochs are not
    /// comparable.
    pub epoch: u64,
    /// The number of clock jumps that the client detected only by contradictions between round
    /// trips.
    pub jumps: u64,
}
