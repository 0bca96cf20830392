//! The master clock (F23): time that never goes backwards (CL-8).
//!
//! ```text
//!   wall clock   ───────╮  step back         issued = max(wall, slow)
//!                       ╰──────────────────
//!   issued       ───────╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌───   while the wall clock is behind, issued time
//!                         half speed          runs at half speed until they meet
//!   lease        ════════════│════════════│   on disk, always ahead of what is issued
//! ```
//!
//! A restart begins at the lease: nothing above it was ever issued.

mod lease;
mod source;

use std::{path::Path, sync::Arc, thread, time::Duration};

use parking_lot::Mutex;
use stratalog_model::{Clock, Disk, Error, Result, invariant};

use lease::Lease;
pub use lease::LeaseFound;
pub use source::{SystemTimeSource, TimeSource};

/// How far ahead of the issued time the lease is put when it has run out, in nanoseconds.
const LEASE_NS: i64 = 1_000_000_000;

/// How far ahead it is put before it runs out. A crash lets time start at most this much
/// ahead of the wall clock.
const AHEAD_NS: i64 = 2 * LEASE_NS;

/// How often it is looked whether the lease runs out.
const RENEWAL: Duration = Duration::from_millis(250);

/// A clock that nobody has read for so long is not kept ahead.
const IDLE_NS: u64 = 60_000_000_000;

/// A wall clock that is this far behind the issued time is worth a warning.
const BEHIND_WARN_NS: i64 = 1_000_000_000;

/// A clock that keeps CL-8 across clock steps and restarts.
#[derive(Debug)]
pub struct MasterClock {
    source: Arc<dyn TimeSource>,
    state: Mutex<State>,
    /// Locked after `state`, or alone: whoever issues time need not wait for the disk.
    lease: Mutex<Lease>,
}

#[derive(Debug)]
struct State {
    /// Never issued beyond.
    lease_ns: i64,
    /// Last time issued.
    issued_ns: i64,
    /// Where slow time starts from while the wall clock is behind.
    anchor_ns: i64,
    /// The monotonic clock at the anchor.
    anchor_monotonic_ns: u64,
    /// The monotonic clock when time was issued last.
    used_monotonic_ns: u64,
    /// The lease was given back.
    settled: bool,
    /// Whether the wall clock is far behind and this was said.
    warned: bool,
    /// Why the lease can no longer be extended, if so: then time stands still (CL-7).
    failed: Option<String>,
}

