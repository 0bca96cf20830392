//! Claims, acquisitions and refusals: plain values.

use std::fmt;

use stratalog_model::{ChronicleId, TickRange};

/// A holder of acquisitions: a client, by the number of the client's first session. All sessions of
/// a client are one holder. A negative number is a session with an exclusive statement in a
/// chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub i32);

impl HolderId {
    /// The holder of an exclusive statement in a chronicle, from the session's holder; and back.
    pub fn alone(self) -> Self {
        let other = Self(self.0.wrapping_neg());
        debug_assert_eq!(other.session(), self.session(), "the session has another number");
        other
    }

    /// The number of the session.
    pub fn session(self) -> i32 {
        self.0.wrapping_abs()
    }
}

/// Nanoseconds of the monotonic clock: steps of the wall clock do not change leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

/// The mode of an acquisition (F8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Any number of holders at the same time; all holders may write.
    Shared,
    /// A single holder: no other holder acquires the chronicle or writes to it.
    Exclusive,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Shared => "SHARED",
            Mode::Exclusive => "EXCLUSIVE",
        })
    }
}

/// The request of an ACQUIRE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Exclusive or shared.
    pub mode: Mode,
    /// The claimed events: all, or a range of ticks (F9).
    pub ticks: TickRange,
    /// Length of the lease (F10); `None` for an unlimited acquisition.
    pub lease_ns: Option<u64>,
}

impl Claim {
    /// True if two holders cannot hold both claims at the same time.
    pub fn conflicts(&self, other: &Claim) -> bool {
        let alone = self.mode == Mode::Exclusive || other.mode == Mode::Exclusive;
        alone && self.ticks.overlaps(&other.ticks)
    }

    /// True if the claim includes every right of the other claim; the lease is not compared.
    pub fn covers(&self, other: &Claim) -> bool {
        let alone = self.mode == Mode::Exclusive || other.mode == Mode::Shared;
        let covers = alone && self.ticks.covers(&other.ticks);
        debug_assert!(
            !covers
                || other.mode == Mode::Shared
                || other.ticks.is_empty()
                || self.conflicts(other),
            "two holders can have the events of an exclusive claim"
        );
        covers
    }

    /// Checks the promises of a caller about a requested claim.
    pub(super) fn assert_sound(&self) {
        debug_assert!(!self.ticks.is_empty(), "a claim has no events");
        debug_assert!(self.lease_ns != Some(0), "a lease has no length");
    }
}

/// The use of a chronicle by a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Use {
    /// The statement reads events.
    Read,
    /// The statement appends or deletes events, or changes the chronicle.
    Write,
    /// Like `Write`, in a transaction with earlier writes: requests for EXCLUSIVE wait for its end.
    WriteOn,
}

impl Use {
    /// True for a use with changes.
    pub fn writes(self) -> bool {
        self != Use::Read
    }
}

/// The relation of a holder to a chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// The holder has acquired the chronicle.
    Held,
    /// The lease ran out: the holder must acquire again, or release.
    Lost,
    /// The request waits for other holders.
    Waiting,
    /// A statement or transaction of the holder reads: an implicit acquisition until its end.
    Reading,
    /// A statement or transaction of the holder writes.
    Writing,
}

impl Standing {
    /// True for an acquisition without ACQUIRE: it ends with its statement or transaction.
    pub fn is_implicit(self) -> bool {
        matches!(self, Standing::Reading | Standing::Writing)
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Standing::Held => "held",
            Standing::Lost => "lost",
            Standing::Waiting => "waiting",
            Standing::Reading => "reading",
            Standing::Writing => "writing",
        })
    }
}

/// A current, lost or requested acquisition of a chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acquisition {
    /// The chronicle's id.
    pub chronicle: ChronicleId,
    /// The holder.
    pub holder: HolderId,
    /// The holder's relation to the chronicle.
    pub standing: Standing,
    /// Exclusive or shared.
    pub mode: Mode,
    /// The acquired events.
    pub ticks: TickRange,
    /// The begin of the acquisition, or of the wait.
    pub since: Moment,
    /// The end of the lease; `None` for an acquisition until its release.
    pub until: Option<Moment>,
}

/// The reason of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Other holders have the requested events, or wait for them.
    Taken(Vec<Acquisition>),
    /// Another holder has the events of the write exclusively, or waits for them.
    LockedOut(Acquisition),
    /// The lease ran out.
    Lost(Acquisition),
    /// A drop of the chronicle is in progress.
    Closing,
    /// A cycle of waiting requests exists: this request gives way. With the acquisitions in its
    /// way.
    Deadlock(Vec<Acquisition>),
    /// The holder has the maximum number of acquisitions, given here.
    TooMany(usize),
    /// The maximum number of requests, given here, waits for the chronicle.
    Crowded(usize),
}
