//! Maps the line numbers of a batch to the line numbers of the input, for error messages.

use crate::sql::error::SqlError;

/// Maps the lines of a batch to lines of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lines {
    /// Line k of the batch is line `first + k − 1` of the input.
    From {
        /// The word for a line of the input in messages: "line" or "row".
        noun: &'static str,
        /// The number of the batch's first line.
        first: u64,
    },
    /// Line k of the batch is line `at[k − 1]` of the input.
    At(Vec<u64>),
}

impl Lines {
    /// The line number in the input of the line `line` of the batch, counted from 1.
    pub fn of(&self, line: u64) -> Option<u64> {
        let before = line.checked_sub(1)?;
        match self {
            Lines::From { first, .. } => first.checked_add(before),
            Lines::At(lines) => lines.get(usize::try_from(before).ok()?).copied(),
        }
    }

    fn noun(&self) -> &'static str {
        match self {
            Lines::From { noun, .. } => noun,
            Lines::At(_) => "line",
        }
    }

    /// Replaces the line numbers of the batch in an error of COPY by the line numbers of the input.
    /// The server writes the number as "line 7" into the context or the message.
    pub fn relabel(&self, error: SqlError) -> SqlError {
        let context = error.context.map(|text| self.replace(&text).into());
        SqlError { message: self.replace(&error.message), context, ..error }
    }

    fn replace(&self, text: &str) -> String {
        const LABEL: &str = "line ";
        let Some(start) = text.find(LABEL) else { return text.to_string() };
        let (before, rest) =
            (text.get(..start).unwrap_or(""), text.get(start + LABEL.len()..).unwrap_or(""));
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = rest.get(..digits).and_then(|digits| digits.parse().ok());
        match number.and_then(|line| self.of(line)) {
            Some(line) => {
                format!("{before}{} {line}{}", self.noun(), rest.get(digits..).unwrap_or(""))
            }
            None => text.to_string(),
        }
    }
}
