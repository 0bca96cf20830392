//! Acquisitions of chronicles (F8–F13): who has which events, how, and until when.
//!
//! ```text
//!   ACQUIRE ─► request ─► held ──── lease runs out ────► lost ─► acquired again, or released
//!                 │ others in the way                      (nothing is read or written meanwhile)
//!                 └► waits, in its turn ─► look ─► held
//!   a statement ─► enter ─► reading, writing ─► committing ─► exit
//! ```
//!
//! | | SHARED is held | EXCLUSIVE is held | somebody writes |
//! |---|---|---|---|
//! | SHARED | goes | waits | goes |
//! | EXCLUSIVE | waits | waits | waits |
//! | a statement that writes | goes | is refused | goes |
//! | a statement that reads | goes | goes | goes |
//!
//! Only what is about the same events is in each other's way: two partial acquisitions that do not
//! overlap are not. Whoever waits, waits in its turn. While one waits to be alone, statements of others
//! that begin to write are refused, or it would wait forever; who holds the chronicle, and transactions that
//! have written to it, go on. Statements never wait here, so only those who wait can wait for each other: the one that
//! would close the ring is refused.
//!
//! All of it is in memory: after a restart nobody has acquired anything.

mod claim;
mod entry;
mod register;
mod using;
mod waiting;

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
use register::Register;
pub use using::Using;
pub use waiting::{Pause, Waiting};

/// The acquisitions of all chronicles.
#[derive(Debug)]
pub struct Acquisitions {
    clock: Arc<dyn Clock>,
    /// Whether there ever was a lease: without, nobody can have lost one.
    leases: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    register: Register,
    /// Those who look again when something of a chronicle has changed.
    listening: BTreeMap<ChronicleId, Vec<oneshot::Sender<()>>>,
}

impl Inner {
    /// Has those look again who wait for a chronicle. What changes of one is no news to those who
    /// wait for others: a ring that it closes leads through one of those who wait for it.
    fn changed(&mut self, chronicle: ChronicleId) {
        for listening in self.listening.remove(&chronicle).into_iter().flatten() {
            // Who does not listen any more need not be told.
            let _ = listening.send(());
        }
    }

    fn listen(&mut self, chronicle: ChronicleId) -> oneshot::Receiver<()> {
        let all = self.listening.entry(chronicle).or_default();
        all.retain(|listening| !listening.is_canceled());
        let (told, listening) = oneshot::channel();
        all.push(told);
        listening
    }
}

