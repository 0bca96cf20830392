//! Quotes names that the parser would read as keywords: in PostgreSQL, columns may be called `top`,
//! `trim`, `exists` or `interval`. The parser reads a quoted word as a name. Also writes `x ISNULL`
//! as `x IS NULL`.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::is_unquoted;
use crate::parse::{rewrite::significant, words::Words};

const NAMES: [&str; 4] = ["top", "trim", "exists", "interval"];

/// Words that can stand directly in front of an operand.
const BEFORE_OPERAND: [&str; 20] = [
    "all",
    "and",
    "between",
    "by",
    "case",
    "distinct",
    "else",
    "from",
    "having",
    "like",
    "not",
    "on",
    "or",
    "select",
    "set",
    "symmetric",
    "then",
    "using",
    "when",
    "where",
];

/// Quotes the keywords that are used as names, and replaces ISNULL.
pub(super) fn as_names(tokens: &mut Vec<TokenWithSpan>) {
    let has_any = tokens.iter().any(|token| match &token.token {
        Token::Word(word) => {
            is_unquoted(word, "isnull") || NAMES.iter().any(|name| is_unquoted(word, name))
        }
        _ => false,
    });
    if !has_any {
        return;
    }
    let order = significant(tokens);
    let words = Words::new(tokens);
    let mut begin = 0;
    let (mut names, mut null_tests) = (Vec::new(), Vec::new());
    for (at, index) in order.into_iter().enumerate() {
        if words.is_token(at, &Token::SemiColon) {
            begin = at + 1;
        } else if words.is(at, "isnull") && is_null_test(&words, at) {
            null_tests.push(index);
        } else if NAMES.iter().any(|name| words.is(at, name)) && is_name(&words, begin, at) {
            names.push(index);
        }
    }
    for index in names {
        if let Some(TokenWithSpan { token: named @ Token::Word(_), .. }) = tokens.get_mut(index)
            && let Token::Word(word) = &*named
        {
            *named = Token::make_word(&word.value.to_ascii_lowercase(), Some('"'));
        }
    }
    for index in null_tests.into_iter().rev() {
        let Some(token) = tokens.get_mut(index) else { continue };
        token.token = Token::make_keyword("IS");
        let null = TokenWithSpan::new(Token::make_keyword("NULL"), token.span);
        tokens.insert(index + 1, null);
    }
}

/// True if the keyword at the index `at` is used as a name. The statement begins at the index
/// `begin`.
fn is_name(words: &Words<'_>, begin: usize, at: usize) -> bool {
    let (before, after) = (token_before(words, at), words.get(at + 1).map(|next| &next.token));
    let follows = |name| matches!(before, Some(Token::Word(word)) if is_unquoted(word, name));
    if matches!(after, Some(Token::LParen)) {
        return false;
    }
    if words.is(at, "top") {
        // In `SELECT TOP 5` of other databases, TOP is a keyword.
        !matches!(after, Some(Token::Number(_, _)))
    } else if words.is(at, "trim") {
        // In `TRIM table BEFORE …`, also after EXPLAIN and PREPARE, TRIM is a statement.
        let names_table =
            matches!(after, Some(Token::Word(word)) if word.keyword == Keyword::NoKeyword);
        at != begin && !names_table
    } else if words.is(at, "exists") {
        // In `IF EXISTS` and `IF NOT EXISTS`, EXISTS is a keyword.
        !follows("if") && !follows("not")
    } else {
        // In the type list of a PREPARE, `interval` is a type.
        !words.is(begin, "prepare") && begins_operand(before) && !is_constant(after)
    }
}

fn token_before<'a>(words: &Words<'a>, at: usize) -> Option<&'a Token> {
    at.checked_sub(1).and_then(|before| words.get(before)).map(|token| &token.token)
}

/// True if an operand follows the token `before`. After another word, after `::` and after AS,
/// `interval` is a type.
fn begins_operand(before: Option<&Token>) -> bool {
    match before {
        Some(Token::Word(word)) => BEFORE_OPERAND.iter().any(|name| is_unquoted(word, name)),
        Some(
            Token::LParen
            | Token::Comma
            | Token::Plus
            | Token::Minus
            | Token::Mul
            | Token::Div
            | Token::Mod
            | Token::Eq
            | Token::Neq
            | Token::Lt
            | Token::LtEq
            | Token::Gt
            | Token::GtEq
            | Token::StringConcat,
        ) => true,
        _ => false,
    }
}

/// True if the token after `interval` belongs to an interval constant, or to a form that the parser
/// refuses with a hint.
fn is_constant(after: Option<&Token>) -> bool {
    matches!(
        after,
        Some(
            Token::Number(_, _)
                | Token::Placeholder(_)
                | Token::SingleQuotedString(_)
                | Token::EscapedStringLiteral(_)
                | Token::UnicodeStringLiteral(_)
                | Token::NationalStringLiteral(_)
                | Token::DollarQuotedString(_)
        )
    )
}

/// True if ISNULL at the index `at` is the operator, and not a name: an alias follows AS, a column
/// follows a period, and a function has parentheses.
fn is_null_test(words: &Words<'_>, at: usize) -> bool {
    match token_before(words, at) {
        None | Some(Token::Period | Token::Comma | Token::LParen) => false,
        Some(Token::Word(word)) if is_unquoted(word, "as") => false,
        _ => !words.is_token(at + 1, &Token::LParen),
    }
}
