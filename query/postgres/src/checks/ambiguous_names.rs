//! Names of two different columns of a select list in ORDER BY and DISTINCT ON. The planner takes
//! one of the columns.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderByKind, Query, SelectItem, SetExpr,
};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    names::{fold, name_of_item},
    walk::{self, Flow, Look},
};

/// Refuses ambiguous names in a query and in its subqueries.
///
/// # Errors
/// `AmbiguousColumn`.
pub fn check(tree: &Query) -> Result<()> {
    let mut names = AmbiguousNames(None);
    let _ = walk::look(tree, &mut names);
    names.0.map_or(Ok(()), Err)
}

struct AmbiguousNames(Option<Error>);

impl Look for AmbiguousNames {
    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        let SetExpr::Select(select) = query.body.as_ref() else {
            return ControlFlow::Continue(());
        };
        let ordered = match query.order_by.as_ref().map(|order_by| &order_by.kind) {
            Some(OrderByKind::Expressions(keys)) => keys.as_slice(),
            _ => &[],
        };
        let ordered = ordered.iter().map(|key| ("ORDER BY", &key.expr));
        let chosen = match &select.distinct {
            Some(Distinct::On(keys)) => keys.as_slice(),
            _ => &[],
        };
        // PostgreSQL reads ORDER BY first.
        let keys = ordered.chain(chosen.iter().map(|key| ("DISTINCT ON", key)));
        for (clause, key) in keys {
            if let Expr::Identifier(ident) = key
                && is_ambiguous(&fold(ident), &select.projection)
            {
                let message = format!("{clause} \"{}\" is ambiguous", fold(ident));
                self.0 = Some(Error::new(ErrorKind::AmbiguousColumn, message));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// True if two different items of a select list have a name.
fn is_ambiguous(name: &str, items: &[SelectItem]) -> bool {
    let mut named = items.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            (name_of_item(item) == name).then_some(expr)
        }
        _ => None,
    });
    let Some(first) = named.next() else { return false };
    named.any(|other| !is_same(first, other))
}

/// True if two expressions may have the same value: all but columns with other names and constants
/// with other values. A column has the same name with and without a schema or a table.
fn is_same(one: &Expr, other: &Expr) -> bool {
    match (one, other) {
        (Expr::Nested(one), other) => is_same(one, other),
        (one, Expr::Nested(other)) => is_same(one, other),
        (Expr::Value(one), Expr::Value(other)) => one.value == other.value,
        (Expr::Value(_), _) | (_, Expr::Value(_)) => {
            column_of(one).is_none() && column_of(other).is_none()
        }
        (one, other) => match (column_of(one), column_of(other)) {
            (Some(one), Some(other)) => one
                .iter()
                .rev()
                .zip(other.iter().rev())
                .all(|(one, other)| fold(one) == fold(other)),
            _ => true,
        },
    }
}

/// The parts of the name of a column.
fn column_of(expr: &Expr) -> Option<&[Ident]> {
    match expr {
        Expr::Identifier(name) => Some(std::slice::from_ref(name)),
        Expr::CompoundIdentifier(parts) => Some(parts),
        _ => None,
    }
}
