//! Queries whose result has no columns. For such queries, the planner supports neither INTERSECT
//! and EXCEPT nor a wildcard `a.*`. The rewrite turns the left form into the right form:
//!
//! ```text
//!   SELECT EXCEPT SELECT          SELECT FROM (SELECT 1 AS row EXCEPT SELECT 1 AS row) AS row
//!   SELECT a.* FROM (SELECT) a    SELECT FROM (SELECT) a
//! ```

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, SetOperator, Statement, TableFactor, TableWithJoins, Value,
};

use crate::{names::fold, parse};

/// The name of the added column, and of the table around the set operation. No statement can write
/// this name.
const ROW: &str = "\u{1}row";

/// Adds a constant column to the branches of an INTERSECT or EXCEPT without columns. `named` lists
/// the WITH queries without columns.
pub fn of_sets(query: &mut Query, named: &[String]) {
    if !intersects(&query.body) || !is_body_empty(&query.body, named) {
        return;
    }
    let Some(mut outer) = select_of_rows() else { return };
    let Some(TableFactor::Derived { subquery, .. }) =
        outer.from.first_mut().map(|table| &mut table.relation)
    else {
        return;
    };
    let SetExpr::Select(inner) = subquery.body.as_mut() else { return };
    let placeholder = SetExpr::Select(inner.clone());
    let mut branches = std::mem::replace(query.body.as_mut(), placeholder);
    give_column(&mut branches);
    *subquery.body = branches;
    *query.body = SetExpr::Select(Box::new(outer));
}

/// Removes `a.*` from a select list if the table `a` has no columns. `named` lists the WITH queries
/// without columns.
pub fn without_wildcards(select: &mut Select, named: &[String]) {
    let Select { projection, from, .. } = select;
    projection.retain(|item| !is_item_empty(item, from, named) || is_unqualified(item));
}

/// Adds to `named` the names of the query's WITH queries that return no columns.
pub fn name_queries(query: &Query, named: &mut Vec<String>) {
    for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
        if is_empty(&cte.query, named) {
            named.push(fold(&cte.alias.name));
        }
    }
}

/// The query `SELECT FROM (SELECT 1) AS row`.
fn select_of_rows() -> Option<Select> {
    let sql = format!("SELECT FROM (SELECT 1) AS \"{ROW}\"");
    let parsed = parse::statements(&sql, usize::MAX).ok()?.pop()?;
    let Statement::Query(query) = parsed.statement else { return None };
    match *query.body {
        SetExpr::Select(select) => Some(*select),
        _ => None,
    }
}

fn intersects(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation { op, left, right, .. } => {
            *op != SetOperator::Union || intersects(left) || intersects(right)
        }
        SetExpr::Query(query) => intersects(&query.body),
        _ => false,
    }
}

fn give_column(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            select.projection = vec![SelectItem::ExprWithAlias {
                expr: Expr::value(Value::Number("1".to_string(), false)),
                alias: Ident::with_quote('"', ROW),
            }];
        }
        SetExpr::Query(query) => give_column(&mut query.body),
        SetExpr::SetOperation { left, right, .. } => {
            give_column(left);
            give_column(right);
        }
        _ => {}
    }
}

fn is_empty(query: &Query, named: &[String]) -> bool {
    is_body_empty(&query.body, named)
}

fn is_body_empty(body: &SetExpr, named: &[String]) -> bool {
    match body {
        SetExpr::Select(select) => {
            select.projection.iter().all(|item| is_item_empty(item, &select.from, named))
        }
        SetExpr::Query(query) => is_empty(query, named),
        SetExpr::SetOperation { left, right, .. } => {
            is_body_empty(left, named) && is_body_empty(right, named)
        }
        _ => false,
    }
}

fn is_unqualified(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_))
}

/// True for a wildcard that stands for no columns.
fn is_item_empty(item: &SelectItem, from: &[TableWithJoins], named: &[String]) -> bool {
    let mut factors = from.iter().flat_map(|table| {
        std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
    });
    match item {
        SelectItem::Wildcard(_) => {
            !from.is_empty() && factors.all(|factor| is_factor_empty(factor, named))
        }
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return false };
            let name = fold(name);
            factors.any(|factor| {
                alias_of(factor).is_some_and(|alias| alias == name)
                    && is_factor_empty(factor, named)
            })
        }
        _ => false,
    }
}

fn alias_of(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Derived { alias, .. } => alias.as_ref().map(|alias| fold(&alias.name)),
        TableFactor::Table { name, alias, .. } => match alias {
            Some(alias) => Some(fold(&alias.name)),
            None => name.0.last()?.as_ident().map(fold),
        },
        _ => None,
    }
}

fn is_factor_empty(factor: &TableFactor, named: &[String]) -> bool {
    match factor {
        TableFactor::Derived { subquery, .. } => is_empty(subquery, named),
        TableFactor::Table { name, args: None, .. } => match name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => named.contains(&fold(name)),
            _ => false,
        },
        _ => false,
    }
}
