//! Rewrites subqueries to simpler subqueries that DataFusion can turn into joins.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, TableFactor,
};
use stratalog_functions::walk::{self, Change};

use super::{
    correlation::own_tables,
    empty_tables,
    expression::{called, replace},
};
use crate::spec::system_table;

/// Rewrites a subquery `(SELECT x)` to `x` if `x` is a CASE or a call that returns one value.
/// `None` for any other query.
pub(super) fn alone(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    let bare = select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none();
    let is_one_value = match item {
        Expr::Function(_) => called(item).is_none_or(|name| {
            matches!(name.as_str(), "array_to_string" | "current_setting" | "coalesce")
        }),
        Expr::Case { .. } => true,
        _ => false,
    };
    (bare && is_one_value).then(|| Expr::Nested(Box::new(item.clone())))
}

/// Rewrites a query with one CTE, `WITH c AS (…) SELECT … FROM c`, to `SELECT … FROM (…) AS c`. A
/// recursive CTE is rewritten only if its recursive branch reads an always empty table.
pub(super) fn without_cte(query: &mut Query) {
    let Some(with) = &mut query.with else { return };
    let [cte] = with.cte_tables.as_mut_slice() else { return };
    if with.recursive {
        empty_tables::without_branches(cte.query.body.as_mut());
        if matches!(cte.query.body.as_ref(), SetExpr::SetOperation { .. }) {
            return;
        }
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let [from] = select.from.as_mut_slice() else { return };
    let TableFactor::Table { name, alias, args: None, .. } = &mut from.relation else { return };
    let is_cte = match name.0.as_slice() {
        [only] => only.as_ident().is_some_and(|name| name.value == cte.alias.name.value),
        _ => false,
    };
    if !is_cte || !from.joins.is_empty() {
        return;
    }
    let mut alias = alias.take().unwrap_or_else(|| cte.alias.clone());
    if alias.columns.is_empty() {
        alias.columns.clone_from(&cte.alias.columns);
    }
    from.relation = TableFactor::Derived {
        lateral: false,
        subquery: cte.query.clone(),
        alias: Some(alias),
        sample: None,
    };
    query.with = None;
    merge(select);
}

/// Rewrites `SELECT d.x FROM (SELECT t.x FROM … WHERE p) AS d` to `SELECT t.x FROM … WHERE p`.
fn merge(select: &mut Select) {
    let [from] = select.from.as_slice() else { return };
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = &from.relation else { return };
    let SetExpr::Select(inner) = subquery.body.as_ref() else { return };
    let plain = subquery.with.is_none()
        && subquery.order_by.is_none()
        && subquery.limit_clause.is_none()
        && inner.distinct.is_none()
        && inner.having.is_none()
        && matches!(&inner.group_by, GroupByExpr::Expressions(by, _) if by.is_empty())
        && alias.columns.is_empty()
        && select.selection.is_none();
    let columns: Option<Vec<(String, Expr)>> = inner.projection.iter().map(named_item).collect();
    let (true, Some(columns)) = (plain, columns) else { return };
    let mut merged = MergedColumns { table: alias.name.value.clone(), columns };
    let (from, selection) = (inner.from.clone(), inner.selection.clone());
    for item in &mut select.projection {
        let _ = walk::change(item, &mut merged);
    }
    select.from = from;
    select.selection = selection;
}

/// The name and the expression of an item in a select list; `None` if the item is not a column.
fn named_item(item: &SelectItem) -> Option<(String, Expr)> {
    let (expr, alias) = match item {
        SelectItem::UnnamedExpr(expr) => (expr, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
        _ => return None,
    };
    let column = match expr {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(parts) => parts.last()?,
        _ => return None,
    };
    Some((alias.unwrap_or(column).value.clone(), expr.clone()))
}

struct MergedColumns {
    table: String,
    columns: Vec<(String, Expr)>,
}

impl Change for MergedColumns {
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let name = match &*expr {
            Expr::Identifier(name) => &name.value,
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, name] if table.value == self.table => &name.value,
                _ => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        if let Some((_, column)) = self.columns.iter().find(|(known, _)| known == name) {
            *expr = column.clone();
        }
        ControlFlow::Continue(())
    }
}

/// Qualifies the columns of a SELECT with the name of their table, if all tables of the SELECT are
/// system tables.
pub(super) fn qualify(select: &mut Select) {
    let factors = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    let mut tables: Vec<(Ident, &'static str, &'static str)> = Vec::new();
    for factor in factors {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return };
        let Some((schema, table)) = empty_tables::system_name(name) else { return };
        let called = match alias {
            Some(alias) => alias.name.clone(),
            None => Ident::new(table),
        };
        tables.push((called, schema, table));
    }
    debug_assert_eq!(tables.len(), own_tables(select).len(), "each table has a name");
    let _ = walk::change(select, &mut Qualifier { tables, depth: 0 });
}

struct Qualifier {
    tables: Vec<(Ident, &'static str, &'static str)>,
    depth: usize,
}

impl Change for Qualifier {
    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let mut having = self.tables.iter().filter(|(_, schema, table)| {
            system_table(schema, table)
                .is_some_and(|table| table.columns.iter().any(|column| column.name == name.value))
        });
        if let (Some((table, _, _)), None) = (having.next(), having.next()) {
            let parts = vec![table.clone(), name.clone()];
            replace(expr, |_| Expr::CompoundIdentifier(parts));
        }
        ControlFlow::Continue(())
    }
}
