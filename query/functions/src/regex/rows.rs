//! Access to the arguments of a regular expression function: the text, the expression and the
//! matches of each row.

use std::sync::Arc;

use arrow::array::Array as _;
use datafusion::common::Result;
use stratalog_model::{Error, ErrorKind};

use super::{Expression, Flags, LastExpression, MatchSpans};
use crate::{
    failed,
    function::{Arguments, text_at},
    governor::{self, Pace},
};

/// The arguments of a call, with access row by row.
pub(super) struct CallRows<'a> {
    arguments: &'a Arguments<'a>,
    last: LastExpression,
}

/// The text of a row, and the compiled expression of the row.
pub(super) struct CallRow<'a> {
    pub(super) text: &'a str,
    pub(super) expression: Arc<Expression>,
    pub(super) flags: Flags,
}

impl<'a> CallRows<'a> {
    pub(super) fn new(arguments: &'a Arguments<'a>) -> Self {
        Self { arguments, last: LastExpression::default() }
    }

    /// Returns the text and the expression of a row. Argument `flags_at` contains the flags. `None`
    /// if an argument is NULL.
    pub(super) fn row(&mut self, row: usize, flags_at: usize) -> Result<Option<CallRow<'a>>> {
        governor::check()?;
        let arguments = self.arguments;
        if arguments.arrays.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let (Some(text), Some(pattern)) =
            (text_at(arguments.text(0)?, row), text_at(arguments.text(1)?, row))
        else {
            return Ok(None);
        };
        let letters = match arguments.has(flags_at) {
            true => text_at(arguments.text(flags_at)?, row).unwrap_or(""),
            false => "",
        };
        let flags = Flags::read(letters).map_err(failed)?;
        let expression =
            self.last.expression(pattern, Flags { global: false, ..flags }).map_err(failed)?;
        Ok(Some(CallRow { text, expression, flags }))
    }

    /// The integer in argument `at` of a row; `default` if the call has no such argument.
    pub(super) fn integer(&self, at: usize, row: usize, default: i64) -> Result<i64> {
        match self.arguments.has(at) {
            true => Ok(self.arguments.integers(at)?.value(row)),
            false => Ok(default),
        }
    }
}

/// The error for an argument that is out of range.
pub(super) fn bad_value(name: &str, value: i64) -> datafusion::error::DataFusionError {
    failed(Error::new(
        ErrorKind::InvalidParameterValue,
        format!("invalid value for parameter \"{name}\": {value}"),
    ))
}

impl CallRow<'_> {
    /// The index of the byte at which a character starts; characters count from 1. For a character
    /// after the end of the text, the index is beyond the end of the text.
    pub(super) fn byte_of(&self, character: i64) -> Result<usize> {
        if character < 1 {
            return Err(bad_value("start", character));
        }
        let at = usize::try_from(character - 1).unwrap_or(usize::MAX);
        let mut places = self.text.char_indices().map(|(at, _)| at);
        match places.nth(at) {
            Some(byte) => Ok(byte),
            None if self.text.chars().count() == at => Ok(self.text.len()),
            None => Ok(self.text.len() + 1),
        }
    }

    /// The number of the character that starts at a byte; characters count from 1.
    pub(super) fn character_at(&self, byte: usize) -> i32 {
        let before = self.text.get(..byte).map_or(0, |before| before.chars().count());
        i32::try_from(before).unwrap_or(i32::MAX).saturating_add(1)
    }

    /// The index of the first byte after the character that starts at `byte`.
    fn next_from(&self, byte: usize) -> usize {
        let width = self.text.get(byte..).and_then(|rest| rest.chars().next());
        byte + width.map_or(1, char::len_utf8)
    }

    /// Calls `each` for each match that starts at byte `from` or later, until `each` returns false.
    pub(super) fn matches(
        &self,
        from: usize,
        mut each: impl FnMut(MatchSpans) -> bool,
    ) -> Result<()> {
        let mut from = from;
        let mut pace = Pace::default();
        while from <= self.text.len() {
            pace.step()?;
            let Some(found) = self.expression.find(self.text, from).map_err(failed)? else {
                return Ok(());
            };
            let (start, end) = found.all;
            from = if start == end { self.next_from(end) } else { end };
            if !each(found) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The match number `n` (counted from 1) of the matches that start at byte `from` or later.
    pub(super) fn nth(&self, from: usize, n: i64) -> Result<Option<MatchSpans>> {
        let (mut number, mut nth) = (0, None);
        self.matches(from, |found| {
            number += 1;
            if number == n {
                nth = Some(found);
            }
            number < n
        })?;
        Ok(nth)
    }

    /// The slice of the text in a range of bytes.
    pub(super) fn slice(&self, (start, end): (usize, usize)) -> &str {
        self.text.get(start..end).unwrap_or("")
    }

    /// The texts of the capture groups of a match. An expression without groups gives the text of
    /// the whole match.
    pub(super) fn parts(&self, found: &MatchSpans) -> Vec<Option<&str>> {
        match self.expression.has_groups() {
            true => found.groups.iter().map(|group| group.map(|span| self.slice(span))).collect(),
            false => vec![Some(self.slice(found.all))],
        }
    }

    /// The byte range of capture group `number`; group 0 is the whole match.
    pub(super) fn group(&self, found: &MatchSpans, number: i64) -> Option<(usize, usize)> {
        match usize::try_from(number) {
            Ok(0) => Some(found.all),
            Ok(number) => found.groups.get(number - 1).copied().flatten(),
            Err(_) => None,
        }
    }
}
