//! Makes computed columns accessible by PostgreSQL's names, as in `ORDER BY rank`, and in `max`
//! outside of `(SELECT max(v) FROM t)`. The planner knows only the names of columns and aliases.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor,
    Value, ValueWithSpan,
};

use super::{alias, fold, is_column, is_wildcard, name_of_item};
use crate::walk::{self, Change};

/// Gives aliases to computed columns wherever a query refers to PostgreSQL's names of these
/// columns.
pub fn make_reachable(query: &mut Query) {
    let _ = walk::change(query, &mut ComputedNames);
}

/// Hides the alias of a result column that shadows a table column in ORDER BY. Inside an expression
/// of ORDER BY, a name means a column of the tables, even if a result column has the same name; a
/// qualified name (`t.v`) always does. The planner would use the result column, or refuse the name
/// as ambiguous. The alias stays if another clause needs it.
pub fn hide_shadowing(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(order_by) = &mut query.order_by else { return };
    let OrderByKind::Expressions(orders) = &mut order_by.kind else { return };
    let keys = orders.iter().map(|order| &order.expr);
    let within: Vec<String> = keys
        .flat_map(|key| match key {
            Expr::Identifier(_) | Expr::Value(_) => Vec::new(),
            key => [mentioned(key), qualified(key)].concat(),
        })
        .collect();
    if within.is_empty() || select.distinct.is_some() || select.projection.iter().any(is_wildcard) {
        return;
    }
    let mut elsewhere = filtered_names(select);
    if let GroupByExpr::Expressions(groups, _) = &select.group_by {
        elsewhere.extend(groups.iter().flat_map(mentioned));
    }
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::ExprWithAlias { expr, alias: given } = item else { continue };
        let name = fold(given);
        let same = matches!(&*expr, Expr::Identifier(ident) if fold(ident) == name)
            || orders.iter().any(|order| order.expr == *expr);
        if same || !within.contains(&name) || elsewhere.contains(&name) {
            continue;
        }
        for order in orders.iter_mut() {
            if matches!(&order.expr, Expr::Identifier(ident) if fold(ident) == name) {
                order.expr = position(at);
            }
        }
        alias(item, &format!("{name}\u{1}{at}"));
    }
}

/// The unqualified names in an expression.
fn mentioned(expr: &Expr) -> Vec<String> {
    let mut names = Vec::new();
    let _ = walk::expressions(expr, |expr| {
        if let Expr::Identifier(ident) = expr {
            names.push(fold(ident));
        }
        ControlFlow::Continue(())
    });
    names
}

/// The column names of the qualified references in an expression: `v` for `t.v`.
fn qualified(expr: &Expr) -> Vec<String> {
    let mut names = Vec::new();
    let _ = walk::expressions(expr, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr {
            names.extend(parts.last().map(fold));
        }
        ControlFlow::Continue(())
    });
    names
}

struct ComputedNames;

impl Change for ComputedNames {
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // The planner refuses equal columns in a condition with a subquery, too: `EXISTS (SELECT 1,
        // 1)`.
        if let Expr::Exists { subquery, .. } | Expr::InSubquery { subquery, .. } = expr
            && selects_several(subquery)
        {
            name_computed(subquery);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        order_by_output(query);
        name_ordered(query);
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            name_computed(&mut cte.query);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        group_by_output(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, .. } = factor {
            name_computed(subquery);
        }
        ControlFlow::Continue(())
    }
}

/// The SELECT that names the result columns of a query body. The flag is true if the body is a
/// single SELECT.
fn naming_select(body: &SetExpr) -> Option<(&Select, bool)> {
    match body {
        SetExpr::Select(select) => Some((select, true)),
        SetExpr::SetOperation { left, .. } => {
            naming_select(left).map(|(select, _)| (select, false))
        }
        _ => None,
    }
}

/// Replaces the name of a computed column in ORDER BY with the position of the column. After a `*`,
/// which hides the position, and with DISTINCT ON, the rewrite inserts the expression instead. A
/// key that repeats an expression of the select list also becomes a position.
fn order_by_output(query: &mut Query) {
    let Some((select, whole)) = naming_select(&query.body) else { return };
    let Some(order_by) = &mut query.order_by else { return };
    let OrderByKind::Expressions(orders) = &mut order_by.kind else { return };
    let first_of_each = matches!(select.distinct, Some(Distinct::On(_)));
    for order in orders {
        let positions = !first_of_each;
        let Expr::Identifier(ident) = &order.expr else {
            let repeated = select.projection.iter().enumerate().find(|(_, item)| {
                matches!(item, SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }
                    if whole && is_compound(expr) && *expr == order.expr)
            });
            if let Some((at, _)) = repeated
                && positions
                && !select.projection.iter().take(at).any(is_wildcard)
            {
                order.expr = position(at);
            }
            continue;
        };
        let name = fold(ident);
        let mut named = select
            .projection
            .iter()
            .enumerate()
            .filter(|(_, item)| !is_wildcard(item) && name_of_item(item) == name);
        let Some((at, item)) = named.next() else { continue };
        // If two different columns have the name, the name is ambiguous, and the planner refuses
        // the query.
        if is_column(item) || named.any(|(_, other)| other != item) {
            continue;
        }
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        if positions && !select.projection.iter().take(at).any(is_wildcard) {
            order.expr = position(at);
        } else if whole {
            order.expr = expr.clone();
        }
    }
}

