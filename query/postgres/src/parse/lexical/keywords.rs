//! Keywords of the parser that are names in PostgreSQL: columns may be called `top`, `trim`, `exists`
//! or `interval`. The parser reads a name in quotes as a name. `x ISNULL` becomes `x IS NULL`.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::is_unquoted;
use crate::parse::{rewrite::significant, words::Words};

const NAMES: [&str; 4] = ["top", "trim", "exists", "interval"];

/// Words before an operand.
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

/// Quotes the keywords that are names, and replaces ISNULL.
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

/// True if the keyword at `at` is a name in the statement from `begin` on.
fn is_name(words: &Words<'_>, begin: usize, at: usize) -> bool {
    let (before, after) = (token_before(words, at), words.get(at + 1).map(|next| &next.token));
    let follows = |name| matches!(before, Some(Token::Word(word)) if is_unquoted(word, name));
    if matches!(after, Some(Token::LParen)) {
        return false;
    }
    if words.is(at, "top") {
        // `SELECT TOP 5` of other databases.
        !matches!(after, Some(Token::Number(_, _)))
    } else if words.is(at, "trim") {
        // `TRIM table BEFORE …`, also behind EXPLAIN and PREPARE.
        let names_table =
            matches!(after, Some(Token::Word(word)) if word.keyword == Keyword::NoKeyword);
        at != begin && !names_table
    } else if words.is(at, "exists") {
        // `IF EXISTS` and `IF NOT EXISTS`.
        !follows("if") && !follows("not")
    } else {
        // PREPARE has a list of types.
        !words.is(begin, "prepare") && begins_operand(before) && !is_constant(after)
    }
}

fn token_before<'a>(words: &Words<'a>, at: usize) -> Option<&'a Token> {
    at.checked_sub(1).and_then(|before| words.get(before)).map(|token| &token.token)
}

/// True if an operand follows a token. Behind another word, `::` or AS, `interval` is a type.
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

/// True for the text of an interval, and for forms that the parser refuses with a hint.
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

/// True for the operator: a label follows AS, a column a period, and a function has parentheses.
fn is_null_test(words: &Words<'_>, at: usize) -> bool {
    match token_before(words, at) {
        None | Some(Token::Period | Token::Comma | Token::LParen) => false,
        Some(Token::Word(word)) if is_unquoted(word, "as") => false,
        _ => !words.is_token(at + 1, &Token::LParen),
    }
}
