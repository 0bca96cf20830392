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
pub mod provider;
pub mod pushdown;
pub mod record;
pub mod scan;
mod statistics;
mod tier_metrics;
mod timed;

use std::sync::Arc;

use datafusion::{
    catalog::TableProvider,
    physical_plan::{ExecutionPlan, empty::EmptyExec, placeholder_row::PlaceholderRowExec},
};
use stratalog_model::ChronicleDefinition;

pub use lookup::KeyLookup;
pub use provider::{ChronicleTable, Pin};
pub use scan::ChronicleScan;

/// The chronicle whose events a table of a plan reads, if it reads any.
pub fn chronicle_of(table: &Arc<dyn TableProvider>) -> Option<&Arc<ChronicleDefinition>> {
    match table.downcast_ref::<ChronicleTable>() {
        Some(table) => Some(table.definition()),
        None => table.downcast_ref::<record::RecordTable>().map(record::RecordTable::chronicle),
    }
}

/// Rows below which a second stream is of no use.
const FEW_ROWS: u64 = 2 * scan::ROWS_PER_STREAM;

/// Whether a leaf of a plan looks at few rows: too few for a second stream.
pub fn few_rows(leaf: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(scan) = leaf.downcast_ref::<ChronicleScan>() {
        return scan.snapshot().estimate(scan.request()) < FEW_ROWS;
    }
    if let Some(told) = leaf.downcast_ref::<aggregate::ChronicleAggregate>() {
        return told.snapshot().estimate(&told.request().scan) < FEW_ROWS;
    }
    leaf.downcast_ref::<PlaceholderRowExec>().is_some()
        || leaf.downcast_ref::<EmptyExec>().is_some()
}

/// Whether a leaf finds the newest rows of series, of which there are known to be few; it looks at
/// no other rows.
pub fn finds_few_newest(leaf: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(scan) = leaf.downcast_ref::<ChronicleScan>() else { return false };
    let request = scan.request();
    let series = || scan.snapshot().series(&request.chronicle, &request.ticks);
    request.newest_of.is_some() && (1..FEW_ROWS).contains(&series())
}
