//! Converts messages of the parser to PostgreSQL's syntax errors.

use datafusion::sql::sqlparser::tokenizer::Location;
use stratalog_model::{Error, ErrorKind};

use super::unicode_escapes;

/// The message for a statement that ends too early.
pub(crate) const END_OF_INPUT: &str = "syntax error at end of input";

/// A syntax error from a message of the parser, for example `Expected: an expression, found: FROM
/// at Line: 1, Column: 8`.
pub fn syntax_error(sql: &str, text: &str) -> Error {
    let text = text.trim_start_matches("sql parser error: ");
    let (body, location) = match text.rsplit_once(" at Line: ") {
        Some((body, place)) => (body, parse_location(place)),
        None => (text, None),
    };
    let error = match body.rsplit_once(", found: ") {
        Some((wanted, "EOF")) => {
            Error::new(ErrorKind::SyntaxError, END_OF_INPUT).with_detail(wanted.to_string())
        }
        // The parser expects a semicolon only after COPY.
        Some(("Expected: ;", found)) if found.eq_ignore_ascii_case("where") => {
            Error::not_yet("COPY … WHERE")
                .with_hint("copy into another table and use INSERT … SELECT … WHERE")
        }
        Some(("Expected: )", found)) if found.eq_ignore_ascii_case("exclude") => {
            Error::not_yet("EXCLUDE in the frame of a window")
                .with_hint("end the frame before the current row, or begin the frame after the current row: ROWS BETWEEN … AND 1 PRECEDING")
        }
        Some((wanted, found)) => {
            Error::new(ErrorKind::SyntaxError, format!("syntax error at or near \"{found}\""))
                .with_detail(expected(wanted))
        }
        None => unterminated(sql, body, location)
            .unwrap_or_else(|| Error::new(ErrorKind::SyntaxError, format!("syntax error: {body}"))),
    };
    match location.and_then(|location| position(sql, location)) {
        Some(position) if error.position().is_none() => error.with_position(position),
        _ => error,
    }
}

/// The parser's list of expected tokens, without the statements of other databases.
fn expected(wanted: &str) -> &str {
    match wanted.rsplit_once(" after ") {
        Some((_, "ALTER TABLE")) => {
            "Expected: ADD COLUMN, DROP COLUMN, RENAME, SET (…) or RESET (…)"
        }
        Some((_, "DROP")) => "Expected: DATABASE, INDEX, SCHEMA or TABLE after DROP",
        _ => wanted,
    }
}

/// Maximum number of characters of the statement that the error for an unterminated text shows.
const UNTERMINATED_SHOWN: usize = 40;

/// The error for a string, a name or a comment without an end, as PostgreSQL words it.
fn unterminated(sql: &str, message: &str, location: Option<Location>) -> Option<Error> {
    let kind = if message.starts_with("Unterminated dollar-quoted") {
        "dollar-quoted string"
    } else if message.starts_with("Unterminated") && message.ends_with("string literal") {
        "quoted string"
    } else if message.starts_with("Expected close delimiter") {
        "quoted identifier"
    } else if message.contains("EOF while in a multi-line comment") {
        "/* comment"
    } else {
        return None;
    };
    let begin = location.and_then(|location| position(sql, location))?.saturating_sub(1);
    let begin = usize::try_from(begin).ok()?;
    let rest: String = sql.chars().skip(begin).collect();
    if let Some(error) = unicode_escapes::error(&rest, begin) {
        return Some(error);
    }
    let shown: String = rest.chars().take(UNTERMINATED_SHOWN).collect();
    let message = match shown.is_empty() {
        true => format!("unterminated {kind} at end of input"),
        false => format!("unterminated {kind} at or near \"{shown}\""),
    };
    Some(Error::new(ErrorKind::SyntaxError, message))
}

fn parse_location(place: &str) -> Option<Location> {
    let (line, column) = place.split_once(", Column: ")?;
    let digits: String = column.chars().take_while(char::is_ascii_digit).collect();
    Some(Location { line: line.trim().parse().ok()?, column: digits.parse().ok()? })
}

/// Converts a line and a column of the parser to a position as PostgreSQL counts: in characters
/// from 1.
pub(crate) fn position(sql: &str, location: Location) -> Option<u32> {
    if sql.is_empty() || location.line == 0 {
        return None;
    }
    let line = usize::try_from(location.line).ok()?.checked_sub(1)?;
    let before: usize = sql.split_inclusive('\n').take(line).map(|line| line.chars().count()).sum();
    u32::try_from(before.checked_add(usize::try_from(location.column).ok()?)?).ok()
}
