//! The operator `SIMILAR TO`, which converts a pattern of the SQL standard to a regular expression.

use std::sync::Arc;

use datafusion::{common::Result, logical_expr::Volatility};
use stratalog_model::{ColumnType, Error, ErrorKind};

use crate::{
    failed,
    function::{Arguments, Function, Parameter, Returns, text_at, text_rows},
};

/// The SQL function that implements `SIMILAR TO`.
pub fn functions() -> Vec<Function> {
    let declare = |name, parameters, description, run: fn(&Arguments<'_>) -> Result<_>| Function {
        name,
        aliases: &[],
        parameters,
        returns: Returns::Type(ColumnType::Text),
        volatility: Volatility::Immutable,
        description,
        run: Arc::new(run),
    };
    vec![declare(
        "similar_to_escape",
        &[&[Parameter::Text], &[Parameter::Text, Parameter::Text]],
        "The regular expression for a pattern of SIMILAR TO; the second argument is the escape character.",
        |arguments| {
            let patterns = arguments.text(0)?;
            text_rows(arguments.rows, |row| {
                let escape = match arguments.has(1) {
                    true => match text_at(arguments.text(1)?, row) {
                        Some(escape) => escape_of(escape).map_err(failed)?,
                        None => return Ok(None),
                    },
                    false => Some('\\'),
                };
                Ok(text_at(patterns, row).map(|pattern| expression(pattern, escape)))
            })
        },
    )]
}

/// Parses the escape character; `None` for an empty text. A longer text is an error.
fn escape_of(text: &str) -> stratalog_model::Result<Option<char>> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (escape, None) => Ok(escape),
        _ => Err(Error::new(ErrorKind::InvalidEscape, "invalid escape string")
            .with_hint("Escape string must be empty or one character.")),
    }
}

/// Converts a pattern to a regular expression. The expression is anchored at both ends, and its
/// dots match newlines. The text between two escaped double quotes becomes the capture group; the
/// pattern before the group then matches the shortest text.
fn expression(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let quote = escape.map(|escape| format!("{escape}\""));
    let quotes = quote.map_or(0, |quote| pattern.matches(&quote).count());
    let mut quoted = 0;
    out.push_str("(?s)^(?:");
    let mut characters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            match characters.next() {
                Some('"') if quotes == 2 => {
                    quoted += 1;
                    out.push_str(if quoted == 1 { ")(" } else { ")(?:" });
                }
                Some(escaped) => literal(escaped, &mut out),
                None => {}
            }
            continue;
        }
        match character {
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // Named classes, for example `[:alpha:]`, are copied. Set operations of the regular
            // expression engine are escaped, because SQL has no set operations.
            '[' if in_class && characters.peek() == Some(&':') => {
                out.push('[');
                for named in characters.by_ref() {
                    out.push(named);
                    if named == ']' {
                        break;
                    }
                }
            }
            '[' | '\\' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(character);
            }
            _ if in_class => out.push(character),
            '[' => {
                in_class = true;
                out.push('[');
                if characters.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
            }
            '%' if quotes == 2 && quoted == 0 => out.push_str(".*?"),
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '\\' | '.' | '^' | '$' => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
    }
    out.push_str(")$");
    out
}

/// Appends the character after an escape character. Classes such as `\d` keep their meaning.
fn literal(character: char, out: &mut String) {
    if character.is_ascii_alphanumeric()
        || character.is_ascii_punctuation() && !matches!(character, '<' | '>' | '_')
    {
        out.push('\\');
    }
    out.push(character);
}

#[cfg(test)]
mod tests;
