//! Turns long chains of AND, OR and set operations into balanced trees. The parser builds a tree as
//! deep as the chain is long.
//!
//! ```text
//!   ((a OR b) OR c) OR d               ─►     (a OR b) OR (c OR d)
//!   ((a EXCEPT b) EXCEPT c) EXCEPT d   ─►     a EXCEPT ((b UNION ALL c) UNION ALL d)
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, SetExpr, SetOperator, SetQuantifier, Value, Values,
};

use crate::walk::{self, Change, Flow, Tree};

/// Maximum number of operands in a chain of AND or OR that stays unbalanced.
const SHORT_MAX: usize = 64;

/// Maximum number of EXCEPT or INTERSECT operations in a chain that stays unbalanced. The limit is
/// higher than for AND and OR, because a balanced tree may give a column of untyped constants
/// another type.
pub(super) const UNBALANCED_SETS_MAX: usize = 200;

/// Balances the chains in a statement. `links` is the number of AND, OR and set operations in the
/// statement.
pub(super) fn balance(tree: &mut impl Tree, links: usize) {
    if links >= SHORT_MAX {
        let _ = walk::change(tree, &mut Balance);
    }
}

struct Balance;

impl Change for Balance {
    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        balance_sets(&mut query.body);
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

/// Balances the chains of set operations in a query body. A chain of one operation can be the first
/// operand of a chain of another operation; a chain of INTERSECT can be any operand.
fn balance_sets(body: &mut SetExpr) {
    let mut rest = body;
    while matches!(rest, SetExpr::SetOperation { .. }) {
        let operation = operation(rest);
        balance_chain(rest);
        rest = first_operand(rest, operation);
    }
}

/// The first operand of a chain of set operations. `body` is the last operation of the chain, and
/// `chain` its kind; for `None`, the chain is a single operation.
fn first_operand(body: &mut SetExpr, chain: Option<(SetOperator, SetQuantifier)>) -> &mut SetExpr {
    let mut first = body;
    loop {
        first = match first {
            SetExpr::SetOperation { left, .. } => left.as_mut(),
            other => return other,
        };
        if chain.is_none() || operation(first) != chain {
            return first;
        }
    }
}

fn balance_chain(body: &mut SetExpr) {
    let Some((op, quantifier)) = operation(body) else { return };
    let empty = Values { explicit_row: false, value_keyword: false, rows: Vec::new() };
    let mut rest = std::mem::replace(body, SetExpr::Values(empty));
    let mut branches = Vec::new();
    loop {
        let is_link = operation(&rest) == Some((op, quantifier));
        match rest {
            SetExpr::SetOperation { left, mut right, .. } if is_link => {
                balance_sets(&mut right);
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
    let joined_by = |op: SetOperator, set_quantifier: SetQuantifier| {
        move |left: SetExpr, right: SetExpr| SetExpr::SetOperation {
            op,
            set_quantifier,
            left: Box::new(left),
            right: Box::new(right),
        }
    };
    let join = joined_by(op, quantifier);
    let length = branches.len();
    let balanced = match op {
        SetOperator::Union if length > SHORT_MAX => joined(branches, join),
        SetOperator::Intersect if length > UNBALANCED_SETS_MAX => joined(branches, join),
        SetOperator::Except if length > UNBALANCED_SETS_MAX => {
            let mut branches = branches.into_iter();
            let first = branches.next();
            let all = joined_by(SetOperator::Union, SetQuantifier::All);
            let rest = joined(branches.collect(), all);
            first
                .zip(rest)
                .map(|(first, rest)| join(first, SetExpr::Query(Box::new(query_of(rest)))))
        }
        _ => branches.into_iter().reduce(join),
    };
    if let Some(balanced) = balanced {
        *body = balanced;
    }
}

/// The operation at the root of a query body, if its chain may be rearranged.
fn operation(body: &SetExpr) -> Option<(SetOperator, SetQuantifier)> {
    let SetExpr::SetOperation { op, set_quantifier, .. } = body else { return None };
    let quantifier = match set_quantifier {
        SetQuantifier::All => SetQuantifier::All,
        SetQuantifier::None | SetQuantifier::Distinct => SetQuantifier::None,
        _ => return None,
    };
    (*op != SetOperator::Minus).then_some((*op, quantifier))
}

/// A query that consists of a body only, without further clauses.
pub fn query_of(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// Joins items pairwise into a balanced tree that keeps their order; `None` for an empty list.
pub fn joined<T>(mut items: Vec<T>, join: impl Fn(T, T) -> T) -> Option<T> {
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
