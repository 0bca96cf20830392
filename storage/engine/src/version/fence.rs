//! A fence carries out a delete: it hides the deleted events from readers until the events are
//! physically removed.

use serde::{Deserialize, Serialize};
use stratalog_model::{Gsn, TickRange};

/// A fence: hides the events with a tick in `ticks` and a gsn up to `gsn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// The ticks of the hidden events.
    pub ticks: TickRange,
    /// Highest gsn of the hidden events.
    pub gsn: Gsn,
    /// Highest committed gsn when the delete became durable; `None` if equal to `gsn`. Differs for
    /// a TRIM, which hides only events below a given gsn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised: Option<Gsn>,
}

impl Fence {
    /// Highest committed gsn when the delete became durable. Pieces made from an earlier version
    /// may still contain events that the delete hides.
    pub fn raised(&self) -> Gsn {
        self.raised.unwrap_or(self.gsn)
    }
}
