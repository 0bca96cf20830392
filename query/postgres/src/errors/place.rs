//! Finds the position of an error in the text of the statement. The planner does not report
//! positions; the search therefore looks for the name or the constant that the message contains.

use datafusion::sql::sqlparser::{
    dialect::PostgreSqlDialect,
    tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Word},
};
use stratalog_model::{Error, ErrorKind};

use super::signature;

/// Adds the position in the SQL string to an error. Positions count characters from 1. `text` is
/// the statement, and `before` the number of characters of the string in front of the statement.
pub fn place(error: Error, text: &str, before: u32) -> Error {
    if error.position().is_some() {
        return error;
    }
    if signature::is_signature(error.kind()) {
        let (restated, found) = signature::restate(error, text);
        if found.is_some() {
            return at(restated, found, before);
        }
        let found = subject(restated.message()).and_then(|name| find(text, &name, true));
        return at(restated, found, before);
    }
    if matches!(error.kind(), ErrorKind::DatatypeMismatch) {
        let (restated, found) = signature::restate_condition(error, text);
        return at(restated, found, before);
    }
    let called = match error.kind() {
        ErrorKind::AmbiguousFunction => {
            let found = error
                .message()
                .strip_prefix("operator is not unique: ")
                .and_then(|operation| operation.split(' ').next())
                .and_then(|operator| signature::only_place(text, operator));
            return at(error, found, before);
        }
        ErrorKind::WrongObjectType => {
            let found = function_of(error.message()).and_then(|name| find(text, &[name], true));
            return at(error, found, before);
        }
        ErrorKind::UndefinedColumn
        | ErrorKind::UndefinedTable
        | ErrorKind::UndefinedObject
        | ErrorKind::GroupingError
        | ErrorKind::AmbiguousColumn => false,
        ErrorKind::InvalidTextRepresentation
        | ErrorKind::InvalidDatetimeFormat
        | ErrorKind::DatetimeOverflow
        | ErrorKind::NumericOutOfRange => {
            let literal = constant(error.message()).and_then(|value| find_literal(text, value));
            return at(error, literal, before);
        }
        _ => return error,
    };
    if let Some((clause, name)) = key(error.message()) {
        let found = find_key(text, clause, name);
        return at(error, found, before);
    }
    let found = subject(error.message()).and_then(|name| {
        let whole = find(text, &name, called);
        // A grouping error always qualifies the column, even if the statement does not.
        let last = name.last().filter(|_| error.kind() == ErrorKind::GroupingError);
        whole.or_else(|| find(text, std::slice::from_ref(last?), called))
    });
    at(error, found, before)
}

fn at(error: Error, found: Option<u32>, before: u32) -> Error {
    match found {
        Some(place) => error.with_position(place.saturating_add(before)),
        None => error,
    }
}

/// The constant that a message quotes: at its end, or in `value "…" is out of range`.
fn constant(message: &str) -> Option<&str> {
    match message.strip_prefix("value \"") {
        Some(rest) => rest.split_once("\" is out of range").map(|(value, _)| value),
        None => message.rsplit_once(": \"")?.1.strip_suffix('"'),
    }
}

/// The parts of the name that a message begins with, as in `column t.x does not exist`, `function
/// f(integer) does not exist`, `relation "s.t" does not exist`.
fn subject(message: &str) -> Option<Vec<String>> {
    let rest = ["column reference ", "column ", "relation ", "function ", "table ", "type "]
        .into_iter()
        .find_map(|word| message.strip_prefix(word))
        .or_else(|| message.split_once("entry for table ").map(|(_, rest)| rest))?;
    let name = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => rest.split([' ', '(']).next()?,
    };
    let parts: Vec<String> = name.split('.').map(|part| part.replace('"', "")).collect();
    parts.iter().all(|part| !part.is_empty()).then_some(parts)
}

