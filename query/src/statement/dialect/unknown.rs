//! Membership that is neither true nor false. The planner's answer is false, which is as good
//! where a condition only asks what is true, and wrong below NOT, IS NULL or CASE.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, UnaryOperator,
};

use super::{COMPARED, comparison_column, over, spelling::is_plain};
use crate::statement::{
    names::fold,
    parse,
    walk::{self, Look},
};

/// In a condition of WHERE or HAVING: `x IN (SELECT …)` wherever it matters whether it is
/// false or unknown.
pub fn in_subquery(condition: &mut Expr) {
    conjunct(condition);
}

/// A condition of its own: the planner knows what NOT IN means here.
fn conjunct(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => conjunct(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjunct(left);
            conjunct(right);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr: inner }
            if is_membership(inner) && !is_correlated(inner) => {}
        _ if is_membership(expr) && (!is_negated(expr) || !is_correlated(expr)) => {}
        _ => asked(expr, true),
    }
}

/// Within a condition: `wanted` says which of true and false counts; the other one is as good
/// as unknown.
fn asked(expr: &mut Expr, wanted: bool) {
    match expr {
        Expr::Nested(inner) => asked(inner, wanted),
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            asked(left, wanted);
            asked(right, wanted);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } => asked(inner, !wanted),
        Expr::InSubquery { negated, .. } if wanted != *negated => {}
        Expr::AnyOp { compare_op: BinaryOperator::Eq, .. } if wanted => {}
        Expr::AllOp { compare_op: BinaryOperator::NotEq, .. } if !wanted => {}
        _ => {
            let _ = walk::own_expressions_mut(expr, |expr| {
                spell_out(expr);
                ControlFlow::Continue(())
            });
        }
    }
}

/// Whether it is IN or NOT IN of a subquery, in any spelling.
fn is_membership(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_membership(inner),
        Expr::InSubquery { .. } => true,
        Expr::AnyOp { compare_op: BinaryOperator::Eq, right, .. }
        | Expr::AllOp { compare_op: BinaryOperator::NotEq, right, .. } => {
            matches!(right.as_ref(), Expr::Subquery(_))
        }
        _ => false,
    }
}

fn is_negated(membership: &Expr) -> bool {
    match membership {
        Expr::Nested(inner) => is_negated(inner),
        Expr::InSubquery { negated, .. } => *negated,
        Expr::AllOp { .. } => true,
        _ => false,
    }
}

/// Whether the subquery of a membership names columns of tables that are not its own; the
/// planner has no NOT IN for such.
fn is_correlated(membership: &Expr) -> bool {
    let subquery = match membership {
        Expr::Nested(inner) => return is_correlated(inner),
        Expr::InSubquery { subquery, .. } => subquery.as_ref(),
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => match right.as_ref() {
            Expr::Subquery(subquery) => subquery.as_ref(),
            _ => return false,
        },
        _ => return false,
    };
    let mut tables = Tables { own: Vec::new(), named: Vec::new() };
    let _ = walk::look(subquery, &mut tables);
    tables.named.iter().any(|name| !tables.own.contains(name))
}

/// The tables of a query, and those that its columns are said to be of.
struct Tables {
    own: Vec<String>,
    named: Vec<String>,
}

impl Look for Tables {
    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => {
                self.own.push(fold(&alias.name));
            }
            TableFactor::Table { name, .. } => {
                self.own.extend(name.0.last().and_then(|part| part.as_ident()).map(fold));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(table) = parts.iter().rev().nth(1)
        {
            self.named.push(fold(table));
        }
        ControlFlow::Continue(())
    }
}