/// Gives aliases to the computed columns whose position ORDER BY names. DataFusion turns the
/// position into a name, and without an alias the name would be the text of the expression.
fn name_ordered(query: &mut Query) {
    let Some(order_by) = &query.order_by else { return };
    let OrderByKind::Expressions(orders) = &order_by.kind else { return };
    let positions: Vec<Option<usize>> =
        orders.iter().map(|order| position_of(&order.expr)).collect();
    let Some(select) = naming_select_mut(&mut query.body) else { return };
    match select.distinct {
        None | Some(Distinct::All) => {}
        // With DISTINCT, the other ORDER BY expressions must equal expressions of the select list,
        // and aliases would prevent this.
        Some(Distinct::Distinct) if positions.iter().all(Option::is_some) => {}
        Some(_) => return,
    }
    for at in positions.into_iter().flatten() {
        if select.projection.iter().take(at).any(is_wildcard) {
            continue;
        }
        let Some(item) = select.projection.get_mut(at) else { continue };
        if matches!(item, SelectItem::UnnamedExpr(expr) if is_compound(expr)) {
            alias(item, &format!("{}\u{1}{at}", name_of_item(item)));
        }
    }
}

fn selects_several(query: &Query) -> bool {
    naming_select(&query.body).is_some_and(|(select, _)| select.projection.len() > 1)
}

/// The position that an ORDER BY key names, counted from 0; `None` for other keys.
fn position_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => {
            number.parse::<usize>().ok()?.checked_sub(1)
        }
        _ => None,
    }
}

/// The mutable version of [`naming_select`], without the flag.
fn naming_select_mut(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => naming_select_mut(left),
        _ => None,
    }
}

fn position(at: usize) -> Expr {
    Expr::value(Value::Number((at + 1).to_string(), false))
}

/// True for an expression that is more than a name or a constant.
fn is_compound(expr: &Expr) -> bool {
    !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_))
}

/// Gives an alias to a computed column whose name GROUP BY mentions (`GROUP BY upper`). The planner
/// uses the alias unless the tables have a column with this name.
fn group_by_output(select: &mut Select) {
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return };
    let wanted: Vec<String> = groups.iter().flat_map(mentioned).collect();
    if wanted.is_empty() {
        return;
    }
    let taken = filtered_names(select);
    for name in wanted {
        let mut named = select
            .projection
            .iter_mut()
            .filter(|item| !is_wildcard(item) && name_of_item(item) == name);
        let Some(item) = named.next() else { continue };
        let expr = match &*item {
            SelectItem::UnnamedExpr(expr) => Some(expr),
            // An alias with \u{1} comes from a rewrite, and the statement cannot name it.
            SelectItem::ExprWithAlias { expr, alias } => {
                Some(expr).filter(|_| alias.value.contains('\u{1}'))
            }
            _ => None,
        };
        let computed = expr.is_some_and(|expr| {
            is_compound(expr)
                && !matches!(expr, Expr::Cast { .. } | Expr::Nested(_) | Expr::Collate { .. })
        });
        let same = named.all(|other| *other == *item);
        if computed && same && !taken.contains(&name) {
            alias(item, &name);
        }
    }
}

/// Gives PostgreSQL's names as aliases to the computed columns of a subquery.
fn name_computed(query: &mut Query) {
    order_by_output(query);
    let ordered = query.order_by.is_some();
    name_body(&mut query.body, ordered);
}

fn name_body(body: &mut SetExpr, ordered: bool) {
    match body {
        SetExpr::Select(select) => name_select(select, ordered),
        SetExpr::Query(query) => name_computed(query),
        SetExpr::SetOperation { left, right, .. } => {
            name_body(left, ordered);
            name_body(right, ordered);
        }
        _ => {}
    }
}

fn name_select(select: &mut Select, ordered: bool) {
    // With DISTINCT, the ORDER BY expressions must equal expressions of the select list, and
    // aliases would prevent this.
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
        let Some(name) = name else { continue };
        let alone = names.iter().flatten().filter(|other| *other == name).count() == 1;
        let computed = matches!(item, SelectItem::UnnamedExpr(_)) && !is_column(item);
        if alone && !computed {
            continue;
        }
        if alone && !taken.contains(name) {
            alias(item, name);
        } else {
            // The suffix makes the name distinct; no statement can refer to the column.
            alias(item, &format!("{name}\u{1}{at}"));
        }
    }
}

/// The names in HAVING and QUALIFY. For such a name the planner uses an alias, and PostgreSQL the
/// column of a table.
fn filtered_names(select: &Select) -> Vec<String> {
    select.having.iter().chain(&select.qualify).flat_map(mentioned).collect()
}
