//! Rewrites comparisons of rows as comparisons of columns, the only form that the planner supports.

use std::borrow::Cow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query,
    SelectItem, SetExpr, Statement, TableFactor, UnaryOperator, Value,
};
use stratalog_model::{Error, ErrorKind, Result};

use super::volatile;
use crate::{names::is_wildcard, parse};

/// Writes `ROW(…)` in a comparison as a tuple: `ROW(1, 2) = …` becomes `(1, 2) = …`.
pub fn of_rows(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op, right } if is_comparison(op) => {
            as_tuple(left);
            as_tuple(right);
        }
        Expr::InList { expr, list, .. } => {
            as_tuple(expr);
            list.iter_mut().for_each(as_tuple);
        }
        Expr::Between { expr, low, high, .. } => {
            as_tuple(expr);
            as_tuple(low);
            as_tuple(high);
        }
        Expr::InSubquery { expr, .. }
        | Expr::AnyOp { left: expr, .. }
        | Expr::AllOp { left: expr, .. }
        | Expr::IsNull(expr)
        | Expr::IsNotNull(expr) => as_tuple(expr),
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
            as_tuple(left);
            as_tuple(right);
        }
        _ => {}
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

fn as_tuple(expr: &mut Expr) {
    let mut inner = &*expr;
    while let Expr::Nested(nested) = inner {
        inner = nested;
    }
    let values: Option<Vec<Expr>> = match inner {
        Expr::Tuple(values) => Some(values.clone()),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &function.args else { return };
            let value = |argument: &FunctionArg| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            };
            list.args.iter().map(value).collect()
        }
        _ => None,
    };
    if let Some(values) = values.filter(|values| !values.is_empty()) {
        *expr = Expr::Tuple(values);
    }
}

/// Replaces a comparison of a row with a subquery, for example `(a, b) = (SELECT x, y …)`, with a
/// subquery that returns the result of the comparison.
///
/// # Errors
/// `SyntaxError` if the subquery has more or fewer columns than the row.
pub fn with_subquery(expr: &mut Expr) -> Result<()> {
    let Expr::BinaryOp { left, op, right } = expr else { return Ok(()) };
    let (row, op, query) = match (left.as_ref(), right.as_ref()) {
        (row @ Expr::Tuple(_), Expr::Subquery(query)) => (row, op.clone(), query),
        (Expr::Subquery(query), row @ Expr::Tuple(_)) => (row, mirrored_operator(op), query),
        _ => return Ok(()),
    };
    if let Some(RowComparison { columns, test }) = compared_rows(row, &op, query)? {
        *expr = Expr::Subquery(select_over(query, &columns, test, None));
    }
    Ok(())
}

/// The operator after an exchange of its operands: `<` becomes `>`.
fn mirrored_operator(op: &BinaryOperator) -> BinaryOperator {
    match op {
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        other => other.clone(),
    }
}

/// Writes a comparison of rows as comparisons of their columns. A comparison that would then call a
/// volatile function more than once stays unchanged.
pub fn respell(expr: &mut Expr) {
    if copies_columns(expr) && volatile::call_in(&*expr).is_some() {
        return;
    }
    let compared = match expr {
        Expr::BinaryOp { left, op, right } => {
            let rows = tuple(left).or_else(|| row(left)).zip(tuple(right).or_else(|| row(right)));
            rows.and_then(|(left, right)| compare_rows(&left, op, &right))
        }
        Expr::InList { expr: left, list, negated } => tuple(left)
            .and_then(|left| {
                let equal = |right| compare_rows(&left, &BinaryOperator::Eq, &tuple(right)?);
                list.iter().map(equal).collect::<Option<Vec<Expr>>>()
            })
            .and_then(any_of)
            .map(|any| negated_if(*negated, any)),
        Expr::Between { expr: row, negated, low, high } => tuple(row)
            .zip(tuple(low).zip(tuple(high)))
            .and_then(|(row, (low, high))| {
                let from = compare_rows(&row, &BinaryOperator::GtEq, &low)?;
                let to = compare_rows(&row, &BinaryOperator::LtEq, &high)?;
                let (left, right) = (Box::new(from), Box::new(to));
                Some(nested(Expr::BinaryOp { left, op: BinaryOperator::And, right }))
            })
            .map(|within| negated_if(*negated, within)),
        _ => None,
    };
    if let Some(compared) = compared {
        *expr = compared;
    }
}

