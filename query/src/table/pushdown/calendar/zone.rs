//! Finds the spans of time in which a time zone's offset from UTC is constant.

use stratalog_text::{
    TimeZone,
    calendar::{Civil, DAY_SECONDS, civil_of, days_of},
};

/// A span of time with a constant offset, from `start` up to the start of the next span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Seconds since 1970.
    pub start: i64,
    /// Offset from UTC in seconds, positive east of Greenwich.
    pub east: i64,
}

/// Seconds between two samples of a zone's offset. No zone changes its clocks twice in a shorter
/// time (the shortest interval in the time zone database is 6.96 days), so at most one change lies
/// between two samples.
const LOOK_SECONDS: i64 = 6 * DAY_SECONDS;

/// The maximum number of samples for one range of time: about 1,600 years.
const LOOKS_MAX: i64 = 100_000;

/// The spans in the range `from..to`, in seconds since 1970; the first span starts at `from`.
/// `None` if the range needs too many samples.
pub fn spans(zone: &TimeZone, from: i64, to: i64) -> Option<Vec<Span>> {
    let east = |at: i64| i64::from(zone.offset_at(at));
    let mut last = Span { start: from, east: east(from) };
    let mut spans = vec![last];
    if matches!(zone, TimeZone::Fixed { .. }) || *zone == TimeZone::UTC {
        return Some(spans);
    }
    if to.checked_sub(from)? / LOOK_SECONDS > LOOKS_MAX {
        return None;
    }
    let (mut at, mut known) = (from, from);
    while at < to {
        // For years far ahead, the time zone library repeats the rules of other years: the start of
        // each year may have an additional change.
        let end = next_year(at).min(at + LOOK_SECONDS).min(to);
        for look in [at, end - 1] {
            if east(look) != last.east {
                let start = first_change(known, look, |at| east(at) == last.east);
                last = Span { start, east: east(start) };
                spans.push(last);
            }
            known = look;
        }
        at = end;
    }
    Some(spans)
}

/// The first instant after `same` at which `is_same` is false, found by bisection;
/// `is_same(changed)` is false.
fn first_change(mut same: i64, mut changed: i64, is_same: impl Fn(i64) -> bool) -> i64 {
    while changed - same > 1 {
        let middle = same + (changed - same) / 2;
        if is_same(middle) {
            same = middle;
        } else {
            changed = middle;
        }
    }
    changed
}

fn next_year(at: i64) -> i64 {
    let year = civil_of(at.div_euclid(DAY_SECONDS)).year;
    days_of(Civil { year: year + 1, month: 1, day: 1 }) * DAY_SECONDS
}
