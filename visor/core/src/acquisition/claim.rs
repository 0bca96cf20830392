//! The types of requests, acquisitions and refusals.

use std::fmt;

use stratalog_model::{ChronicleId, TickRange};

/// A holder of acquisitions. All sessions of a client are one holder, whose number is the number of
/// the client's first session. A negative number stands for an exclusive statement inside a
/// chronicle; see [`Self::alone`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub i32);

impl HolderId {
    /// The separate holder for an exclusive statement in a chronicle, made from the session's
    /// holder by changing the sign; applied again, returns the session's holder.
    pub fn alone(self) -> Self {
        let other = Self(self.0.wrapping_neg());
        debug_assert_eq!(other.session(), self.session(), "the session has another number");
        other
    }

    /// The number of the session, without the sign.
    pub fn session(self) -> i32 {
        self.0.wrapping_abs()
    }
}

/// A time in nanoseconds of the monotonic clock, so that steps of the wall clock do not change
/// leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

/// The mode of an acquisition (F8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Any number of holders at the same time; all of them may write.
    Shared,
    /// A single holder: no other session can acquire the chronicle or write to it.
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

/// What an ACQUIRE requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Exclusive or shared.
    pub mode: Mode,
    /// The requested events: all, or a range of ticks (F9).
    pub ticks: TickRange,
    /// Length of the lease in nanoseconds (F10); `None` for no time limit.
    pub lease_ns: Option<u64>,
}

impl Claim {
    /// True if two holders cannot have both claims at the same time.
    pub fn conflicts(&self, other: &Claim) -> bool {
        let alone = self.mode == Mode::Exclusive || other.mode == Mode::Exclusive;
        alone && self.ticks.overlaps(&other.ticks)
    }

    /// True if this claim includes every right of the other claim; the leases are not compared.
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

    /// Checks the conditions that the caller must guarantee for a requested claim.
    pub(super) fn assert_sound(&self) {
        debug_assert!(!self.ticks.is_empty(), "a claim has no events");
        debug_assert!(self.lease_ns != Some(0), "a lease has no length");
    }
}

/// How a statement uses a chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Use {
    /// The statement reads events.
    Read,
    /// The statement appends or deletes events, or changes the chronicle.
    Write,
    /// Like `Write`, in a transaction that has already written: requests for EXCLUSIVE wait for the
    /// end of the transaction.
    WriteOn,
}

impl Use {
    /// True if the statement changes the chronicle.
    pub fn writes(self) -> bool {
        self != Use::Read
    }
}

/// The state of a holder's acquisition of a chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// The holder has acquired the chronicle.
    Held,
    /// The lease ran out: the holder must acquire the chronicle again, or release it.
    Lost,
    /// The request waits for other holders.
    Waiting,
    /// A statement or transaction of the holder reads: an implicit acquisition until the end of the
    /// statement or transaction.
    Reading,
    /// A statement or transaction of the holder writes: also an implicit acquisition.
    Writing,
}

impl Standing {
    /// True for an implicit acquisition, which ends with its statement or transaction.
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

/// An acquisition of a chronicle that is current, lost or requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acquisition {
    /// The chronicle's id.
    pub chronicle: ChronicleId,
    /// The holder.
    pub holder: HolderId,
    /// The state of the acquisition.
    pub standing: Standing,
    /// Exclusive or shared.
    pub mode: Mode,
    /// The acquired events.
    pub ticks: TickRange,
    /// The start of the acquisition, or of the wait.
    pub since: Moment,
    /// The end of the lease; `None` without a time limit.
    pub until: Option<Moment>,
}

/// Why a request or a use is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Other holders have acquired the requested events, or wait for them. Contains their
    /// acquisitions.
    Taken(Vec<Acquisition>),
    /// Another holder has exclusive access to the events to write, or waits for it. Contains its
    /// acquisition.
    LockedOut(Acquisition),
    /// The lease of this acquisition ran out.
    Lost(Acquisition),
    /// A drop of the chronicle is in progress.
    Closing,
    /// The request would close a cycle of waiting requests. Contains the acquisitions that the
    /// request would wait for.
    Deadlock(Vec<Acquisition>),
    /// The holder has the maximum number of acquisitions; contains this maximum.
    TooMany(usize),
    /// The maximum number of requests already waits for the chronicle; contains this maximum.
    Crowded(usize),
}
