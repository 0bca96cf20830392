//! Rewrites forms of SET ROLE and SET SESSION AUTHORIZATION that the parser does not know (left) to
//! known forms (right):
//!
//! ```text
//!   SET ROLE 'a'                              SET ROLE "a"
//!   SET LOCAL SESSION AUTHORIZATION 'a'       SET LOCAL AUTHORIZATION "a"
//!   SET SESSION SESSION AUTHORIZATION a       SET SESSION AUTHORIZATION a
//! ```

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::super::{rewrite::significant, words::Words};

/// Rewrites the tokens of a SET. Other statements stay unchanged.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let words = Words::new(tokens);
    if !words.is(0, "set") {
        return;
    }
    let has_scope = words.is(1, "local")
        || words.is(1, "session") && (words.is(2, "session") || words.is(2, "role"));
    let at = 1 + usize::from(has_scope);
    let (value, dropped) = match () {
        () if words.is(at, "role") => (at + 1, None),
        () if words.is(at, "session") && words.is(at + 1, "authorization") => {
            (at + 2, has_scope.then_some(at))
        }
        () => return,
    };
    let places = significant(tokens);
    let token = places.get(value).and_then(|at| tokens.get_mut(*at));
    if let Some(token) = token
        && let Token::SingleQuotedString(text) = &token.token
    {
        token.token = Token::make_word(&text.clone(), Some('"'));
    }
    if let Some(at) = dropped.and_then(|at| places.get(at)) {
        tokens.remove(*at);
    }
}
