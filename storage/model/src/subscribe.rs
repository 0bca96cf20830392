//! Subscriptions: a subscriber reads a chronicle in commit order, first the stored events, then new
//! events as they are committed (F104).
//!
//! ```text
//!   from ─► history, from any tier ─► newest event ─► live: each commit, once it is visible
//!             a Gap where events were deleted, or cannot be read
//! ```

use std::{fmt, pin::Pin, sync::Arc};

use arrow::array::RecordBatch;

use crate::{ChronicleDefinition, Gsn, GsnRange, Result, Tick};

/// The start of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscribeFrom {
    /// The event with this gsn, or else the first event after it.
    Gsn(Gsn),
    /// The first event in commit order whose tick is this tick or later. If no event has such a
    /// tick: the first event committed from now on.
    Tick(Tick),
    /// The first event committed from now on.
    Live,
}

/// The request of a subscriber.
#[derive(Debug, Clone)]
pub struct SubscribeRequest {
    /// The chronicle, with the columns that the subscriber expects.
    pub chronicle: Arc<ChronicleDefinition>,
    /// The start of the subscription.
    pub from: SubscribeFrom,
    /// Columns to return, as positions: see
    /// [`ScanRequest::projection`](crate::tier::ScanRequest::projection).
    pub projection: Vec<usize>,
    /// Maximum rows of a batch.
    pub batch_rows_max: usize,
}

/// One item of a subscription's stream.
#[derive(Debug, Clone)]
pub enum Update {
    /// Events in ascending gsn order, after all earlier updates.
    Events(RecordBatch),
    /// Events that are missing from the stream, because no subscriber can receive them any more.
    Gap(Gap),
}

/// A range of gsn's with missing events. All events of the range are missing, or only some; the
/// remaining events of the range follow in later updates. A gap comes after all events before the
/// range. A subscriber that resumes after the first gsn of the gap misses no event that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The range.
    pub gsns: GsnRange,
    /// Why events are missing.
    pub cause: GapCause,
}

/// The reason for missing events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GapCause {
    /// DELETE, TRIM or retention removed the events.
    Deleted,
    /// The stored bytes of the events are damaged; the text names the kind and the place of the
    /// damage.
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

/// A stream of updates. The stream ends only with an error, for example `UndefinedTable` after the
/// drop of the chronicle. A slow subscriber does not delay other subscribers or writers.
pub type Subscription = Pin<Box<dyn futures_core::Stream<Item = Result<Update>> + Send>>;
