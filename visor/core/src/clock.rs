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

use std::{path::Path, sync::Arc};

use parking_lot::Mutex;
use stratalog_model::{Clock, Disk, Error, Result, invariant};

use lease::Lease;
pub use source::{SystemTimeSource, TimeSource};

/// How far ahead of the issued time the lease is put, in nanoseconds. A crash lets time
/// start at most this much ahead of the wall clock.
const LEASE_NS: i64 = 1_000_000_000;

/// A wall clock that is this far behind the issued time is worth a warning.
const BEHIND_WARN_NS: i64 = 1_000_000_000;

/// A clock that keeps CL-8 across clock steps and restarts.
#[derive(Debug)]
pub struct MasterClock {
    source: Arc<dyn TimeSource>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    lease: Lease,
    /// Never issued beyond.
    lease_ns: i64,
    /// Last time issued.
    issued_ns: i64,
    /// Where slow time starts from while the wall clock is behind.
    anchor_ns: i64,
    /// The monotonic clock at the anchor.
    anchor_monotonic_ns: u64,
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
        let (mut lease, floor_ns) = Lease::open(disk.as_ref(), directory)?;
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
        let state = State {
            lease,
            lease_ns,
            issued_ns: start_ns,
            anchor_ns: start_ns,
            anchor_monotonic_ns: source.monotonic_ns(),
            warned,
            failed: None,
        };
        Ok(Arc::new(Self { source, state: Mutex::new(state) }))
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
        state.extend(issued_ns)
    }
}

impl Clock for MasterClock {
    fn now_ns(&self) -> i64 {
        let mut state = self.state.lock();
        let wall_ns = self.source.wall_ns();
        let monotonic_ns = self.source.monotonic_ns();
        let time_ns = state.advance(wall_ns, monotonic_ns);
        if time_ns > state.lease_ns
            && state.failed.is_none()
            && let Err(error) = state.extend(time_ns.saturating_add(LEASE_NS))
        {
            tracing::error!(%error, "the clock's lease cannot be extended; time stands still");
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

    /// Makes a lease durable, and only then takes it. After a failure it is not tried
    /// again: what a failed sync left on disk is unknown (CL-7).
    fn extend(&mut self, lease_ns: i64) -> Result<()> {
        match self.lease.write(lease_ns) {
            Ok(()) => {
                self.lease_ns = lease_ns;
                Ok(())
            }
            Err(error) => {
                self.failed = Some(error.to_string());
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
