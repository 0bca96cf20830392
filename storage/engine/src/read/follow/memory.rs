//! Reads events in memory in commit order, which is also their stored order.

use std::sync::Arc;

use arrow::array::RecordBatch;
use stratalog_model::{
    ChronicleDefinition, Gsn, GsnRange, Result, TickRanges,
    chronicle::SYSTEM_COLUMNS,
    tier::{ScanOrder, ScanRequest},
};

use crate::{
    events::batch::MemoryBatch,
    read::journal_split::{self, JournalSplit, SharedRequest},
    version::Version,
};

/// Position of `_gsn` among the system columns.
pub const GSN: usize = 2;

/// A request for the events in `gsns`; a batch is returned as one batch, without a limit of rows.
pub fn request(
    chronicle: &Arc<ChronicleDefinition>,
    projection: Vec<usize>,
    gsns: GsnRange,
) -> Arc<ScanRequest> {
    Arc::new(ScanRequest {
        chronicle: Arc::clone(chronicle),
        projection,
        ticks: TickRanges::all(),
        gsns,
        keys: Vec::new(),
        values: Vec::new(),
        order: ScanOrder::Any,
        newest_of: None,
        limit: None,
        batch_rows_max: usize::MAX,
        streams: 1,
        metrics: Arc::default(),
        memory: None,
    })
}

/// A request for all events, with all columns including the system columns.
pub fn request_for_all(chronicle: &Arc<ChronicleDefinition>) -> Arc<ScanRequest> {
    debug_assert_eq!(SYSTEM_COLUMNS.get(GSN), Some(&"_gsn"), "_gsn has another position");
    let all = (0..chronicle.columns.len() + SYSTEM_COLUMNS.len()).collect();
    request(chronicle, all, GsnRange::ALL)
}

/// The rows of a batch that are visible at `visible` and match the request, by ascending gsn.
///
/// # Errors
/// `Internal`.
pub fn rows(
    batch: &Arc<MemoryBatch>,
    request: &Arc<ScanRequest>,
    version: &Arc<Version>,
    visible: Gsn,
) -> Result<RecordBatch> {
    debug_assert!(
        request.limit.is_none() && request.batch_rows_max == usize::MAX,
        "a request for all rows has a limit"
    );
    let shared = Arc::new(SharedRequest::new(request, Arc::clone(version), visible)?);
    journal_split::rows(JournalSplit { batch: Arc::clone(batch), rows: None, shared })
}
