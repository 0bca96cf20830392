//! The SQL functions with regular expressions.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, BooleanArray, Int32Array, ListBuilder, StringViewBuilder},
    datatypes::DataType,
};
use datafusion::common::Result;
use stratalog_model::{ColumnType, Error, ErrorKind};

use super::{
    Flags, MatchSpans,
    rows::{CallRow, CallRows, bad_value},
};
use crate::{
    failed,
    function::{Arguments, Function, Parameter, Room, text_at, text_rows},
};

use Parameter::{Integer, Text};

/// The SQL functions that this module declares.
pub fn functions() -> Vec<Function> {
    let texts = || ColumnType::Array(Box::new(ColumnType::Text));
    vec![
        Function::immutable(
            "regexp_like",
            &[&[Text, Text], &[Text, Text, Text]],
            ColumnType::Boolean,
            "Whether a regular expression matches somewhere; the third argument contains flags such as 'i'.",
            like,
        ),
        Function::immutable(
            "regexp_count",
            &[&[Text, Text], &[Text, Text, Integer], &[Text, Text, Integer, Text]],
            ColumnType::Integer,
            "Number of matches of a regular expression, from a character on, with flags.",
            count,
        ),
        Function::immutable(
            "regexp_instr",
            &[
                &[Text, Text],
                &[Text, Text, Integer],
                &[Text, Text, Integer, Integer],
                &[Text, Text, Integer, Integer, Integer],
                &[Text, Text, Integer, Integer, Integer, Text],
                &[Text, Text, Integer, Integer, Integer, Text, Integer],
            ],
            ColumnType::Integer,
            "Position of the n-th match, or, if the fifth argument is 1, the position after the match; 0 without a match. The arguments: text, expression, first character, n, end, flags, part in parentheses.",
            place,
        ),
        Function::immutable(
            "regexp_substr",
            &[
                &[Text, Text],
                &[Text, Text, Integer],
                &[Text, Text, Integer, Integer],
                &[Text, Text, Integer, Integer, Text],
                &[Text, Text, Integer, Integer, Text, Integer],
            ],
            ColumnType::Text,
            "The n-th match. The arguments: text, expression, first character, n, flags, part in parentheses.",
            part,
        ),
        Function::immutable(
            "regexp_substring",
            &[&[Text, Text]],
            ColumnType::Text,
            "What matches, or its first part in parentheses: what SUBSTRING(text FROM expression) calls.",
            substring,
        ),
        Function::immutable(
            "regexp_match",
            &[&[Text, Text], &[Text, Text, Text]],
            texts(),
            "The parts in parentheses of the first match, or the whole match.",
            first_match,
        ),
        Function::immutable(
            "regexp_matches_list",
            &[&[Text, Text], &[Text, Text, Text]],
            ColumnType::Array(Box::new(texts())),
            "The same of the first match, or with 'g' of each, as a list: what `regexp_matches` calls.",
            all_matches,
        ),
        Function::immutable(
            "regexp_split_to_array",
            &[&[Text, Text], &[Text, Text, Text]],
            texts(),
            "The parts of a text between matches.",
            split,
        ),
        Function::immutable(
            "regexp_replace",
            &[
                &[Text, Text, Text],
                &[Text, Text, Text, Text],
                &[Text, Text, Text, Integer],
                &[Text, Text, Text, Integer, Integer],
                &[Text, Text, Text, Integer, Integer, Text],
            ],
            ColumnType::Text,
            "A text with the first match replaced, or with the flag 'g' each, or from a character on the n-th (0: each); \\1 … \\9 and \\& are parts of the match.",
            replace,
        ),
    ]
}

/// The size in bytes of an element of a text array, without the bytes of its text.
const ELEMENT_BYTES: usize = 16;

fn not_global(function: &str, flags: Flags) -> Result<()> {
    if !flags.global {
        return Ok(());
    }
    let error = Error::new(
        ErrorKind::InvalidParameterValue,
        format!("{function}() does not support the \"global\" option"),
    );
    Err(failed(match function {
        "regexp_match" => error.with_hint("Use the regexp_matches function instead."),
        _ => error,
    }))
}

fn like(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let mut rows = CallRows::new(arguments);
    let mut one = |row: usize| -> Result<Option<bool>> {
        let Some(row) = rows.row(row, 2)? else { return Ok(None) };
        not_global("regexp_like", row.flags)?;
        row.expression.is_match(row.text).map(Some).map_err(failed)
    };
    let found = (0..arguments.rows).map(&mut one).collect::<Result<BooleanArray>>()?;
    Ok(Arc::new(found))
}

