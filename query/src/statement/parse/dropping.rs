//! The word behind a DROP TABLE that says what of others is in its way: the parser does not know it.
//!
//! ```text
//!   DROP {TABLE | CHRONICLE} [IF EXISTS] name, … [CASCADE | RESTRICT] [ASYNC | FORCE]
//! ```

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::rewrite::{is_keyword, significant};

/// What a DROP does where others have acquired what it drops (F7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dropping {
    /// It fails.
    #[default]
    Released,
    /// ASYNC: it goes when the last has released it.
    Later,
    /// FORCE: it goes at once.
    Anyhow,
}

/// Takes the word off, if it stands there and is no name.
pub fn cut(tokens: &mut Vec<TokenWithSpan>) -> Option<Dropping> {
    let places: Vec<usize> = significant(tokens)
        .into_iter()
        .filter(|at| tokens.get(*at).is_some_and(|token| token.token != Token::EOF))
        .collect();
    let token = |at: usize| places.get(at).and_then(|at| tokens.get(*at)).map(|found| &found.token);
    let is = |at: usize, keyword| token(at).is_some_and(|token| is_keyword(token, keyword));
    if !is(0, Keyword::DROP) || !is(1, Keyword::TABLE) {
        return None;
    }
    let last = places.len().checked_sub(1)?;
    let Some(Token::Word(word)) = token(last) else { return None };
    let dropping = match word.value.to_ascii_lowercase().as_str() {
        _ if word.quote_style.is_some() => return None,
        "async" => Dropping::Later,
        "force" => Dropping::Anyhow,
        _ => return None,
    };
    // Behind these stands a name.
    let before = last.checked_sub(1)?;
    let names_follow = is(before, Keyword::TABLE) || is(before, Keyword::EXISTS);
    if names_follow || !matches!(token(before), Some(Token::Word(_))) {
        return None;
    }
    let at = places.get(last).copied()?;
    tokens.remove(at);
    Some(dropping)
}
