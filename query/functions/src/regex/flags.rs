//! The options of a regular expression.

use stratalog_model::{Error, ErrorKind, Result};

/// The options (flags) of a regular expression. In SQL, each option is a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a letter of its own")]
pub(crate) struct Flags {
    /// `g`: the function processes all matches, not only the first match.
    pub(crate) global: bool,
    /// `i`: upper and lower case letters are equal.
    pub(crate) any_case: bool,
    /// `n`, `p`: a dot and a negated bracket expression do not match a newline.
    pub(crate) lines: bool,
    /// `n`, `w`: `^` and `$` also match at the start and end of each line.
    pub(crate) line_ends: bool,
    /// `x`: white space and comments in the pattern are ignored.
    pub(crate) spaced: bool,
    /// `q`: the pattern is a literal text.
    pub(crate) quoted: bool,
}

fn unknown_option(letter: char) -> Error {
    Error::new(
        ErrorKind::InvalidParameterValue,
        format!("invalid regular expression option: \"{letter}\""),
    )
}

impl Flags {
    /// Parses option letters.
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

    /// Sets the option with this letter; `None` for an unknown letter.
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
