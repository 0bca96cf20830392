//! Rewrites forms of ALTER TABLE (left) that the parser does not know to known forms (right):
//!
//! ```text
//!   ALTER TABLE t RESET (a, b)                        ALTER TABLE t SET (a = 'default', b = 'default')
//!   ALTER TABLE t ADD … PRIMARY KEY (k) WITH (a = 1)  ALTER TABLE t ADD … PRIMARY KEY (k), SET (a = 1)
//! ```

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::rewrite::{is_keyword, significant};

/// Rewrites the tokens of an ALTER TABLE. Other statements stay unchanged.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let is = |at: usize, keyword| {
        let token = places.get(at).and_then(|at| tokens.get(*at));
        token.is_some_and(|token| is_keyword(&token.token, keyword))
    };
    if !is(0, Keyword::ALTER) || !is(1, Keyword::TABLE) {
        return;
    }
    let token = |at: usize| places.get(at).and_then(|at| tokens.get(*at)).map(|found| &found.token);
    for at in 2..places.len() {
        if token(at + 1) != Some(&Token::LParen) {
            continue;
        }
        if is(at, Keyword::RESET) && !is_keyword_before(token(at.wrapping_sub(1))) {
            let end = (at + 2..places.len()).find(|at| token(*at) == Some(&Token::RParen));
            if let Some(end) = end {
                reset(tokens, &places, at, end);
            }
            return;
        }
        if is(at, Keyword::WITH) && token(at.wrapping_sub(1)) == Some(&Token::RParen) {
            if let Some(with) = places.get(at).copied() {
                separate_action(tokens, with);
            }
            return;
        }
    }
}

/// True if the previous word makes RESET a name: `ALTER TABLE ONLY reset`, `ADD COLUMN reset`.
fn is_keyword_before(token: Option<&Token>) -> bool {
    let keywords = [Keyword::TABLE, Keyword::ONLY, Keyword::EXISTS, Keyword::COLUMN, Keyword::ADD];
    token.is_some_and(|token| keywords.into_iter().any(|keyword| is_keyword(token, keyword)))
}

/// Rewrites RESET as SET. `at` and `end` are indexes in `places`: of RESET, and of the end of its
/// names.
fn reset(tokens: &mut Vec<TokenWithSpan>, places: &[usize], at: usize, end: usize) {
    let names: Vec<usize> = places.get(at + 2..end).unwrap_or_default().to_vec();
    for name in names.into_iter().rev() {
        let Some(TokenWithSpan { token: Token::Word(_), span }) = tokens.get(name).cloned() else {
            continue;
        };
        let value = Token::SingleQuotedString("default".to_string());
        let value = [Token::Eq, value].map(|token| TokenWithSpan::new(token, span));
        tokens.splice(name + 1..name + 1, value);
    }
    if let Some(token) = places.get(at).and_then(|at| tokens.get_mut(*at)) {
        token.token = Token::make_keyword("SET");
    }
}

/// Turns the WITH clause of an added key into a separate SET action of the ALTER TABLE.
fn separate_action(tokens: &mut Vec<TokenWithSpan>, with: usize) {
    let Some(span) = tokens.get(with).map(|token| token.span) else { return };
    let action = [Token::Comma, Token::make_keyword("SET")];
    tokens.splice(with..=with, action.map(|token| TokenWithSpan::new(token, span)));
}
