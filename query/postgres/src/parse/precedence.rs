//! Regroups operators that the parser groups in another way than PostgreSQL:
//!
//! ```text
//!   text           parser            PostgreSQL
//!   @ a - b        (@ a) - b         @ (a - b)          a prefix operator binds weaker than arithmetic
//!   - a ^ b        - (a ^ b)         (- a) ^ b          a sign binds tighter than a power
//!   OPERATOR(-) a + b                 - (a + b)        `forms` writes the sign as `?-`
//!   a ^ - b ^ c    a ^ (- (b ^ c))   (a ^ (- b)) ^ c    powers group from the left
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::{
    ast::{BinaryOperator, Expr, UnaryOperator, Value},
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::rewrite::is_keyword;
use crate::walk::{self, Tree};

/// True if a statement has an operator that the parser may group wrongly.
pub(super) fn has_operator(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| {
        matches!(
            token.token,
            Token::Caret | Token::AtSign | Token::Tilde | Token::PGSquareRoot | Token::PGCubeRoot
        ) || is_keyword(&token.token, Keyword::OPERATOR)
    })
}

/// Groups the operators of a tree as PostgreSQL does.
pub(super) fn regroup(tree: &mut impl Tree) {
    // The walk visits the operands first.
    let _ = walk::expressions_mut(tree, |expr| {
        match expr {
            Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, .. } => bind_sign(expr),
            Expr::BinaryOp { op, .. } if is_arithmetic(op) => {
                regroup_power(expr);
                bind_prefix(expr);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    let _ = walk::expressions_mut(tree, |expr| {
        if let Expr::UnaryOp { op, expr: operand } = expr
            && let Some(sign) = named_sign(*op)
        {
            *op = sign;
            if !matches!(**operand, Expr::Nested(_)) {
                **operand = Expr::Nested(Box::new(take(operand)));
            }
        }
        ControlFlow::Continue(())
    });
}

/// The plain sign for the token that replaces OPERATOR(+) or OPERATOR(-); `None` for other
/// operators.
fn named_sign(op: UnaryOperator) -> Option<UnaryOperator> {
    match op {
        UnaryOperator::QuestionDash => Some(UnaryOperator::Minus),
        UnaryOperator::AtDashAt => Some(UnaryOperator::Plus),
        _ => None,
    }
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, PGExp, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo | PGExp)
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}

/// The operand of a sign, or the right operand of an arithmetic operator.
fn last_operand(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::BinaryOp { op, right, .. } if is_arithmetic(op) => Some(right),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => Some(expr),
        _ => None,
    }
}

/// Regroups `(@ a) - b` as `@ (a - b)`.
fn bind_prefix(expr: &mut Expr) {
    let Expr::BinaryOp { left, op, right } = expr else { return };
    let Some(operand) = prefix_operand(left) else { return };
    let (first, op, right) = (Box::new(take(operand)), op.clone(), Box::new(take(right)));
    *operand = Expr::BinaryOp { left: first, op, right };
    bind_prefix(operand);
    *expr = take(left);
}

/// The operand of the prefix operator at the end of an expression; `None` without such an operator.
fn prefix_operand(expr: &mut Expr) -> Option<&mut Expr> {
    use UnaryOperator::{AtDashAt, BitwiseNot, PGAbs, PGCubeRoot, PGSquareRoot, QuestionDash};
    match expr {
        Expr::UnaryOp {
            op: BitwiseNot | PGAbs | PGCubeRoot | PGSquareRoot | QuestionDash | AtDashAt,
            expr,
        } => Some(expr),
        other => prefix_operand(last_operand(other)?),
    }
}

/// Regroups `- (2 ^ 2)` as `(-2) ^ 2`.
fn bind_sign(expr: &mut Expr) {
    let Expr::UnaryOp { op, expr: inner } = expr else { return };
    if !matches!(**inner, Expr::BinaryOp { op: BinaryOperator::PGExp, .. }) {
        return;
    }
    let (op, mut power) = (*op, take(inner));
    let base = first_base(&mut power);
    *base = Expr::UnaryOp { op, expr: Box::new(take(base)) };
    *expr = power;
}

/// Regroups `a ^ (- (b ^ c))` as `(a ^ (-b)) ^ c`.
fn regroup_power(expr: &mut Expr) {
    let Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } = expr else { return };
    if !matches!(**right, Expr::BinaryOp { op: BinaryOperator::PGExp, .. }) {
        return;
    }
    let (base, mut power) = (take(left), take(right));
    let first = first_base(&mut power);
    let (left, right) = (Box::new(base), Box::new(take(first)));
    *first = Expr::BinaryOp { left, op: BinaryOperator::PGExp, right };
    *expr = power;
}

/// The base of the first power in a chain of powers `a ^ b ^ c`.
fn first_base(power: &mut Expr) -> &mut Expr {
    match power {
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, .. } => first_base(left),
        base => base,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// The text of an expression with parentheses around each operation.
    fn grouped(expr: &Expr) -> String {
        match expr {
            Expr::BinaryOp { left, op, right } => {
                format!("({} {op} {})", grouped(left), grouped(right))
            }
            Expr::UnaryOp { op, expr } => format!("({op} {})", grouped(expr)),
            Expr::Nested(inner) => grouped(inner),
            other => other.to_string(),
        }
    }

    #[test]
    fn operators_group_as_in_postgresql() {
        for (sql, wanted) in [
            ("@ a - b", "(@ (a - b))"),
            ("@ a - b - c", "(@ ((a - b) - c))"),
            ("1 + @ a - b", "(1 + (@ (a - b)))"),
            ("2 * ~ a - b", "(2 * (~ (a - b)))"),
            ("2 * (~ a) - b", "((2 * (~ a)) - b)"),
            ("@ ~ a - b", "(@ (~ (a - b)))"),
            ("- @ a - b", "(- (@ (a - b)))"),
            ("|/ a + b = c", "((|/ (a + b)) = c)"),
            ("a - b", "(a - b)"),
            ("- a ^ b", "((- a) ^ b)"),
            ("- - a ^ b", "((- (- a)) ^ b)"),
            ("a ^ b ^ c", "((a ^ b) ^ c)"),
            ("a ^ - b ^ c", "((a ^ (- b)) ^ c)"),
            ("- a ^ - b ^ c", "(((- a) ^ (- b)) ^ c)"),
            ("- a ^ - b ^ - c ^ d", "((((- a) ^ (- b)) ^ (- c)) ^ d)"),
            ("- (a ^ b)", "(- (a ^ b))"),
        ] {
            assert_eq!(grouped(&parse::expression(sql).unwrap()), wanted, "{sql}");
        }
    }
}