impl MasterClock {
    /// Opens the clock whose lease is kept in `directory`, which exists.
    ///
    /// # Errors
    /// `DataCorrupted` when the lease file is damaged beyond its spare copy; what the
    /// disk says.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        source: Arc<dyn TimeSource>,
    ) -> Result<Arc<Self>> {
        Self::open_if(disk, directory, source, false)
    }

    /// As [`Self::open`], for a directory in which a clock was opened before: its lease must
    /// be there.
    ///
    /// # Errors
    /// As [`Self::open`]; `DataCorrupted` as well when the lease is missing.
    pub fn open_existing(
        disk: Arc<dyn Disk>,
        directory: &Path,
        source: Arc<dyn TimeSource>,
    ) -> Result<Arc<Self>> {
        Self::open_if(disk, directory, source, true)
    }

    /// Looks at the lease in `directory`, and changes nothing.
    ///
    /// # Errors
    /// As [`Self::open_existing`].
    pub fn look(disk: &dyn Disk, directory: &Path) -> Result<LeaseFound> {
        Lease::look(disk, directory)
    }

    fn open_if(
        disk: Arc<dyn Disk>,
        directory: &Path,
        source: Arc<dyn TimeSource>,
        existing: bool,
    ) -> Result<Arc<Self>> {
        let (mut lease, floor_ns) = Lease::open(disk.as_ref(), directory, existing)?;
        let wall_ns = source.wall_ns();
        let start_ns = floor_ns.map_or(wall_ns, |floor| floor.max(wall_ns));
        let behind_ns = start_ns.saturating_sub(wall_ns);
        let warned = behind_ns > BEHIND_WARN_NS + LEASE_NS;
        if warned {
            tracing::warn!(
                behind_ms = behind_ns / 1_000_000,
                "the wall clock is behind the time issued before the restart; time runs slower until it has caught up"
            );
        }
        let lease_ns = start_ns.saturating_add(LEASE_NS);
        lease.write(lease_ns)?;
        let monotonic_ns = source.monotonic_ns();
        let state = State {
            lease_ns,
            issued_ns: start_ns,
            anchor_ns: start_ns,
            anchor_monotonic_ns: monotonic_ns,
            used_monotonic_ns: monotonic_ns,
            settled: false,
            warned,
            failed: None,
        };
        Ok(Arc::new(Self { source, state: Mutex::new(state), lease: Mutex::new(lease) }))
    }

    /// Starts a thread that renews the lease before it runs out, as long as the clock is in
    /// use: so that a disk that hangs for a moment does not stop time.
    ///
    /// # Errors
    /// `Io` when the system has no thread for us.
    pub fn keep_ahead(self: &Arc<Self>) -> Result<()> {
        let clock = Arc::downgrade(self);
        let renewing = move || {
            while let Some(clock) = clock.upgrade() {
                clock.renew();
                drop(clock);
                thread::sleep(RENEWAL);
            }
        };
        thread::Builder::new()
            .name("clock".to_string())
            .spawn(renewing)
            .map(drop)
            .map_err(|error| Error::io("cannot start the clock's thread", error))
    }

    /// Renews the lease if it runs out soon. Time can be issued meanwhile.
    fn renew(&self) {
        let target_ns = {
            let mut state = self.state.lock();
            let monotonic_ns = self.source.monotonic_ns();
            let time_ns = state.advance(self.source.wall_ns(), monotonic_ns);
            let idle = monotonic_ns.saturating_sub(state.used_monotonic_ns) > IDLE_NS;
            let enough = state.lease_ns.saturating_sub(time_ns) >= LEASE_NS;
            if idle || enough || state.settled || state.failed.is_some() {
                return;
            }
            time_ns.saturating_add(AHEAD_NS)
        };
        let reached = self.lease.lock().reach(target_ns);
        let mut state = self.state.lock();
        match reached {
            // A lease that was given back meanwhile stays so.
            Ok(lease_ns) if !state.settled => state.lease_ns = state.lease_ns.max(lease_ns),
            Ok(_) => {}
            Err(error) => state.fail(&error),
        }
    }

    /// Why the clock stands still, if it does: its lease could not be made durable, and
    /// issuing time beyond it could go backwards after a restart.
    pub fn failure(&self) -> Option<String> {
        self.state.lock().failed.clone()
    }

    /// Gives back the unused part of the lease, so that a restart starts at the time
    /// issued last. For a graceful shutdown; the clock can still be read afterwards.
    pub fn settle(&self) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(reason) = &state.failed {
            return Err(Error::new(stratalog_model::ErrorKind::Io, reason.clone()));
        }
        let issued_ns = state.issued_ns;
        if state.lease_ns <= issued_ns {
            return Ok(());
        }
        state.settled = true;
        match self.lease.lock().write(issued_ns) {
            Ok(()) => {
                state.lease_ns = issued_ns;
                Ok(())
            }
            Err(error) => {
                state.fail(&error);
                Err(error)
            }
        }
    }
}

impl Clock for MasterClock {
    fn now_ns(&self) -> i64 {
        let mut state = self.state.lock();
        let wall_ns = self.source.wall_ns();
        let monotonic_ns = self.source.monotonic_ns();
        let time_ns = state.advance(wall_ns, monotonic_ns);
        state.used_monotonic_ns = monotonic_ns;
        if time_ns > state.lease_ns && state.failed.is_none() {
            // Durable first, and only then taken.
            match self.lease.lock().reach(time_ns.saturating_add(LEASE_NS)) {
                Ok(lease_ns) => state.lease_ns = lease_ns,
                Err(error) => state.fail(&error),
            }
        }
        let issued_ns = time_ns.min(state.lease_ns);
        invariant!(TimeForward, issued_ns >= state.issued_ns, "{issued_ns}");
        state.issued_ns = issued_ns;
        issued_ns
    }

    fn monotonic_ns(&self) -> u64 {
        self.source.monotonic_ns()
    }
}

impl State {
    /// The time to issue, before the lease is looked at.
    fn advance(&mut self, wall_ns: i64, monotonic_ns: u64) -> i64 {
        let elapsed_ns = monotonic_ns.saturating_sub(self.anchor_monotonic_ns) / 2;
        let slow_ns = self.anchor_ns.saturating_add(i64::try_from(elapsed_ns).unwrap_or(i64::MAX));
        if wall_ns >= slow_ns {
            self.anchor_ns = wall_ns;
            self.anchor_monotonic_ns = monotonic_ns;
            self.warned = false;
            return wall_ns;
        }
        let behind_ns = slow_ns.saturating_sub(wall_ns);
        if behind_ns > BEHIND_WARN_NS && !self.warned {
            self.warned = true;
            tracing::warn!(
                behind_ms = behind_ns / 1_000_000,
                "the wall clock was set back; time runs slower until it has caught up"
            );
        }
        slow_ns
    }

    /// No further lease can be made durable: issuing time beyond this one could go
    /// backwards after a restart.
    fn fail(&mut self, error: &Error) {
        tracing::error!(%error, "the clock's lease cannot be extended; time stands still when it has run out");
        self.failed = Some(error.to_string());
    }
}

#[cfg(test)]
mod tests;
