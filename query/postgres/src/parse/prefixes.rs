//! Shortens long runs of a prefix operator. Each operator would be a level of recursion, and two
//! operators of NOT, `-` or `~` cancel each other.
//!
//! ```text
//!   NOT NOT NOT NOT NOT NOT NOT NOT NOT x     ─►     NOT NOT NOT x
//! ```
//!
//! Also puts parentheses between two signs: the text of a tree has no blank between two signs, and
//! `--` would begin a comment.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::{
    ast::{Expr, UnaryOperator, Value},
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::rewrite::is_keyword;
use crate::walk::{self, Tree};

/// Maximum length of a run that stays unchanged.
const RUN_MAX: usize = 8;

/// Replaces a long run of operators with three or four operators, an odd or even number as before.
/// Three operators cause the same errors as the long run: the first `-` may be a subtraction, and
/// the smallest integer cannot be negated.
pub(super) fn without_long_runs(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut dropped: Vec<usize> = Vec::new();
    let (mut run, mut of) = (Vec::new(), None);
    for (at, token) in tokens.iter().enumerate() {
        if matches!(token.token, Token::Whitespace(_)) {
            continue;
        }
        let operator = prefix(&token.token);
        if operator != of {
            dropped.extend(surplus(&run));
            run.clear();
        }
        if operator.is_some() {
            run.push(at);
        }
        of = operator;
    }
    dropped.extend(surplus(&run));
    if dropped.is_empty() {
        return tokens;
    }
    let mut dropped = dropped.into_iter().peekable();
    let kept = tokens.into_iter().enumerate().filter(|(at, _)| dropped.next_if_eq(at).is_none());
    kept.map(|(_, token)| token).collect()
}

/// True if the tokens contain two signs in a row.
pub(super) fn has_adjacent_signs(tokens: &[TokenWithSpan]) -> bool {
    let is_sign =
        |token: &&TokenWithSpan| matches!(token.token, Token::Minus | Token::Plus | Token::Tilde);
    let tokens = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    tokens.clone().zip(tokens.skip(1)).any(|(sign, next)| is_sign(&sign) && is_sign(&next))
}

/// Puts parentheses between two signs: `- - x` becomes `- (- x)`. Otherwise the text of the tree
/// would contain `--`, a comment.
pub(super) fn separate_signs(tree: &mut impl Tree) {
    let is_sign = |op: &UnaryOperator| *op != UnaryOperator::Not;
    let _ = walk::expressions_mut(tree, |expr| {
        if let Expr::UnaryOp { op, expr: operand } = expr
            && is_sign(op)
            && matches!(operand.as_ref(), Expr::UnaryOp { op, .. } if is_sign(op))
        {
            let signed = std::mem::replace(operand.as_mut(), Expr::Value(Value::Null.into()));
            **operand = Expr::Nested(Box::new(signed));
        }
        ControlFlow::Continue(())
    });
}

/// The indexes of the operators that cancel each other and can be removed.
fn surplus(run: &[usize]) -> &[usize] {
    let kept = match run.len() {
        length if length <= RUN_MAX => length,
        length => 4 - length % 2,
    };
    run.get(kept..).unwrap_or(&[])
}

/// The prefix operator that a token can be; `None` for other tokens.
fn prefix(token: &Token) -> Option<&'static str> {
    match token {
        Token::Minus => Some("-"),
        Token::Plus => Some("+"),
        Token::Tilde => Some("~"),
        token if is_keyword(token, Keyword::NOT) => Some("not"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
