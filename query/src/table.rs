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
mod provider;
pub mod pushdown;
pub mod scan;
mod statistics;
mod tier_metrics;

use std::sync::Arc;

use datafusion::physical_plan::{
    ExecutionPlan, empty::EmptyExec, placeholder_row::PlaceholderRowExec,
};

pub use lookup::KeyLookup;
pub use provider::{ChronicleTable, Pin};
pub use scan::ChronicleScan;

/// Whether a leaf of a plan looks at few rows: too few for a second stream.
pub fn few_rows(leaf: &Arc<dyn ExecutionPlan>) -> bool {
    let few = |rows: u64| rows < 2 * scan::ROWS_PER_STREAM;
    if let Some(scan) = leaf.downcast_ref::<ChronicleScan>() {
        return few(scan.snapshot().estimate(scan.request()));
    }
    if let Some(told) = leaf.downcast_ref::<aggregate::ChronicleAggregate>() {
        return few(told.snapshot().estimate(&told.request().scan));
    }
    leaf.downcast_ref::<PlaceholderRowExec>().is_some()
        || leaf.downcast_ref::<EmptyExec>().is_some()
}

/// Whether a leaf finds newest rows, of which it looks at no others.
pub fn finds_newest(leaf: &Arc<dyn ExecutionPlan>) -> bool {
    leaf.downcast_ref::<ChronicleScan>().is_some_and(|scan| scan.request().newest_of.is_some())
}
