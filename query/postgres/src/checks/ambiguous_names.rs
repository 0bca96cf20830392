//! Refuses ambiguous names in ORDER BY and DISTINCT ON: names that two different columns of the
//! select list share. The planner would silently use one of the columns. Also refuses expressions
//! in the ORDER BY of a set operation.

use std::ops::ControlFlow;

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, JoinConstraint, JoinOperator, OrderByKind, Query, Select, SelectItem,
    SetExpr, Statement, TableFactor, TableWithJoins,
};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    names::{fold, is_wildcard, name_of_item, wildcards},
    walk::{self, Flow, Look},
};

/// Refuses ambiguous names in a query and in its subqueries.
///
/// # Errors
/// `AmbiguousColumn`, and `FeatureNotSupported` for an expression in ORDER BY of a set operation.
pub fn check(tree: &Query) -> Result<()> {
    let mut names = AmbiguousNames(None);
    let _ = walk::look(tree, &mut names);
    names.0.map_or(Ok(()), Err)
}

/// Refuses a name in ORDER BY or DISTINCT ON that two different columns share, if a wildcard (`*`)
/// returns one of the columns.
///
/// # Errors
/// `AmbiguousColumn`.
pub async fn check_wildcards(state: &SessionState, statement: &Statement) -> Result<()> {
    let Statement::Query(query) = statement else { return Ok(()) };
    let mut starred = StarredSelects(Vec::new());
    let _ = walk::look(query, &mut starred);
    for SortedSelect { mut select, keys, is_set } in starred.0 {
        // A correlated subquery cannot be planned alone; the check skips the subquery.
        if wildcards::expand(state, &mut select, None).await.is_ok() {
            check_keys(&keys, &select.projection, is_set)?;
        }
    }
    Ok(())
}

/// A name in ORDER BY or DISTINCT ON: the clause, and the name.
type SortKey = (&'static str, Ident);

/// A SELECT with wildcards, and the names in the ORDER BY and DISTINCT ON of its query.
struct SortedSelect {
    select: Select,
    keys: Vec<SortKey>,
    is_set: bool,
}

struct StarredSelects(Vec<SortedSelect>);

impl Look for StarredSelects {
    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        // A WITH query hides a table of the same name, but only in a part of the statement. The
        // check therefore skips statements with WITH.
        if query.with.is_some() {
            self.0.clear();
            return ControlFlow::Break(());
        }
        let Some((select, is_set)) = naming_select(&query.body) else {
            return ControlFlow::Continue(());
        };
        if select.projection.iter().any(is_wildcard) && !merges_columns(select) {
            let mut keys = named_keys(query, select);
            // The columns of one table have distinct names.
            if is_of_one_table(select) {
                let is_written = |name: &str| {
                    let mut items = select.projection.iter();
                    items.any(|item| !is_wildcard(item) && name_of_item(item) == name)
                };
                keys.retain(|(_, ident)| is_written(&fold(ident)));
            }
            if !keys.is_empty() {
                self.0.push(SortedSelect { select: select.clone(), keys, is_set });
            }
        }
        ControlFlow::Continue(())
    }
}

/// True for a select that reads a single table or subquery.
fn is_of_one_table(select: &Select) -> bool {
    let [table] = select.from.as_slice() else { return false };
    table.joins.is_empty()
        && matches!(table.relation, TableFactor::Table { .. } | TableFactor::Derived { .. })
}

/// True for a join with USING, or for a NATURAL join: a merged column has one name on each side of
/// the join.
fn merges_columns(select: &Select) -> bool {
    select.from.iter().any(joins_by_name)
}

fn joins_by_name(table: &TableWithJoins) -> bool {
    let is_nested = |relation: &TableFactor| match relation {
        TableFactor::NestedJoin { table_with_joins, .. } => joins_by_name(table_with_joins),
        _ => false,
    };
    is_nested(&table.relation)
        || table.joins.iter().any(|join| {
            is_nested(&join.relation)
                || matches!(
                    constraint_of(&join.join_operator),
                    Some(JoinConstraint::Using(_) | JoinConstraint::Natural)
                )
        })
}

