//! Supports a parameter after ESCAPE, `v LIKE p ESCAPE $1`: the parser stores the escape character
//! as a constant, which cannot be a parameter.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::{
    ast::{Expr, Statement, Value, ValueWithSpan},
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::rewrite::{is_keyword, significant};
use crate::{
    parse::call,
    walk::{self, Change, Flow},
};

/// True if the tokens contain a parameter directly after ESCAPE.
pub(super) fn has_parameter(tokens: &[TokenWithSpan]) -> bool {
    let places = significant(tokens);
    let pairs = places.iter().zip(places.iter().skip(1));
    pairs.into_iter().any(|(word, value)| {
        let is_word =
            tokens.get(*word).is_some_and(|word| is_keyword(&word.token, Keyword::ESCAPE));
        let is_parameter = |value: &TokenWithSpan| matches!(value.token, Token::Placeholder(_));
        is_word && tokens.get(*value).is_some_and(is_parameter)
    })
}

/// Moves the escape character into the pattern, which then uses the usual escape character, a
/// backslash.
pub(super) fn into_patterns(statement: &mut Statement) {
    let _ = walk::change(statement, &mut Escapes);
}

struct Escapes;

impl Change for Escapes {
    fn post_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        if let Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } =
            expr
            && let Some(escape @ ValueWithSpan { value: Value::Placeholder(_), .. }) = &*escape_char
            && let Some(read) =
                call("like_escape", vec![(**pattern).clone(), Expr::Value(escape.clone())])
        {
            **pattern = read;
            *escape_char = None;
        }
        ControlFlow::Continue(())
    }
}
