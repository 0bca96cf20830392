//! Replaces positions in ORDER BY and DISTINCT ON. PostgreSQL reads a constant there as a position
//! in the select list; the planner does not:
//!
//! ```text
//!   SELECT DISTINCT ON (2) lower(s), h FROM t   ─►   SELECT DISTINCT ON (h) lower(s), h FROM t
//!   ORDER BY (2), 1                                  ORDER BY h, lower(s)
//! ```

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    UnaryOperator, Value, ValueWithSpan,
};
use stratalog_model::{Error, ErrorKind, Result};

use crate::names::{fold, name_of_item};

/// Replaces the positions in the ORDER BY and DISTINCT ON of a query with expressions.
///
/// # Errors
/// `SyntaxError` for a constant that is not a position, `InvalidColumnReference` for a position
/// outside of the select list.
pub fn write_out(query: &mut Query) -> Result<()> {
    let order_by = query.order_by.as_mut();
    if let Some(order) = order_by.and_then(keys) {
        for key in order {
            at_position(key, "ORDER BY")?;
        }
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    of_groups(select)?;
    if !matches!(select.distinct, Some(Distinct::On(_))) {
        return Ok(());
    }
    name_casts(select, query.order_by.as_mut());
    let has_star = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(_, _)));
    let items = select.projection.clone();
    let Some(Distinct::On(told_apart)) = &mut select.distinct else { return Ok(()) };
    for expr in told_apart.iter_mut() {
        at_position(expr, "DISTINCT ON")?;
        if !has_star {
            take_item(expr, &items, "DISTINCT ON")?;
        }
    }
    let mut kept: Vec<Expr> = Vec::with_capacity(told_apart.len());
    for expr in told_apart.drain(..) {
        if !kept.contains(&expr) {
            kept.push(expr);
        }
    }
    *told_apart = kept;
    let Some(order) = query.order_by.as_mut().and_then(keys) else { return Ok(()) };
    let mut sorted: Vec<Expr> = Vec::new();
    for key in order {
        if !has_star {
            take_item(key, &items, "ORDER BY")?;
        }
        sorted.push(key.clone());
    }
    in_order(told_apart, &sorted);
    Ok(())
}

fn keys(order_by: &mut OrderBy) -> Option<impl Iterator<Item = &mut Expr>> {
    match &mut order_by.kind {
        OrderByKind::Expressions(keys) => Some(keys.iter_mut().map(|key| &mut key.expr)),
        OrderByKind::All(_) => None,
    }
}

/// Checks the constants of GROUP BY: only positions are allowed.
fn of_groups(select: &mut Select) -> Result<()> {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return Ok(()) };
    groups.iter_mut().try_for_each(|group| at_position(group, "GROUP BY"))
}

/// Removes the parentheses around a position. Other constants are an error.
fn at_position(expr: &mut Expr, clause: &str) -> Result<()> {
    let (mut bare, mut is_negative) = (&*expr, false);
    loop {
        bare = match bare {
            Expr::Nested(inner) => inner,
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner }
                if matches!(unwrapped(inner), Expr::Value(_)) =>
            {
                is_negative = !is_negative;
                inner
            }
            _ => break,
        };
    }
    let Expr::Value(ValueWithSpan { value, .. }) = bare else { return Ok(()) };
    match value {
        Value::Number(digits, _) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let nothing = digits.bytes().all(|byte| byte == b'0');
            if nothing || is_negative {
                let sign = if is_negative && !nothing { "-" } else { "" };
                return Err(not_in_list(clause, &format!("{sign}{digits}")));
            }
            *expr = Expr::Value(bare_value(value));
            Ok(())
        }
        Value::Placeholder(_) => Ok(()),
        _ => Err(Error::new(ErrorKind::SyntaxError, format!("non-integer constant in {clause}"))),
    }
}

fn bare_value(value: &Value) -> ValueWithSpan {
    value.clone().into()
}

fn unwrapped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unwrapped(inner),
        other => other,
    }
}

fn not_in_list(clause: &str, position: &str) -> Error {
    Error::new(
        ErrorKind::InvalidColumnReference,
        format!("{clause} position {position} is not in select list"),
    )
}

/// Replaces a position with the select-list expression at this position.
fn take_item(expr: &mut Expr, items: &[SelectItem], clause: &str) -> Result<()> {
    let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = &*expr else {
        return Ok(());
    };
    let at = digits.parse::<usize>().ok().and_then(|position| position.checked_sub(1));
    match at.and_then(|at| items.get(at)) {
        Some(SelectItem::UnnamedExpr(item)) => {
            *expr = item.clone();
            Ok(())
        }
        Some(SelectItem::ExprWithAlias { alias, .. }) => {
            *expr = Expr::Identifier(alias.clone());
            Ok(())
        }
        _ => Err(not_in_list(clause, digits)),
    }
}

/// Gives a cast in the select list PostgreSQL's column name as an alias, if DISTINCT ON or ORDER BY
/// mentions this name. Applies only to a SELECT with DISTINCT ON.
fn name_casts(select: &mut Select, order_by: Option<&mut OrderBy>) {
    let Some(Distinct::On(told_apart)) = &select.distinct else { return };
    let mut mentioned: Vec<String> = Vec::new();
    let mut mention = |expr: &Expr| {
        if let Expr::Identifier(name) = unwrapped(expr) {
            mentioned.push(fold(name));
        }
    };
    told_apart.iter().for_each(&mut mention);
    if let Some(order) = order_by.and_then(keys) {
        order.for_each(|key| mention(key));
    }
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr @ Expr::Cast { .. }) = &*item else { continue };
        let name = name_of_item(item);
        if mentioned.contains(&name) {
            let alias = Ident::with_quote('"', name);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// Orders the expressions of DISTINCT ON (`told_apart`) like the keys of ORDER BY (`sorted`): the
/// planner expects the same order in both lists.
fn in_order(told_apart: &mut [Expr], sorted: &[Expr]) {
    let place = |expr: &Expr| {
        let place = sorted.iter().position(|key| are_same(key, expr));
        place.unwrap_or(usize::MAX)
    };
    told_apart.sort_by_key(place);
}

fn are_same(left: &Expr, right: &Expr) -> bool {
    match (unwrapped(left), unwrapped(right)) {
        (Expr::Identifier(left), Expr::Identifier(right)) => fold(left) == fold(right),
        (left, right) => left == right,
    }
}
