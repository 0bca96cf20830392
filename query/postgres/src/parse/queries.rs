//! Rewrites queries that the parser does not know: TABLE, and SELECT without a select list. Also
//! refuses clauses after TABLE, and DISTINCT without a select list, which only the parser accepts.
//! Left is the statement, right the rewritten statement:
//!
//! ```text
//!   INSERT INTO t TABLE s         INSERT INTO t SELECT * FROM s
//!   EXISTS (SELECT WHERE $1)      EXISTS (SELECT FROM (SELECT 1) AS "row" WHERE $1)
//! ```

use std::collections::HashSet;

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::{
    forms::{Edit, apply},
    nested_statements::{explained, prepared},
    rewrite::{is_keyword, significant},
    words::{UnexpectedToken, Words},
};

/// The name of the table that a SELECT with neither a select list nor a table gets. No statement
/// can write this name.
const ROW: &str = "\u{1}row";

/// The keywords that can follow a select list. PostgreSQL reserves all of them.
const CLAUSES: [&str; 14] = [
    "where",
    "group",
    "having",
    "window",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "union",
    "except",
    "intersect",
    "on",
    "returning",
];

/// The keywords that can follow `TABLE name`.
const TABLE_CLAUSES: [&str; 10] =
    ["union", "except", "intersect", "order", "limit", "offset", "fetch", "for", "returning", "on"];

/// Refuses clauses after TABLE that PostgreSQL does not allow, and SELECT DISTINCT without a select
/// list.
///
/// # Errors
/// The token in a wrong place.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<(), UnexpectedToken> {
    check_tables(tokens)?;
    let is_written = |keyword| tokens.iter().any(|token| is_keyword(&token.token, keyword));
    if !is_written(Keyword::TABLE) && !is_written(Keyword::DISTINCT) {
        return Ok(());
    }
    let words = Words::new(tokens);
    let mut beginnings: Vec<usize> = beginnings(&words).into_iter().collect();
    beginnings.sort_unstable();
    let is_end = |at: usize| at >= words.len() || words.is_token(at, &Token::RParen);
    for at in beginnings {
        if words.is(at, "table") {
            let end = table(&words, at + 1)?;
            // AS OF SEALED and AFTER GSN are clauses that only this project has.
            let is_own = words.is(end, "as") && words.is(end + 1, "of")
                || words.is(end, "after") && words.is(end + 1, "gsn");
            if !is_end(end) && !is_own && !TABLE_CLAUSES.iter().any(|word| words.is(end, word)) {
                return words.wrong(end);
            }
        } else if words.is(at, "select") && words.is(at + 1, "distinct") {
            let list = match words.is(at + 2, "on") && words.is_token(at + 3, &Token::LParen) {
                true => words.find(at + 4, |_| false) + 1,
                false => at + 2,
            };
            let clause = words.is(list, "from") || CLAUSES.iter().any(|word| words.is(list, word));
            if clause || is_end(list) {
                return words.wrong(list);
            }
        }
    }
    Ok(())
}

/// Refuses FROM and JOIN if no table follows.
fn check_tables(tokens: &[TokenWithSpan]) -> Result<(), UnexpectedToken> {
    // The two previous tokens: after a period or AS, the words FROM and JOIN are names.
    let (mut earlier, mut before): (Option<&TokenWithSpan>, Option<&TokenWithSpan>) = (None, None);
    for token in tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))) {
        let is_name = earlier.is_some_and(|earlier| {
            earlier.token == Token::Period || is_keyword(&earlier.token, Keyword::AS)
        });
        let names_table = !is_name
            && before.is_some_and(|before| {
                is_keyword(&before.token, Keyword::FROM) || is_keyword(&before.token, Keyword::JOIN)
            });
        if let (true, Token::Word(word)) = (names_table, &token.token)
            && word.quote_style.is_none()
            && CLAUSES.iter().any(|clause| word.value.eq_ignore_ascii_case(clause))
        {
            return Err(Some(token.clone()));
        }
        (earlier, before) = (before, Some(token));
    }
    Ok(())
}

