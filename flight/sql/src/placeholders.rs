//! Parameters written `?`, as JDBC and ADBC have them, become `$1`, `$2` …
//!
//! PostgreSQL's `?` is an operator of jsonb. Between two operands it is that, as in `j ? 'key'`;
//! anywhere else it is a parameter. A statement that has `$1` already is left as it is.

use datafusion::sql::sqlparser::{
    dialect::PostgreSqlDialect,
    tokenizer::{Token, Tokenizer},
};

/// Words before which nothing stands that an operator could take.
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

/// The statement with numbered parameters.
pub(crate) fn numbered(sql: String) -> String {
    if !sql.contains('?') {
        return sql;
    }
    let dialect = PostgreSqlDialect {};
    // What is no SQL is refused by the parser, in its words.
    let Ok(mut tokens) = Tokenizer::new(&dialect, &sql).with_unescape(false).tokenize() else {
        return sql;
    };
    let is_numbered =
        |token: &Token| matches!(token, Token::Placeholder(name) if name.starts_with('$'));
    if tokens.iter().any(is_numbered) {
        return sql;
    }
    let mut number = 0;
    let mut before: Option<Token> = None;
    for at in 0..tokens.len() {
        let Some(token) = tokens.get(at).cloned() else { break };
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        let mark = matches!(&token, Token::Question)
            || matches!(&token, Token::Placeholder(name) if name == "?");
        let mut seen = token;
        if mark {
            let after =
                tokens.iter().skip(at + 1).find(|token| !matches!(token, Token::Whitespace(_)));
            if !(before.as_ref().is_some_and(ends_operand) && after.is_some_and(begins_operand)) {
                number += 1;
                seen = Token::Placeholder(format!("${number}"));
                if let Some(place) = tokens.get_mut(at) {
                    *place = seen.clone();
                }
            }
        }
        before = Some(seen);
    }
    tokens.iter().map(ToString::to_string).collect()
}

fn ends_operand(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            word.quote_style.is_some()
                || !WORDS_BEFORE.contains(&word.value.to_ascii_uppercase().as_str())
        }
        Token::RParen | Token::RBracket | Token::Placeholder(_) => true,
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
