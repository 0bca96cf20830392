//! Long chains of AND, OR and UNION as balanced trees: the parser makes a tree with the depth of
//! the chain's length.
//!
//! ```text
//!   ((a OR b) OR c) OR d     ─►     (a OR b) OR (c OR d)
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, SetExpr, SetOperator, SetQuantifier, Value, VisitMut,
};

use crate::statement::walk::{self, Change, Flow};

/// Maximum number of operands of a chain that stays unbalanced.
const SHORT_MAX: usize = 64;

/// Balances the chains of a statement with `links` links.
pub(super) fn balance(tree: &mut impl VisitMut, links: usize) {
    if links >= SHORT_MAX {
        let _ = walk::change(tree, &mut Balance);
    }
}

struct Balance;

impl Change for Balance {
    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        let quantifier = match query.body.as_ref() {
            SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, .. } => {
                Some(*set_quantifier)
            }
            _ => None,
        };
        if let Some(quantifier) = quantifier {
            balance_unions(&mut query.body, quantifier);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        let operator = match expr {
            Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
                Some(op.clone())
            }
            _ => None,
        };
        if let Some(operator) = operator {
            balance_operands(expr, &operator);
        }
        ControlFlow::Continue(())
    }
}

fn balance_operands(expr: &mut Expr, operator: &BinaryOperator) {
    let mut length = 1_usize;
    let mut link = &*expr;
    while let Expr::BinaryOp { left, op, .. } = link
        && op == operator
    {
        length += 1;
        link = left;
    }
    if length <= SHORT_MAX {
        return;
    }
    let mut operands = Vec::with_capacity(length);
    let mut rest = std::mem::replace(expr, Expr::Value(Value::Null.into()));
    loop {
        match rest {
            Expr::BinaryOp { left, op, right } if op == *operator => {
                operands.push(*right);
                rest = *left;
            }
            first => {
                operands.push(first);
                break;
            }
        }
    }
    operands.reverse();
    let join = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: operator.clone(),
        right: Box::new(right),
    };
    if let Some(balanced) = joined(operands, join) {
        *expr = balanced;
    }
}

fn balance_unions(body: &mut SetExpr, quantifier: SetQuantifier) {
    let is_link =
        |op: &SetOperator, other: &SetQuantifier| *op == SetOperator::Union && *other == quantifier;
    let mut length = 1_usize;
    let mut link = &*body;
    while let SetExpr::SetOperation { op, set_quantifier, left, .. } = link
        && is_link(op, set_quantifier)
    {
        length += 1;
        link = left;
    }
    if length <= SHORT_MAX {
        return;
    }
    let mut branches = Vec::with_capacity(length);
    let empty = datafusion::sql::sqlparser::ast::Values {
        explicit_row: false,
        value_keyword: false,
        rows: Vec::new(),
    };
    let mut rest = std::mem::replace(body, SetExpr::Values(empty));
    loop {
        match rest {
            SetExpr::SetOperation { op, set_quantifier, left, right }
                if is_link(&op, &set_quantifier) =>
            {
                branches.push(*right);
                rest = *left;
            }
            first => {
                branches.push(first);
                break;
            }
        }
    }
    branches.reverse();
    let join = |left: SetExpr, right: SetExpr| SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: quantifier,
        left: Box::new(left),
        right: Box::new(right),
    };
    if let Some(balanced) = joined(branches, join) {
        *body = balanced;
    }
}

/// A balanced tree over items, in order; `None` for an empty list.
pub(in crate::statement) fn joined<T>(mut items: Vec<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    while items.len() > 1 {
        let mut pairs = Vec::with_capacity(items.len().div_ceil(2));
        let mut rest = items.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        items = pairs;
    }
    items.pop()
}

#[cfg(test)]
mod tests;
