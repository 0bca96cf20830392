//! Removes passwords from the text of a statement, which logs and system tables show.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::super::{lines::LineStarts, words::Words};

/// The text in place of a password.
pub const REDACTED: &str = "'***'";

/// The text of `sql` from the byte `start` to the byte `end`, with [`REDACTED`] in place of each
/// password; `None` if the statement has no password.
pub(crate) fn redacted(
    sql: &str,
    (start, end): (usize, usize),
    tokens: &[TokenWithSpan],
    lines: &mut LineStarts,
) -> Option<String> {
    let words = Words::new(tokens);
    let mut text = String::new();
    let mut copied = start;
    for at in 1..words.len() {
        let Some(token) = words.get(at) else { break };
        if !words.is(at - 1, "password") || !is_text(&token.token) {
            continue;
        }
        let (from, to) = (lines.offset(sql, token.span.start), lines.offset(sql, token.span.end));
        text.push_str(sql.get(copied..from)?);
        text.push_str(REDACTED);
        copied = to;
    }
    if copied == start {
        return None;
    }
    text.push_str(sql.get(copied..end)?);
    Some(text.trim().to_string())
}

fn is_text(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::NationalStringLiteral(_)
    )
}
