//! The options of a regular expression.

use stratalog_model::{Error, ErrorKind, Result};

/// The options of a regular expression, which SQL writes as letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a letter of its own")]
pub(crate) struct Flags {
    /// `g`: all matches, not only the first.
    pub(crate) global: bool,
    /// `i`: ignores case.
    pub(crate) any_case: bool,
    /// `n`, `p`: a dot and a negated bracket do not match a newline.
    pub(crate) lines: bool,
    /// `n`, `w`: `^` and `$` also match at each line's start and end.
    pub(crate) line_ends: bool,
    /// `x`: white space and comments in the pattern have no meaning.
    pub(crate) spaced: bool,
    /// `q`: the pattern is plain text.
    pub(crate) quoted: bool,
}

fn unknown_option(letter: char) -> Error {
    Error::new(
        ErrorKind::InvalidParameterValue,
        format!("invalid regular expression option: \"{letter}\""),
    )
}

impl Flags {
    /// Parses the letters.
    ///
    /// # Errors
    /// `InvalidParameterValue` for an unknown letter.
    pub(crate) fn read(letters: &str) -> Result<Self> {
        let mut flags = Self::default();
        for letter in letters.chars() {
            flags.set(letter).ok_or_else(|| unknown_option(letter))?;
        }
        Ok(flags)
    }

    /// Applies the option with this letter; `None` if there is none.
    pub(super) fn set(&mut self, letter: char) -> Option<()> {
        match letter {
            'g' => self.global = true,
            'i' => self.any_case = true,
            'c' => self.any_case = false,
            'n' | 'm' => (self.lines, self.line_ends) = (true, true),
            'p' => (self.lines, self.line_ends) = (true, false),
            'w' => (self.lines, self.line_ends) = (false, true),
            's' => (self.lines, self.line_ends) = (false, false),
            'x' => self.spaced = true,
            't' => self.spaced = false,
            'q' => self.quoted = true,
            'b' | 'e' => {}
            _ => return None,
        }
        Some(())
    }
}
