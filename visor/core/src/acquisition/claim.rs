//! What is asked for, what somebody has, and why something is refused: plain values.

use std::fmt;

use stratalog_model::{ChronicleId, TickRange};

/// A holder of acquisitions: a client, by the number of the client's first session. All sessions of a client
/// are one holder. A negative number is a session with a statement alone in a chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub i32);

impl HolderId {
    /// The holder for a statement alone in a chronicle, from the session's holder; and back.
    pub fn alone(self) -> Self {
        Self(self.0.wrapping_neg())
    }

    /// The number of the session.
    pub fn session(self) -> i32 {
        self.0.wrapping_abs()
    }
}

/// Nanoseconds of the monotonic clock: leases do not care what the wall clock does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

/// Whether others may acquire the same (F8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Any number of holders at a time, all of which may write.
    Shared,
    /// One holder: nobody else acquires it, and nobody else writes.
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

/// What an ACQUIRE asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Alone, or with others.
    pub mode: Mode,
    /// The events that it is about: all, or a projection (F9).
    pub ticks: TickRange,
    /// After how long it ends by itself (F10); `None` for never.
    pub lease_ns: Option<u64>,
}

impl Claim {
    /// Whether two holders cannot have both.
    pub fn conflicts(&self, other: &Claim) -> bool {
        let alone = self.mode == Mode::Exclusive || other.mode == Mode::Exclusive;
        alone && self.ticks.overlaps(&other.ticks)
    }

    /// Whether who has this has all that the other one asks for, but for how long.
    pub fn covers(&self, other: &Claim) -> bool {
        let alone = self.mode == Mode::Exclusive || other.mode == Mode::Shared;
        alone && self.ticks.covers(&other.ticks)
    }
}

/// What a statement does with a chronicle that it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Use {
    /// It reads events.
    Read,
    /// It appends or deletes events, or changes the chronicle.
    Write,
    /// As `Write`, in a transaction that has done so before: who waits to be alone waits for it.
    WriteOn,
}

impl Use {
    /// Whether it changes something.
    pub fn writes(self) -> bool {
        self != Use::Read
    }
}

/// How somebody stands to a chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It has acquired it.
    Held,
    /// Its lease ran out: it must acquire again, or release.
    Lost,
    /// It waits for others.
    Waiting,
    /// A statement or transaction of it reads: acquired for as long as that takes.
    Reading,
    /// A statement or transaction of it writes.
    Writing,
}

impl Standing {
    /// Whether nobody said ACQUIRE: it lasts as long as a statement or a transaction.
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

/// What somebody has of a chronicle, had, or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acquisition {
    /// Of which chronicle.
    pub chronicle: ChronicleId,
    /// Whose.
    pub holder: HolderId,
    /// How it stands to it.
    pub standing: Standing,
    /// Alone, or with others.
    pub mode: Mode,
    /// Of which events.
    pub ticks: TickRange,
    /// Since when.
    pub since: Moment,
    /// Until when; `None` until it is released.
    pub until: Option<Moment>,
}

/// Why something is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Others have, or wait for, what is asked for.
    Taken(Vec<Acquisition>),
    /// Another one is alone with the events that were to be written, or is about to be.
    LockedOut(Acquisition),
    /// The lease ran out.
    Lost(Acquisition),
    /// The chronicle is being dropped.
    Closing,
    /// Each of some waits for the next: this one gives way. Those in its way.
    Deadlock(Vec<Acquisition>),
    /// The holder has this many acquisitions, which is the most.
    TooMany(usize),
    /// This many wait for the chronicle, which is the most.
    Crowded(usize),
}
