//! Rewrites grouping sets that the planner does not support: positions in grouping sets, and
//! several expressions in one element of ROLLUP or CUBE. Also rewrites GROUPING in a subquery
//! without tables.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Select, SelectItem, SetExpr, Value, ValueWithSpan,
};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{names::fold, walk};

/// Maximum number of grouping sets of a GROUP BY, like in PostgreSQL.
const SETS_MAX: usize = 4_096;

/// Rewrites the grouping sets of a SELECT.
///
/// # Errors
/// `InvalidColumnReference` for a position outside of the select list, `LimitExceeded`.
pub fn write_out(select: &mut Select) -> Result<()> {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return Ok(()) };
    for group in groups {
        let (Expr::Rollup(elements) | Expr::Cube(elements) | Expr::GroupingSets(elements)) = group
        else {
            continue;
        };
        for expr in elements.iter_mut().flatten() {
            at_position(expr, &select.projection)?;
        }
        // DataFusion itself expands ROLLUP and CUBE of distinct single columns.
        let single = elements.iter().enumerate().all(|(at, element)| {
            element.len() == 1 && !elements.iter().take(at).any(|earlier| earlier == element)
        });
        match group {
            Expr::Rollup(elements) if !single => {
                let sets = (0..=elements.len()).rev();
                let set = |length| elements.iter().take(length).flatten().cloned().collect();
                *group = Expr::GroupingSets(sets.map(set).collect());
            }
            Expr::Cube(elements) if !single => *group = Expr::GroupingSets(cube(elements)?),
            _ => {}
        }
        if let Expr::GroupingSets(sets) = group {
            sets.iter_mut().for_each(keep_first);
        }
    }
    Ok(())
}

/// Replaces `(SELECT GROUPING(a))`, a subquery without tables, with `(GROUPING(a))`: the call
/// refers to the groups of the enclosing query.
pub fn lift_grouping(expr: &mut Expr) {
    let Expr::Subquery(query) = expr else { return };
    let (None, None, None) = (&query.with, &query.order_by, &query.limit_clause) else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let is_bare = select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        select.projection.as_mut_slice()
    else {
        return;
    };
    let is_grouping = |expr: &Expr| match expr {
        Expr::Function(call)
            if call.name.0.last().and_then(|part| part.as_ident()).map(fold).as_deref()
                == Some("grouping") =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    if is_bare && query.fetch.is_none() && walk::own_expressions(&*item, is_grouping).is_break() {
        let item = std::mem::replace(item, Expr::Value(Value::Null.into()));
        *expr = Expr::Nested(Box::new(item));
    }
}

/// Removes repeated expressions from a grouping set.
fn keep_first(set: &mut Vec<Expr>) {
    let mut kept: Vec<Expr> = Vec::with_capacity(set.len());
    for expr in set.drain(..) {
        if !kept.contains(&expr) {
            kept.push(expr);
        }
    }
    *set = kept;
}

/// Replaces a position (`GROUP BY ROLLUP (1)`) with the select-list expression at this position.
fn at_position(expr: &mut Expr, projection: &[SelectItem]) -> Result<()> {
    let Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) = &*expr else {
        return Ok(());
    };
    let starred = projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(_, _)));
    if starred {
        return Ok(());
    }
    let position = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    match position.and_then(|position| projection.get(position)) {
        Some(SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) => {
            *expr = item.clone();
            Ok(())
        }
        _ => Err(Error::new(
            ErrorKind::InvalidColumnReference,
            format!("GROUP BY position {number} is not in select list"),
        )),
    }
}

/// The grouping sets of a CUBE: each subset of the elements, the full set first.
fn cube(elements: &[Vec<Expr>]) -> Result<Vec<Vec<Expr>>> {
    let count = u32::try_from(elements.len()).ok().and_then(|count| 1_usize.checked_shl(count));
    let count = count.filter(|count| *count <= SETS_MAX).ok_or_else(|| {
        let message = format!("too many grouping sets present (maximum {SETS_MAX})");
        Error::new(ErrorKind::LimitExceeded, message)
    })?;
    let set = |chosen: usize| {
        let is_chosen = |at: &usize| chosen >> at & 1 == 1;
        let elements = elements.iter().enumerate().filter(|(at, _)| is_chosen(at));
        elements.flat_map(|(_, element)| element.iter().cloned()).collect()
    };
    Ok((0..count).rev().map(set).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use datafusion::sql::sqlparser::ast::Statement;

    fn grouping_sql(sql: &str) -> Result<String> {
        let tree = parse::statements(sql, 10_000)?.remove(0).statement;
        let Statement::Query(query) = tree else { unreachable!("{sql}") };
        let SetExpr::Select(mut select) = *query.body else { unreachable!("{sql}") };
        write_out(&mut select)?;
        Ok(select.group_by.to_string())
    }

    #[test]
    fn positions_and_tuples_are_written_out() {
        for (sql, wanted) in [
            ("SELECT a + 1, b FROM t GROUP BY ROLLUP (1, 2)", "GROUP BY ROLLUP (a + 1, b)"),
            (
                "SELECT a, b FROM t GROUP BY GROUPING SETS ((1, 2), (2), ())",
                "GROUP BY GROUPING SETS ((a, b), (b), ())",
            ),
            (
                "SELECT a, b, c FROM t GROUP BY ROLLUP (a, (b, c))",
                "GROUP BY GROUPING SETS ((a, b, c), (a), ())",
            ),
            (
                "SELECT a, b, c FROM t GROUP BY CUBE ((a, b), c)",
                "GROUP BY GROUPING SETS ((a, b, c), (c), (a, b), ())",
            ),
            ("SELECT a FROM t GROUP BY ROLLUP (a)", "GROUP BY ROLLUP (a)"),
        ] {
            assert_eq!(grouping_sql(sql).unwrap(), wanted, "{sql}");
        }
        let error = grouping_sql("SELECT a FROM t GROUP BY CUBE (2)").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidColumnReference);
    }
}
