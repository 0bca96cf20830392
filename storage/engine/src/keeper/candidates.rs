//! A request to admit events, and its answer.

use std::sync::Arc;

use stratalog_model::{LatePolicy, acceptance::Window, store::OnConflict};

use super::{chunk::Reserved, keys::Groups, outcome::Outcome, step::Vacated};
pub use crate::pieces::lookup::Taken;

/// Why events were not admitted. Nothing is reserved then.
#[derive(Debug)]
pub enum Refused {
    /// The key of a row is taken.
    Taken(usize),
    /// The key of a row is reserved by a statement that has not ended.
    Pending(Arc<Outcome>),
    /// No tick is free after that of a row.
    NoTickLeft,
    /// A row is late; the highest tick of the chronicle.
    Late(usize, i64),
    /// A row has a tick before the first that is accepted, which is told.
    Early(usize, i64),
    /// A row has a tick behind the last that is accepted, which is told; or would be moved there.
    Ahead(usize, i64),
    /// The chronicle has had events, and gives times itself.
    Begun,
    /// Events changed hands since [`Taken`] was found out.
    Moved,
}

/// A request to admit events.
#[derive(Debug)]
pub struct Candidates<'a> {
    /// Their keys.
    pub groups: &'a Groups,
    /// Arrival number of the first; reserved before.
    pub first_seq: u64,
    /// What to do under `collision = 'first'`.
    pub on_conflict: OnConflict,
    /// Their statement.
    pub outcome: &'a Arc<Outcome>,
    /// Keys that events in pieces have.
    pub taken: &'a Taken,
    /// Ticks of earlier events that the statement deletes.
    pub vacated: &'a [Vacated],
    /// What happens to late ones.
    pub late: LatePolicy,
    /// Which ticks are accepted; `None` for any.
    pub window: Option<Window>,
    /// Whether the events keep given times: allowed in a chronicle that never had an event.
    pub restores: bool,
}

/// Admitted events.
#[derive(Debug)]
pub struct Admission {
    /// What they hold.
    pub reserved: Reserved,
    /// Which were kept; `None` for all.
    pub kept: Option<Vec<bool>>,
    /// Whether a tick was moved (`collision = 'next'`).
    pub moved: bool,
}
