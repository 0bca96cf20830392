//! Divides a range of ticks into cells. Within a cell, no input of a predicate changes.
//!
//! ```text
//!   day, Europe/Berlin    ──┬──────────┬─────────┬───────────▶ ticks
//!                     midnight    midnight  (23 hours)
//! ```
//! While a zone's offset from UTC is constant, local time advances with the ticks: days, months and
//! hours begin at computable instants of local time. A change of the offset also begins a new cell.

use stratalog_functions::CalendarUnit;
use stratalog_model::{Tick, TickRange};
use stratalog_text::{
    TimeZone,
    calendar::{Civil, DAY_NS, SECOND_NS, civil_of, days_of},
};

use super::{
    super::time::Axis,
    leaf::Leaf,
    zone::{Span, spans},
};

const SECOND: i128 = SECOND_NS as i128;
const DAY: i128 = DAY_NS as i128;

/// The first tick of each cell in `range`, ascending; `None` for more than about `cells_max` cells.
pub fn cells(
    axis: &Axis,
    leaves: &[Leaf],
    range: TickRange,
    cells_max: usize,
) -> Option<Vec<Tick>> {
    let mut starts = vec![range.start];
    let mut cut = |tick: Tick| {
        if range.start < tick && tick < range.end {
            starts.push(tick);
        }
        (starts.len() <= cells_max).then_some(())
    };
    let (first, last) = (axis.value_of(range.start), axis.value_of(Tick(range.end.0 - 1)));
    for leaf in leaves {
        let (zone, begins) = match leaf {
            Leaf::Ticks(ranges) => {
                for inside in ranges.as_slice() {
                    cut(inside.start)?;
                    cut(inside.end)?;
                }
                continue;
            }
            Leaf::Unit { zone, unit } => (zone, CellStarts::Each(*unit)),
            Leaf::Clock { zone, at } => (zone, CellStarts::At(at)),
        };
        for stretch in stretches(zone, first, last)? {
            cut(axis.first_at_or_after(stretch.from))?;
            for instant in begins.within(&stretch) {
                cut(axis.first_at_or_after(instant))?;
            }
        }
    }
    starts.sort_unstable();
    starts.dedup();
    Some(starts)
}

/// The instants `from..=to`, in nanoseconds since 1970, during which local time is `east`
/// nanoseconds ahead of UTC.
struct ZoneStretch {
    from: i128,
    to: i128,
    east: i128,
}

fn stretches(zone: &TimeZone, first: i128, last: i128) -> Option<Vec<ZoneStretch>> {
    let from = i64::try_from(first.div_euclid(SECOND)).ok()?;
    let to = i64::try_from(last.div_euclid(SECOND)).ok()?.checked_add(1)?;
    let spans = spans(zone, from, to)?;
    let ends = spans.iter().skip(1).map(|next| i128::from(next.start) * SECOND - 1);
    let stretch = |(span, end): (&Span, i128)| ZoneStretch {
        from: first.max(i128::from(span.start) * SECOND),
        to: end,
        east: i128::from(span.east) * SECOND,
    };
    Some(spans.iter().zip(ends.chain([last])).map(stretch).collect())
}

/// The places where cells start, in local time.
enum CellStarts<'a> {
    Each(CalendarUnit),
    At(&'a [i128]),
}

impl CellStarts<'_> {
    /// The starts of cells in a stretch, without the first instant of the stretch.
    fn within(&self, stretch: &ZoneStretch) -> Box<dyn Iterator<Item = i128> + '_> {
        let (from, to, east) = (stretch.from, stretch.to, stretch.east);
        match self {
            Self::Each(unit) => {
                let starts = std::iter::successors(Some(from + east), |at| Some(next(*unit, *at)));
                Box::new(starts.skip(1).map(move |at| at - east).take_while(move |at| *at <= to))
            }
            Self::At(at) => {
                let instants = at.iter().map(move |at| at - east);
                Box::new(instants.filter(move |at| (from..=to).contains(at)))
            }
        }
    }
}

/// The start of the next calendar unit after the local time `at`, in nanoseconds since 1970.
fn next(unit: CalendarUnit, at: i128) -> i128 {
    let day = at.div_euclid(DAY);
    let of_length = |length: i128| (at.div_euclid(length) + 1) * length;
    match unit {
        CalendarUnit::Second => of_length(SECOND),
        CalendarUnit::Minute => of_length(60 * SECOND),
        CalendarUnit::Hour => of_length(3_600 * SECOND),
        CalendarUnit::Day => of_length(DAY),
        // 1970-01-01 was a Thursday.
        CalendarUnit::Week => ((day + 3).div_euclid(7) * 7 + 4) * DAY,
        CalendarUnit::Month => next_month(day, 1) * DAY,
        CalendarUnit::Quarter => next_month(day, 3) * DAY,
        CalendarUnit::Year => next_month(day, 12) * DAY,
    }
}

/// The first day, counted since 1970, of the next month whose number (0 is January) is a multiple
/// of `step`.
fn next_month(day: i128, step: i64) -> i128 {
    // The number of days always fits in an i64.
    let Ok(day) = i64::try_from(day) else { return i128::MAX / DAY };
    let civil = civil_of(day);
    let months = civil.year * 12 + i64::from(civil.month) - 1;
    let next = (months.div_euclid(step) + 1) * step;
    let month = u32::try_from(next.rem_euclid(12)).unwrap_or(0) + 1;
    i128::from(days_of(Civil { year: next.div_euclid(12), month, day: 1 }))
}
