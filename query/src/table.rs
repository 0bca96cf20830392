//! Chronicles as tables of DataFusion.
//!
//! ```text
//!   filters ─► pushdown ─► tick ranges + key sets (exact) │ the rest stays a filter above
//!   projection, order, limit ─► ScanRequest ─► Snapshot::scan ─► streams
//! ```

pub mod aggregate;
mod dealt;
pub mod lookup;
mod memory;
pub mod projection;
mod provider;
pub mod pushdown;
pub mod scan;
mod statistics;
mod tier_metrics;

pub use lookup::KeyLookup;
pub use provider::{ChronicleTable, Pin};
pub use scan::ChronicleScan;
