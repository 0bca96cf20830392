//! The SQL function `format`, which replaces the placeholders `%s`, `%I` and `%L` of a text by
//! arguments.

use std::{iter::Peekable, str::Chars, sync::Arc};

use arrow::array::{Array as _, ArrayRef, AsArray};
use datafusion::{common::Result, logical_expr::Volatility};
use stratalog_model::{ColumnType, Error, ErrorKind};

use crate::{
    failed,
    function::{Arguments, Function, Parameter, Returns, Room, text_at, text_rows},
    quote::{quote_ident, quote_literal},
};

/// The SQL function that this module declares.
pub fn functions() -> Vec<Function> {
    let declare = |name, parameters, description, run: fn(&Arguments<'_>) -> Result<_>| Function {
        name,
        aliases: &[],
        parameters,
        returns: Returns::Type(ColumnType::Text),
        // The text of a timestamptz argument depends on the session's zone.
        volatility: Volatility::Stable,
        description,
        run: Arc::new(run),
    };
    vec![declare(
        "format",
        &[&[Parameter::Text, Parameter::Rest]],
        "Text with arguments in the places of %s (as text), %I (as a name) and %L (as a literal); %2$s is the second argument, %-10s has a width.",
        run,
    )]
}

fn run(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let formats = arguments.text(0)?;
    let values = (1..arguments.arrays.len())
        .map(|at| crate::text_form::texts_of(arguments, at))
        .collect::<Result<Vec<_>>>()?;
    let mut room = Room::of(arguments.rows);
    text_rows(arguments.rows, |row| {
        let Some(format) = text_at(formats, row) else { return Ok(None) };
        let value = |at: usize| -> Option<Option<&str>> {
            let array = values.get(at)?.as_string_view();
            Some(array.is_valid(row).then(|| array.value(row)))
        };
        formatted(format, &value, &mut room).map(Some)
    })
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidParameterValue, message)
}

fn unterminated() -> Error {
    invalid("unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\".")
}

/// Returns the argument at a position, counted from 0: `None` after the last argument, `Some(None)`
/// for NULL.
type Value<'a, 'b> = &'a dyn Fn(usize) -> Option<Option<&'b str>>;

/// Reads the arguments to which the placeholders refer.
struct ArgumentReader<'a, 'b> {
    value: Value<'a, 'b>,
    next: usize,
}

impl<'b> ArgumentReader<'_, 'b> {
    /// Returns the argument at `position`, counted from 1. Without a position, returns the argument
    /// after the last one read.
    fn take(&mut self, position: Option<usize>) -> Result<Option<&'b str>, Error> {
        let at = match position {
            Some(position) => position.saturating_sub(1),
            None => self.next,
        };
        self.next = at.saturating_add(1);
        (self.value)(at).ok_or_else(|| invalid("too few arguments for format()"))
    }
}

/// Returns `format` with its placeholders replaced by the arguments. `room` limits the size of the
/// result in bytes.
fn formatted(format: &str, value: Value<'_, '_>, room: &mut Room) -> Result<String> {
    let mut out = String::with_capacity(format.len());
    let mut reader = ArgumentReader { value, next: 0 };
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        if characters.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let (position, width, left, kind) =
            specifier(&mut characters, &mut reader).map_err(failed)?;
        let given = reader.take(position).map_err(failed)?;
        let text = match (kind, given) {
            ('s', given) => given.unwrap_or("").to_string(),
            ('I', Some(given)) => quote_ident(given),
            ('I', None) => {
                return Err(failed(Error::new(
                    ErrorKind::NullNotAllowed,
                    "null values cannot be formatted as an SQL identifier",
                )));
            }
            (_, Some(given)) => quote_literal(given),
            (_, None) => "NULL".to_string(),
        };
        let padding = width.saturating_sub(text.chars().count());
        room.reach(out.len().saturating_add(text.len()).saturating_add(padding))?;
        if left {
            out.push_str(&text);
        }
        out.extend(std::iter::repeat_n(' ', padding));
        if !left {
            out.push_str(&text);
        }
    }
    Ok(out)
}

/// Parses a placeholder after `%`. Returns the position of the argument, the width, whether the
/// value is aligned to the left, and the letter of the format.
fn specifier(
    characters: &mut Peekable<Chars<'_>>,
    reader: &mut ArgumentReader<'_, '_>,
) -> Result<(Option<usize>, usize, bool, char), Error> {
    let (mut position, mut width, mut left) = (None, None, false);
    match digits(characters)? {
        Some(number) if characters.next_if_eq(&'$').is_some() => position = Some(checked(number)?),
        // A number without `$` after it is the width.
        Some(number) => width = Some(number),
        None => {}
    }
    if width.is_none() {
        while characters.next_if_eq(&'-').is_some() {
            left = true;
        }
        if characters.next_if_eq(&'*').is_some() {
            let from = match digits(characters)? {
                None => None,
                Some(number) if characters.next_if_eq(&'$').is_some() => Some(checked(number)?),
                Some(_) if characters.peek().is_none() => return Err(unterminated()),
                Some(_) => {
                    return Err(invalid("width argument position must be ended by \"$\""));
                }
            };
            let given: i32 = match reader.take(from)? {
                Some(text) => stratalog_text::parse::number::parse_integer(text)?,
                None => 0,
            };
            left |= given < 0;
            width = Some(usize::try_from(given.unsigned_abs()).unwrap_or(usize::MAX));
        } else {
            width = digits(characters)?;
        }
    }
    let kind = characters.next().ok_or_else(unterminated)?;
    if !matches!(kind, 's' | 'I' | 'L') {
        return Err(invalid(format!("unrecognized format() type specifier \"{kind}\""))
            .with_hint("For a single \"%\" use \"%%\"."));
    }
    Ok((position, width.unwrap_or(0), left, kind))
}

fn checked(position: usize) -> Result<usize, Error> {
    if position == 0 {
        return Err(invalid("format specifies argument 0, but arguments are numbered from 1"));
    }
    Ok(position)
}

/// Parses a number; `None` if there is no digit. A format that ends directly after the number is an
/// error.
fn digits(characters: &mut Peekable<Chars<'_>>) -> Result<Option<usize>, Error> {
    let mut number: Option<i32> = None;
    while let Some(digit) = characters.peek().and_then(|character| character.to_digit(10)) {
        characters.next();
        let appended = i32::try_from(digit)
            .ok()
            .and_then(|digit| number.unwrap_or(0).checked_mul(10)?.checked_add(digit));
        number =
            Some(appended.ok_or_else(|| {
                Error::new(ErrorKind::NumericOutOfRange, "number is out of range")
            })?);
    }
    match number {
        Some(_) if characters.peek().is_none() => Err(unterminated()),
        number => Ok(number.and_then(|number| usize::try_from(number).ok())),
    }
}

#[cfg(test)]
mod tests;
