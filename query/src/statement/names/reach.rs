//! Names of computed columns where others refer to them: `ORDER BY rank`, and `max` from
//! outside of `(SELECT max(v) FROM t)`. The planner knows only columns and aliases.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value, VisitMut,
    VisitorMut, visit_expressions,
};

use super::{alias, fold, is_column, is_wildcard, name_of_item};

/// Makes the names of computed columns known to the planner, wherever a query uses them.
pub fn make_reachable(query: &mut Query) {
    let _ = query.visit(&mut Reach);
}

struct Reach;

impl VisitorMut for Reach {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        order_by_output(query);
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            name_computed(&mut cte.query);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, .. } = factor {
            name_computed(subquery);
        }
        ControlFlow::Continue(())
    }
}

/// The select list that names the columns of a body; and whether it is all of the body.
fn naming_select(body: &SetExpr) -> Option<(&Select, bool)> {
    match body {
        SetExpr::Select(select) => Some((select, true)),
        SetExpr::SetOperation { left, .. } => {
            naming_select(left).map(|(select, _)| (select, false))
        }
        _ => None,
    }
}

/// `ORDER BY name`, where the name is that of a computed column, becomes its position; or
/// its expression, where a `*` hides the position or DISTINCT ON takes none.
fn order_by_output(query: &mut Query) {
    let Some((select, whole)) = naming_select(&query.body) else { return };
    let Some(order_by) = &mut query.order_by else { return };
    let OrderByKind::Expressions(orders) = &mut order_by.kind else { return };
    let first_of_each = matches!(select.distinct, Some(Distinct::On(_)));
    for order in orders {
        let Expr::Identifier(ident) = &order.expr else { continue };
        let name = fold(ident);
        let mut named = select
            .projection
            .iter()
            .enumerate()
            .filter(|(_, item)| !is_wildcard(item) && name_of_item(item) == name);
        let Some((at, item)) = named.next() else { continue };
        // Two different columns of that name: ambiguous, and so refused.
        if is_column(item) || named.any(|(_, other)| other != item) {
            continue;
        }
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        if !first_of_each && !select.projection.iter().take(at).any(is_wildcard) {
            order.expr = Expr::value(Value::Number((at + 1).to_string(), false));
        } else if whole {
            order.expr = expr.clone();
        }
    }
}

/// Gives the computed columns of a subquery their names as aliases.
fn name_computed(query: &mut Query) {
    order_by_output(query);
    let ordered = query.order_by.is_some();
    name_body(&mut query.body, ordered);
}

fn name_body(body: &mut SetExpr, ordered: bool) {
    match body {
        SetExpr::Select(select) => name_select(select, ordered),
        SetExpr::Query(query) => name_computed(query),
        SetExpr::SetOperation { left, .. } => name_body(left, ordered),
        _ => {}
    }
}

fn name_select(select: &mut Select, ordered: bool) {
    // ORDER BY of a DISTINCT must repeat the select list, which aliases would hide.
    if ordered && matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    let taken = filtered_names(select);
    let names: Vec<Option<String>> = select
        .projection
        .iter()
        .map(|item| (!is_wildcard(item)).then(|| name_of_item(item)))
        .collect();
    for (at, (item, name)) in select.projection.iter_mut().zip(&names).enumerate() {
        let (SelectItem::UnnamedExpr(_), false, Some(name)) = (&*item, is_column(item), name)
        else {
            continue;
        };
        let alone = names.iter().flatten().filter(|other| *other == name).count() == 1;
        if alone && !taken.contains(name) {
            alias(item, name);
        } else {
            // Out of reach, but told apart.
            alias(item, &format!("{name}\u{1}{at}"));
        }
    }
}

/// Names that HAVING and QUALIFY use: there the planner takes an alias where PostgreSQL
/// takes the column.
fn filtered_names(select: &Select) -> Vec<String> {
    let mut names = Vec::new();
    for filter in select.having.iter().chain(&select.qualify) {
        let _: ControlFlow<()> = visit_expressions(filter, |expr| {
            if let Expr::Identifier(ident) = expr {
                names.push(fold(ident));
            }
            ControlFlow::Continue(())
        });
    }
    names
}
