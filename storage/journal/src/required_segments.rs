//! The segments that must exist when a journal opens.

use stratalog_model::Lsn;

/// The segments that must exist when a journal is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredSegments {
    /// All segments, from the first frame on.
    First,
    /// The segments with frames from this lsn on.
    At(Lsn),
    /// Whatever segments exist: the caller decides whether they suffice.
    Any,
}