/// The index of the token after a table: `t`, `ONLY t`, `ONLY (t)` or `t *`.
fn table(words: &Words<'_>, at: usize) -> Result<usize, UnexpectedToken> {
    if !words.is(at, "only") || words.is_token(at + 1, &Token::Period) {
        let end = words.name(at)?;
        return Ok(end + usize::from(words.is_token(end, &Token::Mul)));
    }
    if !words.is_token(at + 1, &Token::LParen) {
        return words.name(at + 1);
    }
    let end = words.name(at + 2)?;
    match words.is_token(end, &Token::RParen) {
        true => Ok(end + 1),
        false => words.wrong(end),
    }
}

/// Rewrites TABLE, and SELECT without a select list, in the tokens of a statement.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let is_written = |keyword| tokens.iter().any(|token| is_keyword(&token.token, keyword));
    if !is_written(Keyword::TABLE) && !is_written(Keyword::SELECT) {
        return;
    }
    let places = significant(tokens);
    let words = Words::new(tokens);
    let beginnings = beginnings(&words);
    let place_of = |number: usize| places.get(number).copied().unwrap_or(tokens.len());
    let mut edits = Vec::new();
    for number in beginnings {
        if words.is(number, "table") {
            let inserted =
                vec![Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            edits.push(Edit { at: place_of(number), removed: 1, inserted });
        } else if words.is(number, "select") {
            let list = number + 1 + usize::from(words.is(number + 1, "all"));
            let is_empty = list >= words.len()
                || words.is_token(list, &Token::RParen)
                || CLAUSES.iter().any(|clause| words.is(list, clause));
            if is_empty {
                edits.push(Edit { at: place_of(list), removed: 0, inserted: from_row() });
            }
        }
    }
    apply(tokens, edits);
}

/// The tokens of `FROM (SELECT 1) AS "row"`.
fn from_row() -> Vec<Token> {
    vec![
        Token::make_keyword("FROM"),
        Token::LParen,
        Token::make_keyword("SELECT"),
        Token::Number("1".to_string(), false),
        Token::RParen,
        Token::make_keyword("AS"),
        Token::make_word(ROW, Some('"')),
    ]
}

/// The indexes of the words at which a query can begin.
fn beginnings(words: &Words<'_>) -> HashSet<usize> {
    let mut found = HashSet::from([first(words)]);
    // For each open parenthesis, true if it encloses the query of a WITH.
    let mut open = Vec::new();
    for at in 0..words.len() {
        let before = |word| at.checked_sub(1).is_some_and(|before| words.is(before, word));
        if words.is_token(at, &Token::LParen) {
            found.insert(at + 1);
            open.push(before("as") || before("materialized"));
        } else if words.is_token(at, &Token::RParen) {
            if open.pop() == Some(true) {
                found.insert(at + 1);
            }
        } else if ["union", "except", "intersect"].iter().any(|word| words.is(at, word)) {
            let quantified = words.is(at + 1, "all") || words.is(at + 1, "distinct");
            found.insert(at + 1 + usize::from(quantified));
        } else if words.is(at, "insert") && words.is(at + 1, "into") {
            found.insert(source(words, at + 2));
        }
    }
    found
}

/// The index of the first word of the statement, or of the statement inside of an EXPLAIN, PREPARE
/// or DECLARE.
fn first(words: &Words<'_>) -> usize {
    match () {
        () if words.is(0, "explain") => explained(words),
        () if words.is(0, "prepare") => prepared(words),
        () if words.is(0, "declare") => words.find(1, |at| words.is(at, "for")) + 1,
        () => 0,
    }
}

/// The index of the first word of the query of an INSERT. `table` is the index of the table name.
fn source(words: &Words<'_>, table: usize) -> usize {
    let Ok(mut at) = words.name(table) else { return table };
    if words.is(at, "as") {
        at += 2;
    }
    match words.is_token(at, &Token::LParen) {
        true => words.find(at + 1, |_| false) + 1,
        false => at,
    }
}

#[cfg(test)]
mod tests;
