//! Plans the read requests for the byte ranges that a reader needs.

use std::ops::Range;

use crate::{block::Blocks, shelf::ReadShape};

/// The byte ranges to request, ascending and disjoint. Each request covers whole blocks around the
/// needed ranges. Ranges are joined if the gap between them is at most the limit of the shelf; long
/// ranges are split into requests of about the shelf's preferred size.
pub(crate) fn requests(
    needed: impl IntoIterator<Item = Range<u64>>,
    blocks: &Blocks,
    shape: ReadShape,
) -> Vec<Range<u64>> {
    let mut around: Vec<_> = needed
        .into_iter()
        .filter(|range| !range.is_empty())
        .map(|range| blocks.around(&range))
        .collect();
    around.sort_unstable_by_key(|range| range.start);
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in around {
        match runs.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(shape.gap_bytes_max) => {
                last.end = last.end.max(range.end);
            }
            _ => runs.push(range),
        }
    }
    debug_assert!(runs.is_sorted_by(|a, b| a.end <= b.start), "the runs overlap");
    let requests = runs.into_iter().flat_map(|run| split(run, blocks, shape.request_bytes));
    let requests: Vec<_> = requests.collect();
    debug_assert!(requests.is_sorted_by(|a, b| a.end <= b.start), "the requests overlap");
    requests
}

/// Splits a byte range into parts of about the same length, at block borders.
fn split(run: Range<u64>, blocks: &Blocks, request_bytes: u64) -> Vec<Range<u64>> {
    debug_assert!(run.start < run.end, "a run without bytes");
    let len = run.end - run.start;
    let parts = len.div_ceil(request_bytes.max(1)).max(1);
    let mut split = Vec::with_capacity(parts as usize);
    let mut start = run.start;
    while start < run.end {
        let end = blocks.around(&(start..(start + len.div_ceil(parts)).min(run.end))).end;
        debug_assert!(start < end, "the split stands still");
        split.push(start..end);
        start = end;
    }
    debug_assert_eq!(start, run.end, "the parts reach beyond the run");
    debug_assert!(split.len() as u64 <= parts, "more parts than planned");
    split
}

#[cfg(test)]
mod tests;
