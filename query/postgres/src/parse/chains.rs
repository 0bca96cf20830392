//! Refuses chains of operators that PostgreSQL does not allow: the parser groups `a < b < c` from
//! the left, and PostgreSQL reports an error at the second operator.
//!
//! ```text
//!   comparisons     a < b = c                     also a = b = ANY (c)
//!   patterns        a LIKE b LIKE c               also BETWEEN, and IN after LIKE
//!   IS              a IS DISTINCT FROM b IS NULL
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::{
    ast::{BinaryOperator, Expr, Spanned},
    tokenizer::{Location, Token, TokenWithSpan},
};

use super::rewrite::significant;
use crate::walk::{self, Tree};

/// Keywords after which a new operand begins, so that no operator chain continues.
const ENDS: [&str; 17] = [
    "or", "where", "on", "from", "select", "having", "when", "then", "else", "join", "group",
    "order", "limit", "union", "using", "set", "values",
];

/// The operators since the last opening parenthesis that a second operator could continue to a
/// chain.
#[derive(Debug, Default)]
struct OpenOperators {
    compares: bool,
    matches: bool,
    is_distinct: bool,
    /// The number of BETWEEN operators whose AND has not followed yet.
    ranges: usize,
}

/// Collects, from the tokens, the operators that may continue a chain. The result is a superset: it
/// may include a few operators that do not continue a chain.
pub(super) fn continuations(tokens: &[TokenWithSpan]) -> Vec<&TokenWithSpan> {
    let places = significant(tokens);
    let token = |place: usize| places.get(place).and_then(|at| tokens.get(*at));
    let word = |place: usize| match token(place).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.as_str(),
        _ => "",
    };
    let is = |place: usize, wanted: &str| word(place).eq_ignore_ascii_case(wanted);
    let mut found = Vec::new();
    let mut outer: Vec<OpenOperators> = Vec::new();
    let mut open = OpenOperators::default();
    for place in 0..places.len() {
        let Some(current) = token(place) else { break };
        match &current.token {
            Token::LParen | Token::LBracket => outer.push(std::mem::take(&mut open)),
            Token::RParen | Token::RBracket => open = outer.pop().unwrap_or_default(),
            Token::Comma | Token::SemiColon => open = OpenOperators::default(),
            Token::Eq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq => {
                if open.compares {
                    found.push(current);
                }
                (open.compares, open.matches) = (true, false);
            }
            Token::Word(_) if is(place, "case") => outer.push(std::mem::take(&mut open)),
            Token::Word(_) if is(place, "end") => open = outer.pop().unwrap_or_default(),
            Token::Word(_) if is(place, "and") => match open.ranges.checked_sub(1) {
                Some(ranges) => open.ranges = ranges,
                None => open = OpenOperators::default(),
            },
            Token::Word(_) if is(place, "is") => {
                if open.is_distinct {
                    found.push(current);
                }
                let distinct = place + 1 + usize::from(is(place + 1, "not"));
                open =
                    OpenOperators { is_distinct: is(distinct, "distinct"), ..Default::default() };
            }
            Token::Word(_) if is(place, "isnull") || is(place, "notnull") => {
                if open.is_distinct {
                    found.push(current);
                }
                open = OpenOperators::default();
            }
            Token::Word(_) if is_pattern(word(place)) => {
                if open.matches {
                    let negation = place.checked_sub(1).filter(|before| is(*before, "not"));
                    found.extend(negation.map_or(Some(current), token));
                }
                open.matches = !is(place, "in");
                open.ranges += usize::from(is(place, "between"));
            }
            // The word is part of an operator, as in IS DISTINCT FROM.
            Token::Word(_)
                if is(place, "from")
                    && place.checked_sub(1).is_some_and(|before| is(before, "distinct")) => {}
            Token::Word(_) if ENDS.iter().any(|end| is(place, end)) => {
                open = OpenOperators::default();
            }
            _ => {}
        }
    }
    found
}

fn is_pattern(word: &str) -> bool {
    ["like", "ilike", "similar", "between", "in"].iter().any(|one| word.eq_ignore_ascii_case(one))
}