/// The function name in the messages `window function f requires an OVER clause`, `OVER specified,
/// but f is not …` and `f(*) must be used …`.
fn function_of(message: &str) -> Option<String> {
    let rest = message
        .strip_prefix("window function ")
        .or_else(|| message.split_once(" specified, but ").map(|(_, rest)| rest))
        .or_else(|| message.contains("(*) must be used").then_some(message))?;
    rest.split([' ', '(']).next().map(str::to_string)
}

/// The clause and the name in a message such as `ORDER BY "x" is ambiguous`.
fn key(message: &str) -> Option<(&str, &str)> {
    let (clause, rest) = message.split_once(" \"")?;
    let name = rest.strip_suffix("\" is ambiguous")?;
    ["ORDER BY", "GROUP BY", "DISTINCT ON"].contains(&clause).then_some((clause, name))
}

/// The position of the name `name` in a clause, for example in ORDER BY. Positions count characters
/// from 1.
fn find_key(text: &str, clause: &str, name: &str) -> Option<u32> {
    let tokens = words(text)?;
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    let (first, second) = clause.split_once(' ')?;
    let begins =
        |at: &usize| is_word_at(&tokens, *at, first) && is_word_at(&tokens, *at + 1, second);
    for begin in (0..tokens.len()).filter(begins) {
        let list = begin + 2 + usize::from(clause == "DISTINCT ON");
        let mut depth = 0_usize;
        for at in list..tokens.len() {
            match token(at) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) if depth == 0 => break,
                Some(Token::RParen) => depth -= 1,
                _ => {}
            }
            let is_first = at == list || token(at - 1) == Some(&Token::Comma);
            if depth == 0 && is_first && is_word_at(&tokens, at, name) {
                return characters(text, tokens.get(at)?.span.start);
            }
        }
    }
    None
}

/// Finds a call of the function `name`. Returns the indexes of the first token of its name, or of
/// its schema, and of the opening parenthesis.
pub fn called_at(tokens: &[TokenWithSpan], name: &str) -> Option<(usize, usize)> {
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    let calls =
        |at: &usize| is_word_at(tokens, *at, name) && token(*at + 1) == Some(&Token::LParen);
    let at = (0..tokens.len()).find(calls)?;
    let mut first = at;
    while first >= 2
        && token(first - 1) == Some(&Token::Period)
        && matches!(token(first - 2), Some(Token::Word(_)))
    {
        first -= 2;
    }
    Some((first, at + 1))
}

/// The tokens of a statement, except blanks.
pub fn words(text: &str) -> Option<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().ok()?;
    Some(tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect())
}

/// True if a token is the word `name`. Only an unquoted word matches in any case.
pub fn is_word(token: &Token, name: &str) -> bool {
    match token {
        Token::Word(Word { value, quote_style: None, .. }) => value.eq_ignore_ascii_case(name),
        Token::Word(Word { value, .. }) => value == name,
        _ => false,
    }
}

/// The position of a name in the text, or with `called` of a call of the function with this name.
/// Positions count characters from 1.
fn find(text: &str, name: &[String], called: bool) -> Option<u32> {
    let tokens = words(text)?;
    let last = name.last()?;
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    let stands = |at: &usize| {
        is_word_at(&tokens, *at, last)
            && (token(at + 1) == Some(&Token::LParen)) == called
            // The definition of an alias does not count.
            && !at.checked_sub(1).and_then(token).is_some_and(|before| is_word(before, "as"))
            // If the message contains a qualifier, the statement must have the qualifier too.
            && (name.len() < 2
                || at.checked_sub(2).is_some_and(|at| {
                    is_word_at(&tokens, at, name.get(name.len() - 2).map_or("", String::as_str))
                }))
    };
    let mut at = (0..tokens.len()).find(stands)?;
    while at >= 2
        && token(at - 1) == Some(&Token::Period)
        && matches!(token(at - 2), Some(Token::Word(_)))
    {
        at -= 2;
    }
    characters(text, tokens.get(at)?.span.start)
}

