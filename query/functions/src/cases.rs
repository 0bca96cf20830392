//! The functions `upper`, `lower` and `initcap`, with the results of PostgreSQL's locale C.UTF-8.
//! Each character becomes exactly one character, so `upper('ß')` is `ß`.

use arrow::array::ArrayRef;
use datafusion::common::Result;
use stratalog_model::ColumnType;

use crate::function::{Arguments, Function, Parameter, text_at, text_rows};

/// The SQL functions that this module declares.
pub fn functions() -> Vec<Function> {
    let declare = |name, description, run| {
        Function::immutable(name, &[&[Parameter::Text]], ColumnType::Text, description, run)
    };
    vec![
        declare("upper", "The text in capital letters.", |arguments| {
            each(arguments, |text| match text.is_ascii() {
                true => text.to_ascii_uppercase(),
                false => text.chars().map(capital).collect(),
            })
        }),
        declare("lower", "The text in small letters.", |arguments| each(arguments, lowercase)),
        declare(
            "initcap",
            "The text with a capital letter at the start of each word, and small letters within.",
            |arguments| each(arguments, words),
        ),
    ]
}

/// Converts a text to lower case, each character to exactly one character.
pub fn lowercase(text: &str) -> String {
    match text.is_ascii() {
        true => text.to_ascii_lowercase(),
        false => text.chars().map(small).collect(),
    }
}

fn each(arguments: &Arguments<'_>, of: fn(&str) -> String) -> Result<ArrayRef> {
    let texts = arguments.text(0)?;
    text_rows(arguments.rows, |row| Ok(text_at(texts, row).map(of)))
}

fn words(text: &str) -> String {
    let mut within = false;
    text.chars()
        .map(|letter| {
            let cased = if within { small(letter) } else { capital(letter) };
            within = letter.is_alphanumeric();
            cased
        })
        .collect()
}

/// Returns the only character of an iterator; `None` if there are several characters.
fn only_letter(mut letters: impl Iterator<Item = char>) -> Option<char> {
    letters.next().filter(|_| letters.next().is_none())
}

fn capital(letter: char) -> char {
    only_letter(letter.to_uppercase()).unwrap_or_else(|| {
        // Greek letters with iota subscript: the capital letter keeps the iota, and is one
        // character.
        let further = match letter {
            '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => 8,
            '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => 9,
            _ => 0,
        };
        char::from_u32(u32::from(letter) + further).unwrap_or(letter)
    })
}

fn small(letter: char) -> char {
    only_letter(letter.to_lowercase()).unwrap_or(if letter == 'İ' { 'i' } else { letter })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_becomes_one_letter() {
        for (letter, wanted) in [('ß', 'ß'), ('ä', 'Ä'), ('ﬁ', 'ﬁ'), ('ᾳ', 'ᾼ'), ('ᾗ', 'ᾟ')]
        {
            assert_eq!(capital(letter), wanted);
        }
        for (letter, wanted) in [('İ', 'i'), ('Σ', 'σ'), ('ǅ', 'ǆ')] {
            assert_eq!(small(letter), wanted);
        }
        assert_eq!(words("ßa ŉB-c9d"), "ßa ŉb-C9d");
    }
}
