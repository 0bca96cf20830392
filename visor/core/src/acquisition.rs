//! Acquisitions of chronicles (F8–F13): which sessions ("holders") may use which events of a
//! chronicle, in which mode, and how long.
//!
//! ```text
//!   ACQUIRE ─► request ─► held ──── lease runs out ────► lost ─► acquired again, or released
//!                 │ conflicts with others                  (no reads or writes meanwhile)
//!                 └► waits in the queue ─► checked again ─► held
//!   a statement ─► enter ─► reading, writing ─► committing ─► exit
//! ```
//!
//! | request | another holder has SHARED | another holder has EXCLUSIVE | another session writes |
//! |---|---|---|---|
//! | SHARED | granted | waits | granted |
//! | EXCLUSIVE | waits | waits | waits |
//! | a statement that writes | runs | is refused | runs |
//! | a statement that reads | runs | runs | runs |
//!
//! Conflicts exist only between claims on the same events: two acquisitions of disjoint ranges of
//! ticks do not conflict. Requests wait in a queue. While a request for EXCLUSIVE waits, new
//! writing statements of other sessions are refused; otherwise the request could wait forever.
//! Sessions that have acquired the chronicle, and transactions that have already written to it, can
//! continue. Statements never wait for an acquisition; therefore only requests can wait for each
//! other. A request that would close a cycle of waiting requests is refused.
//!
//! All state is in memory: after a restart, no acquisition exists.

mod claim;
mod entry;
mod queue_place;
mod register;
mod use_guard;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::channel::oneshot;
use parking_lot::Mutex;
use stratalog_model::{Acquirers, ChronicleId, Clock};

pub use claim::{Acquisition, Claim, HolderId, Mode, Moment, Refusal, Standing, Use};
pub use queue_place::{Pause, QueuePlace};
use register::Register;
pub use use_guard::UseGuard;

/// The acquisitions of all chronicles.
#[derive(Debug)]
pub struct Acquisitions {
    clock: Arc<dyn Clock>,
    /// True if a lease has ever existed. Without a lease, no holder can have lost an acquisition.
    leases: AtomicBool,
    inner: Mutex<AcquisitionsState>,
}

#[derive(Debug, Default)]
struct AcquisitionsState {
    register: Register,
    /// Channels that are notified when the state of a chronicle changes.
    listening: BTreeMap<ChronicleId, Vec<oneshot::Sender<()>>>,
}

impl AcquisitionsState {
    /// Notifies the listeners of a chronicle. Listeners of other chronicles need no notification: a
    /// cycle of waiting requests that this change closes contains a request for this chronicle.
    fn changed(&mut self, chronicle: ChronicleId) {
        for listening in self.listening.remove(&chronicle).into_iter().flatten() {
            // The receiver may have been dropped; then nobody waits for the notification.
            let _ = listening.send(());
        }
    }

    fn listen(&mut self, chronicle: ChronicleId) -> oneshot::Receiver<()> {
        let all = self.listening.entry(chronicle).or_default();
        all.retain(|listening| !listening.is_canceled());
        let (sender, listening) = oneshot::channel();
        all.push(sender);
        listening
    }
}

