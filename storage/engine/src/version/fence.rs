//! The fence of a delete: hides events from readers until the events are gone.

use serde::{Deserialize, Serialize};
use stratalog_model::{Gsn, TickRange};

/// Deleted events: the events with a tick inside `ticks`, committed at or before `gsn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// The ticks.
    pub ticks: TickRange,
    /// Highest gsn of the deleted events.
    pub gsn: Gsn,
    /// Highest gsn when the delete became durable, if different from `gsn`: for a TRIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised: Option<Gsn>,
}

impl Fence {
    /// Highest gsn when the delete became durable. Pieces made from an earlier version may hold
    /// events hidden by the delete.
    pub fn raised(&self) -> Gsn {
        self.raised.unwrap_or(self.gsn)
    }
}