impl Acquisitions {
    /// Nobody has acquired anything. Leases run out by the monotonic clock of `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, leases: AtomicBool::new(false), inner: Mutex::default() })
    }

    fn now(&self) -> Moment {
        Moment(self.clock.monotonic_ns())
    }

    /// The time of the wall clock, in nanoseconds since 1970, at a moment.
    pub fn wall_ns(&self, moment: Moment) -> i64 {
        let (wall, now) = (i128::from(self.clock.now_ns()), i128::from(self.now().0));
        let at = wall + i128::from(moment.0) - now;
        i64::try_from(at).unwrap_or(if at < 0 { i64::MIN } else { i64::MAX })
    }

    /// Acquires a chronicle, or acquires it anew: what the holder had of it is what it claims now,
    /// and the lease begins again. Of a chronicle that is being dropped it renews what it has, and no more.
    ///
    /// # Errors
    /// `Taken`, `Closing`, `TooMany`.
    pub fn acquire(
        &self,
        chronicle: ChronicleId,
        holder: HolderId,
        claim: Claim,
    ) -> Result<(), Refusal> {
        let time_ns = self.clock.now_ns();
        let mut inner = self.inner.lock();
        self.leases.fetch_or(claim.lease_ns.is_some(), Ordering::Relaxed);
        inner.register.request(self.now(), time_ns, chronicle, holder, claim, false)?;
        inner.changed(chronicle);
        Ok(())
    }

    /// As [`Self::acquire`]; where others are in the way, a place among those who wait. What the
    /// holder has of the chronicle it keeps as long as it waits.
    ///
    /// # Errors
    /// `Deadlock`, `Closing`, `TooMany`, `Crowded`.
    pub fn ask(
        self: &Arc<Self>,
        chronicle: ChronicleId,
        holder: HolderId,
        claim: Claim,
    ) -> Result<Option<Waiting>, Refusal> {
        let time_ns = self.clock.now_ns();
        let mut inner = self.inner.lock();
        self.leases.fetch_or(claim.lease_ns.is_some(), Ordering::Relaxed);
        let ticket = inner.register.request(self.now(), time_ns, chronicle, holder, claim, true)?;
        inner.changed(chronicle);
        Ok(ticket.map(|ticket| Waiting::new(Arc::clone(self), chronicle, ticket)))
    }

    /// Gives back what a holder has of a chronicle; whether it had something, or had lost it.
    pub fn release(&self, chronicle: ChronicleId, holder: HolderId) -> bool {
        let mut inner = self.inner.lock();
        // What ran out before is lost, and not given back: so is what was written through it.
        inner.register.settle(self.now(), chronicle);
        let had = inner.register.release(chronicle, holder);
        if had {
            inner.changed(chronicle);
        }
        had
    }

    /// Gives back everything that a holder has. What its statements use and wait for goes on until
    /// they have ended.
    pub fn leave(&self, holder: HolderId) {
        let mut inner = self.inner.lock();
        for chronicle in inner.register.leave(holder) {
            inner.changed(chronicle);
        }
    }

    /// A statement begins to use a chronicle, until what this returns is dropped.
    ///
    /// # Errors
    /// `Lost`; for one that writes, `LockedOut` and `Closing`, too.
    pub fn enter(
        self: &Arc<Self>,
        chronicle: ChronicleId,
        holder: HolderId,
        what: Use,
    ) -> Result<Using, Refusal> {
        let entered = self.inner.lock().register.enter(self.now(), chronicle, holder, what)?;
        Ok(Using::new(Arc::clone(self), chronicle, holder, what, entered))
    }

    /// Checks that a holder has not lost a chronicle.
    ///
    /// # Errors
    /// `Lost`.
    pub fn check(&self, chronicle: ChronicleId, holder: HolderId) -> Result<(), Refusal> {
        if !self.leases.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.inner.lock().register.check(self.now(), chronicle, holder)
    }

    /// Those who have written to a chronicle through a lease that ran out, and have not ended what they
    /// wrote in: it will never be committed, and nobody is to wait for what it holds.
    pub fn void(&self, chronicle: ChronicleId) -> Vec<HolderId> {
        if !self.leases.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.inner.lock().register.void(self.now(), chronicle)
    }

    /// After how long the next lease on a chronicle runs out, at the earliest; `None` where there is none.
    pub fn next_end(&self, chronicle: ChronicleId) -> Option<Duration> {
        if !self.leases.load(Ordering::Relaxed) {
            return None;
        }
        let mut inner = self.inner.lock();
        let now = self.now();
        let end = inner.register.next_end(now, chronicle)?;
        Some(Duration::from_nanos(end.0.saturating_sub(now.0)))
    }

    /// Begins to drop a chronicle. Until what this returns is dropped, nobody acquires the
    /// chronicle who has not, or begins to write to it.
    pub fn close(self: &Arc<Self>, chronicle: ChronicleId, holder: HolderId) -> Door {
        let mut inner = self.inner.lock();
        let others = inner.register.close(self.now(), chronicle, holder);
        inner.changed(chronicle);
        Door { acquisitions: Arc::clone(self), chronicle, others }
    }

    /// As [`Self::close`], unless others have acquired it: then nobody is kept from anything.
    ///
    /// # Errors
    /// What they have acquired.
    pub fn close_if_free(
        self: &Arc<Self>,
        chronicle: ChronicleId,
        holder: HolderId,
    ) -> Result<Door, Vec<Acquisition>> {
        let mut inner = self.inner.lock();
        let others = inner.register.close(self.now(), chronicle, holder);
        if !others.is_empty() {
            // Before anybody has looked.
            inner.register.reopen(chronicle);
            return Err(others);
        }
        inner.changed(chronicle);
        Ok(Door { acquisitions: Arc::clone(self), chronicle, others })
    }

    /// A chronicle is to go when the last of those who have acquired it has released it: from now on
    /// nobody acquires it who has not, or begins to write to it, and who says so gives back what it has.
    /// Whether nobody had said so.
    pub fn mark(&self, chronicle: ChronicleId, holder: HolderId) -> bool {
        let mut inner = self.inner.lock();
        let is_new = inner.register.mark(chronicle, holder);
        inner.changed(chronicle);
        is_new
    }

    /// A chronicle is not to go after all.
    pub fn unmark(&self, chronicle: ChronicleId) {
        self.inner.lock().register.unmark(chronicle);
    }

    /// A chronicle is gone, and what was acquired of it.
    pub fn forget(&self, chronicle: ChronicleId) {
        let mut inner = self.inner.lock();
        inner.register.forget(chronicle);
        inner.changed(chronicle);
    }

    /// When to look again whether a chronicle is released by all; `None` when it is.
    pub fn until_released(&self, chronicle: ChronicleId) -> Option<Pause> {
        let mut inner = self.inner.lock();
        let now = self.now();
        let holders = inner.register.holders_of(now, chronicle);
        let until = holders.iter().filter_map(|held| held.until).min();
        (!holders.is_empty()).then(|| Pause::new(now, until, inner.listen(chronicle)))
    }

    /// All acquisitions, by chronicle; those of statements that run, too.
    pub fn list(&self) -> Vec<Acquisition> {
        self.inner.lock().register.list(self.now())
    }

    /// How many chronicles a holder has acquired.
    pub fn acquired_by(&self, holder: HolderId) -> usize {
        self.inner.lock().register.acquired_by(self.now(), holder)
    }
}

impl Acquirers for Acquisitions {
    fn acquirers(&self, chronicle: ChronicleId) -> u32 {
        self.inner.lock().register.acquirers(self.now(), chronicle)
    }
}

/// A chronicle that is being dropped. When this is dropped, it is open again, unless it is gone.
#[derive(Debug)]
pub struct Door {
    acquisitions: Arc<Acquisitions>,
    chronicle: ChronicleId,
    others: Vec<Acquisition>,
}

impl Door {
    /// Which chronicle.
    pub fn chronicle(&self) -> ChronicleId {
        self.chronicle
    }

    /// What others had acquired of it.
    pub fn others(&self) -> &[Acquisition] {
        &self.others
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.acquisitions.inner.lock().register.reopen(self.chronicle);
    }
}

#[cfg(test)]
mod tests;