fn is_word_at(tokens: &[TokenWithSpan], at: usize, name: &str) -> bool {
    tokens.get(at).is_some_and(|token| is_word(&token.token, name))
}

/// The position of a constant in the text, in characters from 1.
fn find_literal(text: &str, value: &str) -> Option<u32> {
    let tokens = words(text)?;
    let found = tokens.iter().find(|token| match &token.token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text == value,
        Token::DollarQuotedString(quoted) => quoted.value == value,
        _ => false,
    })?;
    characters(text, found.span.start)
}

/// Converts a line and a column of the parser to a position in the text, in characters from 1.
pub fn characters(text: &str, location: Location) -> Option<u32> {
    let line = usize::try_from(location.line).ok()?.checked_sub(1)?;
    let before: usize =
        text.split_inclusive('\n').take(line).map(|line| line.chars().count()).sum();
    u32::try_from(before.checked_add(usize::try_from(location.column).ok()?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_position(kind: ErrorKind, message: &str, text: &str) -> Option<u32> {
        place(Error::new(kind, message), text, 0).position()
    }

    #[test]
    fn names_are_found_where_they_are_used() {
        use ErrorKind::{
            AmbiguousColumn, InvalidTextRepresentation, UndefinedColumn, UndefinedFunction,
            UndefinedTable,
        };
        let column = "column \"hots\" does not exist";
        assert_eq!(found_position(UndefinedColumn, column, "SELECT hots FROM t"), Some(8));
        assert_eq!(
            found_position(UndefinedColumn, column, "SELECT 'hots', hots(1),\n  HOTS"),
            Some(27)
        );
        assert_eq!(found_position(UndefinedColumn, column, "SELECT 1 AS hots"), None);
        let qualified = "column t.x does not exist";
        assert_eq!(found_position(UndefinedColumn, qualified, "SELECT u.x, t.x FROM t"), Some(13));
        let table = "relation \"s.nothing\" does not exist";
        assert_eq!(found_position(UndefinedTable, table, "SELECT 1 FROM s.nothing"), Some(15));
        let function = "function f(integer) does not exist";
        assert_eq!(
            found_position(UndefinedFunction, function, "SELECT f, pg_catalog.f(1)"),
            Some(11)
        );
        let ambiguous = "column reference \"a\" is ambiguous";
        assert_eq!(found_position(AmbiguousColumn, ambiguous, "SELECT é, a FROM t, u"), Some(11));
        let kind = "type \"nothing\" does not exist";
        assert_eq!(
            found_position(ErrorKind::UndefinedObject, kind, "SELECT 'a'::nothing"),
            Some(13)
        );
        let grouped = "column \"t.host\" must appear in the GROUP BY clause or be used …";
        assert_eq!(
            found_position(ErrorKind::GroupingError, grouped, "SELECT host FROM t"),
            Some(8)
        );
        assert_eq!(
            found_position(ErrorKind::GroupingError, grouped, "SELECT 1, t.host FROM t"),
            Some(11)
        );
        let date = "date/time field value out of range: \"2024-99-01\"";
        let text = "SELECT '2024-99-01'::date";
        assert_eq!(found_position(ErrorKind::DatetimeOverflow, date, text), Some(8));
        let number = "value \"99\" is out of range for type smallint";
        assert_eq!(
            found_position(ErrorKind::NumericOutOfRange, number, "SELECT 1, '99'"),
            Some(11)
        );
        let input = "invalid input syntax for type integer: \"x\"";
        assert_eq!(
            found_position(InvalidTextRepresentation, input, "SELECT x, 'x'::int"),
            Some(11)
        );
    }

    #[test]
    fn a_place_counts_from_the_beginning_of_the_string() {
        let error = Error::new(ErrorKind::UndefinedColumn, "column \"x\" does not exist");
        assert_eq!(place(error, "SELECT x", 10).position(), Some(18));
    }
}
