//! Finds the spans between changes of a time zone's offset from UTC.

use stratalog_text::{
    TimeZone,
    calendar::{Civil, DAY_SECONDS, civil_of, days_of},
};

/// Instants from `start` up to the start of the next span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Seconds since 1970.
    pub start: i64,
    /// Seconds east of Greenwich.
    pub east: i64,
}

/// Seconds between two reads of a zone's offset. No zone changes its clocks twice in so short a
/// time (the shortest time in the database is 6.96 days), so at most one change lies between two
/// reads.
const LOOK_SECONDS: i64 = 6 * DAY_SECONDS;

/// The maximum number of reads for one stretch of time: about 1,600 years.
const LOOKS_MAX: i64 = 100_000;

/// The spans of the instants `from..to`, in seconds since 1970; the first span starts at `from`.
/// `None` if the stretch needs too many reads.
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
        // Years far ahead repeat the rules of other years: the start of each year may have one more
        // change.
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

/// The first instant after `same` where `is_same` is false; `changed` is such an instant.
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
