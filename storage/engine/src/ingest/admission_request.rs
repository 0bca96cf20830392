//! A request to admit events, and the answer to the request.

use std::sync::Arc;

use arrow::buffer::BooleanBuffer;
use stratalog_model::{LatePolicy, SchemaVersion, acceptance::Window, store::OnConflict};

use super::{chunk::KeyReservation, merge::Merges, outcome::Outcome, vacated_ticks::VacatedTicks};
use crate::events::keys::Groups;
pub use crate::read::pieces::lookup::StoredKeys;

/// Reasons to refuse events. A refusal reserves nothing.
#[derive(Debug)]
pub enum AdmissionRefusal {
    /// The key of a row is taken.
    Taken(usize),
    /// An unfinished statement has reserved the key of a row, or deletes the earlier event of a
    /// merge.
    Pending(Arc<Outcome>),
    /// No tick after the tick of a row is free.
    NoTickLeft,
    /// A row is late; with the highest tick of the chronicle.
    Late(usize, i64),
    /// The tick of a row is before the first accepted tick; with the first accepted tick.
    Early(usize, i64),
    /// The tick of a row is after the last accepted tick, or would move there; with the last
    /// accepted tick.
    Ahead(usize, i64),
    /// The chronicle already has events, and assigns times itself.
    Begun,
    /// Events moved between tiers after [`StoredKeys`] was found.
    Moved,
}

/// A request to admit events.
#[derive(Debug)]
pub struct AdmissionRequest<'a> {
    /// The keys of the events.
    pub groups: &'a Groups,
    /// Arrival number of the first event; already reserved.
    pub first_seq: u64,
    /// The action for taken keys under `collision = 'first'`.
    pub on_conflict: OnConflict,
    /// The statement of the events.
    pub outcome: &'a Arc<Outcome>,
    /// Keys held by events in pieces.
    pub stored_keys: &'a StoredKeys,
    /// Ticks of earlier events deleted by the statement.
    pub vacated: &'a [VacatedTicks],
    /// The rows with NULL in a column outside of the key, under `collision = 'merge'`.
    pub incomplete: Option<&'a BooleanBuffer>,
    /// Schema version of the events.
    pub version: SchemaVersion,
    /// The rule for late events.
    pub late: LatePolicy,
    /// Window of accepted ticks; `None` for any tick.
    pub window: Option<Window>,
    /// True if the events keep given times: allowed only before the first event of a chronicle.
    pub restores: bool,
}

/// Admitted events.
#[derive(Debug)]
pub struct AdmittedEvents {
    /// The reserved keys and arrival numbers.
    pub reserved: KeyReservation,
    /// For each event, true if kept; `None` for all.
    pub kept_mask: Option<Vec<bool>>,
    /// True if a tick was moved (`collision = 'next'`).
    pub moved: bool,
    /// The merges; `None` if no event may lack a value of its earlier event.
    pub merges: Option<Merges>,
}
