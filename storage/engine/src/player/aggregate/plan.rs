//! What is counted of a slice: cells where they are wanted whole, rows at the edges.
//!
//! ```text
//!   wanted           ├────────────────────────────┤
//!   windows       │ 10:00         │ 11:00         │ 12:00
//!   cells         │   a   │   b   │   c   │   d   │
//!   of the run     rows a   cell b cells c,d
//! ```

use std::ops::Range;

use stratalog_model::{Result, TickRange, aggregate::AggregateRequest};

use super::rows::before_all;
use crate::pieces::runs::Runs;

/// Neighbouring cells or rows of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// All of whose events are wanted, and in one window.
    Cells(Range<usize>),
    /// Some of which may not be wanted, unless their window is known.
    Rows(Range<usize>),
}

/// A part of a run that is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The series.
    pub run: usize,
    /// The window that all of it is in; `None` where ticks must tell.
    pub window: Option<i64>,
    /// What of it.
    pub span: Span,
}

/// The parts of the chosen runs of a slice, whose ticks are in `hull`, in their order: with the
/// cells of the slice, or without.
///
/// # Errors
/// `Internal` for a window that begins before all ticks.
pub fn segments(
    request: &AggregateRequest,
    hull: &TickRange,
    runs: &Runs,
    chosen: &[usize],
    with_cells: bool,
) -> Result<Vec<Segment>> {
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
    Ok(segments)
}

/// The window that all ticks of a hull are in, if it is one.
fn window_of(request: &AggregateRequest, hull: &TickRange) -> Result<Option<i64>> {
    let Some(windows) = request.windows else { return Ok(Some(0)) };
    let start = windows.start(hull.start.0).ok_or_else(before_all)?;
    let last = i128::from(hull.end.0) - 1;
    Ok((last < i128::from(start) + i128::from(windows.width)).then_some(start))
}
