//! Telemetry into typed columns.

mod attribute;
pub mod content;
mod fault;
mod json;
pub mod limits;
pub mod logs;
pub mod metrics;
pub mod name;
mod origin;
pub mod outcome;
pub mod reader;
mod remote_write;
mod wire;

pub use content::Encoding;
pub use fault::{Item, TelemetryError};
pub use limits::TelemetryLimits;
pub use logs::{LOG_COLUMNS, SERVICE_COLUMN};
pub use metrics::STALE_NAN_BITS;
pub use name::{METRIC_COLUMN, VALUE_COLUMN};
pub use outcome::{Outcome, Signal, status};
pub use reader::{Layout, TelemetryReader};
