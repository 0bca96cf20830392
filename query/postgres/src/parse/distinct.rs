//! Corrects the grouping of IS DISTINCT FROM: `a IS DISTINCT FROM b AND c` means `(a IS DISTINCT
//! FROM b) AND c`, but the parser reads `b AND c` as the second operand.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement, UnaryOperator, Value};

use crate::walk::{self, Change};

/// Ends the second operand of each IS [NOT] DISTINCT FROM before an AND or OR.
pub fn end_operands(statement: &mut Statement) {
    let _ = walk::change(statement, &mut Operands);
}

struct Operands;

impl Change for Operands {
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(
            expr,
            Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. }
                | Expr::UnaryOp { op: UnaryOperator::Not, .. }
                | Expr::IsDistinctFrom(..)
                | Expr::IsNotDistinctFrom(..)
        ) {
            let whole = std::mem::replace(expr, Expr::value(Value::Null));
            let (first, rest) = split_operands(whole);
            *expr = rest.into_iter().fold(first, |left, (op, right)| joined(left, op, right));
        }
        ControlFlow::Continue(())
    }
}

type Rest = Vec<(BinaryOperator, Expr)>;

fn joined(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// Splits a chain `a AND b OR c …` into its first operand and the rest: each further operand with
/// the AND or OR in front. Chains can be long; the function therefore uses a loop and not
/// recursion.
fn unchained(mut expr: Expr) -> (Expr, Rest) {
    let mut rest = Rest::new();
    loop {
        match expr {
            Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
                rest.push((op, *right));
                expr = *left;
            }
            first => {
                rest.reverse();
                return (first, rest);
            }
        }
    }
}

/// Splits an expression into the part that belongs together, and the further operands that the
/// parser wrongly put inside of an IS DISTINCT FROM.
fn split_operands(expr: Expr) -> (Expr, Rest) {
    let (first, chain) = unchained(expr);
    let (mut whole, mut kept) = match first {
        Expr::IsDistinctFrom(left, right) => {
            let (right, rest) = first_operand(*right);
            (Expr::IsDistinctFrom(left, Box::new(right)), rest)
        }
        Expr::IsNotDistinctFrom(left, right) => {
            let (right, rest) = first_operand(*right);
            (Expr::IsNotDistinctFrom(left, Box::new(right)), rest)
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            let (inner, rest) = split_operands(*expr);
            (Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(inner) }, rest)
        }
        other => (other, Rest::new()),
    };
    for (op, right) in chain {
        let (right, rest) = split_operands(right);
        for (op, right) in [(op, right)].into_iter().chain(rest) {
            // AND binds to the previous operand; OR is left for the enclosing expression.
            match (op, kept.pop()) {
                (BinaryOperator::And, Some((before, last))) => {
                    kept.push((before, joined(last, BinaryOperator::And, right)));
                }
                (BinaryOperator::And, None) => whole = joined(whole, BinaryOperator::And, right),
                (op, before) => {
                    kept.extend(before);
                    kept.push((op, right));
                }
            }
        }
    }
    (whole, kept)
}

/// The first operand in a chain of ANDs and ORs, and the further operands, each with its AND or OR.
fn first_operand(expr: Expr) -> (Expr, Rest) {
    let (first, chain) = unchained(expr);
    let (first, mut rest) = split_operands(first);
    for (op, right) in chain {
        let (right, more) = split_operands(right);
        rest.push((op, right));
        rest.extend(more);
    }
    (first, rest)
}
