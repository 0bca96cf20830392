//! Converts WHERE filters to the ticks and keys that a scan must read.
//!
//! An *exact* conversion: the filter is true for an event if and only if the result contains the
//! event's tick (or key). The plan applies a filter without an exact conversion again above the
//! scan. Even for such a filter, the scan may read fewer ticks (see [`hull`]).

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

/// The events that one conjunct of a WHERE clause allows.
#[derive(Debug, Clone)]
pub enum Conjunct {
    /// Only the given ticks.
    Ticks(TickRanges),
    /// Only the given values of a key column.
    Keys(KeyFilter),
    /// No event at all.
    Nothing,
}

/// The events that all conjuncts of a WHERE clause together allow.
#[derive(Debug, Clone)]
pub struct PushedFilters {
    /// Ticks to read.
    pub ticks: TickRanges,
    /// Range of gsns to read.
    pub gsns: GsnRange,
    /// Keys to read.
    pub keys: Vec<KeyFilter>,
    /// Further conditions on values, for pruning by statistics and indexes.
    pub values: Vec<ValueFilter>,
}

/// The exact conversion of `filter`, a conjunct; `None` without an exact conversion.
pub fn exact(definition: &ChronicleDefinition, filter: &Expr) -> Option<Conjunct> {
    if matches!(filter, Expr::Literal(value, _) if value.is_null()) {
        return Some(Conjunct::Nothing);
    }
    if let Some(ticks) = ticks(definition, filter) {
        return Some(Conjunct::Ticks(ticks));
    }
    key::filter(definition, filter)
}

/// A set of ticks outside of which `filter` is never true; all ticks if nothing is known.
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

/// Conditions on column values, for statistics and indexes. The conditions hold for every row where
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

/// The ticks, gsns, keys and value conditions of all `filters` combined.
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

/// The ticks for which `filter` is true; `None` if `filter` depends on more than the tick. For
/// other ticks the filter is false, never NULL, so NOT gives the complement.
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

/// Builds one array of values; all values have the same type.
fn array_of(values: Vec<ScalarValue>) -> Option<ArrayRef> {
    ScalarValue::iter_to_array(values).ok()
}

#[cfg(test)]
pub(super) mod tests;
