//! The columns that the planner finds for the tables of a FROM clause.

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SetExpr, Statement, TableFactor, TableWithJoins, With,
};
use stratalog_model::Result;

use crate::{names::fold, parse, planning};

/// A column that an unqualified name can denote.
#[derive(Debug, Clone)]
pub struct Column {
    /// The name of the column.
    pub name: String,
    /// The expression that replaces the name.
    pub expr: Expr,
    /// True if the column merges one column from each side of a join.
    pub merged: bool,
}

/// The columns of a table or of a join, in order.
pub type Columns = Vec<Column>;

/// The query `SELECT *`.
pub fn select_all() -> Option<Query> {
    match parse::statements("SELECT *", usize::MAX).ok()?.pop()?.statement {
        Statement::Query(query) => Some(*query),
        _ => None,
    }
}

/// The tables of a select, in the order of FROM. Gives an alias to each unnamed subquery.
pub fn factors(select: &mut Select) -> Vec<TableFactor> {
    let mut found = Vec::new();
    for item in &mut select.from {
        of_item(item, &mut found);
    }
    found
}

fn of_item(item: &mut TableWithJoins, found: &mut Vec<TableFactor>) {
    let joined = item.joins.iter_mut().map(|join| &mut join.relation);
    for factor in std::iter::once(&mut item.relation).chain(joined) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                of_item(table_with_joins, found);
            }
            TableFactor::Derived { alias: alias @ None, .. } => {
                *alias = Some(super::unnamed(found.len()));
                found.push(factor.clone());
            }
            _ => found.push(factor.clone()),
        }
    }
}

/// Plans each table alone to find its columns; `None` for an item of FROM whose columns depend on
/// other tables.
///
/// # Errors
/// An error in a table of FROM, for example `UndefinedTable`.
pub async fn of_factors(
    state: &SessionState,
    with: Option<With>,
    factors: Vec<TableFactor>,
) -> Result<Vec<Option<Columns>>> {
    let mut found = Vec::new();
    for factor in factors {
        let is_table = is_table(&factor, with.as_ref());
        let columns = of_factor(state, with.clone(), factor).await;
        found.push(if is_table { Some(columns?) } else { columns.ok() });
    }
    Ok(found)
}

/// True if an item of FROM is a table or a view: its columns depend on no other item of FROM.
fn is_table(factor: &TableFactor, with: Option<&With>) -> bool {
    let TableFactor::Table { name, args: None, .. } = factor else { return false };
    let only = match name.0.as_slice() {
        [only] => only.as_ident().map(fold),
        _ => None,
    };
    let mut ctes = with.into_iter().flat_map(|with| &with.cte_tables);
    !ctes.any(|cte| Some(fold(&cte.alias.name)) == only)
}

async fn of_factor(
    state: &SessionState,
    with: Option<With>,
    relation: TableFactor,
) -> Result<Columns> {
    let Some(mut query) = select_all() else { return Ok(Vec::new()) };
    query.with = with;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    }
    let plan = planning::logical_as_written(state, &Statement::Query(Box::new(query))).await?;
    let ident = |part: &str| Ident::with_quote('"', part);
    Ok(plan
        .schema()
        .iter()
        .map(|(table, field)| {
            let mut parts: Vec<Ident> = Vec::new();
            if let Some(table) = table {
                parts.extend(table.to_vec().iter().map(|part| ident(part)));
            }
            let expr = match parts.is_empty() {
                true => Expr::Identifier(ident(field.name())),
                false => {
                    parts.push(ident(field.name()));
                    Expr::CompoundIdentifier(parts)
                }
            };
            Column { name: field.name().clone(), expr, merged: false }
        })
        .collect())
}