fn constraint_of(join: &JoinOperator) -> Option<&JoinConstraint> {
    match join {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

struct AmbiguousNames(Option<Error>);

impl Look for AmbiguousNames {
    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        let Some((select, is_set)) = naming_select(&query.body) else {
            return ControlFlow::Continue(());
        };
        let checked = check_keys(&named_keys(query, select), &select.projection, is_set);
        let checked = checked.and_then(|()| match is_set {
            true => check_expressions(query),
            false => Ok(()),
        });
        match checked {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.0 = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// The SELECT that names the result columns of a query body: for a set operation, the first SELECT.
/// The flag is true for a set operation.
fn naming_select(body: &SetExpr) -> Option<(&Select, bool)> {
    match body {
        SetExpr::Select(select) => Some((select, false)),
        SetExpr::SetOperation { left, .. } => naming_select(left).map(|(select, _)| (select, true)),
        SetExpr::Query(query) => naming_select(&query.body),
        _ => None,
    }
}

fn order_keys(query: &Query) -> impl Iterator<Item = &Expr> {
    let keys = match query.order_by.as_ref().map(|order_by| &order_by.kind) {
        Some(OrderByKind::Expressions(keys)) => keys.as_slice(),
        _ => &[],
    };
    keys.iter().map(|key| &key.expr)
}

/// The names in ORDER BY and DISTINCT ON. The names of ORDER BY come first, because PostgreSQL also
/// resolves ORDER BY first.
fn named_keys(query: &Query, select: &Select) -> Vec<SortKey> {
    let chosen = match (&select.distinct, query.body.as_ref()) {
        (Some(Distinct::On(keys)), SetExpr::Select(_)) => keys.as_slice(),
        _ => &[],
    };
    let ordered = order_keys(query).map(|key| ("ORDER BY", key));
    ordered
        .chain(chosen.iter().map(|key| ("DISTINCT ON", key)))
        .filter_map(|(clause, key)| match key {
            Expr::Identifier(ident) => Some((clause, ident.clone())),
            _ => None,
        })
        .collect()
}

fn check_keys(keys: &[SortKey], items: &[SelectItem], is_set: bool) -> Result<()> {
    let ambiguous = keys.iter().find(|(_, ident)| is_ambiguous(&fold(ident), items, is_set));
    ambiguous.map_or(Ok(()), |(clause, ident)| {
        let message = format!("{clause} \"{}\" is ambiguous", fold(ident));
        Err(Error::new(ErrorKind::AmbiguousColumn, message))
    })
}

/// Refuses expressions in ORDER BY of a set operation.
fn check_expressions(query: &Query) -> Result<()> {
    let is_expression = |key: &Expr| {
        matches!(
            key,
            Expr::BinaryOp { .. } | Expr::Function(_) | Expr::Cast { .. } | Expr::Case { .. }
        )
    };
    if !order_keys(query).any(is_expression) {
        return Ok(());
    }
    let message = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause";
    Err(Error::new(ErrorKind::FeatureNotSupported, message)
        .with_detail("Only result column names can be used, not expressions or functions.")
        .with_hint(
            "Add the expression/function to every SELECT, or move the UNION into a FROM clause.",
        ))
}

/// True if two different items of a select list have the name `name`. In a set operation
/// (`is_set`), any two items with the name count as different.
fn is_ambiguous(name: &str, items: &[SelectItem], is_set: bool) -> bool {
    let mut named = items.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            (name_of_item(item) == name).then_some(expr)
        }
        _ => None,
    });
    let Some(first) = named.next() else { return false };
    named.any(|other| is_set || !is_same(first, other))
}

/// True if two expressions are the same column or the same expression in another spelling: a column
/// name may have a schema and a table in front, and a cast has several spellings.
pub(super) fn is_same(one: &Expr, other: &Expr) -> bool {
    match (one, other) {
        (Expr::Nested(one), other) => is_same(one, other),
        (one, Expr::Nested(other)) => is_same(one, other),
        (one, other) => match (column_of(one), column_of(other)) {
            (Some(one), Some(other)) => one
                .iter()
                .rev()
                .zip(other.iter().rev())
                .all(|(one, other)| fold(one) == fold(other)),
            (Some(_), None) | (None, Some(_)) => has_cast(one) || has_cast(other),
            (None, None) => {
                has_cast(one) || has_cast(other) || unqualified(one) == unqualified(other)
            }
        },
    }
}

fn has_cast(expr: &Expr) -> bool {
    let is_cast = |expr: &Expr| match expr {
        Expr::Cast { .. } | Expr::TypedString(_) | Expr::Interval(_) | Expr::Subquery(_) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    walk::expressions(expr, is_cast).is_break()
}

/// The expression without parentheses, and with column names without their table.
fn unqualified(expr: &Expr) -> Expr {
    let mut plain = expr.clone();
    let _ = walk::expressions_mut(&mut plain, |expr| {
        match expr {
            Expr::Nested(inner) => {
                let inner = std::mem::replace(inner.as_mut(), Expr::Tuple(Vec::new()));
                *expr = inner;
            }
            other => {
                if let Some(name) = column_of(other).and_then(<[Ident]>::last) {
                    *other = Expr::Identifier(Ident::with_quote('"', fold(name)));
                }
            }
        }
        ControlFlow::Continue(())
    });
    plain
}

/// The parts of a column name, for example `["t", "v"]` for `t.v`; `None` for other expressions.
pub fn column_of(expr: &Expr) -> Option<&[Ident]> {
    match expr {
        Expr::Identifier(name) => Some(std::slice::from_ref(name)),
        Expr::CompoundIdentifier(parts) => Some(parts),
        _ => None,
    }
}
