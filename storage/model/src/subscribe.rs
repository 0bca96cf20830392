//! Subscriptions: reading a chronicle in the order of commits, first history, then live events
//! (F104).
//!
//! ```text
//!   from ─► history, out of any tier ─► head of the log ─► live: each commit, once it is visible
//!             a Gap where events were deleted, or cannot be read
//! ```

use std::{fmt, pin::Pin, sync::Arc};

use arrow::array::RecordBatch;

use crate::{ChronicleDefinition, Gsn, GsnRange, Result, Tick};

/// The begin of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscribeFrom {
    /// The event with this gsn, or the first event behind it.
    Gsn(Gsn),
    /// The first event, in the order of commits, with this tick or a later tick; the head of the
    /// log if no event has such a tick.
    Tick(Tick),
    /// The first event committed from now on.
    Live,
}

/// The request of a subscriber.
#[derive(Debug, Clone)]
pub struct SubscribeRequest {
    /// The chronicle, with the columns that the subscriber expects.
    pub chronicle: Arc<ChronicleDefinition>,
    /// The begin.
    pub from: SubscribeFrom,
    /// Columns to return, by position: see
    /// [`ScanRequest::projection`](crate::tier::ScanRequest::projection).
    pub projection: Vec<usize>,
    /// Maximum rows of a batch.
    pub batch_rows_max: usize,
}

/// An update for a subscriber.
#[derive(Debug, Clone)]
pub enum Update {
    /// Events, by ascending gsn, behind all earlier updates.
    Events(RecordBatch),
    /// Events that no subscriber can receive any more.
    Gap(Gap),
}

/// Positions with missing events: all events of the range are missing, or some, while the others
/// follow. A gap comes after all events before it. A subscriber that resumes behind the first
/// position of the gap misses nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The positions.
    pub gsns: GsnRange,
    /// The reason.
    pub cause: GapCause,
}

/// The reason for missing events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GapCause {
    /// DELETE, TRIM or retention removed them.
    Deleted,
    /// The bytes of the events are damaged: the kind and the place of the damage.
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

/// A stream of updates. The stream ends only with an error: `UndefinedTable` after the drop of the
/// chronicle. A slow subscriber delays nobody else.
pub type Subscription = Pin<Box<dyn futures_core::Stream<Item = Result<Update>> + Send>>;