fn count(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let mut rows = CallRows::new(arguments);
    let mut one = |at: usize| -> Result<Option<i32>> {
        let Some(row) = rows.row(at, 3)? else { return Ok(None) };
        let from = row.byte_of(rows.integer(2, at, 1)?)?;
        not_global("regexp_count", row.flags)?;
        let mut matches = 0_i32;
        row.matches(from, |_| {
            matches = matches.saturating_add(1);
            true
        })?;
        Ok(Some(matches))
    };
    Ok(Arc::new((0..arguments.rows).map(&mut one).collect::<Result<Int32Array>>()?))
}

fn place(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let mut rows = CallRows::new(arguments);
    let mut one = |at: usize| -> Result<Option<i32>> {
        let Some(row) = rows.row(at, 5)? else { return Ok(None) };
        let from = row.byte_of(rows.integer(2, at, 1)?)?;
        let n = rows.integer(3, at, 1)?;
        if n < 1 {
            return Err(bad_value("n", n));
        }
        let behind = rows.integer(4, at, 0)?;
        if !(0..=1).contains(&behind) {
            return Err(bad_value("endoption", behind));
        }
        not_global("regexp_instr", row.flags)?;
        let group = rows.integer(6, at, 0)?;
        if group < 0 {
            return Err(bad_value("subexpr", group));
        }
        let found = row.nth(from, n)?.and_then(|found| row.group(&found, group));
        Ok(Some(
            found.map_or(0, |(start, end)| row.character_at(if behind == 1 { end } else { start })),
        ))
    };
    Ok(Arc::new((0..arguments.rows).map(&mut one).collect::<Result<Int32Array>>()?))
}

fn part(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let mut rows = CallRows::new(arguments);
    text_rows(arguments.rows, |at| {
        let Some(row) = rows.row(at, 4)? else { return Ok(None) };
        let from = row.byte_of(rows.integer(2, at, 1)?)?;
        let n = rows.integer(3, at, 1)?;
        if n < 1 {
            return Err(bad_value("n", n));
        }
        not_global("regexp_substr", row.flags)?;
        let group = rows.integer(5, at, 0)?;
        if group < 0 {
            return Err(bad_value("subexpr", group));
        }
        let found = row.nth(from, n)?.and_then(|found| row.group(&found, group));
        Ok(found.map(|span| row.slice(span).to_string()))
    })
}

fn substring(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let mut rows = CallRows::new(arguments);
    text_rows(arguments.rows, |at| {
        let Some(row) = rows.row(at, usize::MAX)? else { return Ok(None) };
        let found = row.expression.find(row.text, 0).map_err(failed)?;
        let group = i64::from(row.expression.has_groups());
        let found = found.and_then(|found| row.group(&found, group));
        Ok(found.map(|span| row.slice(span).to_string()))
    })
}

fn texts_builder() -> ListBuilder<StringViewBuilder> {
    ListBuilder::new(StringViewBuilder::new())
}

/// Converts lists of texts to the declared result type.
fn declared(lists: &ArrayRef, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    Ok(arrow::compute::cast(lists, arguments.result)?)
}

fn first_match(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let mut rows = CallRows::new(arguments);
    let mut lists = texts_builder();
    for at in 0..arguments.rows {
        let found = match rows.row(at, 2)? {
            Some(row) => {
                not_global("regexp_match", row.flags)?;
                let found = row.expression.find(row.text, 0).map_err(failed)?;
                if let Some(found) = &found {
                    row.parts(found)
                        .into_iter()
                        .for_each(|part| lists.values().append_option(part));
                }
                found.is_some()
            }
            None => false,
        };
        lists.append(found);
    }
    declared(&(Arc::new(lists.finish()) as ArrayRef), arguments)
}

fn all_matches(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let mut rows = CallRows::new(arguments);
    let mut room = Room::of(arguments.rows);
    let mut lists = ListBuilder::new(texts_builder());
    for at in 0..arguments.rows {
        if let Some(row) = rows.row(at, 2)? {
            let every = row.flags.global;
            let mut enough = Ok(());
            row.matches(0, |found| {
                let list = lists.values();
                let parts = row.parts(&found);
                let bytes = parts.iter().map(|part| ELEMENT_BYTES + part.map_or(0, str::len)).sum();
                parts.into_iter().for_each(|part| list.values().append_option(part));
                list.append(true);
                enough = room.take(bytes);
                every && enough.is_ok()
            })?;
            enough?;
        }
        lists.append(true);
    }
    declared(&(Arc::new(lists.finish()) as ArrayRef), arguments)
}