/// Whether the rewritten comparison of rows contains a column more than once.
fn copies_columns(expr: &Expr) -> bool {
    use BinaryOperator::{Gt, GtEq, Lt, LtEq};
    let is_row = |expr: &Expr| tuple(expr).or_else(|| row(expr)).is_some_and(|row| row.len() > 1);
    match expr {
        Expr::BinaryOp { left, op: Lt | LtEq | Gt | GtEq, .. } => is_row(left),
        Expr::InList { expr, list, .. } => list.len() > 1 && is_row(expr),
        Expr::Between { expr, .. } => is_row(expr),
        _ => false,
    }
}

fn negated_if(negated: bool, condition: Expr) -> Expr {
    match negated {
        true => nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(condition) }),
        false => condition,
    }
}

/// Rewrites `(a, b) IN (SELECT x, y …)` in a condition as EXISTS: true if a row of the subquery
/// equals `(a, b)`. NOT IN is true if the comparison with every row is false, and not NULL.
///
/// # Errors
/// `SyntaxError` if the subquery has more or fewer columns than the row.
pub fn in_condition(condition: &mut Expr) -> Result<()> {
    match condition {
        Expr::Nested(inner) => in_condition(inner)?,
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            in_condition(left)?;
            in_condition(right)?;
        }
        Expr::InSubquery { expr, subquery, negated } => {
            let Some(equal) = compared_rows(expr, &BinaryOperator::Eq, subquery)? else {
                return Ok(());
            };
            let test = if *negated { Expr::IsNotFalse(Box::new(equal.test)) } else { equal.test };
            let one = Expr::Value(Value::Number("1".to_string(), false).into());
            let rows = select_over(subquery, &equal.columns, one, Some(test));
            *condition = Expr::Exists { subquery: rows, negated: *negated };
        }
        _ => {}
    }
    Ok(())
}

/// Rewrites `(a, b) IN (SELECT x, y …)` outside of conditions, where NULL and false differ: the
/// result is true if a row of the subquery equals `(a, b)`, else NULL if the comparison with a row
/// is NULL, else false.
///
/// # Errors
/// See [`in_condition`].
pub fn in_subquery(expr: &mut Expr) -> Result<()> {
    let Expr::InSubquery { expr: left, subquery, negated } = expr else { return Ok(()) };
    let compared = compared_rows(left, &BinaryOperator::Eq, subquery)?;
    if compared.is_none() && matches!(subquery.body.as_ref(), SetExpr::Values(_)) {
        // The planner compares with the first column of a select list, and VALUES has none.
        let column = "$value".to_string();
        let value = Expr::Identifier(Ident::with_quote('"', &column));
        *subquery = select_over(subquery, &[column], value, None);
    }
    if let Some(equal) = compared {
        let subquery = select_over(subquery, &equal.columns, equal.test, None);
        let left = Box::new(Expr::Value(Value::Boolean(true).into()));
        *expr = Expr::InSubquery { expr: left, subquery, negated: *negated };
    }
    Ok(())
}

/// The comparison (`test`) of a row with the columns of a subquery, and the names (`columns`) that
/// the comparison uses for these columns.
struct RowComparison {
    columns: Vec<String>,
    test: Expr,
}

fn compared_rows(
    left: &Expr,
    op: &BinaryOperator,
    subquery: &Query,
) -> Result<Option<RowComparison>> {
    let Some(left) = tuple(left) else { return Ok(None) };
    if let Some(columns) = columns_of(subquery)
        && columns != left.len()
    {
        let much = if columns < left.len() { "few" } else { "many" };
        let message = format!("subquery has too {much} columns");
        return Err(Error::new(ErrorKind::SyntaxError, message));
    }
    let columns: Vec<String> = (0..left.len()).map(|at| format!("$compared{at}")).collect();
    let named = |name: &String| Expr::Identifier(Ident::with_quote('"', name.as_str()));
    let right: Vec<Expr> = columns.iter().map(named).collect();
    Ok(compare_rows(&left, op, &right).map(|test| RowComparison { columns, test }))
}

