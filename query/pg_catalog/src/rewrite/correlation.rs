//! Analyses and rewrites the conditions in which a correlated subquery refers to the row of the
//! outer query.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor,
};
use stratalog_functions::walk::{self, Change, Look};

use super::{build, expression::replace};

/// The names or aliases of the tables in the FROM clause of a SELECT.
pub(super) fn own_tables(select: &Select) -> Vec<String> {
    let factors = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    factors
        .filter_map(|factor| match factor {
            TableFactor::Table { name, alias, .. } => match alias {
                Some(alias) => Some(alias.name.value.clone()),
                None => name.0.last()?.as_ident().map(|name| name.value.clone()),
            },
            TableFactor::Derived { alias, .. } | TableFactor::Function { alias, .. } => {
                alias.as_ref().map(|alias| alias.name.value.clone())
            }
            _ => None,
        })
        .collect()
}

/// The parts of a column `table.column` that belongs to the outer query, because its table is not
/// in `own`. `None` for any other expression.
fn outer_column<'a>(expr: &'a Expr, own: &[String]) -> Option<&'a [Ident]> {
    match expr {
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [table, _] if !own.contains(&table.value) => Some(parts),
            _ => None,
        },
        _ => None,
    }
}

fn is_own_column(expr: &Expr, own: &[String]) -> bool {
    matches!(expr, Expr::CompoundIdentifier(parts)
        if parts.first().is_some_and(|table| own.contains(&table.value)))
}

fn conjuncts(expr: Expr, into: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(*left, into);
            conjuncts(*right, into);
        }
        other => into.push(other),
    }
}

fn conjunction(parts: Vec<Expr>) -> Option<Expr> {
    parts.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    })
}

/// The two sides of a condition `own = outer` (or `outer = own`): the column of the subquery, and
/// the column of the outer row. `None` for any other condition.
fn equality<'a>(expr: &'a Expr, own: &[String]) -> Option<(&'a Expr, &'a Expr)> {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = expr else { return None };
    if is_own_column(left, own) && outer_column(right, own).is_some() {
        Some((left, right))
    } else if is_own_column(right, own) && outer_column(left, own).is_some() {
        Some((right, left))
    } else {
        None
    }
}

/// If the WHERE clause contains an equality `c.oid = a.x`, where `a` is a table of the outer query,
/// replaces `a.x` by `c.oid` in all other conditions. Then only equalities refer to the outer row,
/// and a join can evaluate these equalities.
pub(super) fn substitute(select: &mut Select) {
    let own = own_tables(select);
    let Some(selection) = select.selection.take() else { return };
    let mut parts = Vec::new();
    conjuncts(selection, &mut parts);
    let known: Vec<(Expr, Expr)> = parts
        .iter()
        .filter_map(|part| equality(part, &own))
        .map(|(own, outer)| (own.clone(), outer.clone()))
        .collect();
    for part in parts.iter_mut().filter(|part| equality(part, &own).is_none()) {
        let mut substitution = Substitution { known: &known };
        let _ = walk::change(part, &mut substitution);
    }
    select.selection = conjunction(parts);
}

struct Substitution<'a> {
    known: &'a [(Expr, Expr)],
}

impl Change for Substitution<'_> {
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some((own, _)) = self.known.iter().find(|(_, outer)| outer == expr) {
            replace(expr, |_| own.clone());
        }
        ControlFlow::Continue(())
    }
}

/// Removes the conditions that use only outer columns from the WHERE clause, and returns them,
/// joined by AND.
pub(super) fn take_outer(select: &mut Select) -> Option<Expr> {
    let own = own_tables(select);
    let mut parts = Vec::new();
    conjuncts(select.selection.take()?, &mut parts);
    let (outer, inner): (Vec<Expr>, Vec<Expr>) =
        parts.into_iter().partition(|part| is_outer_alone(part, &own));
    select.selection = conjunction(inner);
    conjunction(outer)
}

