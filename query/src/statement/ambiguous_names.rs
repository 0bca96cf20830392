//! Names of two different columns of a select list in ORDER BY and DISTINCT ON. The planner takes
//! one of the columns.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Distinct, Expr, OrderByKind, Query, SelectItem, SetExpr};
use stratalog_model::{Error, ErrorKind, Result};

use super::{
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

/// True if two expressions may have the same value. A qualified and an unqualified name of a column
/// may mean the same column.
fn is_same(one: &Expr, other: &Expr) -> bool {
    match (one, other) {
        (Expr::Nested(one), other) => is_same(one, other),
        (one, Expr::Nested(other)) => is_same(one, other),
        (Expr::Identifier(name), Expr::CompoundIdentifier(parts))
        | (Expr::CompoundIdentifier(parts), Expr::Identifier(name)) => {
            parts.last().is_some_and(|last| fold(last) == fold(name))
        }
        (Expr::Identifier(one), Expr::Identifier(other)) => fold(one) == fold(other),
        (one, other) => one.to_string().eq_ignore_ascii_case(&other.to_string()),
    }
}