/// Builds `SELECT value FROM (query) AS "$set" (columns) WHERE test`.
fn select_over(query: &Query, columns: &[String], value: Expr, test: Option<Expr>) -> Box<Query> {
    let columns = columns.join("\", \"");
    let sql = format!("SELECT 1 FROM (SELECT 1) AS \"$set\" (\"{columns}\")");
    let mut outer = match parse::statements(&sql, usize::MAX)
        .ok()
        .and_then(|trees| trees.into_iter().next().map(|tree| tree.statement))
    {
        Some(Statement::Query(outer)) => outer,
        // Unreachable: the text above is a query.
        _ => return Box::new(query.clone()),
    };
    if let SetExpr::Select(select) = outer.body.as_mut() {
        select.selection = test;
        select.projection = vec![SelectItem::UnnamedExpr(value)];
        if let Some(from) = select.from.first_mut()
            && let TableFactor::Derived { subquery, .. } = &mut from.relation
        {
            **subquery = query.clone();
        }
    }
    outer
}

/// The number of columns of a query; `None` if a wildcard hides the number.
fn columns_of(query: &Query) -> Option<usize> {
    match query.body.as_ref() {
        SetExpr::Select(select) if !select.projection.iter().any(is_wildcard) => {
            Some(select.projection.len())
        }
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

fn tuple(expr: &Expr) -> Option<Cow<'_, [Expr]>> {
    match expr {
        Expr::Tuple(values) => Some(Cow::Borrowed(values)),
        _ => None,
    }
}

/// The values of a `ROW(…)` call; `None` for other expressions.
fn row(expr: &Expr) -> Option<Cow<'_, [Expr]>> {
    let Expr::Function(call) = expr else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    if !call.name.to_string().eq_ignore_ascii_case("row") || !list.clauses.is_empty() {
        return None;
    }
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    };
    list.args.iter().map(value).collect::<Option<Vec<Expr>>>().map(Cow::Owned)
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

/// Joins conditions by OR in a tree with the least possible depth.
fn any_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    if conditions.len() < 2 {
        return conditions.pop();
    }
    let right = any_of(conditions.split_off(conditions.len() / 2))?;
    let (left, right) = (Box::new(any_of(conditions)?), Box::new(right));
    Some(nested(Expr::BinaryOp { left, op: BinaryOperator::Or, right }))
}

/// Writes a comparison of rows as comparisons of columns: `(a, b) >= (c, d)` becomes `a > c OR a =
/// c AND b >= d`.
fn compare_rows(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    if left.len() != right.len() {
        return None;
    }
    let binary = |left: &Expr, op: &BinaryOperator, right: &Expr| Expr::BinaryOp {
        left: Box::new(left.clone()),
        op: op.clone(),
        right: Box::new(right.clone()),
    };
    let ((first, left), (other, right)) = (left.split_first()?, right.split_first()?);
    let here = binary(first, op, other);
    if left.is_empty() {
        return Some(nested(here));
    }
    let rest = compare_rows(left, op, right)?;
    Some(nested(match op {
        BinaryOperator::Eq => binary(&here, &BinaryOperator::And, &rest),
        BinaryOperator::NotEq => binary(&here, &BinaryOperator::Or, &rest),
        BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq => {
            let strict = match op {
                BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
                _ => BinaryOperator::Gt,
            };
            let equal = binary(first, &BinaryOperator::Eq, other);
            let further = nested(binary(&equal, &BinaryOperator::And, &rest));
            binary(&binary(first, &strict, other), &BinaryOperator::Or, &further)
        }
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_by_their_columns() {
        for (sql, wanted) in [
            ("(a, b) = (1, 2)", "(a = 1 AND (b = 2))"),
            ("ROW(a, b) = (1, 2)", "(a = 1 AND (b = 2))"),
            ("ROW(a, b) < ROW(1, 2)", "(a < 1 OR (a = 1 AND (b < 2)))"),
            ("(a, b) >= (1, 2)", "(a > 1 OR (a = 1 AND (b >= 2)))"),
            ("(a, b) IN ((1, 2))", "(a = 1 AND (b = 2))"),
            (
                "(a, b) BETWEEN (1, 2) AND (3, 4)",
                "((a > 1 OR (a = 1 AND (b >= 2))) AND (a < 3 OR (a = 3 AND (b <= 4))))",
            ),
            ("(a) IN ((1), (2))", "(a) IN ((1), (2))"),
            ("(a, b) IN ((1, 2, 3))", "(a, b) IN ((1, 2, 3))"),
            (
                "(a, b) NOT IN ((1, 2), (3, 4))",
                "(NOT ((a = 1 AND (b = 2)) OR (a = 3 AND (b = 4))))",
            ),
        ] {
            let mut expr = parse::expression(sql).unwrap();
            respell(&mut expr);
            assert_eq!(expr.to_string(), wanted);
        }
    }
}