fn is_outer_alone(expr: &Expr, own: &[String]) -> bool {
    struct OuterColumnSearch<'a> {
        own: &'a [String],
        outer: bool,
    }
    impl Look for OuterColumnSearch<'_> {
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::CompoundIdentifier(_) if outer_column(expr, self.own).is_some() => {
                    self.outer = true;
                    ControlFlow::Continue(())
                }
                // An unqualified column may belong to any table.
                Expr::Identifier(_)
                | Expr::CompoundIdentifier(_)
                | Expr::Subquery(_)
                | Expr::Exists { .. }
                | Expr::InSubquery { .. } => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let mut columns = OuterColumnSearch { own, outer: false };
    walk::look(expr, &mut columns).is_continue() && columns.outer
}

/// True if every condition that refers to the outer row is an equality with a column of the SELECT.
pub(super) fn is_by_equality(select: &Select) -> bool {
    let own = own_tables(select);
    let mut parts = Vec::new();
    if let Some(selection) = select.selection.clone() {
        conjuncts(selection, &mut parts);
    }
    // An unqualified column belongs to the subquery if one of its tables has a column with this
    // name.
    let with_bare = |part: &Expr| match part {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            [(left, right), (right, left)].into_iter().any(|(bare, outer)| {
                matches!(bare.as_ref(), Expr::Identifier(_)) && outer_column(outer, &own).is_some()
            })
        }
        _ => false,
    };
    parts
        .iter()
        .all(|part| equality(part, &own).is_some() || with_bare(part) || !names_outer(part, &own))
}

fn names_outer(expr: &Expr, own: &[String]) -> bool {
    struct OuterReferenceSearch<'a>(&'a [String]);
    impl Look for OuterReferenceSearch<'_> {
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match outer_column(expr, self.0) {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        }
    }
    walk::look(expr, &mut OuterReferenceSearch(own)).is_break()
}

/// Rewrites `(SELECT f(own, outer) FROM … WHERE …)` to one subquery per column of the subquery,
/// with a test whether a row exists: `CASE WHEN (SELECT count(1) …) > 0 THEN f((SELECT own …),
/// outer) END`. `None` if the query has another form.
pub(super) fn split_selected_columns(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    let own = own_tables(select);
    let is_computed = !matches!(item, Expr::CompoundIdentifier(_));
    let outer_conditions =
        select.selection.as_ref().is_some_and(|selection| names_outer(selection, &own));
    if !is_computed || !names_outer(item, &own) || outer_conditions {
        return None;
    }
    let mut columns = Vec::new();
    own_columns(item, &own, &mut columns);
    let mut value = item.clone();
    for column in columns {
        let subquery = with_output(query, column.clone());
        let mut put = ColumnReplacement { column: &column, subquery: &subquery };
        let _ = walk::change(&mut value, &mut put);
    }
    let found = Expr::BinaryOp {
        left: Box::new(with_output(query, build::call("count", vec![build::one()]))),
        op: BinaryOperator::GtEq,
        right: Box::new(build::one()),
    };
    Some(build::when(found, value))
}

/// Copies the query with `value` as its only result column.
fn with_output(query: &Query, value: Expr) -> Expr {
    let mut subquery = query.clone();
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        select.projection = vec![SelectItem::UnnamedExpr(value)];
    }
    Expr::Subquery(Box::new(subquery))
}

/// Collects in `into` the columns of the SELECT's own tables that an expression uses, each only
/// once.
fn own_columns(expr: &Expr, own: &[String], into: &mut Vec<Expr>) {
    struct OwnColumnCollector<'a> {
        own: &'a [String],
        into: &'a mut Vec<Expr>,
    }
    impl Look for OwnColumnCollector<'_> {
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if is_own_column(expr, self.own) && !self.into.contains(expr) {
                self.into.push(expr.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let _ = walk::look(expr, &mut OwnColumnCollector { own, into });
}

/// Replaces every occurrence of a column in an expression by a subquery.
struct ColumnReplacement<'a> {
    column: &'a Expr,
    subquery: &'a Expr,
}

impl Change for ColumnReplacement<'_> {
    // The replacement happens after the visit of the children, because the subquery contains the
    // column again.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if expr == self.column {
            *expr = self.subquery.clone();
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests;
