//! Replaces the parameters `?` of JDBC and ADBC by `$1`, `$2` …
//!
//! In PostgreSQL `?` is also an operator of jsonb. A `?` between two operands, for example in `j ?
//! 'key'`, is the operator. Any other `?` is a parameter. A statement that contains `$1` stays
//! unchanged.

use datafusion::sql::sqlparser::{
    dialect::PostgreSqlDialect,
    tokenizer::{Location, Token, TokenWithSpan, Tokenizer},
};

/// A `?` after one of these words is a parameter, because the word cannot be a left operand.
const WORDS_BEFORE: &[&str] = &[
    "ALL",
    "AND",
    "ANY",
    "AS",
    "BETWEEN",
    "BY",
    "CALL",
    "CASE",
    "DISTINCT",
    "ELSE",
    "ESCAPE",
    "EXCEPT",
    "FETCH",
    "FIRST",
    "FROM",
    "HAVING",
    "ILIKE",
    "IN",
    "INTERSECT",
    "INTERVAL",
    "IS",
    "LIKE",
    "LIMIT",
    "NEXT",
    "NOT",
    "OFFSET",
    "ON",
    "OR",
    "RETURNING",
    "SELECT",
    "SET",
    "SOME",
    "THEN",
    "TO",
    "UNION",
    "VALUES",
    "WHEN",
    "WHERE",
    "SIMILAR",
    "USING",
];

/// Replaces the parameters `?` of a statement by `$1`, `$2` …. All other text stays unchanged.
pub(crate) fn numbered(sql: String) -> String {
    if !sql.contains('?') {
        return sql;
    }
    let dialect = PostgreSqlDialect {};
    // The SQL parser later reports the error of an invalid text.
    let Ok(tokens) = Tokenizer::new(&dialect, &sql).tokenize_with_location() else { return sql };
    let tokens: Vec<&TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let is_numbered =
        |token: &Token| matches!(token, Token::Placeholder(name) if name.starts_with('$'));
    if tokens.iter().any(|token| is_numbered(&token.token)) {
        return sql;
    }
    let mut marks = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let mark = matches!(&token.token, Token::Question)
            || matches!(&token.token, Token::Placeholder(name) if name == "?");
        if !mark {
            continue;
        }
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        let after = tokens.get(at + 1);
        let operator = before.is_some_and(|token| ends_operand(&token.token))
            && after.is_some_and(|token| begins_operand(&token.token));
        if !operator {
            marks.push(token.span.start);
        }
    }
    spliced(&sql, &marks)
}

/// Replaces the `?` at each location by `$1`, `$2` …
fn spliced(sql: &str, marks: &[Location]) -> String {
    let mut text = String::with_capacity(sql.len() + marks.len() * 2);
    let mut waiting = marks.iter().peekable();
    let (mut line, mut column, mut number) = (1_u64, 1_u64, 0);
    for character in sql.chars() {
        if waiting.next_if(|mark| mark.line == line && mark.column == column).is_some() {
            number += 1;
            text.push_str(&format!("${number}"));
        } else {
            text.push(character);
        }
        match character {
            '\n' => (line, column) = (line + 1, 1),
            _ => column += 1,
        }
    }
    text
}

fn ends_operand(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            word.quote_style.is_some()
                || !WORDS_BEFORE.contains(&word.value.to_ascii_uppercase().as_str())
        }
        Token::RParen | Token::RBracket | Token::Placeholder(_) | Token::Question => true,
        other => is_constant(other),
    }
}

fn begins_operand(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            word.quote_style.is_some() || {
                let upper = word.value.to_ascii_uppercase();
                !WORDS_BEFORE.contains(&upper.as_str())
                    && !matches!(
                        upper.as_str(),
                        "GROUP"
                            | "ORDER"
                            | "WINDOW"
                            | "END"
                            | "COLLATE"
                            | "AT"
                            | "ASC"
                            | "DESC"
                            | "NULLS"
                            | "ROWS"
                            | "ROW"
                            | "ONLY"
                    )
            }
        }
        Token::LParen => true,
        other => is_constant(other),
    }
}

fn is_constant(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::NationalStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
    )
}

#[cfg(test)]
mod tests;
