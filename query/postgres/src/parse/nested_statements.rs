//! Refuses the statements that only this project has, for example SUBSCRIBE, inside of EXPLAIN and
//! PREPARE.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use stratalog_model::{Error, ErrorKind};

use super::words::Words;

/// The first token of a project-specific statement, for example SUBSCRIBE, in an EXPLAIN or
/// PREPARE, and the error.
pub(super) fn nested_statement_error(tokens: &[TokenWithSpan]) -> Option<(&TokenWithSpan, Error)> {
    let first = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_)))?;
    let is = |word: &str| {
        matches!(&first.token, Token::Word(found)
            if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
    };
    let (explains, prepares) = (is("explain"), is("prepare"));
    if !explains && !prepares {
        return None;
    }
    let words = Words::new(tokens);
    let at = if explains { explained(&words) } else { prepared(&words) };
    let name = own_statement(&words, at)?;
    let error = |within: &str| {
        let message = format!("{within} of {name} is not supported");
        Error::new(ErrorKind::FeatureNotSupported, message)
    };
    let error = match name {
        _ if prepares => error("PREPARE").with_hint(format!(
            "send {name} directly, or use the prepared statements of the protocol, with parameters"
        )),
        "SUBSCRIBE" => error("EXPLAIN").with_hint(
            "SUBSCRIBE has no plan, because SUBSCRIBE reads the log in the order of commits; EXPLAIN SELECT … WHERE _gsn >= … shows how a query finds the same events",
        ),
        _ => error("EXPLAIN").with_hint("EXPLAIN accepts queries"),
    };
    Some((words.get(at)?, error))
}

/// The index of the word after EXPLAIN and its options.
pub(super) fn explained(words: &Words<'_>) -> usize {
    let mut at = 1;
    if words.is_token(at, &Token::LParen) {
        return words.find(at + 1, |_| false) + 1;
    }
    while words.is(at, "analyze") || words.is(at, "verbose") {
        at += 1;
    }
    at
}

/// The index of the word after PREPARE, the name, the types, and AS.
pub(super) fn prepared(words: &Words<'_>) -> usize {
    words.find(2, |at| words.is(at, "as")) + 1
}

/// The name of the project's own statement that begins at the word with the index `at`; `None` for
/// other statements.
fn own_statement(words: &Words<'_>, at: usize) -> Option<&'static str> {
    let names_chronicle = words.is(at + 1, "chronicle") || words.is(at + 1, "table");
    match () {
        () if words.is(at, "subscribe") => Some("SUBSCRIBE"),
        () if words.is(at, "acquire") => Some("ACQUIRE"),
        () if words.is(at, "release") && names_chronicle => Some("RELEASE"),
        () if words.is(at, "trim") => Some("TRIM"),
        () => None,
    }
}
