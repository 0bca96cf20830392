//! Estimates the server's time without a round trip per reading.
//!
//! ```text
//!   sync_clock ─► 4 SyncClock round trips ─► Estimator ─► time(): no round trip
//! ```
//!
//! The client uses only the monotonic clock of this machine. It neither reads nor changes the
//! machine's time of day.

use std::{sync::atomic::Ordering, time::Duration};

use stratalog_model::clock::{ClockReading, EstimatedTime, RoundTrip};

use crate::{
    client::Client,
    connection::within,
    error::{Error, ErrorKind, Result},
    pool::Lease,
    retry::RepeatCondition,
    server_clock::ClockSync,
};

/// The number of round trips of one synchronization.
const ROUND_TRIPS: usize = 4;

/// The session option that reports the round-trip time to the server, in microseconds.
const ROUND_TRIP: &str = "stratalog.round_trip_us";

/// The longest round-trip time that the server accepts.
const ROUND_TRIP_US_MAX: i64 = 60_000_000;

impl Client {
    /// Compares this machine's monotonic clock with the server's clock in a few round trips. Call
    /// this method regularly: the error of [`Self::time`] grows with the age of the last
    /// comparison.
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
        self.with_retries(RepeatCondition::Pure, synchronized).await?;
        let sync = self.pool.clock.sync().ok_or_else(|| unreadable("it says nothing"))?;
        self.report_round_trip(sync.round_trip);
        Ok(sync)
    }

    /// Reports the round-trip time to the server for all sessions of this client: the server adds
    /// this time to the maximal accepted age of an event. Reports again if the time has grown, or
    /// has shrunk to less than a quarter.
    fn report_round_trip(&self, round_trip: Duration) {
        let us =
            i64::try_from(round_trip.as_micros()).unwrap_or(i64::MAX).clamp(1, ROUND_TRIP_US_MAX);
        let reported_us = self.pool.clock.reported_us.load(Ordering::Acquire);
        if us > reported_us || us < reported_us / 4 {
            // The report adds a margin of a quarter, so that small increases need no new report.
            let us = us.saturating_add(us / 4).min(ROUND_TRIP_US_MAX);
            self.pool.clock.reported_us.store(us, Ordering::Release);
            self.pool.request_option(ROUND_TRIP.to_string(), Some(us.into()));
        }
    }

    /// The server's time, estimated with this machine's monotonic clock and without a round trip.
    /// `None` before the first [`Self::sync_clock`].
    ///
    /// Each call returns a later time than the previous call, with one exception: after a jump of
    /// the clock by more than a minute ahead, the server accepts none of the returned times, and
    /// the next time may be earlier.
    pub fn time(&self) -> Option<EstimatedTime> {
        let clock = &self.pool.clock;
        let mut estimator = clock.estimator.lock();
        estimator.tell(clock.monotonic_ns())
    }

    async fn ask_clock(&self, lease: &Lease) -> Result<()> {
        let clock = &self.pool.clock;
        let sent_ns = clock.monotonic_ns();
        let request = lease.connection.act("SyncClock", Vec::new());
        let body = within(self.pool.settings.request_timeout, request).await?;
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