/// The operator that continues a forbidden chain in the parser's tree, chosen from `continuations`;
/// `None` if the tree has no such chain.
pub(super) fn continuation<'a>(
    tree: &impl Tree,
    continuations: &[&'a TokenWithSpan],
) -> Option<&'a TokenWithSpan> {
    let mut operand: Option<Location> = None;
    let is_chained = walk::expressions(tree, |expr| match second_operand(expr) {
        Some(second) => {
            operand = Some(second.span().start);
            ControlFlow::Break(())
        }
        None => ControlFlow::Continue(()),
    });
    let operand = operand.filter(|_| is_chained.is_break())?;
    let before = continuations.iter().rev().find(|token| token.span.start < operand);
    before.or_else(|| continuations.first()).copied()
}

/// The right operand of the second operator in a forbidden chain; `None` if the expression is not
/// such a chain.
fn second_operand(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } if is_comparison(op) && compares(left) => Some(right),
        Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } if compares(left) => {
            Some(right)
        }
        Expr::Like { expr, pattern, .. }
        | Expr::ILike { expr, pattern, .. }
        | Expr::SimilarTo { expr, pattern, .. }
            if matches_pattern(expr) =>
        {
            Some(pattern)
        }
        Expr::Between { expr, low, .. } if matches_pattern(expr) => Some(low),
        Expr::InList { expr, list, .. } if matches_pattern(expr) => list.first(),
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => is_test(right),
        _ => None,
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | Gt | LtEq | GtEq)
}

fn compares(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op, .. } if is_comparison(op))
}

/// True for a pattern match (LIKE and similar) that does not end with a closing parenthesis.
fn matches_pattern(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } | Expr::Between { .. }
    )
}

/// The last operand of an IS test; `None` for other expressions.
fn is_test(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => Some(right),
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsNormalized { .. } => Some(expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    #[test]
    fn chains_are_refused_at_the_second_operator() {
        for (sql, position) in [
            ("SELECT 1 < 2 < 3", 14),
            ("SELECT a = b = c", 14),
            ("SELECT 1 != 2 != 3", 15),
            ("SELECT 1 = 1 OR 2 = 2 = true", 23),
            ("SELECT abs(1) = 1 = true", 19),
            ("SELECT (SELECT 1 < 2 < 3)", 22),
            ("SELECT 1 = - 2 = 3", 16),
            ("SELECT true = 1 = ANY (ARRAY[1])", 17),
            ("SELECT 'a' LIKE 'b' LIKE 'c'", 21),
            ("SELECT 'a' NOT LIKE 'b' NOT LIKE 'c'", 25),
            ("SELECT 1 BETWEEN 0 AND 2 BETWEEN 1 AND 2", 26),
            ("SELECT 1 IS DISTINCT FROM 2 IS DISTINCT FROM 3", 29),
            ("SELECT CASE WHEN a = 1 = b THEN 1 END", 24),
        ] {
            let error = parse::statements(sql, 1 << 10).unwrap_err();
            assert_eq!(error.position(), Some(position), "{sql}: {error}");
        }
    }

    #[test]
    fn parentheses_and_other_levels_end_a_chain() {
        for sql in [
            "SELECT (1 < 2) = true, 1 = (2 = 3), a = 1 AND b = 2 OR c = 3",
            "SELECT 1 IN (1) = true, 1 IN (1) IN (true), 1 = ANY (a) = true",
            "SELECT 'a' LIKE 'b' = false, false = 'a' LIKE 'b', a LIKE b = c LIKE d",
            "SELECT 1 = 2 IS NULL, 1 IS NULL = false, 1 IS NULL IS NULL",
            "SELECT 1 = 2 IS DISTINCT FROM true, a = CASE WHEN b = 1 THEN 2 END",
            "SELECT 1 FROM t JOIN u ON t.a = u.a WHERE b = 1 GROUP BY c = 1 HAVING d = 1",
            "SELECT a BETWEEN 1 AND 2 AND b BETWEEN 1 AND 2 AND c = 1",
            "UPDATE t SET a = 1 WHERE b = 2",
        ] {
            assert!(parse::statements(sql, 1 << 10).is_ok(), "{sql}");
        }
    }
}
