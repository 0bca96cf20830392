//! Subqueries in the forms that DataFusion can take out of their place.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Expr, FunctionArguments, GroupByExpr, OrderByExpr,
    OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value, Visit, Visitor,
};

use super::{build, empty::is_aggregate, replace};

/// `ARRAY(SELECT x …)` becomes `(SELECT array_agg(x …) …)`.
pub(super) fn array(expr: &mut Expr) {
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
        if !aggregate(&mut query, "array_agg") {
            // Grouped, limited or combined: a subquery of its own.
            nest(&mut query, "array_agg");
        }
        Expr::Subquery(query)
    });
}

/// A scalar subquery over system tables that finds at most one row by its nature, but not
/// by its form, becomes an aggregate: only those can be correlated.
pub(super) fn scalar(query: &mut Query) {
    if reads_system_tables_only(query) {
        aggregate(query, "first_value");
    }
}

/// `x = ANY (SELECT …)` becomes `x IN (SELECT …)`, `x <> ALL (SELECT …)` its opposite; and
/// an array written as a string gets a type.
pub(super) fn membership(expr: &mut Expr) {
    let negated = match expr {
        Expr::AnyOp { compare_op: BinaryOperator::Eq, right, .. } => {
            if build::string_of(right).is_some() {
                let text = DataType::Array(ArrayElemTypeDef::SquareBracket(
                    Box::new(DataType::Text),
                    None,
                ));
                replace(right, |old| build::cast(old, text));
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

/// Puts `function` around the one column of a plain SELECT, with the query's order inside;
/// `false` when the query is not of that form.
fn aggregate(query: &mut Query, function: &str) -> bool {
    let limited = query.limit_clause.is_some() || query.fetch.is_some();
    // One row is what an aggregate gives.
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

/// `ORDER BY 1` names the one column.
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
        && !select.projection.iter().any(is_aggregate)
}

/// `(query)` becomes `SELECT function(item) FROM (query) AS items (item)`.
fn nest(query: &mut Query, function: &str) {
    use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, parser::Parser};
    let sql = format!("SELECT {function}(item) FROM ({query}) AS items (item)");
    let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(&sql);
    if let Ok(nested) = parsed.and_then(|mut parser| parser.parse_query()) {
        *query = *nested;
    }
}

/// Whether every table that a query reads belongs to the catalogs.
fn reads_system_tables_only(query: &Query) -> bool {
    struct Tables {
        any: bool,
        system: bool,
    }
    impl Visitor for Tables {
        type Break = ();
        fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, .. } = table {
                self.any = true;
                self.system &= super::empty::system_name(name).is_some();
            }
            ControlFlow::Continue(())
        }
    }
    let mut tables = Tables { any: false, system: true };
    let _ = query.visit(&mut tables);
    tables.any && tables.system
}
