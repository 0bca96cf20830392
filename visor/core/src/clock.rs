//! The master clock (F23). Its time never goes backwards (CL-8), and it follows the machine's clock
//! only within limits.
//!
//! ```text
//!   wall clock   ───────╮  step back         issued = max(wall, slow)
//!                       ╰──────────────────
//!   issued       ───────╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌───   while the wall clock is behind, issued time
//!                         half speed          runs at half speed until they meet
//!   lease        ════════════│════════════│   on disk, always ahead of the issued time
//!
//!   wall clock          ╭──────────────────   a jump too far ahead is held (not followed): issued
//!                       │ held                time continues unchanged, an alarm appears, and an
//!   issued       ───────┴──────────────────   operator accepts the jump or corrects the wall clock
//! ```
//!
//! The lease is an upper limit of the issued times. After a restart, time begins at the lease,
//! because no time above the lease was ever issued. The file of the lease also stores the length of
//! the held jump and the epoch.
//!
//! If the wall clock is far ahead of the lease at a start, the clock follows the wall clock,
//! because the server may have been down for a long time. This lead stays *unconfirmed* until an
//! operator accepts it. Retention uses [`Clock::confirmed_ns`], a time without the unconfirmed
//! lead. The lead stays stored even after the wall clock is right again: the issued time is still
//! ahead, and a wall clock that is wrong a second time may then equal the issued time. A lead of
//! more than a year is held like a jump.

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
use lease::Lease;
pub use lease::LeaseFound;
pub use offline::{Correction, accept, correct};
use source::{Instant, read, usable};
pub use source::{SystemTimeSource, TimeSource};

/// How far a new lease reaches beyond the issued time if the old lease has run out, in nanoseconds.
const LEASE_NS: i64 = 1_000_000_000;

/// How far a lease reaches beyond the issued time if it is renewed before its end. After a crash,
/// time starts at most this far ahead of the wall clock.
const AHEAD_NS: i64 = 2 * LEASE_NS;

/// How far a new lease reaches beyond the issued time while the issued time is ahead of the wall
/// clock. It replaces both values above. Each crash adds at most this distance to the lead, and
/// time at half speed reduces the lead between two crashes.
const CATCHING_UP_LEASE_NS: i64 = 500_000_000;

/// How often a thread checks whether the lease ends soon and whether the wall clock has jumped.
const RENEWAL: Duration = Duration::from_millis(250);

/// If no caller has read the clock for longer than this, its lease is no longer renewed ahead of
/// time.
const IDLE_NS: u64 = 60_000_000_000;

/// Maximum distance by which the lease of an unused clock is behind the current time. A start
/// treats the lease as the end of the last run.
const IDLE_LEASE_NS: i64 = 600 * 1_000_000_000;

/// Settings of the clock, chosen by an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSettings {
    /// The longest jump ahead of the wall clock that the clock follows; a longer jump is held.
    /// `None` follows every jump.
    pub jump_ns_max: Option<i64>,
    /// The largest lead of the wall clock over the last run that a start trusts; a larger lead is
    /// unconfirmed. `None` trusts every lead.
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

/// A clock that keeps CL-8 across steps of the wall clock and restarts.
#[derive(Debug)]
pub struct MasterClock {
    source: Arc<dyn TimeSource>,
    state: Mutex<State>,
    /// May be locked while `state` is locked, or alone. Renewals lock only the lease, so callers
    /// that read the clock need not wait for the disk.
    lease: Mutex<Lease>,
}

#[derive(Debug)]
struct State {
    /// Computes the time to issue from the machine's clocks.
    issue: Issue,
    /// Upper limit of the times that may be issued.
    lease_ns: i64,
    /// The last issued time.
    issued_ns: i64,
    /// The monotonic clock when the last time was issued.
    used_monotonic_ns: u64,
    /// True if the unused part of the lease was given back.
    settled: bool,
    /// The reason why the lease can no longer be extended; `None` if it can. After a failure, time
    /// stops at the end of the lease (CL-7).
    failed: Option<String>,
}

