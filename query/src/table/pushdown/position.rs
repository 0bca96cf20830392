//! Converts comparisons of `_gsn` and `_toid` with constants to a range of gsns outside of which a
//! filter is never true. The plan still applies the filter; the range only reduces the events that
//! a scan reads.

use datafusion::{
    logical_expr::{Between, BinaryExpr, Expr, Operator, expr::InList},
    scalar::ScalarValue,
};
use stratalog_model::{Gsn, GsnRange};

/// A range of gsns outside of which `filter` is never true; all gsns if nothing is known.
pub fn gsns(filter: &Expr) -> GsnRange {
    match filter {
        Expr::Alias(alias) => gsns(&alias.expr),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            gsns(left).intersect(&gsns(right))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            gsns(left).hull(&gsns(right))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            comparison(left, *op, right).unwrap_or(GsnRange::ALL)
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let low = comparison(expr, Operator::GtEq, low).unwrap_or(GsnRange::ALL);
            low.intersect(&comparison(expr, Operator::LtEq, high).unwrap_or(GsnRange::ALL))
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            let each = list.iter().map(|value| comparison(expr, Operator::Eq, value));
            let hull = |all: GsnRange, one: Option<GsnRange>| Some(all.hull(&one?));
            each.into_iter().try_fold(GsnRange::EMPTY, hull).unwrap_or(GsnRange::ALL)
        }
        _ => GsnRange::ALL,
    }
}

fn comparison(left: &Expr, op: Operator, right: &Expr) -> Option<GsnRange> {
    match (is_gsn(left), is_gsn(right)) {
        (true, false) => compare(op, right),
        (false, true) => compare(op.swap()?, left),
        _ => None,
    }
}

fn compare(op: Operator, value: &Expr) -> Option<GsnRange> {
    let Expr::Literal(value, _) = value else { return None };
    let value = match value {
        ScalarValue::Int64(Some(value)) => *value,
        ScalarValue::Int32(Some(value)) => i64::from(*value),
        _ => return None,
    };
    // The first gsn is 1.
    let at = |value: i64| Gsn(u64::try_from(value).unwrap_or(0));
    let (from, after) = (at(value), at(value.saturating_add(1)));
    let (first, last) = (GsnRange::ALL.start, GsnRange::ALL.end);
    Some(match op {
        Operator::Eq | Operator::IsNotDistinctFrom => GsnRange::new(from, after),
        Operator::Lt => GsnRange::new(first, from),
        Operator::LtEq => GsnRange::new(first, after),
        Operator::Gt => GsnRange::new(after, last),
        Operator::GtEq => GsnRange::new(from, last),
        _ => return None,
    })
}

/// True if `expr` is the gsn of an event, `_gsn` or `_toid`. The database has one site, so the
/// order of both columns is the order of commits.
fn is_gsn(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_gsn(&alias.expr),
        Expr::Column(column) => matches!(column.name.as_str(), "_gsn" | "_toid"),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