impl Acquisitions {
    /// Creates an empty state. Leases run out by the monotonic clock of `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, leases: AtomicBool::new(false), inner: Mutex::default() })
    }

    fn now(&self) -> Moment {
        Moment(self.clock.monotonic_ns())
    }

    /// The wall-clock time of a moment of the monotonic clock, in nanoseconds since 1970.
    pub fn wall_ns(&self, moment: Moment) -> i64 {
        let (wall, now) = (i128::from(self.clock.now_ns()), i128::from(self.now().0));
        let at = wall + i128::from(moment.0) - now;
        i64::try_from(at).unwrap_or(if at < 0 { i64::MIN } else { i64::MAX })
    }

    /// Acquires a chronicle for a holder. If the holder has acquired it before, the new claim
    /// replaces the old claim and the lease starts again. While a drop of the chronicle is in
    /// progress, only renewals of existing claims are possible.
    ///
    /// # Errors
    /// `Taken` if the claim conflicts with other holders; `Closing` while the chronicle is dropped;
    /// `TooMany` for too many acquisitions.
    pub fn acquire(
        &self,
        chronicle: ChronicleId,
        holder: HolderId,
        claim: Claim,
    ) -> Result<(), Refusal> {
        let time_ns = self.clock.now_ns();
        let mut inner = self.inner.lock();
        self.leases.fetch_or(claim.lease_ns.is_some(), Ordering::Relaxed);
        let ticket =
            inner.register.request(self.now(), time_ns, chronicle, holder, claim, false)?;
        debug_assert!(ticket.is_none(), "a request waits that must not wait");
        inner.changed(chronicle);
        Ok(())
    }

    /// Like [`Self::acquire`], but if the claim conflicts with other holders, returns a place in
    /// the queue. While the request waits, the holder keeps its current claim on the chronicle.
    ///
    /// # Errors
    /// `Deadlock` if the requests would wait for each other; `Closing` while the chronicle is
    /// dropped; `TooMany` for too many acquisitions; `Crowded` for too many waiting requests.
    pub fn ask(
        self: &Arc<Self>,
        chronicle: ChronicleId,
        holder: HolderId,
        claim: Claim,
    ) -> Result<Option<QueuePlace>, Refusal> {
        let time_ns = self.clock.now_ns();
        let mut inner = self.inner.lock();
        self.leases.fetch_or(claim.lease_ns.is_some(), Ordering::Relaxed);
        let ticket = inner.register.request(self.now(), time_ns, chronicle, holder, claim, true)?;
        inner.changed(chronicle);
        Ok(ticket.map(|ticket| QueuePlace::new(Arc::clone(self), chronicle, ticket)))
    }

    /// Releases a holder's claim on a chronicle. Returns true if the holder had a claim, or had
    /// lost a claim since its last release.
    pub fn release(&self, chronicle: ChronicleId, holder: HolderId) -> bool {
        let mut inner = self.inner.lock();
        // A claim whose lease has run out is lost, not released, and the writes under this claim
        // are lost too.
        inner.register.settle(self.now(), chronicle);
        let had = inner.register.release(chronicle, holder);
        if had {
            inner.changed(chronicle);
        }
        had
    }

    /// Releases all claims of a holder. The holder's running statements and waiting requests
    /// continue until their end.
    pub fn leave(&self, holder: HolderId) {
        let mut inner = self.inner.lock();
        for chronicle in inner.register.leave(holder) {
            inner.changed(chronicle);
        }
    }

    /// Registers that a statement uses a chronicle, until the returned value is dropped.
    ///
    /// # Errors
    /// `Lost` if the holder's lease has run out; for a writing statement also `LockedOut` and
    /// `Closing`.
    pub fn enter(
        self: &Arc<Self>,
        chronicle: ChronicleId,
        holder: HolderId,
        what: Use,
    ) -> Result<UseGuard, Refusal> {
        let entered = self.inner.lock().register.enter(self.now(), chronicle, holder, what)?;
        Ok(UseGuard::new(Arc::clone(self), chronicle, holder, what, entered))
    }

    /// Checks that a holder has not lost its acquisition of a chronicle.
    ///
    /// # Errors
    /// `Lost` if the holder's lease has run out.
    pub fn check(&self, chronicle: ChronicleId, holder: HolderId) -> Result<(), Refusal> {
        if !self.leases.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.inner.lock().register.check(self.now(), chronicle, holder)
    }

    /// Holders with unfinished writes under a lease that has run out. These writes will never be
    /// committed, and no other holder waits for them.
    pub fn void_holders(&self, chronicle: ChronicleId) -> Vec<HolderId> {
        if !self.leases.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.inner.lock().register.void_holders(self.now(), chronicle)
    }

    /// Time until the next lease on a chronicle runs out; `None` if no lease exists.
    pub fn next_end(&self, chronicle: ChronicleId) -> Option<Duration> {
        if !self.leases.load(Ordering::Relaxed) {
            return None;
        }
        let mut inner = self.inner.lock();
        let now = self.now();
        let end = inner.register.next_end(now, chronicle)?;
        debug_assert!(now < end, "an old lease counts");
        Some(Duration::from_nanos(end.0.saturating_sub(now.0)))
    }

    /// Begins the drop of a chronicle. Until the returned value is dropped, no session can make a
    /// new acquisition of the chronicle or begin to write to it.
    pub fn close(self: &Arc<Self>, chronicle: ChronicleId, holder: HolderId) -> DropGuard {
        let mut inner = self.inner.lock();
        let others = inner.register.close(self.now(), chronicle, holder);
        inner.changed(chronicle);
        DropGuard { acquisitions: Arc::clone(self), chronicle, others }
    }

    /// Like [`Self::close`], but changes nothing if other holders have acquired the chronicle.
    ///
    /// # Errors
    /// The acquisitions of the other holders.
    pub fn close_if_free(
        self: &Arc<Self>,
        chronicle: ChronicleId,
        holder: HolderId,
    ) -> Result<DropGuard, Vec<Acquisition>> {
        let mut inner = self.inner.lock();
        let others = inner.register.close(self.now(), chronicle, holder);
        if !others.is_empty() {
            // The lock is still held, so no caller has seen the closed state.
            inner.register.reopen(chronicle);
            return Err(others);
        }
        inner.changed(chronicle);
        Ok(DropGuard { acquisitions: Arc::clone(self), chronicle, others })
    }

    /// Plans the drop of a chronicle for the time when the last holder has released it. From now
    /// on, no session can make a new acquisition of the chronicle or begin to write to it. Also
    /// releases the claim of `holder`. Returns true if the drop was not planned before.
    pub fn mark(&self, chronicle: ChronicleId, holder: HolderId) -> bool {
        let mut inner = self.inner.lock();
        let is_new = inner.register.mark(chronicle, holder);
        inner.changed(chronicle);
        is_new
    }

    /// Cancels the planned drop of a chronicle.
    pub fn unmark(&self, chronicle: ChronicleId) {
        self.inner.lock().register.unmark(chronicle);
    }

    /// Removes all state of a dropped chronicle.
    pub fn forget(&self, chronicle: ChronicleId) {
        let mut inner = self.inner.lock();
        inner.register.forget(chronicle);
        inner.changed(chronicle);
    }

    /// How long to wait before checking again whether holders of a chronicle exist; `None` if no
    /// holder exists.
    pub fn until_released(&self, chronicle: ChronicleId) -> Option<Pause> {
        let mut inner = self.inner.lock();
        let now = self.now();
        let holders = inner.register.holders_of(now, chronicle);
        let until = holders.iter().filter_map(|held| held.until).min();
        (!holders.is_empty()).then(|| Pause::new(now, until, inner.listen(chronicle)))
    }

    /// All acquisitions, sorted by chronicle, including the implicit acquisitions of running
    /// statements.
    pub fn list(&self) -> Vec<Acquisition> {
        self.inner.lock().register.list(self.now())
    }

    /// The number of chronicles that a holder has acquired.
    pub fn acquired_by(&self, holder: HolderId) -> usize {
        self.inner.lock().register.acquired_by(self.now(), holder)
    }
}

impl Acquirers for Acquisitions {
    fn acquirers(&self, chronicle: ChronicleId) -> u32 {
        self.inner.lock().register.acquirers(self.now(), chronicle)
    }
}

/// A chronicle while it is being dropped. If the chronicle still exists when this value is dropped,
/// sessions can use it again.
#[derive(Debug)]
pub struct DropGuard {
    acquisitions: Arc<Acquisitions>,
    chronicle: ChronicleId,
    others: Vec<Acquisition>,
}

impl DropGuard {
    /// The chronicle's id.
    pub fn chronicle(&self) -> ChronicleId {
        self.chronicle
    }

    /// The acquisitions of other holders at the beginning of the drop.
    pub fn others(&self) -> &[Acquisition] {
        &self.others
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.acquisitions.inner.lock().register.reopen(self.chronicle);
    }
}

#[cfg(test)]
mod tests;
