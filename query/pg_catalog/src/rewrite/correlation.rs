//! What a subquery says of the row outside of it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Select, TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};

use super::replace;

/// The names by which a SELECT calls its own tables.
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

/// `table.column`, where it belongs to none of `own`.
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

/// `(own, outer)` of a conjunct `own = outer`.
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

/// Where the WHERE says `c.oid = a.x`, the other conditions say `c.oid` for `a.x`: then
/// only equalities reach out, and those a join can take over.
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
        let _ = part.visit(&mut substitution);
    }
    select.selection = conjunction(parts);
}

struct Substitution<'a> {
    known: &'a [(Expr, Expr)],
}

impl VisitorMut for Substitution<'_> {
    type Break = ();
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some((own, _)) = self.known.iter().find(|(_, outer)| outer == expr) {
            replace(expr, |_| own.clone());
        }
        ControlFlow::Continue(())
    }
}

/// Takes away the conditions that speak of outer columns alone.
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
    struct Columns<'a> {
        own: &'a [String],
        outer: bool,
    }
    impl Visitor for Columns<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::CompoundIdentifier(_) if outer_column(expr, self.own).is_some() => {
                    self.outer = true;
                    ControlFlow::Continue(())
                }
                // Bare names may be anyone's.
                Expr::Identifier(_)
                | Expr::CompoundIdentifier(_)
                | Expr::Subquery(_)
                | Expr::Exists { .. }
                | Expr::InSubquery { .. } => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let mut columns = Columns { own, outer: false };
    expr.visit(&mut columns).is_continue() && columns.outer
}

#[cfg(test)]
mod tests;
