//! Rewrites correlated subqueries to forms that DataFusion can decorrelate, that is, turn into
//! joins.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CaseWhen, DataType, Expr, FunctionArguments, GroupByExpr,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, UnaryOperator,
    Value,
};
use stratalog_functions::walk::{self, Change, Look};

use super::{build, correlation, empty_tables, expression::replace, flattening};

/// Rewrites `ARRAY(SELECT x …)` to `elements_list((SELECT array_agg(x …) …))`.
pub(super) fn array(expr: &mut Expr, shadowed: bool) {
    let is_array = matches!(
        expr,
        Expr::Function(function) if matches!(function.args, FunctionArguments::Subquery(_))
            && function.name.to_string().eq_ignore_ascii_case("array")
    );
    if !is_array {
        return;
    }
    replace(expr, |old| {
        let Expr::Function(function) = old else { return old };
        let FunctionArguments::Subquery(mut query) = function.args else { return build::null() };
        flattening::without_cte(&mut query);
        if !shadowed && empty_tables::fold(&mut query) {
            return build::cast(build::string("{}"), array_of_item(&query));
        }
        if !aggregate(&mut query, "array_agg") {
            // If the query has groups, a limit or set operations, it becomes a subquery in the FROM
            // clause of the aggregate query.
            nest(&mut query, "array_agg");
        }
        build::call("elements_list", vec![Expr::Subquery(query)])
    });
}

/// Replaces the branches of a CASE that handle domain types by NULL, because no domain types exist.
/// In these branches, clients find the base type of a domain by a recursive query, which DataFusion
/// cannot decorrelate.
pub(super) fn of_domains(expr: &mut Expr) {
    let Expr::Case { conditions, .. } = expr else { return };
    for CaseWhen { condition, result } in conditions {
        let is_domain = match &*condition {
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                let name = match left.as_ref() {
                    Expr::Identifier(name) => Some(name),
                    Expr::CompoundIdentifier(parts) => parts.last(),
                    _ => None,
                };
                name.is_some_and(|name| name.value == "typtype")
                    && build::string_of(right).is_some_and(|kind| kind == "d")
            }
            _ => false,
        };
        if is_domain && matches!(result, Expr::Subquery(_)) {
            *result = build::null();
        }
    }
}

/// Rewrites a scalar subquery over system tables to an aggregate, because DataFusion accepts only
/// aggregates as correlated scalar subqueries. The subquery must return at most one row, even if
/// its form does not show this. Conditions that use only columns of the outer row move out of the
/// subquery: `(SELECT … WHERE p AND outer)` becomes `CASE WHEN outer THEN (SELECT … WHERE p) END`.
pub(super) fn scalar(expr: &mut Expr, shadowed: bool) {
    let Expr::Subquery(query) = expr else { return };
    if let Some(value) = flattening::alone(query) {
        *expr = value;
        return;
    }
    if !reads_system_tables_only(query) {
        return;
    }
    if !shadowed && let Some(value) = empty_tables::aggregated(query) {
        *expr = value;
        return;
    }
    if !shadowed && empty_tables::fold(query) {
        // The subquery returns no row, so its value is NULL, in the type of the column.
        if let SetExpr::Select(select) = query.body.as_mut()
            && let Some(SelectItem::ExprWithAlias { expr: nothing, .. }) = select.projection.pop()
        {
            *expr = nothing;
        }
        return;
    }
    flattening::without_cte(query);
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    flattening::qualify(select);
    let counts = select.projection.iter().any(empty_tables::is_aggregate);
    correlation::substitute(select);
    if !counts && let Some(value) = correlation::split_selected_columns(query) {
        *expr = value;
        return;
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let outer = if counts { None } else { correlation::take_outer(select) };
    aggregate(query, "first_value");
    if let Some(outer) = outer {
        replace(expr, |subquery| build::when(outer, subquery));
    }
}

/// Rewrites EXISTS and IN with subqueries over system tables to aggregates, in a select list or in
/// ORDER BY. DataFusion decorrelates EXISTS and IN only in conditions.
pub(super) fn outside_of_conditions(query: &mut Query) {
    struct SubqueryAggregation;
    impl Change for SubqueryAggregation {
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::Exists { .. } => replace(expr, counted),
                Expr::InSubquery { .. } => replace(expr, collected),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let system = select.from.iter().any(|from| {
        matches!(&from.relation, TableFactor::Table { name, .. } if empty_tables::system_name(name).is_some())
    });
    if !system {
        return;
    }
    for item in &mut select.projection {
        let _ = walk::change(item, &mut SubqueryAggregation);
    }
    if let Some(order) = &mut query.order_by {
        let _ = walk::change(order, &mut SubqueryAggregation);
    }
}

/// Rewrites `x IN (SELECT y …)` to `coalesce(array_has((SELECT array_agg(y) …), x), false)`.
fn collected(expr: Expr) -> Expr {
    let Expr::InSubquery { expr: member, mut subquery, negated } = expr else { return expr };
    if !aggregate(&mut subquery, "array_agg") {
        nest(&mut subquery, "array_agg");
    }
    let has = build::call("array_has", vec![Expr::Subquery(subquery), *member]);
    let has = build::call("coalesce", vec![has, build::no()]);
    if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(has) } } else { has }
}