/// Spells a membership out.
fn spell_out(expr: &mut Expr) {
    let (left, query, negated) = match expr {
        Expr::InSubquery { expr, subquery, negated } => (expr, subquery.clone(), *negated),
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => match right.as_ref() {
            Expr::Subquery(query) => (left, query.clone(), false),
            _ => return,
        },
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => match right.as_ref() {
            Expr::Subquery(query) => (left, query.clone(), true),
            _ => return,
        },
        _ => return,
    };
    let (left, subquery) = (left.clone(), query.clone());
    let member = Expr::InSubquery { expr: left.clone(), subquery, negated: false };
    let some = Expr::Exists { subquery: query.clone(), negated: false };
    let null = Expr::Exists { subquery: with_null(&query), negated: false };
    let sql = "CASE WHEN \"$member\" THEN true \
               WHEN \"$some\" AND (\"$left\" IS NULL OR \"$null\") THEN NULL ELSE false END";
    let parts = [("$member", member), ("$some", some), ("$left", *left), ("$null", null)];
    if let Some(spelled) = filled(sql, &parts) {
        *expr = not_if(negated, spelled);
    }
}

/// Whether there is a call in it, which may be one of an aggregate.
fn calls(expr: &Expr) -> bool {
    let found = walk::expressions(expr, |expr| match expr {
        Expr::Function(_) | Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The rows of a query of one column that are NULL.
fn with_null(query: &Query) -> Box<Query> {
    // A plain SELECT says so itself, so that what it refers to outside stays in reach.
    if let SetExpr::Select(select) = query.body.as_ref()
        && query.limit_clause.is_none()
        && is_plain(&Select { projection: Vec::new(), ..select.as_ref().clone() })
        && let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
            select.projection.as_slice()
        && !calls(value)
    {
        let mut select = select.clone();
        let null = Expr::IsNull(Box::new(Expr::Nested(Box::new(value.clone()))));
        select.selection = Some(match select.selection.take() {
            Some(condition) => Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(condition))),
                op: BinaryOperator::And,
                right: Box::new(null),
            },
            None => null,
        });
        let mut rows = query.clone();
        rows.order_by = None;
        *rows.body = SetExpr::Select(select);
        return Box::new(rows);
    }
    over(query, &[COMPARED], Expr::IsNull(Box::new(comparison_column())))
}

/// `x = ANY (a)` of a column of arrays, where no element is equal: unknown if the element or
/// one of the array is NULL, unless the array is empty.
pub fn in_array(expr: &mut Expr) {
    let (left, op, right, all) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op.clone(), right, false),
        Expr::AllOp { left, compare_op, right } => match opposite(compare_op) {
            Some(op) => (left, op, right, true),
            None => return,
        },
        _ => return,
    };
    if matches!(right.as_ref(), Expr::Subquery(_)) || !names_column(right) {
        return;
    }
    let any =
        Expr::AnyOp { left: left.clone(), compare_op: op, right: right.clone(), is_some: false };
    let sql = "CASE WHEN \"$any\" THEN true WHEN \"$right\" IS NULL THEN NULL \
               WHEN cardinality(\"$right\") = 0 THEN false \
               WHEN \"$left\" IS NULL OR array_position(\"$right\", NULL) IS NOT NULL THEN NULL \
               ELSE false END";
    let parts = [("$any", any), ("$right", *right.clone()), ("$left", *left.clone())];
    if let Some(spelled) = filled(sql, &parts) {
        *expr = not_if(all, spelled);
    }
}

/// What is true where `op` is false.
fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        _ => return None,
    })
}

fn names_column(expr: &Expr) -> bool {
    let found = walk::expressions(expr, |expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn not_if(negated: bool, expr: Expr) -> Expr {
    let nested = Box::new(Expr::Nested(Box::new(expr)));
    if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: nested } } else { *nested }
}

/// An expression whose quoted names stand for others.
fn filled(sql: &str, parts: &[(&str, Expr)]) -> Option<Expr> {
    let mut expr = parse::expression(sql).ok()?;
    // On the way out, so that what is put in is not looked at.
    let _ = walk::expressions_mut(&mut expr, |expr| {
        if let Expr::Identifier(ident @ Ident { quote_style: Some(_), .. }) = expr
            && let Some((_, part)) = parts.iter().find(|(name, _)| *name == fold(ident))
        {
            *expr = Expr::Nested(Box::new(part.clone()));
        }
        ControlFlow::Continue(())
    });
    Some(expr)
}
