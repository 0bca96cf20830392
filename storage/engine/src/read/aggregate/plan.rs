//! Divides the runs of a slice (row group) into segments to count: whole cells where possible, and
//! single rows at the edges of the wanted ticks.
//!
//! ```text
//!   wanted           ├────────────────────────────┤
//!   windows       │ 10:00         │ 11:00         │ 12:00
//!   cells         │   a   │   b   │   c   │   d   │
//!   counted as     rows a   cell b cells c,d
//! ```

use std::ops::Range;

use stratalog_model::{Result, TickRange, aggregate::AggregateRequest};

use super::rows::before_all;
use crate::events::runs::Runs;

/// Consecutive cells or rows of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// Cells whose events are all wanted, and all in the same window.
    Cells(Range<usize>),
    /// Rows that may include unwanted events. If the window of the segment is known, all rows are
    /// wanted.
    Rows(Range<usize>),
}

/// A part of the run of one series, to be counted at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Index of the run, which has all rows of one series in the slice.
    pub run: usize,
    /// Start of the window that contains all events of the segment; `None` if the tick of each row
    /// decides about its window.
    pub window: Option<i64>,
    /// The cells or rows of the segment.
    pub span: Span,
}

/// Divides the chosen runs of a slice into segments, in the order of the runs. `hull` is the range
/// of the slice's ticks. Without `with_cells`, all segments consist of rows.
///
/// # Errors
/// `Internal` if a window begins before all ticks.
pub fn segments(
    request: &AggregateRequest,
    hull: &TickRange,
    runs: &Runs,
    chosen: &[usize],
    with_cells: bool,
) -> Result<Vec<Segment>> {
    debug_assert!(chosen.is_sorted_by(|a, b| a < b), "the chosen runs are not in order");
    let wanted = &request.scan.ticks;
    let whole = match wanted.covers(hull) {
        true => window_of(request, hull)?,
        false => None,
    };
    let mut segments: Vec<Segment> = Vec::with_capacity(chosen.len());
    for run in chosen {
        let Some(cells) = runs.cells().filter(|_| with_cells) else {
            let span = Span::Rows(runs.rows(*run));
            segments.push(Segment { run: *run, window: whole, span });
            continue;
        };
        if whole.is_some() {
            let span = Span::Cells(cells.of_series(*run));
            segments.push(Segment { run: *run, window: whole, span });
            continue;
        }
        for cell in cells.of_series(*run) {
            let hull = cells.hull(cell);
            if !wanted.overlaps(&hull) {
                continue;
            }
            let window = match wanted.covers(&hull) {
                true => window_of(request, &hull)?,
                false => None,
            };
            let span = match window {
                Some(_) => Span::Cells(cell..cell + 1),
                None => Span::Rows(cells.rows(cell)),
            };
            match segments.last_mut() {
                Some(last) if last.run == *run && last.window == window => {
                    match (&mut last.span, span) {
                        (Span::Cells(before), Span::Cells(next)) if before.end == next.start => {
                            before.end = next.end;
                        }
                        (Span::Rows(before), Span::Rows(next)) if before.end == next.start => {
                            before.end = next.end;
                        }
                        (_, span) => segments.push(Segment { run: *run, window, span }),
                    }
                }
                _ => segments.push(Segment { run: *run, window, span }),
            }
        }
    }
    debug_assert!(
        segments.is_sorted_by_key(|segment| segment.run),
        "the segments are not in the order of the runs"
    );
    Ok(segments)
}

/// Start of the window that contains all ticks of a hull; `None` if the hull covers several
/// windows.
fn window_of(request: &AggregateRequest, hull: &TickRange) -> Result<Option<i64>> {
    let Some(windows) = request.windows else { return Ok(Some(0)) };
    let start = windows.start(hull.start.0).ok_or_else(before_all)?;
    debug_assert!(start <= hull.start.0, "a window begins after its first tick");
    let last = i128::from(hull.end.0) - 1;
    Ok((last < i128::from(start) + i128::from(windows.width)).then_some(start))
}
