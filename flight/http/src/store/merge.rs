//! Merges the lines of a request that have the same series and time into one row, as InfluxDB does:
//! each field gets its last value.

use std::collections::HashMap;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::take,
};
use stratalog_model::{ChronicleDefinition, Result};

use super::rows::{Keys, ticks_of};

/// The merged rows. `kept_rows` has, for each merged row, the index of its last original row.
pub(super) struct MergedRows {
    pub(super) batch: RecordBatch,
    pub(super) kept_rows: Vec<u32>,
}

/// Merges rows with equal key and time. `None` if no rows are merged: if no two rows have equal key
/// and time, if no row lacks a value (then the table's collision rule gives the same result), or if
/// this rule does not replace rows.
///
/// # Errors
/// Arrow's errors about key columns.
pub(super) fn merged(
    definition: &ChronicleDefinition,
    batch: &RecordBatch,
) -> Result<Option<MergedRows>> {
    let complete = batch.columns().iter().all(|column| column.null_count() == 0);
    if complete || !definition.collision.replaces() {
        return Ok(None);
    }
    let (keys, ticks) = (Keys::of(definition, batch)?, ticks_of(definition, batch)?);
    let rows = u32::try_from(batch.num_rows()).unwrap_or(u32::MAX);
    let mut groups: HashMap<_, u32> = HashMap::with_capacity(batch.num_rows());
    // For each row, the index of the previous row with the same key and time.
    let mut before: Vec<Option<u32>> = Vec::with_capacity(batch.num_rows());
    for (row, tick) in (0..rows).zip(&ticks) {
        before.push(groups.insert((keys.row(row as usize), *tick), row));
    }
    if groups.len() == batch.num_rows() {
        return Ok(None);
    }
    let mut kept_rows: Vec<u32> = groups.into_values().collect();
    kept_rows.sort_unstable();
    let columns = batch.columns().iter().map(|column| {
        let latest = kept_rows.iter().map(|row| latest(column, *row, &before));
        take(column, &UInt32Array::from_iter_values(latest), None)
    });
    let columns = columns.collect::<std::result::Result<Vec<ArrayRef>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(kept_rows.len()));
    let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
    Ok(Some(MergedRows { batch, kept_rows }))
}

/// Finds the last row with a value in `column`: starts at `row`, and follows `before` to earlier
/// rows with the same key and time.
fn latest(column: &ArrayRef, row: u32, before: &[Option<u32>]) -> u32 {
    let mut at = row;
    while column.is_null(at as usize) {
        match before.get(at as usize).copied().flatten() {
            Some(earlier) => at = earlier,
            None => return row,
        }
    }
    at
}
