//! Chronicles as tables of DataFusion.
//!
//! ```text
//!   filters ─► pushdown ─► tick ranges + key sets (exact) │ the rest stays a filter above
//!   projection, order, limit ─► ScanRequest ─► Snapshot::scan ─► streams
//! ```

pub mod aggregate;
mod leaf;
pub mod lookup;
mod memory;
mod partition_streams;
mod policy;
pub mod projection;
pub mod provider;
pub mod pushdown;
pub mod record;
pub mod scan;
mod statistics;
mod tier_metrics;
mod timed_stream;

use std::sync::Arc;

use datafusion::{
    catalog::TableProvider,
    physical_plan::{ExecutionPlan, empty::EmptyExec, placeholder_row::PlaceholderRowExec},
};
use stratalog_model::ChronicleDefinition;

pub use lookup::KeyLookup;
pub use policy::{PolicyTable, allowed};
pub use provider::{ChronicleTable, SnapshotPin};
pub use record::RecordTable;
pub use scan::ChronicleScan;

/// The chronicle that a table of a plan represents; `None` for other tables.
pub fn chronicle_of(table: &Arc<dyn TableProvider>) -> Option<&Arc<ChronicleDefinition>> {
    match plain_table(table) {
        Some(table) => Some(table.definition()),
        None => table.downcast_ref::<RecordTable>().map(RecordTable::chronicle),
    }
}

/// The table of a chronicle, with or without row policies; `None` for other tables. Callers must
/// not read rows of the result.
pub fn plain_table(table: &Arc<dyn TableProvider>) -> Option<&ChronicleTable> {
    match table.downcast_ref::<ChronicleTable>() {
        Some(table) => Some(table),
        None => table.downcast_ref::<PolicyTable>().map(PolicyTable::table),
    }
}

/// A scan of fewer rows uses one stream.
const FEW_ROWS: u64 = 2 * scan::ROWS_PER_STREAM;

/// True if a leaf reads too few rows for a second stream.
pub fn few_rows(leaf: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(scan) = leaf.downcast_ref::<ChronicleScan>() {
        return scan.snapshot().estimate(scan.request()) < FEW_ROWS;
    }
    if let Some(aggregate) = leaf.downcast_ref::<aggregate::ChronicleAggregate>() {
        return aggregate.snapshot().estimate(&aggregate.request().scan) < FEW_ROWS;
    }
    leaf.downcast_ref::<PlaceholderRowExec>().is_some()
        || leaf.downcast_ref::<EmptyExec>().is_some()
}

/// True if a leaf reads only the newest rows of series, and the number of series is known and
/// small.
pub fn finds_few_newest(leaf: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(scan) = leaf.downcast_ref::<ChronicleScan>() else { return false };
    let request = scan.request();
    let series = || scan.snapshot().series(&request.chronicle, &request.ticks);
    request.newest_of.is_some() && (1..FEW_ROWS).contains(&series())
}
