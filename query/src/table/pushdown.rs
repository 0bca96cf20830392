//! Converts filters to ticks and keys.
//!
//! A conversion here is *exact*: the filter is true for an event if and only if the result contains
//! the event's tick (or key). A filter without an exact conversion stays above the scan; the
//! filter's hull may still narrow the scan.

use arrow::array::ArrayRef;
use datafusion::{
    logical_expr::{Between, BinaryExpr, Expr, Operator, expr::InList},
    scalar::ScalarValue,
};
use stratalog_model::{
    ChronicleDefinition, GsnRange, TickRange, TickRanges, ValueFilter, tier::KeyFilter,
};

pub mod calendar;
mod index;
mod key;
mod position;
pub mod time;
pub mod value;

pub use position::gsns;

/// The requirement of one conjunct of a WHERE clause on a scan.
#[derive(Debug, Clone)]
pub enum Conjunct {
    /// Only the given ticks.
    Ticks(TickRanges),
    /// Only the given values of a key column.
    Keys(KeyFilter),
    /// No event at all.
    Nothing,
}

/// The requirements of all conjuncts of a WHERE clause on a scan.
#[derive(Debug, Clone)]
pub struct PushedFilters {
    /// Ticks to read.
    pub ticks: TickRanges,
    /// Positions in the log to read.
    pub gsns: GsnRange,
    /// Keys to read.
    pub keys: Vec<KeyFilter>,
    /// Further requirements on values, for statistics.
    pub values: Vec<ValueFilter>,
}

/// The exact meaning of `filter` as a conjunct, if any.
pub fn exact(definition: &ChronicleDefinition, filter: &Expr) -> Option<Conjunct> {
    if matches!(filter, Expr::Literal(value, _) if value.is_null()) {
        return Some(Conjunct::Nothing);
    }
    if let Some(ticks) = ticks(definition, filter) {
        return Some(Conjunct::Ticks(ticks));
    }
    key::filter(definition, filter)
}

/// Ticks outside of which `filter` is never true; all ticks if nothing is known.
pub fn hull(definition: &ChronicleDefinition, filter: &Expr) -> TickRanges {
    if let Some(ticks) = ticks(definition, filter) {
        return ticks;
    }
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            hull(definition, left).intersect(&hull(definition, right))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            hull(definition, left).union(&hull(definition, right))
        }
        _ => TickRanges::all(),
    }
}

/// The requirements of `filter` on statistics and indexes, which hold for every row where
/// `filter` is true.
pub fn values(definition: &ChronicleDefinition, filter: &Expr) -> Vec<ValueFilter> {
    match filter {
        Expr::Alias(alias) => values(definition, &alias.expr),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let mut both = values(definition, left);
            both.extend(values(definition, right));
            both
        }
        _ => {
            let known = value::single(definition, filter);
            known.into_iter().chain(index::single(definition, filter)).collect()
        }
    }
}

/// The combined requirements of all `filters`.
pub fn push(definition: &ChronicleDefinition, filters: &[Expr]) -> PushedFilters {
    let mut pushed = PushedFilters {
        ticks: TickRanges::all(),
        gsns: GsnRange::ALL,
        keys: Vec::new(),
        values: Vec::new(),
    };
    for filter in filters {
        match exact(definition, filter) {
            Some(Conjunct::Ticks(ticks)) => pushed.ticks = pushed.ticks.intersect(&ticks),
            Some(Conjunct::Keys(keys)) => pushed.keys.push(keys),
            Some(Conjunct::Nothing) => pushed.ticks = TickRanges::none(),
            None => {
                pushed.ticks = pushed.ticks.intersect(&hull(definition, filter));
                pushed.gsns = pushed.gsns.intersect(&gsns(filter));
                pushed.values.extend(values(definition, filter));
            }
        }
    }
    pushed
}

/// The ticks for which `filter` is true, if `filter` depends on the tick alone. Elsewhere the
/// filter is false, never NULL, so NOT gives the complement.
pub fn ticks(definition: &ChronicleDefinition, filter: &Expr) -> Option<TickRanges> {
    match filter {
        Expr::Alias(alias) => ticks(definition, &alias.expr),
        Expr::Literal(ScalarValue::Boolean(Some(value)), _) => {
            Some(if *value { TickRanges::all() } else { TickRanges::none() })
        }
        Expr::Not(inner) => Some(ticks(definition, inner)?.complement()),
        Expr::IsTrue(inner) | Expr::IsNotFalse(inner) => ticks(definition, inner),
        Expr::IsFalse(inner) | Expr::IsNotTrue(inner) => {
            Some(ticks(definition, inner)?.complement())
        }
        Expr::IsNotNull(inner) => time::axis(definition, inner).map(|_| TickRanges::all()),
        Expr::IsNull(inner) => time::axis(definition, inner).map(|_| TickRanges::none()),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::And => Some(ticks(definition, left)?.intersect(&ticks(definition, right)?)),
            Operator::Or => Some(ticks(definition, left)?.union(&ticks(definition, right)?)),
            _ => comparison(definition, left, *op, right),
        },
        Expr::Between(Between { expr, negated, low, high }) => {
            let axis = time::axis(definition, expr)?;
            let low = axis.compare(Operator::GtEq, low)?;
            let inside = low.intersect(&axis.compare(Operator::LtEq, high)?);
            Some(if *negated { inside.complement() } else { inside })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let axis = time::axis(definition, expr)?;
            let mut inside: Vec<TickRange> = Vec::with_capacity(list.len());
            for value in list {
                inside.extend_from_slice(axis.compare(Operator::Eq, value)?.as_slice());
            }
            let inside = TickRanges::from_ranges(inside);
            Some(if *negated { inside.complement() } else { inside })
        }
        _ => None,
    }
}

fn comparison(
    definition: &ChronicleDefinition,
    left: &Expr,
    op: Operator,
    right: &Expr,
) -> Option<TickRanges> {
    if let Some(axis) = time::axis(definition, left) {
        return axis.compare(op, right);
    }
    time::axis(definition, right)?.compare(op.swap()?, left)
}

/// The values as one array; all values have one type.
fn array_of(values: Vec<ScalarValue>) -> Option<ArrayRef> {
    ScalarValue::iter_to_array(values).ok()
}

#[cfg(test)]
pub(super) mod tests;
