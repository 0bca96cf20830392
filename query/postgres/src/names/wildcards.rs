//! Expands wildcards next to other columns, as in `SELECT t.*, t.*` and `SELECT *, v` in a
//! subquery. The planner refuses repeated columns; the expanded columns get distinct names.

use std::ops::ControlFlow;

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, Statement, With,
};
use stratalog_model::Result;

use super::is_wildcard;
use crate::{
    parse::query_of,
    planning,
    walk::{self, Change},
};

/// Expands each wildcard that is not the only item of its select list.
///
/// # Errors
/// An error in the tables of a wildcard.
pub async fn write_out(state: &SessionState, statement: &mut Statement) -> Result<()> {
    let Statement::Query(query) = statement else { return Ok(()) };
    let with = query.with.clone();
    let mut found = Selects { copies: Vec::new(), put: None };
    let _ = walk::change(query, &mut found);
    let mut selects = Vec::new();
    for mut select in found.copies {
        expand(state, &mut select, with.as_ref()).await?;
        selects.push(select);
    }
    selects.reverse();
    let _ = walk::change(query, &mut Selects { copies: Vec::new(), put: Some(selects) });
    Ok(())
}

/// Copies the selects with wildcards to `copies`, or replaces the select lists by the expanded
/// lists of `put`, in the same order.
struct Selects {
    copies: Vec<Select>,
    put: Option<Vec<Select>>,
}

impl Change for Selects {
    // Runs after the inner selects, whose wildcards are then already expanded.
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.projection.len() < 2 || !select.projection.iter().any(is_wildcard) {
            return ControlFlow::Continue(());
        }
        match &mut self.put {
            None => self.copies.push(select.clone()),
            Some(put) => {
                if let Some(expanded) = put.pop() {
                    select.projection = expanded.projection;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Replaces the wildcards of a select list with their columns.
///
/// # Errors
/// An error in the tables of a wildcard.
pub async fn expand(state: &SessionState, select: &mut Select, with: Option<&With>) -> Result<()> {
    let mut columns: Vec<SelectItem> = Vec::new();
    for item in &select.projection {
        let at = columns.len();
        match item {
            item if is_wildcard(item) => {
                for column in columns_of(state, select, item, with).await? {
                    let name = column.last().map(|ident| ident.value.clone()).unwrap_or_default();
                    let expr = match column.as_slice() {
                        [name] => Expr::Identifier(name.clone()),
                        _ => Expr::CompoundIdentifier(column),
                    };
                    columns.push(SelectItem::ExprWithAlias {
                        expr,
                        alias: Ident::with_quote('"', format!("{name}\u{1}{}", columns.len())),
                    });
                }
            }
            SelectItem::UnnamedExpr(expr) => {
                let name = super::name_of_item(item);
                columns.push(SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: Ident::with_quote('"', format!("{name}\u{1}{at}")),
                });
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let name = super::fold(alias);
                let name = name.split('\u{1}').next().unwrap_or_default();
                columns.push(SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: Ident::with_quote('"', format!("{name}\u{1}{at}")),
                });
            }
            other => columns.push(other.clone()),
        }
    }
    reveal(&mut columns);
    select.projection = columns;
    Ok(())
}

/// Removes the suffix from names that have no duplicate.
fn reveal(columns: &mut [SelectItem]) {
    let shown = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => {
            alias.value.split('\u{1}').next().unwrap_or_default().to_string()
        }
        _ => String::new(),
    };
    let names: Vec<String> = columns.iter().map(shown).collect();
    for (item, name) in columns.iter_mut().zip(&names) {
        let alone = names.iter().filter(|other| *other == name).count() == 1;
        if let SelectItem::ExprWithAlias { alias, .. } = item
            && alone
        {
            alias.value.clone_from(name);
        }
    }
}

/// The names of the columns that a wildcard stands for, each with the planner's qualifier.
async fn columns_of(
    state: &SessionState,
    select: &Select,
    item: &SelectItem,
    with: Option<&With>,
) -> Result<Vec<Vec<Ident>>> {
    let mut probe = select.clone();
    probe.projection = vec![item.clone()];
    probe.distinct = None;
    probe.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    (probe.selection, probe.having, probe.qualify) = (None, None, None);
    let body = SetExpr::Select(Box::new(probe));
    let query = Query { with: with.cloned(), ..query_of(body) };
    let plan = planning::logical(state, &Statement::Query(Box::new(query))).await?;
    Ok(plan
        .schema()
        .iter()
        .map(|(table, field)| {
            let parts = table.map(|table| table.to_vec()).unwrap_or_default();
            let ident = |part: &str| Ident::with_quote('"', part);
            parts.iter().map(|part| ident(part)).chain([ident(field.name())]).collect()
        })
        .collect())
}
