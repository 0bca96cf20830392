//! The master clock (F23): time that never goes backwards (CL-8), and does not follow the
//! machine's clock anywhere.
//!
//! ```text
//!   wall clock   ───────╮  step back         issued = max(wall, slow)
//!                       ╰──────────────────
//!   issued       ───────╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌───   while the wall clock is behind, issued time
//!                         half speed          runs at half speed until they meet
//!   lease        ════════════│════════════│   on disk, always ahead of what is issued
//!
//!   wall clock          ╭──────────────────   a jump ahead that is too far is held: issued time
//!                       │ held                goes on as before, an alarm says so, and an operator
//!   issued       ───────┴──────────────────   accepts the jump or sets the wall clock right
//! ```
//!
//! A restart begins at the lease: nothing above it was ever issued. What is held, and the epoch,
//! lie beside it.
//!
//! A start whose wall clock is far ahead of the lease follows it, since a server may have been down
//! for long. The lead stays *unconfirmed* until an operator accepts it: retention deletes by
//! [`Clock::confirmed_ns`], which is behind by as much. A lead of more than a year is held.

mod issue;
mod lease;
mod offline;
mod source;

use std::{path::Path, sync::Arc, thread, time::Duration};

use parking_lot::Mutex;
use stratalog_model::{
    Clock, Disk, Error, Result,
    clock::{ClockReading, ClockStatus},
    invariant,
};

use issue::Issue;
pub use lease::LeaseFound;
use lease::{Lease, Mark};
pub use offline::{Correction, accept, correct};
use source::{Instant, read, usable};
pub use source::{SystemTimeSource, TimeSource};

/// How far ahead of the issued time the lease is put when it has run out, in nanoseconds.
const LEASE_NS: i64 = 1_000_000_000;

/// How far ahead it is put before it runs out. A crash lets time start at most this much
/// ahead of the wall clock.
const AHEAD_NS: i64 = 2 * LEASE_NS;

/// How far ahead it is put while issued time is ahead of the wall clock, in place of either: each crash
/// adds no more than this to the lead, and time at half speed makes up for it between two crashes.
const CATCHING_UP_LEASE_NS: i64 = 500_000_000;

/// How often it is looked whether the lease runs out, and whether the wall clock jumped.
const RENEWAL: Duration = Duration::from_millis(250);

/// A clock that nobody has read for so long is not kept ahead.
const IDLE_NS: u64 = 60_000_000_000;

/// The lease of such a clock is behind by this much at most: a start takes the lease for the end of
/// the last run.
const IDLE_LEASE_NS: i64 = 600 * 1_000_000_000;

/// What an operator decides about the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSettings {
    /// A jump ahead of the wall clock that is longer is held; `None` follows all.
    pub jump_ns_max: Option<i64>,
    /// A start whose wall clock is ahead of the last run by more leaves that lead unconfirmed; `None`
    /// trusts every start.
    pub start_lead_ns_max: Option<i64>,
}

