//! Reading a chronicle in the order of commits: what there is, and then what comes (F104).
//!
//! ```text
//!   from ─► history, out of any tier ─► head of the log ─► live: each commit, once it is visible
//!             a Gap where events were deleted, or cannot be read
//! ```

use std::{fmt, pin::Pin, sync::Arc};

use arrow::array::RecordBatch;

use crate::{ChronicleDefinition, Gsn, GsnRange, Result, Tick};

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscribeFrom {
    /// With the event of this gsn, or the first one behind it.
    Gsn(Gsn),
    /// With the first event, in the order of commits, that has this tick or a later one; behind the
    /// head of the log when there is none.
    Tick(Tick),
    /// With what is committed from now on.
    Live,
}

/// What a subscriber asks for.
#[derive(Debug, Clone)]
pub struct SubscribeRequest {
    /// The chronicle, with the columns that the subscriber expects.
    pub chronicle: Arc<ChronicleDefinition>,
    /// Where it begins.
    pub from: SubscribeFrom,
    /// Columns to return, as [`ScanRequest::projection`](crate::tier::ScanRequest::projection)
    /// counts them.
    pub projection: Vec<usize>,
    /// Rows of a batch, at most.
    pub batch_rows_max: usize,
}

/// What a subscriber is told.
#[derive(Debug, Clone)]
pub enum Update {
    /// Events, by ascending gsn, behind all that were told before.
    Events(RecordBatch),
    /// Events that nobody can be told of any more.
    Gap(Gap),
}

/// Positions of which events are missing: all of them, or some, while others follow. It is told
/// behind the events before it, so that whoever goes on behind its first position misses nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The positions.
    pub gsns: GsnRange,
    /// Why.
    pub cause: GapCause,
}

/// Why events are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GapCause {
    /// DELETE, TRIM or retention removed them.
    Deleted,
    /// Their bytes are damaged: what is wrong with them, and where.
    Damaged(String),
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            GapCause::Deleted => write!(f, "{} deleted", self.gsns),
            GapCause::Damaged(what) => write!(f, "{} damaged: {what}", self.gsns),
        }
    }
}

/// A stream of updates. It does not end by itself, unless with an error: `UndefinedTable` when the
/// chronicle is dropped. Whoever reads it slowly holds nobody up.
pub type Subscription = Pin<Box<dyn futures_core::Stream<Item = Result<Update>> + Send>>;
