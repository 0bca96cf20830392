//! Rewrites clauses of PostgreSQL that DataFusion does not support.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, SetOperator,
    SetQuantifier, Statement, UnaryOperator, Value, ValueWithSpan,
};

use stratalog_functions::literal::{DISTINCT, NOT_DISTINCT};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    parse::{self, forms::SYMMETRIC},
    walk,
};

/// Rewrites `x BETWEEN SYMMETRIC a AND b` to `x BETWEEN a AND b OR x BETWEEN b AND a`.
pub fn between(expr: &mut Expr) {
    let Expr::Between { expr: value, negated, low, high } = expr else { return };
    if !take_mark(low) {
        return;
    }
    let within = |low: &Expr, high: &Expr| {
        Box::new(Expr::Between {
            expr: value.clone(),
            negated: false,
            low: Box::new(low.clone()),
            high: Box::new(high.clone()),
        })
    };
    let either = Expr::Nested(Box::new(Expr::BinaryOp {
        left: within(low, high),
        op: BinaryOperator::Or,
        right: within(high, low),
    }));
    *expr = match negated {
        true => {
            Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(either) }))
        }
        false => either,
    };
}

/// Removes the marker that the parser's rewrite puts in front of the lower bound of BETWEEN
/// SYMMETRIC. Returns true if the expression had the marker.
fn take_mark(expr: &mut Expr) -> bool {
    let Expr::BinaryOp { left, right, .. } = expr else { return false };
    match left.as_ref() {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. })
            if text == SYMMETRIC =>
        {
            *expr = std::mem::replace(right, Expr::Value(Value::Null.into()));
            true
        }
        _ => take_mark(left),
    }
}

/// Makes a select with HAVING or `GROUP BY ()` aggregate all rows as one group, even without an
/// aggregate.
pub fn group_all(select: &mut Select) {
    let GroupByExpr::Expressions(groups, modifiers) = &mut select.group_by else { return };
    let had_groups = !groups.is_empty();
    groups.retain(|group| !matches!(group, Expr::Tuple(items) if items.is_empty()));
    let groups_all = had_groups && groups.is_empty();
    if !groups.is_empty() || !modifiers.is_empty() || !(groups_all || select.having.is_some()) {
        return;
    }
    let calls = |expr: &Expr| match expr {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let aggregates = walk::own_expressions(&select.projection, calls).is_break()
        || walk::own_expressions(&select.having, calls).is_break();
    if aggregates {
        return;
    }
    let Ok(grouped) = parse::expression("count(*) >= 0") else { return };
    select.having = Some(match select.having.take() {
        Some(having) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(having))),
            op: BinaryOperator::And,
            right: Box::new(grouped),
        },
        None => grouped,
    });
}

/// Rewrites `VALUES ((SELECT …)), (2)` to `SELECT (SELECT …) AS column1 UNION ALL SELECT 2`:
/// DataFusion accepts no subquery in VALUES.
pub fn values(query: &mut Query) {
    let SetExpr::Values(values) = query.body.as_ref() else { return };
    let asks = |expr: &Expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let cells = || values.rows.iter().flat_map(|row| &row.content);
    if !cells().any(|cell| walk::expressions(cell, asks).is_break()) {
        return;
    }
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    if values.rows.iter().any(|row| row.content.len() != columns) {
        return;
    }
    let Some(template) = select_one() else { return };
    let rows = values.rows.iter().map(|row| {
        let mut select = template.clone();
        let named = row.content.iter().enumerate().map(|(at, cell)| SelectItem::ExprWithAlias {
            expr: cell.clone(),
            alias: Ident::with_quote('"', format!("column{}", at + 1)),
        });
        select.projection = named.collect();
        SetExpr::Select(Box::new(select))
    });
    let union = |left: SetExpr, right: SetExpr| SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(left),
        right: Box::new(right),
    };
    if let Some(body) = parse::joined(rows.collect(), union) {
        *query.body = body;
    }
}

fn select_one() -> Option<Select> {
    let parsed = parse::statements("SELECT 1", usize::MAX).ok()?.pop()?;
    let Statement::Query(query) = parsed.statement else { return None };
    match *query.body {
        SetExpr::Select(select) => Some(*select),
        _ => None,
    }
}

/// Writes IS [NOT] DISTINCT FROM with a quoted constant as an operator: the operator gives the
/// constant the type of the other operand.
pub fn distinct_from(expr: &mut Expr) {
    let is_text = |expr: &Expr| matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
    let (left, right, name) = match expr {
        Expr::IsDistinctFrom(left, right) => (left, right, DISTINCT),
        Expr::IsNotDistinctFrom(left, right) => (left, right, NOT_DISTINCT),
        _ => return,
    };
    if !is_text(left) && !is_text(right) {
        return;
    }
    let empty = || Box::new(Expr::value(Value::Null));
    let (left, right) = (std::mem::replace(left, empty()), std::mem::replace(right, empty()));
    *expr = Expr::BinaryOp { left, op: BinaryOperator::Custom(name.to_string()), right };
}

/// Rewrites `EXISTS (SELECT FROM …)` to `EXISTS (SELECT 1 FROM …)`: the planner needs a column.
///
/// # Errors
/// `SyntaxError` for any other subquery without a column.
pub fn subquery_without_columns(expr: &mut Expr) -> Result<()> {
    let is_empty = |query: &Query| matches!(query.body.as_ref(), SetExpr::Select(select) if select.projection.is_empty());
    let message = match expr {
        Expr::Exists { subquery, .. } => {
            if let SetExpr::Select(select) = subquery.body.as_mut()
                && select.projection.is_empty()
            {
                let one = ValueWithSpan::from(Value::Number("1".to_string(), false));
                select.projection.push(SelectItem::UnnamedExpr(Expr::Value(one)));
            }
            return Ok(());
        }
        Expr::Subquery(query) if is_empty(query) => "subquery must return only one column",
        Expr::InSubquery { subquery, .. } if is_empty(subquery) => "subquery has too few columns",
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => match right.as_ref() {
            Expr::Subquery(query) if is_empty(query) => "subquery has too few columns",
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::SyntaxError, message))
}
