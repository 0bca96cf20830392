//! Rewrites AS OF SEALED at the end of a query as a lock clause, which the parser knows.
//!
//! ```text
//!   AS OF SEALED ─► FOR SHARE OF a name that no table has ─► removed when the query is planned
//!     (tokens)         (the parser knows this clause)
//! ```

use datafusion::sql::sqlparser::{
    ast::{LockClause, Query},
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Word},
};
use stratalog_model::{Error, ErrorKind, Result};

use super::rewrite::{is_keyword, significant};
use crate::walk::{self, Flow, Look};

/// The table name in the lock clause that stands for AS OF SEALED.
const MARK: &str = "\u{1}sealed";

/// Rewrites AS OF SEALED at the end of a query as a FOR SHARE clause, which the parser knows.
pub fn as_a_lock(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let token = |at: Option<&usize>| at.and_then(|at| tokens.get(*at)).map(|found| &found.token);
    let found = places.windows(3).enumerate().find_map(|(at, window)| {
        let [first, of, sealed] = window else { return None };
        let is = |at, word| token(Some(at)).is_some_and(|token| is_keyword(token, word));
        let says = is(first, Keyword::AS)
            && is(of, Keyword::OF)
            && matches!(token(Some(sealed)), Some(Token::Word(word))
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("sealed"));
        let ends = matches!(token(places.get(at + 3)), None | Some(Token::EOF | Token::RParen));
        (says && ends).then_some((*first, *sealed))
    });
    let Some((first, sealed)) = found else { return };
    if let Some(token) = tokens.get_mut(sealed) {
        let (value, quote_style) = (MARK.to_string(), Some('"'));
        token.token = Token::Word(Word { value, quote_style, keyword: Keyword::NoKeyword });
    }
    let Some(span) = tokens.get(first).map(|token| token.span) else { return };
    let word = |text: &str| TokenWithSpan::new(Token::make_keyword(text), span);
    tokens.splice(first..=first, [word("FOR"), word("SHARE")]);
}

/// True if a token is the table name of the FOR SHARE clause that stands for AS OF SEALED.
pub fn is_mark(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.value == MARK)
}

fn marks(lock: &LockClause) -> bool {
    let name = lock.of.as_ref().and_then(|name| name.0.first()).and_then(|part| part.as_ident());
    name.is_some_and(|name| name.value == MARK)
}

/// Removes AS OF SEALED from a query. Returns true if the query had the clause.
///
/// # Errors
/// `SyntaxError` for AS OF SEALED in a subquery.
pub fn take(query: &mut Query) -> Result<bool> {
    let locks = query.locks.len();
    query.locks.retain(|lock| !marks(lock));
    let found = query.locks.len() < locks;
    match walk::look(query, &mut SealedLockSearch).is_break() {
        true => Err(Error::new(
            ErrorKind::SyntaxError,
            "AS OF SEALED applies to a whole query, not to a part of a query",
        )
        .with_hint("write AS OF SEALED at the end of the query, after LIMIT")),
        false => Ok(found),
    }
}

struct SealedLockSearch;

impl Look for SealedLockSearch {
    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        match query.locks.iter().any(marks) {
            true => Flow::Break(()),
            false => Flow::Continue(()),
        }
    }
}
