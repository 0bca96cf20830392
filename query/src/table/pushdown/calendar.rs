//! Converts predicates on calendar fields of the tick column to ranges of ticks (F20). Examples:
//! Mondays, nine to eleven o'clock, the first quarters of even years.
//!
//! ```text
//!   extract(dow FROM time) = 1 AND extract(hour FROM time) IN (9, 10)
//!   ├ looks at days  ─► one cell a day ──► evaluated at the first tick of each ─► Mondays
//!   └ looks at hours ─► one cell an hour of those Mondays ─► evaluated ─► 9 to 11 o'clock
//! ```
//! The module does not interpret a predicate, but evaluates the predicate. The ticks are divided
//! into cells (such as days or hours). Within a cell, no input of the predicate changes (see
//! [`leaf`]). The predicate is evaluated once for each cell, by the same functions that filter
//! rows. Days and hours follow the clocks of the predicate's time zones, including changes to and
//! from summer time.
//!
//! The plan still filters the rows: the ranges only reduce the events that a scan reads.

use arrow::array::{Array as _, BooleanArray};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, utils::split_conjunction};
use stratalog_functions::CalendarUnit;
use stratalog_model::{ChronicleDefinition, TickRange, TickRanges};

use super::{
    hull, ticks,
    time::{Axis, axis_of_tick},
};

mod cells;
mod leaf;
mod zone;

use leaf::{Leaf, leaves};

/// The maximum number of cells for one predicate: seven years of hours, or 179 years of days. The
/// evaluation of 65,536 cells takes a few milliseconds.
const CELLS_MAX: usize = 65_536;

/// The maximum number of tick ranges that a scan receives.
const RANGES_MAX: usize = 10_000;

/// A function that evaluates a predicate for values of the tick column, given in the column's time
/// unit.
pub type Evaluate<'a> = &'a dyn Fn(&Expr, Vec<i64>) -> datafusion::error::Result<BooleanArray>;

/// True if [`narrow`] may be able to use `filter`: a part of the filter depends only on calendar
/// fields of the tick column.
pub fn concerns(definition: &ChronicleDefinition, filter: &Expr) -> bool {
    if ticks(definition, filter).is_some() {
        return false;
    }
    match filter {
        filter if leaves(definition, filter).is_some() => true,
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            concerns(definition, left) || concerns(definition, right)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let narrows = |side| concerns(definition, side) || !hull(definition, side).is_all();
            (concerns(definition, left) || concerns(definition, right))
                && narrows(left)
                && narrows(right)
        }
        _ => false,
    }
}

/// The ticks of `within` for which all `filters` may be true. If the exact result is too expensive,
/// the function returns more ticks, up to all of `within`.
pub fn narrow(
    definition: &ChronicleDefinition,
    filters: &[Expr],
    within: TickRanges,
    evaluate: Evaluate<'_>,
) -> TickRanges {
    match axis_of_tick(definition) {
        Some(axis) => Narrowing { definition, axis, evaluate }.narrowed_by_all(filters, within),
        None => within,
    }
}

struct Narrowing<'a> {
    definition: &'a ChronicleDefinition,
    axis: Axis,
    evaluate: Evaluate<'a>,
}

impl Narrowing<'_> {
    /// Applies all filters: first the filters with coarse calendar units; filters with finer units
    /// then divide only the remaining ticks.
    fn narrowed_by_all<'e>(
        &self,
        filters: impl IntoIterator<Item = &'e Expr>,
        within: TickRanges,
    ) -> TickRanges {
        let mut filters: Vec<(Option<CalendarUnit>, &Expr)> = filters
            .into_iter()
            .flat_map(split_conjunction)
            .map(|filter| (self.finest(filter), filter))
            .collect();
        filters.sort_by_key(|(unit, _)| std::cmp::Reverse(*unit));
        filters.into_iter().fold(within, |within, (_, filter)| self.narrowed_by(filter, within))
    }

    /// The finest calendar unit in a filter; `None`, which sorts as the finest unit, if the
    /// filter's units are unknown.
    fn finest(&self, filter: &Expr) -> Option<CalendarUnit> {
        let leaves = leaves(self.definition, filter)?;
        let unit = |leaf: &Leaf| match leaf {
            Leaf::Unit { unit, .. } => *unit,
            Leaf::Ticks(_) | Leaf::Clock { .. } => CalendarUnit::Year,
        };
        leaves.iter().map(unit).min()
    }

    fn narrowed_by(&self, filter: &Expr, within: TickRanges) -> TickRanges {
        if let Some(ticks) = ticks(self.definition, filter) {
            return within.intersect(&ticks);
        }
        if let Some(leaves) = leaves(self.definition, filter)
            && let Some(found) = self.narrowed_by_cells(filter, &leaves, &within)
        {
            return found;
        }
        match filter {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                let either = self.narrowed_by_all([&**left], within.clone());
                either.union(&self.narrowed_by_all([&**right], within))
            }
            Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => {
                self.narrowed_by_all([filter], within)
            }
            _ => within,
        }
    }

    /// The ticks for which `predicate` is true, found by evaluation on each cell; `None` if there
    /// are too many cells, or if the evaluation fails.
    fn narrowed_by_cells(
        &self,
        predicate: &Expr,
        leaves: &[Leaf],
        within: &TickRanges,
    ) -> Option<TickRanges> {
        let mut tried: Vec<TickRange> = Vec::new();
        for range in within.as_slice() {
            let left = CELLS_MAX.checked_sub(tried.len())?;
            let starts = cells::cells(&self.axis, leaves, *range, left)?;
            let ends = starts.iter().skip(1).copied().chain([range.end]);
            tried.extend(starts.iter().zip(ends).map(|(start, end)| TickRange::new(*start, end)));
        }
        if tried.is_empty() {
            return Some(TickRanges::none());
        }
        let shown = |cell: &TickRange| self.axis.count_of(cell.start);
        let times = tried.iter().map(shown).collect::<Option<Vec<i64>>>()?;
        let answers = (self.evaluate)(predicate, times).ok()?;
        let is_true = |at: usize| answers.is_valid(at) && answers.value(at);
        let found = tried.into_iter().enumerate().filter(|(at, _)| is_true(*at));
        let found = TickRanges::from_ranges(found.map(|(_, cell)| cell));
        (found.as_slice().len() <= RANGES_MAX).then_some(found)
    }
}

#[cfg(test)]
mod tests;
