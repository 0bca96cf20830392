//! Parses the last word of a DROP TABLE, ASYNC or FORCE, which the parser does not know. The word
//! says what happens if other sessions have acquired the table.
//!
//! ```text
//!   DROP {TABLE | CHRONICLE} [IF EXISTS] name, … [CASCADE | RESTRICT] [ASYNC | FORCE]
//! ```

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::rewrite::{is_keyword, significant};

/// How a DROP behaves if other sessions have acquired the table (F7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DropMode {
    /// Without a word: the DROP fails.
    #[default]
    IfReleased,
    /// ASYNC: drops the table after the last release.
    Async,
    /// FORCE: drops the table immediately.
    Force,
}

/// Removes the word from the tokens and returns its mode; `None` if the last word is a name.
pub fn cut(tokens: &mut Vec<TokenWithSpan>) -> Option<DropMode> {
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
        "async" => DropMode::Async,
        "force" => DropMode::Force,
        _ => return None,
    };
    // After TABLE or EXISTS, the word is the name of the table.
    let before = last.checked_sub(1)?;
    let names_follow = is(before, Keyword::TABLE) || is(before, Keyword::EXISTS);
    if names_follow || !matches!(token(before), Some(Token::Word(_))) {
        return None;
    }
    let at = places.get(last).copied()?;
    tokens.remove(at);
    Some(dropping)
}