fn counted(expr: Expr) -> Expr {
    let Expr::Exists { mut subquery, negated } = expr else { return expr };
    let countable = match subquery.body.as_mut() {
        SetExpr::Select(select)
            if is_plain(select)
                && subquery.limit_clause.is_none()
                && correlation::is_by_equality(select) =>
        {
            select.projection =
                vec![SelectItem::UnnamedExpr(build::call("count", vec![build::one()]))];
            true
        }
        _ => false,
    };
    if !countable {
        return Expr::Exists { subquery, negated };
    }
    subquery.order_by = None;
    Expr::BinaryOp {
        left: Box::new(Expr::Subquery(subquery)),
        op: if negated { BinaryOperator::Lt } else { BinaryOperator::GtEq },
        right: Box::new(build::one()),
    }
}

/// Rewrites `x = ANY (SELECT …)` to `x IN (SELECT …)`, and `x <> ALL (SELECT …)` to `x NOT IN …`.
/// In `x = ANY ('{…}')`, casts the string constant to an array type.
pub(super) fn membership(expr: &mut Expr) {
    let negated = match expr {
        Expr::AnyOp { compare_op: BinaryOperator::Eq, right, .. } => {
            if build::string_of(right).is_some() {
                replace(right, |old| build::cast(old, text_array()));
            }
            false
        }
        Expr::AllOp { compare_op: BinaryOperator::NotEq, .. } => true,
        _ => return,
    };
    let is_subquery = matches!(
        expr,
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } if matches!(right.as_ref(), Expr::Subquery(_))
    );
    if !is_subquery {
        return;
    }
    replace(expr, |old| match old {
        Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } => match *right {
            Expr::Subquery(subquery) => Expr::InSubquery { expr: left, subquery, negated },
            other => other,
        },
        other => other,
    });
}

/// The array type for the first column of a query after the rewrite to a query without rows: the
/// elements have the type of the column.
fn array_of_item(query: &Query) -> DataType {
    let item = match query.body.as_ref() {
        SetExpr::Select(select) => select.projection.first(),
        _ => None,
    };
    match item {
        Some(SelectItem::ExprWithAlias { expr: Expr::Cast { data_type, .. }, .. }) => {
            let element = Box::new(data_type.clone());
            DataType::Array(ArrayElemTypeDef::SquareBracket(element, None))
        }
        _ => text_array(),
    }
}

fn text_array() -> DataType {
    DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None))
}

/// Applies the aggregate `function` to the only column of a plain SELECT. The ORDER BY of the query
/// becomes the order of the aggregate. Returns `false` if the query has another form.
fn aggregate(query: &mut Query, function: &str) -> bool {
    let limited = query.limit_clause.is_some() || query.fetch.is_some();
    // With a CTE, the rewrite does not apply. A limit can only be removed for `first_value`,
    // because the aggregate returns exactly one row.
    if query.with.is_some() || (limited && function != "first_value") {
        return false;
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return false };
    if !is_plain(select) {
        return false;
    }
    let [item] = select.projection.as_mut_slice() else { return false };
    let (SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }) = item
    else {
        return false;
    };
    let order = match query.order_by.take().map(|order| order.kind) {
        Some(OrderByKind::Expressions(order)) => {
            order.into_iter().map(|by| by_value(by, value)).collect()
        }
        _ => Vec::new(),
    };
    query.limit_clause = None;
    query.fetch = None;
    replace(value, |value| build::call_ordered(function, vec![value], order));
    true
}

/// Replaces the position in `ORDER BY 1` by `value`, the only column.
fn by_value(by: OrderByExpr, value: &Expr) -> OrderByExpr {
    let is_position = matches!(
        &by.expr,
        Expr::Value(number) if matches!(number.value, Value::Number(_, _))
    );
    if is_position { OrderByExpr { expr: value.clone(), ..by } } else { by }
}

fn is_plain(select: &Select) -> bool {
    let grouped = match &select.group_by {
        GroupByExpr::Expressions(by, _) => !by.is_empty(),
        GroupByExpr::All(_) => true,
    };
    select.distinct.is_none()
        && !grouped
        && select.having.is_none()
        && select.qualify.is_none()
        && !select.from.is_empty()
        && !select.projection.iter().any(empty_tables::is_aggregate)
}

/// Rewrites `query` to `SELECT function(item) FROM (query) AS items (item)`. The planner drops the
/// order of a subquery without a limit, so an ordered query gets a limit that is never reached.
fn nest(query: &mut Query, function: &str) {
    use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, parser::Parser};
    let endless = query.order_by.is_some() && query.limit_clause.is_none() && query.fetch.is_none();
    let limit = if endless { format!(" LIMIT {}", i64::MAX) } else { String::new() };
    let sql = format!("SELECT {function}(item) FROM ({query}{limit}) AS items (item)");
    let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(&sql);
    if let Ok(nested) = parsed.and_then(|mut parser| parser.parse_query()) {
        *query = *nested;
    }
}

/// True if a query reads only system tables.
fn reads_system_tables_only(query: &Query) -> bool {
    struct TableSearch {
        any: bool,
        system: bool,
    }
    impl Look for TableSearch {
        fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, .. } = table {
                self.any = true;
                self.system &= empty_tables::system_name(name).is_some();
            }
            ControlFlow::Continue(())
        }
    }
    let mut tables = TableSearch { any: false, system: true };
    let _ = walk::look(query, &mut tables);
    tables.any && tables.system
}