impl Default for ClockSettings {
    fn default() -> Self {
        Self {
            jump_ns_max: Some(300_000_000_000),
            start_lead_ns_max: Some(24 * 3_600 * 1_000_000_000),
        }
    }
}

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
    /// The time to issue.
    issue: Issue,
    /// Never issued beyond.
    lease_ns: i64,
    /// Last time issued.
    issued_ns: i64,
    /// The monotonic clock when time was issued last.
    used_monotonic_ns: u64,
    /// The lease was given back.
    settled: bool,
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
        settings: ClockSettings,
    ) -> Result<Arc<Self>> {
        Self::open_if(disk, directory, source, settings, false)
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
        settings: ClockSettings,
    ) -> Result<Arc<Self>> {
        Self::open_if(disk, directory, source, settings, true)
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
        settings: ClockSettings,
        existing: bool,
    ) -> Result<Arc<Self>> {
        let now = usable(read(source.as_ref()))?;
        let (mut lease, floor_ns) = Lease::open(disk.as_ref(), directory, existing)?;
        let floor_ns = floor_ns.filter(|_| !crate::sabotage::active("lease-ignored"));
        let issue = Issue::begin(settings, now, floor_ns, lease.mark());
        let start_ns = issue.start_ns();
        let lease_ns = start_ns.saturating_add(issue.lease_ns(LEASE_NS));
        lease.write_marked(lease_ns, issue.mark())?;
        let state = State {
            issue,
            lease_ns,
            issued_ns: start_ns,
            used_monotonic_ns: now.monotonic_ns,
            settled: false,
            failed: None,
        };
        Ok(Arc::new(Self { source, state: Mutex::new(state), lease: Mutex::new(lease) }))
    }

    /// Starts a thread that renews the lease before it runs out, as long as the clock is in
    /// use: so that a disk that hangs for a moment does not stop time. It looks at the wall
    /// clock, too, so that a jump is one, however rarely time is asked for.
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
            let now = read(self.source.as_ref());
            let time_ns = self.advance(&mut state, now);
            let idle = now.monotonic_ns.saturating_sub(state.used_monotonic_ns) > IDLE_NS;
            let ahead_ns = state.issue.lease_ns(AHEAD_NS);
            let least_ns = if idle { -IDLE_LEASE_NS } else { ahead_ns / 2 };
            let enough = state.lease_ns.saturating_sub(time_ns) >= least_ns;
            if enough || state.settled || state.failed.is_some() {
                return;
            }
            time_ns.saturating_add(ahead_ns)
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

    /// The time to issue, before the lease is looked at. A fence is durable before anybody sees
    /// a time behind it.
    fn advance(&self, state: &mut State, now: Instant) -> i64 {
        let mark = state.issue.mark();
        let time_ns = state.issue.advance(now);
        if state.issue.mark() != mark && state.failed.is_none() {
            let marked = self.lease.lock().write_mark(state.issue.mark());
            if let Err(error) = marked {
                state.fail(&error);
            }
        }
        time_ns
    }

    /// Issues time.
    fn issue(&self, state: &mut State) -> Instant {
        let now = read(self.source.as_ref());
        let time_ns = self.advance(state, now);
        state.used_monotonic_ns = now.monotonic_ns;
        if time_ns > state.lease_ns && state.failed.is_none() {
            // Durable first, and only then taken.
            let lease_ns = state.issue.lease_ns(LEASE_NS);
            match self.lease.lock().reach(time_ns.saturating_add(lease_ns)) {
                Ok(lease_ns) => state.lease_ns = lease_ns,
                Err(error) => state.fail(&error),
            }
        }
        let issued_ns = time_ns.min(state.lease_ns);
        invariant!(TimeForward, issued_ns >= state.issued_ns, "{issued_ns}");
        state.issued_ns = issued_ns;
        now
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
        state.check()?;
        if !state.settled {
            // A start takes the lease for the end of this run.
            self.issue(&mut state);
            state.check()?;
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
        self.issue(&mut state);
        state.issued_ns
    }

    fn confirmed_ns(&self) -> i64 {
        let mut state = self.state.lock();
        self.issue(&mut state);
        state.issue.confirmed_ns(state.issued_ns)
    }

    fn monotonic_ns(&self) -> u64 {
        self.source.monotonic_ns()
    }

    fn reading(&self) -> ClockReading {
        let mut state = self.state.lock();
        self.issue(&mut state);
        state.issue.reading(state.issued_ns)
    }

    fn status(&self) -> ClockStatus {
        let mut state = self.state.lock();
        let now = self.issue(&mut state);
        let mut alarms = state.issue.alarms();
        alarms.extend(state.failed.as_ref().map(|reason| {
            format!("time stands still, because its lease cannot be made durable: {reason}")
        }));
        ClockStatus {
            reading: state.issue.reading(state.issued_ns),
            wall_ns: now.wall_ns,
            drift_ppb: state.issue.drift_ppb(),
            held_ns: state.issue.mark().held_ns,
            unconfirmed_ns: state.issue.mark().unconfirmed_ns,
            jumps_held: state.issue.jumps_held(),
            lease_ns: state.lease_ns,
            alarms,
        }
    }

    fn accept_jump(&self) -> Result<Option<u64>> {
        let mut state = self.state.lock();
        state.check()?;
        self.issue(&mut state);
        let Mark { epoch, held_ns, unconfirmed_ns } = state.issue.mark();
        let accepted_ns = held_ns.saturating_add(unconfirmed_ns);
        if accepted_ns == 0 {
            return Ok(None);
        }
        // Durable first: a start goes by it.
        let mark = Mark { epoch: epoch.saturating_add(1), ..Mark::default() };
        if let Err(error) = self.lease.lock().write_mark(mark) {
            state.fail(&error);
            return Err(error);
        }
        state.issue.accept(mark);
        tracing::warn!(
            jump_s = held_ns / 1_000_000_000,
            lead_s = unconfirmed_ns / 1_000_000_000,
            "the wall clock is accepted as it is"
        );
        Ok(Some(accepted_ns))
    }
}

impl State {
    fn check(&self) -> Result<()> {
        match &self.failed {
            Some(reason) => Err(Error::new(stratalog_model::ErrorKind::Io, reason.clone())),
            None => Ok(()),
        }
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
