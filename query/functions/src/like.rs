//! LIKE and ILIKE for patterns that the kernel of the crate `arrow` matches slowly or with another
//! result: patterns that are computed or long, letters with several cases, and a backslash at the
//! end.
//!
//! ```text
//!   pattern:  a % b _ c %        after a mismatch, the search continues after the last %,
//!   text:     a x x b x c y      one character further: no recursion, and no memory
//! ```

use std::{borrow::Cow, sync::Arc};

use arrow::array::{ArrayRef, BooleanArray};
use datafusion::{common::Result, logical_expr::ScalarUDF};
use stratalog_model::{ColumnType, Error, ErrorKind};

use crate::{
    cases::lowercase,
    failed,
    function::{Arguments, Function, Parameter, text_at},
    governor,
};

/// The name of the function that replaces LIKE.
pub const LIKE_MATCH: &str = "like_match";

/// The name of the function that replaces ILIKE.
pub const ILIKE_MATCH: &str = "ilike_match";

/// The number of steps of a search after which it checks whether the statement must stop.
const CHECKED_STEPS: u32 = 1 << 16;

/// The function that replaces LIKE. Its arguments are a text, and a pattern with the escape
/// character `\\`.
pub fn like_match() -> ScalarUDF {
    declared(LIKE_MATCH, |arguments| matches(arguments, false))
}

/// The function that replaces ILIKE, with the same arguments as [`like_match`].
pub fn ilike_match() -> ScalarUDF {
    declared(ILIKE_MATCH, |arguments| matches(arguments, true))
}

fn declared(name: &'static str, run: fn(&Arguments<'_>) -> Result<ArrayRef>) -> ScalarUDF {
    let parameters: &[&[Parameter]] = &[&[Parameter::Text, Parameter::Text]];
    let description = "True if the text matches the pattern.";
    Function::immutable(name, parameters, ColumnType::Boolean, description, run).into_udf()
}

fn matches(arguments: &Arguments<'_>, any_case: bool) -> Result<ArrayRef> {
    let (texts, patterns) = (arguments.text(0)?, arguments.text(1)?);
    let read = |text| match any_case {
        true => Cow::Owned(lowercase(text)),
        false => Cow::Borrowed(text),
    };
    let mut search = Search::default();
    // Consecutive rows often have the same pattern, and the last pattern is therefore kept.
    let mut pattern: Option<(&str, Cow<'_, str>)> = None;
    let one = |row: usize| {
        let (Some(text), Some(written)) = (text_at(texts, row), text_at(patterns, row)) else {
            return Ok(None);
        };
        let copied = if any_case { text.len() + written.len() } else { 0 };
        let _charge = match copied >= governor::CHARGED_BYTES_MIN {
            true => Some(governor::charge(copied).map_err(failed)?),
            false => None,
        };
        let known = match pattern.take() {
            Some((before, known)) if before == written => known,
            _ => read(written),
        };
        let found = search.matches(&read(text), &known);
        pattern = Some((written, known));
        found.map(Some)
    };
    Ok(Arc::new((0..arguments.rows).map(one).collect::<Result<BooleanArray>>()?))
}

/// The state of a search: the number of steps.
#[derive(Debug, Default)]
struct Search {
    steps: u32,
}

impl Search {
    /// True if `pattern` matches the whole `text`.
    ///
    /// # Errors
    /// `InvalidEscape` if the search reaches a backslash at the end of the pattern; `QueryCanceled`.
    fn matches(&mut self, text: &str, pattern: &str) -> Result<bool> {
        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
        let (mut at, mut next) = (0_usize, 0_usize);
        // After a %: the pattern position directly after the %, and the position in the text at
        // which the last attempt to match the rest began.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            self.steps = self.steps.wrapping_add(1);
            if self.steps.is_multiple_of(CHECKED_STEPS) {
                governor::check()?;
            }
            let matched = match (pattern.get(next), text.get(at)) {
                (None, None) => return Ok(true),
                (Some(b'%'), _) => {
                    next += 1;
                    if next == pattern.len() {
                        return Ok(true);
                    }
                    retry = Some((next, at));
                    continue;
                }
                // At the end of the text, the match fails: a later position would leave even less
                // text for the rest of the pattern.
                (Some(_), None) => return Ok(false),
                (None, Some(_)) => None,
                (Some(b'_'), Some(_)) => Some((1, character_len(text, at))),
                (Some(b'\\'), Some(byte)) => {
                    let literal = pattern.get(next + 1).ok_or_else(ends_with_escape)?;
                    (literal == byte).then_some((2, 1))
                }
                (Some(literal), Some(byte)) => (literal == byte).then_some((1, 1)),
            };
            (next, at) = match (matched, retry) {
                (Some((of_pattern, of_text)), _) => (next + of_pattern, at + of_text),
                (None, None) => return Ok(false),
                (None, Some((behind, from))) => {
                    let from = from + character_len(text, from);
                    retry = Some((behind, from));
                    (behind, from)
                }
            };
        }
    }
}

/// The number of bytes of the character that starts at byte `start`.
fn character_len(text: &[u8], start: usize) -> usize {
    let is_within = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    1 + text.get(start + 1..).map_or(0, |rest| rest.iter().take_while(is_within).count())
}

fn ends_with_escape() -> datafusion::error::DataFusionError {
    failed(
        Error::new(ErrorKind::InvalidEscape, "LIKE pattern must not end with escape character")
            .with_hint(r"Write `\\` for a backslash at the end of the pattern."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (text, pattern, expected) in [
            ("", "", Some(true)),
            ("", "%", Some(true)),
            ("", "_", Some(false)),
            ("abc", "a%", Some(true)),
            ("abc", "%b%", Some(true)),
            ("abc", "_b_", Some(true)),
            ("abc", "__", Some(false)),
            ("aXbXc", "a%b%c", Some(true)),
            ("aab", "%ab", Some(true)),
            ("ä€😀", "___", Some(true)),
            ("ä€😀", "%_€_", Some(true)),
            ("ä€😀", "%😀", Some(true)),
            ("50%", r"50\%", Some(true)),
            ("50x", r"50\%", Some(false)),
            (r"a\", r"a\\", Some(true)),
            (r"a\", r"a\", None),
            ("b", r"a\", Some(false)),
            ("a", r"a\", Some(false)),
            ("mississippi", "%iss%ip%i", Some(true)),
            ("mississippi", "%iss%ipx%", Some(false)),
        ] {
            let found = Search::default().matches(text, pattern).ok();
            assert_eq!(found, expected, "{text} LIKE {pattern}");
        }
    }

    #[test]
    fn many_wildcards_take_linear_steps() {
        let (text, pattern) = ("ab".repeat(50_000), format!("{}c", "%a%b".repeat(20_000)));
        let mut search = Search::default();
        assert!(!search.matches(&text, &pattern).unwrap());
        assert!(search.steps < 500_000, "{} steps", search.steps);
    }
}
