//! Reads by key: the index of the series table finds the rows, so that no scan of all rows is
//! needed.

use std::sync::Arc;

use stratalog_model::{
    Result, TickRanges,
    tier::{ScanOrder, ScanRequest},
};

use crate::{
    events::batch::MemoryBatch,
    ingest::{
        chronicle::{Chronicle, ChronicleState},
        series::Series,
    },
    read::pieces::leading_keys::LeadingKeys,
    version::Version,
};

/// Maximum number of index entries of a lookup, which runs under the chronicle's lock.
const ENTRIES_MAX: usize = 1 << 16;

/// A batch, and the numbers of selected rows.
pub type BatchRows = (Arc<MemoryBatch>, Vec<u32>);

/// Finds the visible rows with the keys of a request, grouped by batch, each batch's rows in the
/// requested order. Returns `None` if the index cannot answer or a full scan is equally good: the
/// request does not fix all key columns, the lookup has too many entries, or the snapshot is older
/// than a replacement or delete that has changed the index.
pub fn rows_by_key(
    request: &ScanRequest,
    chronicle: &Chronicle,
    version: &Version,
    visible: u64,
) -> Result<Option<Vec<BatchRows>>> {
    if !chronicle.indexed() || request.chronicle.key_columns.is_empty() {
        return Ok(None);
    }
    let keys = LeadingKeys::of(request)?;
    let Some(keys) = keys.as_ref().and_then(LeadingKeys::whole) else { return Ok(None) };
    if chronicle.key_columns() > request.chronicle.key_columns.len() {
        return Ok(None);
    }
    let state = chronicle.state();
    let Some(found) = entries(request, &state, keys, version, visible) else {
        return Ok(None);
    };
    request.metrics.journal.compared(keys.len() as u64);
    let mut by_batch: Vec<BatchRows> = Vec::new();
    // Sorted by gsn, the rows of each batch are adjacent.
    let mut located = found;
    drop(state);
    located.sort_unstable();
    for (gsn, _) in located {
        match by_batch.last_mut() {
            Some((batch, rows)) if gsn <= batch.last_gsn() => {
                rows.extend(batch.row_of(gsn).map(|row| row as u32));
            }
            _ => {
                if let Some(batch) = version.batch_of(gsn)
                    && let Some(row) = batch.row_of(gsn)
                {
                    by_batch.push((Arc::clone(batch), vec![row as u32]));
                }
            }
        }
    }
    debug_assert!(
        by_batch.iter().all(|(_, rows)| rows.is_sorted_by(|a, b| a < b)),
        "a lookup finds a row twice"
    );
    if request.order != ScanOrder::Any {
        for (batch, rows) in &mut by_batch {
            if !batch.ordered() {
                let tick = |row: u32| batch.ticks().get(row as usize).copied();
                rows.sort_unstable_by_key(|row| (tick(*row), batch.seq(*row as usize)));
            }
        }
    }
    Ok(Some(by_batch))
}

/// Finds (gsn, tick) of each visible event with one of the keys and a wanted tick.
fn entries(
    request: &ScanRequest,
    state: &ChronicleState,
    keys: &[Vec<u8>],
    version: &Version,
    visible: u64,
) -> Option<Vec<(u64, i64)>> {
    if state.version.epoch() != version.epoch() {
        return None;
    }
    let series: Vec<&Series> = keys
        .iter()
        .filter_map(|key| state.series.find(key))
        .filter_map(|id| state.series.series(id))
        .collect();
    if series.iter().any(|series| series.superseded_through() > visible) {
        return None;
    }
    // In an ordered request, the first `limit` entries of each series are enough: they include the
    // first `limit` rows of the result.
    let limit = match request.order {
        ScanOrder::Any => usize::MAX,
        _ => request.limit.unwrap_or(usize::MAX),
    };
    let ranges: &TickRanges = &request.ticks;
    let mut wanted = 0_usize;
    for series in &series {
        let count: usize =
            ranges.as_slice().iter().map(|range| series.count(range, ENTRIES_MAX + 1)).sum();
        wanted = wanted.saturating_add(count.min(limit));
        if wanted > ENTRIES_MAX {
            return None;
        }
    }
    let mut found = Vec::with_capacity(wanted);
    let mut run = (0, 0, 0);
    let mut gsn_of = |seq: u64| {
        if !(run.0 <= seq && seq < run.1) {
            run = state.locator.run(seq)?;
        }
        Some(run.2 + (seq - run.0)).filter(|gsn| *gsn <= visible)
    };
    for series in series {
        let mut left = limit;
        let mut take = |entries: &mut dyn Iterator<Item = (i64, u64)>| {
            for (tick, seq) in entries {
                if left == 0 {
                    return;
                }
                if let Some(gsn) = gsn_of(seq) {
                    found.push((gsn, tick));
                    left -= 1;
                }
            }
        };
        if request.order == ScanOrder::Descending {
            for range in ranges.as_slice().iter().rev() {
                take(&mut series.descending(range));
            }
        } else {
            for range in ranges.as_slice() {
                take(&mut series.ascending(range));
            }
        }
    }
    debug_assert!(found.len() <= wanted, "a lookup finds more entries than it has counted");
    Some(found)
}