impl MasterClock {
    /// Opens the clock whose lease is in `directory`, which must exist.
    ///
    /// # Errors
    /// `DataCorrupted` if both copies in the lease file are unusable; errors of the disk.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        source: Arc<dyn TimeSource>,
        settings: ClockSettings,
    ) -> Result<Arc<Self>> {
        Self::open_if(disk, directory, source, settings, false)
    }

    /// Like [`Self::open`], but fails if the lease does not exist.
    ///
    /// # Errors
    /// The same as [`Self::open`]; `DataCorrupted` also if the lease is missing.
    pub fn open_existing(
        disk: Arc<dyn Disk>,
        directory: &Path,
        source: Arc<dyn TimeSource>,
        settings: ClockSettings,
    ) -> Result<Arc<Self>> {
        Self::open_if(disk, directory, source, settings, true)
    }

    /// Reads the lease in `directory`, without a change.
    ///
    /// # Errors
    /// The same as [`Self::open_existing`].
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
        invariant!(
            TimeForward,
            floor_ns.is_none_or(|floor_ns| floor_ns <= start_ns) && start_ns <= lease_ns,
            "time starts at {start_ns}, with a lease up to {lease_ns}"
        );
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

    /// Starts a thread that renews the lease before its end while the clock is in use, so that a
    /// short disk stall does not stop time. The thread also compares the wall clock with the
    /// monotonic clock, to detect jumps even if no caller asks for the time.
    ///
    /// # Errors
    /// `Io` if the system has no free thread.
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

    /// Renews a lease that ends soon. Other threads can still issue times meanwhile.
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
            let target_ns = time_ns.saturating_add(ahead_ns);
            debug_assert!(state.lease_ns <= target_ns, "the new lease ends before the old lease");
            target_ns
        };
        let reached = self.lease.lock().reach(target_ns);
        let mut state = self.state.lock();
        match reached {
            // If the lease was given back meanwhile, it is not extended.
            Ok(lease_ns) if !state.settled => state.lease_ns = state.lease_ns.max(lease_ns),
            Ok(_) => {}
            Err(error) => state.fail(&error),
        }
        debug_assert!(state.issued_ns <= state.lease_ns, "time is issued beyond the lease");
    }

    /// Computes the time to issue; the caller then checks the lease. If a fence (new epoch) is
    /// needed, makes it durable first: no caller sees a later time before.
    fn advance(&self, state: &mut State, now: Instant) -> i64 {
        let mark = state.issue.mark();
        let time_ns = state.issue.advance(now);
        debug_assert!(mark.epoch <= state.issue.mark().epoch, "the epoch goes back");
        if state.issue.mark() != mark && state.failed.is_none() {
            let marked = self.lease.lock().write_mark(state.issue.mark());
            if let Err(error) = marked {
                state.fail(&error);
            }
        }
        time_ns
    }

    /// Issues the current time.
    fn issue(&self, state: &mut State) -> Instant {
        let now = read(self.source.as_ref());
        let time_ns = self.advance(state, now);
        state.used_monotonic_ns = now.monotonic_ns;
        if time_ns > state.lease_ns && state.failed.is_none() {
            // Make the lease durable before the time is used.
            let lease_ns = state.issue.lease_ns(LEASE_NS);
            match self.lease.lock().reach(time_ns.saturating_add(lease_ns)) {
                Ok(lease_ns) => {
                    debug_assert!(time_ns <= lease_ns, "the new lease ends before the time");
                    state.lease_ns = lease_ns;
                }
                Err(error) => state.fail(&error),
            }
        }
        let issued_ns = time_ns.min(state.lease_ns);
        invariant!(
            TimeForward,
            issued_ns <= state.lease_ns,
            "{issued_ns} is behind the lease, {}",
            state.lease_ns
        );
        invariant!(TimeForward, issued_ns >= state.issued_ns, "{issued_ns}");
        state.issued_ns = issued_ns;
        now
    }

    /// The reason why time has stopped; `None` while the clock runs. Time stops if the lease cannot
    /// be made durable: times beyond the lease could go backwards after a restart.
    pub fn failure(&self) -> Option<String> {
        self.state.lock().failed.clone()
    }

    /// Gives back the unused part of the lease, so that a restart continues at the last issued
    /// time. For an orderly shutdown; the clock can still be read afterwards.
    pub fn settle(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.check()?;
        if !state.settled {
            // Issue the current time first, because a start treats the lease as the end of the last
            // run.
            self.issue(&mut state);
            state.check()?;
        }
        let issued_ns = state.issued_ns;
        if state.lease_ns <= issued_ns {
            return Ok(());
        }
        debug_assert!(state.failed.is_none(), "a failed lease is given back");
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
        let mut alarms = state.issue.alarms(state.issued_ns);
        alarms.extend(state.failed.as_ref().map(|reason| {
            format!(
                "time stands still, because the lease of the clock cannot be made durable: {reason}"
            )
        }));
        debug_assert!(
            state.failed.is_none() || !alarms.is_empty(),
            "the clock stands still without an alarm"
        );
        ClockStatus {
            reading: state.issue.reading(state.issued_ns),
            wall_ns: now.wall_ns,
            drift_ppb: state.issue.drift_ppb(),
            held_ns: state.issue.mark().held_ns,
            unconfirmed_ns: state.issue.unconfirmed_ns(state.issued_ns),
            jumps_held: state.issue.jumps_held(),
            lease_ns: state.lease_ns,
            alarms,
        }
    }

    fn accept_jump(&self) -> Result<Option<u64>> {
        let mut state = self.state.lock();
        state.check()?;
        self.issue(&mut state);
        let held_ns = state.issue.mark().held_ns;
        let unconfirmed_ns = state.issue.unconfirmed_ns(state.issued_ns);
        let accepted_ns = held_ns.saturating_add(unconfirmed_ns);
        debug_assert!(held_ns <= accepted_ns, "a part of the held jump is not accepted");
        if accepted_ns == 0 {
            return Ok(None);
        }
        // Make the mark durable first, because the next start reads it.
        let mark = state.issue.accepted();
        if let Err(error) = self.lease.lock().write_mark(mark) {
            state.fail(&error);
            return Err(error);
        }
        state.issue.accept(mark);
        tracing::warn!(
            jump_s = held_ns / 1_000_000_000,
            lead_s = unconfirmed_ns / 1_000_000_000,
            "the wall clock is accepted"
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

    /// Prevents further extensions of the lease: none can be made durable, and times beyond the
    /// current lease could go backwards after a restart.
    fn fail(&mut self, error: &Error) {
        tracing::error!(%error, "the lease of the clock cannot be extended; after the end of the lease, time stands still");
        self.failed = Some(error.to_string());
    }
}

#[cfg(test)]
mod tests;