fn split(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let mut rows = CallRows::new(arguments);
    let mut room = Room::of(arguments.rows);
    let mut lists = texts_builder();
    for at in 0..arguments.rows {
        let Some(row) = rows.row(at, 2)? else {
            lists.append(false);
            continue;
        };
        not_global("regexp_split_to_array", row.flags)?;
        let mut from = 0;
        let mut enough = Ok(());
        row.matches(0, |found| {
            // An empty match splits the text only between two characters.
            let (start, end) = found.all;
            if start < row.text.len() && end > from {
                lists.values().append_value(row.slice((from, start)));
                enough = room.take(ELEMENT_BYTES + start - from);
                from = end;
            }
            enough.is_ok()
        })?;
        enough?;
        lists.values().append_value(row.slice((from, row.text.len())));
        lists.append(true);
    }
    declared(&(Arc::new(lists.finish()) as ArrayRef), arguments)
}

fn replace(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let by_number =
        arguments.arrays.get(3).is_some_and(|array| *array.data_type() == DataType::Int64);
    let flags_at = if by_number { 5 } else { 3 };
    let mut rows = CallRows::new(arguments);
    let mut room = Room::of(arguments.rows);
    text_rows(arguments.rows, |at| {
        let Some(row) = rows.row(at, flags_at)? else { return Ok(None) };
        let Some(by) = text_at(arguments.text(2)?, at) else { return Ok(None) };
        let (mut start, mut n) = (1, i64::from(!row.flags.global));
        if by_number {
            start = rows.integer(3, at, 1)?;
            n = rows.integer(4, at, n)?;
            if n < 0 {
                return Err(bad_value("n", n));
            }
        } else if let Some(digit) = numeric_flags_error(arguments, flags_at, at)? {
            return Err(digit);
        }
        let from = row.byte_of(start)?;
        let mut out = String::with_capacity(row.text.len());
        let (mut copied, mut number) = (0, 0);
        let mut enough = Ok(());
        row.matches(from, |found| {
            number += 1;
            if n > 0 && number != n {
                return true;
            }
            out.push_str(row.slice((copied, found.all.0)));
            copied = found.all.1;
            enough = append(&mut out, by, &row, &found, &mut room);
            n == 0 && enough.is_ok()
        })?;
        enough?;
        out.push_str(row.slice((copied, row.text.len())));
        Ok(Some(out))
    })
}

/// The error for flags that begin with a digit. Probably the call has one argument too few.
fn numeric_flags_error(
    arguments: &Arguments<'_>,
    at: usize,
    row: usize,
) -> Result<Option<datafusion::error::DataFusionError>> {
    if !arguments.has(at) {
        return Ok(None);
    }
    let flags = text_at(arguments.text(at)?, row).unwrap_or("");
    Ok(flags.starts_with(|first: char| first.is_ascii_digit()).then(|| {
        failed(
            Error::new(
                ErrorKind::InvalidParameterValue,
                format!("invalid regular expression option: \"{}\"", flags.chars().next().unwrap_or('0')),
            )
            .with_hint("If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly."),
        )
    }))
}

/// Appends the replacement text `by`. In this text, `\1` … `\9` stand for the capture groups of the
/// match, and `\&` for the whole match.
fn append(
    out: &mut String,
    by: &str,
    row: &CallRow<'_>,
    found: &MatchSpans,
    room: &mut Room,
) -> Result<()> {
    let mut rest = by.chars();
    while let Some(letter) = rest.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match rest.next() {
            Some('&') => {
                let text = row.slice(found.all);
                room.reach(out.len().saturating_add(text.len()))?;
                out.push_str(text);
            }
            Some(digit @ '1'..='9') => {
                let number = i64::from(digit.to_digit(10).unwrap_or(0));
                let text = row.group(found, number).map_or("", |span| row.slice(span));
                room.reach(out.len().saturating_add(text.len()))?;
                out.push_str(text);
            }
            Some('\\') | None => out.push('\\'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    room.reach(out.len())
}
