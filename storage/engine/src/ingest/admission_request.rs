//! A request to admit events, and the answer to the request.

use std::sync::Arc;

use arrow::buffer::BooleanBuffer;
use stratalog_model::{LatePolicy, SchemaVersion, acceptance::Window, store::OnConflict};

use super::{chunk::KeyReservation, merge::Merges, outcome::Outcome, vacated_ticks::VacatedTicks};
use crate::events::keys::Groups;
pub use crate::read::pieces::lookup::StoredKeys;

/// The reasons for which admission refuses events. A refusal reserves nothing.
#[derive(Debug)]
pub enum AdmissionRefusal {
    /// An earlier event has the collision key of this row.
    Taken(usize),
    /// An unfinished statement has reserved the key of a row, or deletes the earlier event with
    /// which a row would merge. The caller waits for the outcome of this statement and tries again.
    Pending(Arc<Outcome>),
    /// Under `collision = 'next'`: every tick after the tick of a row is taken.
    NoTickLeft,
    /// The row is late (`late = 'reject'`): row, and highest tick of the chronicle.
    Late(usize, i64),
    /// The tick of the row is before the acceptance window: row, and first accepted tick.
    Early(usize, i64),
    /// The tick of the row is after the acceptance window, or `collision = 'next'` would move the
    /// row there: row, and last accepted tick.
    Ahead(usize, i64),
    /// The request would keep given times (`restores`), but the chronicle already has events.
    Begun,
    /// Events moved between tiers, or were deleted, after [`StoredKeys`] was computed: the caller
    /// must compute it again.
    Moved,
}

/// A request to admit events.
#[derive(Debug)]
pub struct AdmissionRequest<'a> {
    /// The series of each event, by the key columns.
    pub groups: &'a Groups,
    /// Arrival number of the first event. The caller has taken the numbers of all events.
    pub first_seq: u64,
    /// The action under `collision = 'first'` for an event whose key is taken.
    pub on_conflict: OnConflict,
    /// The outcome of the statement that stores the events.
    pub outcome: &'a Arc<Outcome>,
    /// The requested keys that events in tablets or stories already have.
    pub stored_keys: &'a StoredKeys,
    /// Ranges of ticks that the same append has deleted earlier.
    pub vacated: &'a [VacatedTicks],
    /// Under `collision = 'merge'`: a bit per row, set if the row has NULL in a column outside of
    /// the key; `None` if no row has.
    pub incomplete: Option<&'a BooleanBuffer>,
    /// Schema version of the new events.
    pub version: SchemaVersion,
    /// The rule for late events.
    pub late: LatePolicy,
    /// The acceptance window; `None` if every tick is accepted.
    pub window: Option<Window>,
    /// True if the events keep their given times, as when a dump is restored. Allowed only before
    /// the first event of the chronicle.
    pub restores: bool,
}

/// The result of an admission.
#[derive(Debug)]
pub struct AdmittedEvents {
    /// The reserved collision keys and arrival numbers.
    pub reserved: KeyReservation,
    /// For each requested event, true if kept; `None` if all events are kept.
    pub kept_mask: Option<Vec<bool>>,
    /// True if an event was moved to a later tick (`collision = 'next'`).
    pub moved: bool,
    /// The events that take values of earlier events (`collision = 'merge'`); `None` if no event
    /// needs such values.
    pub merges: Option<Merges>,
}
